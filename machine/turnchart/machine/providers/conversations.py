"""Our messages as those of ``pydantic_ai``, for one model.

What a model reads goes over without loss, and ``answers.from_provider`` brings it back. Thoughts go to the
model that had them, and to no other. Every call gets a result, and every result had a call.
"""

from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias, cast

from pydantic import TypeAdapter
from pydantic_ai import messages as theirs

from turnchart.machine.json_parameters import plain_json
from turnchart.machine.messages import AssistantMessage, Block, Message, ToolResultMessage
from turnchart.machine.providers.replay import CONTAINER, parts_of
from turnchart.machine.providers.wire_names import WireNames, wire_id

NO_RESULT: Final = "no result of this call was recorded"
_EPOCH: Final = datetime.fromtimestamp(0, UTC)
_PART: Final[TypeAdapter[theirs.ModelResponsePart]] = TypeAdapter(theirs.ModelResponsePart)
Shown: TypeAlias = "str | theirs.BinaryContent"


def to_provider(
    messages: Iterable[Message], model: str, system: str = "", names: WireNames | None = None
) -> list[theirs.ModelMessage]:
    """Return a conversation as the provider of ``model`` takes it.

    Args:
        messages: What the model reads, oldest first.
        model: Our id of the model. The thoughts of others are left out.
        system: The name of the provider, for signatures that came without more.
        names: What tools are called on the wire.
    """
    named = names or WireNames()
    found: list[theirs.ModelMessage] = []
    asked: list[theirs.ModelRequestPart] = []
    for said in paired(messages):
        if isinstance(said, AssistantMessage):
            parts = list(_answer(said, model, system, named))
            if not parts:
                continue
            if asked:
                found.append(theirs.ModelRequest(asked))
                asked = []
            found.append(_response(said, parts, model))
        else:
            asked.append(_request(said, named))
    if asked:
        found.append(theirs.ModelRequest(asked))
    return found


def paired(messages: Iterable[Message]) -> Iterator[Message]:
    """Yield messages such that the results of an answer's calls follow it, one for each call.

    A call without a result gets one that says so; a result without a call is left out.
    """
    waiting: dict[str, str] = {}
    for said in messages:
        if isinstance(said, ToolResultMessage):
            if waiting.pop(said.call_id, None) is not None:
                yield said
            continue
        yield from _closed(waiting)
        waiting = {}
        if isinstance(said, AssistantMessage):
            waiting = {call.id: call.name for call in said.tool_calls}
        yield said
    yield from _closed(waiting)


def _closed(waiting: Mapping[str, str]) -> Iterator[Message]:
    for id, name in waiting.items():
        yield ToolResultMessage(id, name, NO_RESULT, is_error=True)


# -- what is said to the model ------------------------------------------------------------------------


def _request(said: Message, names: WireNames) -> theirs.ModelRequestPart:
    if isinstance(said, ToolResultMessage):
        return theirs.ToolReturnPart(
            names.wire(said.tool), _returned(said.content), wire_id(said.call_id),
            timestamp=_moment(said.time), outcome="failed" if said.is_error else "success",
        )  # fmt: skip
    content = said.content
    if len(content) == 1 and content[0]["type"] == "text":
        return theirs.UserPromptPart(content[0]["text"], timestamp=_moment(said.time))
    return theirs.UserPromptPart(_shown(content), timestamp=_moment(said.time))


def _shown(content: Sequence[Block]) -> "list[Shown]":
    return [each["text"] if each["type"] == "text" else _image(each) for each in content]


def _returned(content: Sequence[Block]) -> Any:
    """Return the content of a result: one text alone as text, else a list."""
    if len(content) == 1 and content[0]["type"] == "text":
        return content[0]["text"]
    return _shown(content)


def _image(block: Block) -> theirs.BinaryContent:
    return theirs.BinaryContent(b64decode(block["data"]), media_type=block["media_type"])


def _moment(time: float) -> datetime:
    return datetime.fromtimestamp(time, UTC) if time else _EPOCH


# -- what the model said ------------------------------------------------------------------------------


def _response(
    said: AssistantMessage, parts: list[theirs.ModelResponsePart], model: str
) -> theirs.ModelResponse:
    more: dict[str, Any] = {}
    replay: Any = said.get("replay")
    if said.model == model and isinstance(replay, Mapping):
        kept = cast("Mapping[str, Any]", replay)
        more = {
            "provider_name": kept.get("provider"), "canonical_system": kept.get("system"),
            "provider_response_id": kept.get("response"), "provider_url": kept.get("url"),
        }  # fmt: skip
        if "container" in kept:
            more["provider_details"] = {CONTAINER: kept["container"]}
    return theirs.ModelResponse(
        parts, model_name=said.model or None, timestamp=_moment(said.time),
        finish_reason=_REASONS.get(said.stop_reason), **more,
    )  # fmt: skip


_REASONS: Final[Mapping[str, theirs.FinishReason]] = {
    "stop": "stop", "tool_calls": "tool_call", "max_tokens": "length", "error": "error",
}  # fmt: skip


def _answer(
    said: AssistantMessage, model: str, system: str, names: WireNames
) -> Iterator[theirs.ModelResponsePart]:
    own = said.model == model
    content = said.content
    kept = parts_of(content, said.get("replay")) if own else None
    if kept is None:
        for block in content:
            part = _plain_part(block, names, system if own else "")
            if part is not None:
                yield part
        return
    blocks = iter(content)
    for more in kept:
        if "part" in more:
            yield _PART.validate_python(plain_json(more["part"]))
        else:
            yield _part(next(blocks), names, plain_json(more))


def _plain_part(block: Block, names: WireNames, system: str) -> theirs.ModelResponsePart | None:
    """Return a block of which nothing more is known; None for a thought that this model cannot read."""
    if block["type"] != "thinking":
        return _part(block, names, {})
    signature = block.get("signature")
    if not (system and signature):
        return None
    return theirs.ThinkingPart(block["thinking"], signature=signature, provider_name=system)


def _part(block: Block, names: WireNames, more: dict[str, Any]) -> theirs.ModelResponsePart:
    match block["type"]:
        case "text":
            return theirs.TextPart(block["text"], **more)
        case "thinking":
            signed: dict[str, Any] = {"signature": block.get("signature"), **more}
            return theirs.ThinkingPart(block["thinking"], **signed)
        case "image":
            return theirs.FilePart(_image(block))
        case _:
            given = block["arguments"]
            args = given if isinstance(given, str) else plain_json(given)
            return theirs.ToolCallPart(names.wire(block["name"]), args, wire_id(block["id"]), **more)
