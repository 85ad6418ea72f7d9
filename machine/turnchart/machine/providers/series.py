"""Requests of one model with the same tools: what of them the next one takes over is made once."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic_ai.messages import InstructionPart, ModelMessage
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.tools import ToolDefinition

from turnchart.machine.characters import whole, whole_json
from turnchart.machine.entries import Frozen
from turnchart.machine.json_parameters import plain_json
from turnchart.machine.messages import Message
from turnchart.machine.providers.conversations import Conversation
from turnchart.machine.providers.native_tools import native_tools
from turnchart.machine.providers.wire_names import WireNames

if TYPE_CHECKING:
    from turnchart.machine.models import ModelRequest


class Series:
    """What requests with the same tools have in common.

    Args:
        tools: What a request offers.
        model: Our id of the model.
        system: The name of the provider.

    Attributes:
        names: What the tools are called on the wire.
    """

    __slots__ = ("_conversation", "_functions", "_model", "_native", "_system", "_tools", "names")

    def __init__(self, tools: tuple[Frozen, ...], model: str, system: str) -> None:
        here = [spec for spec in tools if not spec.get("at_provider")]
        self.names = WireNames([spec["name"] for spec in here])
        self._tools, self._model, self._system = tools, model, system
        self._functions = [
            ToolDefinition(
                name=self.names.wire(spec["name"]),
                description=whole(spec["description"]) or None,
                parameters_json_schema=whole_json(plain_json(spec["schema"])),
            )
            for spec in here
        ]
        self._native = native_tools(tools, system)
        self._conversation = Conversation(model, system, self.names)

    def has(self, request: "ModelRequest", system: str) -> bool:
        """Tell whether a request offers these very tools to the same model."""
        return request.tools is self._tools and (request.model, system) == (self._model, self._system)

    def parameters(self, prompt: str) -> ModelRequestParameters:
        """Return what is asked for beside the conversation."""
        told = [InstructionPart(content=whole(prompt))] if prompt.strip() else []
        return ModelRequestParameters(
            function_tools=list(self._functions), native_tools=list(self._native), instruction_parts=told
        )

    def told(self, messages: Sequence[Message]) -> list[ModelMessage]:
        """Return the conversation; only what the request before did not have is made."""
        return self._conversation.told(messages)
