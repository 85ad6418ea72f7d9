"""What comes back from ``pydantic_ai``: the events of a stream as our chunks, its messages as ours."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, cast

from pydantic import TypeAdapter
from pydantic_ai import messages as theirs
from pydantic_ai.models import StreamedResponse
from pydantic_ai.usage import RequestUsage

from turnchart.machine.characters import Halves, whole, whole_json
from turnchart.machine.messages import (
    AssistantMessage,
    Block,
    Failure,
    Image,
    Message,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from turnchart.machine.models import (
    BlockEnd,
    BlockStart,
    Chunk,
    Finish,
    FinishReason,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    UsageReport,
)
from turnchart.machine.providers.replay import CONTAINER, DETAILS, replay_of
from turnchart.machine.providers.wire_names import WireNames

_PART: Final[TypeAdapter[theirs.ModelResponsePart]] = TypeAdapter(theirs.ModelResponsePart)
_REASONS: Final[Mapping[str, FinishReason]] = {"length": "max_tokens", "tool_call": "tool_calls"}
_SHOWN: Final = (theirs.TextPart, theirs.ThinkingPart, theirs.ToolCallPart)
_CUT: Final = "the stream ended before the answer did"


class Reading:
    """Turns the events of one answer into chunks. A part of theirs is a block of ours, of the same number."""

    __slots__ = ("_calls", "_halves", "_names")

    def __init__(self, names: WireNames) -> None:
        self._names = names
        self._halves: dict[int, Halves] = {}
        """By block, where a piece has come that is not plain ASCII."""
        self._calls: dict[int, bool] = {}
        """The calls that are not closed yet; True where the arguments are sent at their end."""

    def chunks(self, event: theirs.ModelResponseStreamEvent) -> Iterable[Chunk]:
        """Return the chunks of one event; most have one."""
        if isinstance(event, theirs.PartDeltaEvent):
            delta: Any = event.delta
            if delta.__class__ is theirs.TextPartDelta:
                text = self._whole(delta.content_delta, event.index)
                return (TextDelta(text, event.index),) if text else ()
            if delta.__class__ is theirs.ThinkingPartDelta:
                text = self._whole(delta.content_delta, event.index)
                return (ThinkingDelta(text, event.index),) if text else ()
            return self._arguments(event.index, delta.args_delta)
        begin = _EVENTS.get(event.__class__)
        return begin(self, event) if begin is not None else ()

    def _whole(self, piece: str | None, index: int) -> str:
        """Return what of a block is new, with every character in one piece."""
        if not piece:
            return ""
        halves = self._halves.get(index)
        if halves is None:
            if piece.isascii():
                return piece
            halves = self._halves[index] = Halves()
        return halves.take(piece)

    def _rest(self, index: int) -> str:
        halves = self._halves.get(index)
        return "" if halves is None else halves.rest()

    def _arguments(self, index: int, given: str | Mapping[str, Any] | None) -> Iterable[Chunk]:
        if not given or self._calls.get(index, True):
            return ()
        if isinstance(given, str):
            text = self._whole(given, index)
            return (ToolCallDelta(text, index),) if text else ()
        self._calls[index] = True
        return ()

    def _start(self, event: theirs.PartStartEvent) -> Iterator[Chunk]:
        part, index = event.part, event.index
        match part:
            case theirs.TextPart():
                yield BlockStart("text", index)
                if text := self._whole(part.content, index):
                    yield TextDelta(text, index)
            case theirs.ThinkingPart():
                yield BlockStart("thinking", index)
                if text := self._whole(part.content, index):
                    yield ThinkingDelta(text, index)
            case theirs.ToolCallPart():
                self._calls[index] = False
                yield BlockStart("tool_call", index, part.tool_call_id, self._names.own(part.tool_name))
                yield from self._arguments(index, part.args)
            case _:
                pass

    def _end(self, event: theirs.PartEndEvent) -> Iterator[Chunk]:
        """Close a text or a thought; a call may get more arguments while the next one has begun."""
        index, part = event.index, event.part
        if isinstance(part, theirs.ThinkingPart):
            if rest := self._rest(index):
                yield ThinkingDelta(rest, index)
            yield BlockEnd(index, part.signature)
        elif isinstance(part, theirs.TextPart):
            if rest := self._rest(index):
                yield TextDelta(rest, index)
            yield BlockEnd(index)

    def rest(self, response: theirs.ModelResponse) -> Iterator[Chunk]:
        """Yield what closes the calls of an answer that is complete."""
        for index, at_once in self._calls.items():
            part = response.parts[index] if index < len(response.parts) else None
            if at_once and isinstance(part, theirs.ToolCallPart):
                yield ToolCallDelta(json.dumps(_object(part)), index)
            elif rest := self._rest(index):
                yield ToolCallDelta(rest, index)
            yield BlockEnd(index)


_EVENTS: Final[Mapping[type, Callable[[Reading, Any], Iterable[Chunk]]]] = {
    theirs.PartStartEvent: Reading._start,  # pyright: ignore[reportPrivateUsage]  # the reading's own table
    theirs.PartEndEvent: Reading._end,  # pyright: ignore[reportPrivateUsage]  # as above
}


# -- the end of an answer -----------------------------------------------------------------------------


def finish_of(stream: StreamedResponse, response: theirs.ModelResponse, names: WireNames) -> Finish:
    """Return how a stream ended that raised nothing.

    An answer that says no reason was cut short, whatever the transport made of it.
    """
    details: Mapping[str, Any] = stream.provider_details or {}
    refusal = details.get("refusal")
    reason = response.finish_reason
    if reason == "content_filter":
        return Finish("error", Failure("refused", message=str(refusal or "the provider blocked the answer")))
    if not (details.get("finish_reason") or refusal):
        blocked = details.get("block_reason")
        if blocked:
            return Finish("error", Failure("refused", message=f"the provider blocked the prompt: {blocked}"))
        return Finish("error", Failure("incomplete_stream", message=_CUT))
    if reason == "error" or response.state == "suspended":
        said = f"the provider ended the answer: {details.get('finish_reason')}"
        return Finish("error", Failure("server_error" if reason == "error" else "unknown", message=said))
    content = content_of(response.parts, names)
    if not content:
        said = f"the answer has no content ({details.get('finish_reason')})"
        return Finish("error", Failure("empty_response", message=said))
    ended: FinishReason = _REASONS.get(reason or "", "stop")
    return Finish(ended, None, _replay(response, content))


def _replay(response: theirs.ModelResponse, content: Sequence[Block]) -> Any:
    parts = [_besides(part) for part in response.parts]
    return replay_of(
        content, parts, response.provider_name, response.canonical_system, response.provider_response_id,
        response.provider_url, (response.provider_details or {}).get(CONTAINER),
    )  # fmt: skip


def _has_block(part: theirs.ModelResponsePart) -> bool:
    return isinstance(part, theirs.ToolCallPart) or (
        isinstance(part, theirs.TextPart | theirs.ThinkingPart) and bool(part.content)
    )


def _besides(part: theirs.ModelResponsePart) -> dict[str, Any]:
    """Return what a part holds besides its block; of one without a block, all of it."""
    if not _has_block(part):
        blank = isinstance(part, theirs.TextPart) and not (part.id or part.provider_details)
        return (
            {}
            if blank
            else {"part": _PART.dump_python(part, mode="json", exclude_defaults=True) | _kind(part)}
        )
    found = {name: getattr(part, name, None) for name in DETAILS}
    found = {name: value for name, value in found.items() if value}
    return {} if found.keys() <= {"provider_name"} else cast("dict[str, Any]", json.loads(json.dumps(found)))


def _kind(part: theirs.ModelResponsePart) -> dict[str, str]:
    return {"part_kind": part.part_kind}


def content_of(parts: Iterable[theirs.ModelResponsePart], names: WireNames) -> tuple[Block, ...]:
    """Return the blocks of an answer, as its message will hold them."""
    return tuple([_block(part, names) for part in parts if _has_block(part)])


def _block(part: theirs.ModelResponsePart, names: WireNames) -> Block:
    match part:
        case theirs.TextPart():
            return Text(whole(part.content))
        case theirs.ThinkingPart():
            return Thinking(whole(part.content), part.signature)
        case theirs.ToolCallPart():
            return ToolCall(names.own(part.tool_name), _object(part), part.tool_call_id)
        case _:
            raise TypeError(f"a {type(part).__name__} has no block")


def _object(part: theirs.ToolCallPart) -> Mapping[str, Any] | str:
    given = part.args
    if not isinstance(given, str):
        return cast("Mapping[str, Any]", whole_json(given or {}))
    given = whole(given)
    if not given.strip():
        return {}
    try:
        parsed = json.loads(given)
    except (ValueError, RecursionError):
        return given
    return cast("Mapping[str, Any]", parsed) if isinstance(parsed, dict) else given


def usage_of(usage: RequestUsage) -> dict[str, int]:
    """Return the tokens of an answer; ``input`` are those that no cache was asked or told of."""
    read, write = usage.cache_read_tokens, usage.cache_write_tokens
    found = {
        "input": max(0, usage.input_tokens - read - write), "output": usage.output_tokens,
        "cache_read": read, "cache_write": write,
    }  # fmt: skip
    return {name: count for name, count in found.items() if count}


def usage_report(response: theirs.ModelResponse) -> UsageReport | None:
    """Return what an answer used, with its cost in US dollars where the price is known; None for nothing."""
    counts: dict[str, float] = {**usage_of(response.usage)}
    if not counts:
        return None
    try:
        counts["cost"] = float(response.cost().total_price)
    except (LookupError, ValueError, AssertionError):
        pass  # nobody knows the price of this model
    return UsageReport(counts)


# -- whole messages -----------------------------------------------------------------------------------


def from_provider(
    messages: Iterable[theirs.ModelMessage], model: str = "", names: WireNames | None = None
) -> list[Message]:
    """Return messages of ``pydantic_ai`` as ours; system prompts and instructions are left out.

    Args:
        messages: Oldest first.
        model: Our id of the model that answered; empty takes what each answer says.
        names: What tools are called on the wire.
    """
    named = names or WireNames()
    found: list[Message] = []
    for said in messages:
        if isinstance(said, theirs.ModelResponse):
            found.append(_assistant(said, model, named))
            continue
        for part in said.parts:
            match part:
                case theirs.UserPromptPart():
                    found.append(UserMessage(_content(part.content), time=_seconds(part)))
                case theirs.ToolReturnPart():
                    found.append(
                        ToolResultMessage(
                            part.tool_call_id,
                            named.own(part.tool_name),
                            _content(part.content),
                            is_error=part.outcome != "success",
                            time=_seconds(part),
                        )
                    )
                case _:
                    pass
    return found


def _assistant(said: theirs.ModelResponse, model: str, names: WireNames) -> AssistantMessage:
    reasons: Mapping[str | None, StopReason] = {
        None: "aborted", "length": "max_tokens", "tool_call": "tool_calls", "error": "error",
        "content_filter": "error",
    }  # fmt: skip
    content = content_of(said.parts, names)
    return AssistantMessage(
        content, model=model or said.model_name or "", stop_reason=reasons.get(said.finish_reason, "stop"),
        usage=usage_of(said.usage), time=_seconds(said), replay=_replay(said, content),
    )  # fmt: skip


def _content(value: Any) -> tuple[Block, ...]:
    many = isinstance(value, list | tuple)
    items = cast("Sequence[Any]", value) if many else (value,)
    return tuple([_one(item) for item in items])


def _one(value: Any) -> Block:
    if isinstance(value, str):
        return Text(value)
    if isinstance(value, theirs.TextContent):
        return Text(value.content)
    if isinstance(value, theirs.BinaryContent) and value.is_image:
        return Image(value.base64, value.media_type)
    if isinstance(value, theirs.BinaryContent | theirs.FileUrl | theirs.UploadedFile):
        raise ValueError(f"a {type(value).__name__} cannot be taken over: only text and images are")  # noqa: TRY004  # it is one of the forms
    return Text(json.dumps(value))


def _seconds(said: theirs.ModelResponse | theirs.UserPromptPart | theirs.ToolReturnPart) -> float:
    return said.timestamp.timestamp()
