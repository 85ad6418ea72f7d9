"""Requests of one model with the same tools: what of them the next one takes over is made once."""

from typing import Any

import pytest
from tests.machine.providers.asking import model_of
from tests.machine.providers.loopback import Loopback
from tests.machine.providers.wire_formats import wires

from turnchart.machine import Agent, Reply, ToolCall, tool
from turnchart.machine.entries import freeze
from turnchart.machine.messages import Message, UserMessage
from turnchart.machine.models import ModelRequest
from turnchart.machine.providers import conversations
from turnchart.machine.providers.series import Series

# The clients of providers leave finished generators to the collector, which trio complains of.
pytestmark = pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


SPECS = (freeze({"name": "my.add", "description": "", "schema": {"type": "object", "properties": {}}}),)


def request(**given: Any) -> ModelRequest:
    usual: dict[str, Any] = {
        "model": "openai:x", "system": "", "messages": (), "tools": SPECS, "settings": {}, "thinking": None,
        "abort": None, "clock": None,
    }  # fmt: skip
    return ModelRequest(**{**usual, **given})


def test_a_request_with_other_tools_or_of_another_model_begins_another_series() -> None:
    series = Series(SPECS, "openai:x", "openai")
    assert series.has(request(), "openai")
    assert not series.has(request(tools=(*SPECS,)), "openai")
    assert not series.has(request(model="openai:y"), "openai")
    assert not series.has(request(), "azure")


def test_tools_and_prompt_go_over() -> None:
    series = Series(SPECS, "openai:x", "openai")
    assert series.names.own("my__add") == "my.add"
    [spec] = series.parameters("Be brief.").function_tools
    assert (spec.name, spec.description) == ("my__add", None)
    assert [part.content for part in series.parameters("Be brief.").instruction_parts or ()] == ["Be brief."]
    assert not series.parameters(" ").instruction_parts
    assert len(series.told([UserMessage("hi")])) == 1


async def test_over_a_whole_conversation_each_message_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    for name in ("_request", "_answer"):
        original = getattr(conversations, name)

        def counted(said: Message, *more: Any, original: Any = original) -> Any:
            made.append(f"{said.role} {said.text}")
            return original(said, *more)

        monkeypatch.setattr(conversations, name, counted)
    call = Reply(tool_calls=[ToolCall("add", {"a": 1, "b": 2}, id="c1")])
    with Loopback(*wires("chat", [call, Reply("3"), Reply("bye")])) as server:
        async with Agent(model_of("chat", server), tools=[add]) as agent:
            assert (await agent.prompt("add")).text == "3"
            assert (await agent.prompt("thanks")).text == "bye"
    assert made == ["user add", "assistant ", "tool_result 3", "assistant 3", "user thanks"]
