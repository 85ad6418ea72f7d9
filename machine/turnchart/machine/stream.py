"""One streamed answer: put together into a message, and recorded chunk by chunk with its times. Pure."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, get_args

from turnchart.machine.entries import Frozen, freeze
from turnchart.machine.messages import AssistantMessage, Block, Failure, StopReason, Text, Thinking, ToolCall
from turnchart.machine.models import (
    CHUNKS,
    BlockEnd,
    BlockKind,
    BlockStart,
    Chunk,
    Finish,
    FinishReason,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    UsageReport,
)

_DELTAS: Mapping[type, BlockKind] = {TextDelta: "text", ThinkingDelta: "thinking", ToolCallDelta: "tool_call"}


_REASONS: tuple[FinishReason, ...] = get_args(FinishReason)


class _Nonsense(TypeError):
    def __init__(self, chunk: object) -> None:
        kind = type(chunk).__name__
        is_chunk = type(chunk) in CHUNKS.values()
        super().__init__(
            f"a model streamed a {kind} that holds what none can hold" if is_chunk
            else f"a model streamed a {kind}, which is no chunk"
        )  # fmt: skip


def _index(chunk: Any) -> int:
    if type(chunk.block) is not int:
        raise _Nonsense(chunk)
    return chunk.block


class _Open:
    """A block that is being put together."""

    __slots__ = ("closed", "id", "kind", "name", "parts", "signature")

    def __init__(self, kind: BlockKind, id: str = "", name: str = "") -> None:
        self.kind = kind
        self.id = id
        self.name = name
        self.parts: list[str] = []
        self.closed = False
        self.signature: str | None = None


class Answer:
    """Takes chunks in order, gives one message and one compact record.

    Rules: the first block_end closes a block and later deltas of it are ignored; chunks after ``finish`` are
    ignored; a missing or repeated call id becomes a positional one; a missing finish means stop; max_tokens
    drops tool calls; an interrupted answer keeps only text and thoughts that are not blank.

    Attributes:
        finish: The finish chunk; None before it.
        usage: The last usage that was reported.
        count: How many chunks came.
    """

    __slots__ = ("_blocks", "_chunks", "_last", "_times", "count", "finish", "usage")

    def __init__(self) -> None:
        self._blocks: dict[int, _Open] = {}
        self._last: _Open | None = None
        self._chunks: list[Chunk] = []
        self._times: list[int] = []
        self.finish: Finish | None = None
        self.usage: Frozen | None = None
        self.count = 0

    @property
    def time(self) -> float:
        """When the last chunk came, in Unix seconds, as the record keeps it."""
        return self._times[-1] / 1_000_000

    def add(self, chunk: Chunk, time: float) -> Chunk:
        """Take the next chunk, which came at ``time`` (Unix seconds, kept to the microsecond).

        Returns:
            The chunk as the record keeps it: frozen.

        Raises:
            TypeError: If it is no chunk, or holds what a chunk cannot hold.
            ValueError: If it holds a number that JSON cannot hold.
        """
        kind = chunk.__class__
        if kind is TextDelta or kind is ThinkingDelta or kind is ToolCallDelta:
            text = chunk.text  # type: ignore[union-attr]  # deltas have one, and an index
            if not isinstance(text, str):
                raise _Nonsense(chunk)
            block = self._blocks.get(chunk.block)  # type: ignore[union-attr]  # as above
            if block is None:
                block = self._blocks[_index(chunk)] = _Open(_DELTAS[kind])
            if not block.closed:
                block.parts.append(text)
        else:
            chunk = self._mark(chunk)
        self._chunks.append(chunk)
        self._times.append(round(time * 1_000_000))
        self.count += 1
        return chunk

    def _mark(self, chunk: Chunk) -> Chunk:
        match chunk:
            case BlockStart(kind, _, str(id), str(name)) if kind in _DELTAS.values():
                self._blocks.setdefault(_index(chunk), _Open(kind, id, name))
            case BlockEnd(_, str() | None as signature):
                block = self._blocks.get(_index(chunk))
                if block is not None and not block.closed:
                    block.closed, block.signature = True, signature
            case UsageReport(Mapping() as usage) if all(type(count) is int for count in usage.values()):
                self.usage = usage = freeze(dict(usage))
                return UsageReport(usage)
            case Finish(reason, Failure() | None as failure, replay) if reason in _REASONS:
                self.finish = Finish(reason, failure, freeze(replay))
                return self.finish
            case _:
                raise _Nonsense(chunk)
        return chunk

    @property
    def has_text(self) -> bool:
        """It showed something: text or a thought that is not blank."""
        return any(
            part and not part.isspace()
            for block in self._blocks.values()
            if block.kind != "tool_call"
            for part in block.parts
        )

    @property
    def failure(self) -> Failure | None:
        """Why the request failed in-band; None where it did not."""
        finish = self.finish
        if finish is None or finish.reason not in ("error", "aborted"):
            return None
        return finish.failure or Failure("aborted" if finish.reason == "aborted" else "unknown")

    def message(
        self, model: str, time: float, call_id: str, *, interrupted: bool = False
    ) -> AssistantMessage:
        """Return the answer as a message.

        Args:
            model: The id of the model that answered.
            time: Unix seconds.
            call_id: What positional call ids start with.
            interrupted: Keep only what was shown.
        """
        finish = self.finish
        reason: StopReason = "aborted" if interrupted else finish.reason if finish else "stop"
        content = self._content(call_id, keeps_calls=not interrupted and reason != "max_tokens")
        if interrupted:
            content = tuple([each for each in content if not _blank(each)])
        elif reason == "stop" and any(each["type"] == "tool_call" for each in content):
            reason = "tool_calls"
        fields: dict[str, Any] = {
            "role": "assistant", "content": content, "model": model, "stop_reason": reason, "time": time,
        }  # fmt: skip
        if self.usage:
            fields["usage"] = self.usage
        if finish is not None and finish.replay is not None:
            fields["replay"] = finish.replay
        return AssistantMessage.of_fields(fields)

    def _content(self, call_id: str, *, keeps_calls: bool) -> tuple[Block, ...]:
        content: list[Block] = []
        ids: set[str] = set()
        for index in sorted(self._blocks):
            block = self._blocks[index]
            text = "".join(block.parts)
            if block.kind == "tool_call":
                if keeps_calls:
                    id = block.id if block.id and block.id not in ids else f"{call_id}.{index}"
                    while id in ids:  # a model may choose what looks like one of ours
                        id += "+"
                    ids.add(id)
                    asked = {"type": "tool_call", "id": id, "name": block.name, "arguments": _arguments(text)}
                    content.append(ToolCall.of_fields(asked))
            elif text:
                content.append(Text(text) if block.kind == "text" else Thinking(text, block.signature))
        return tuple(content)

    def record(self) -> tuple[Frozen, ...]:
        """Return the compact record: consecutive deltas of one block folded, with their times."""
        return tuple(_fold(self._chunks, self._times))


def _arguments(text: str) -> Frozen | str:
    if not text.strip():
        return Frozen()
    try:
        parsed = json.loads(text)
        return freeze(parsed) if isinstance(parsed, dict) else text
    except (ValueError, RecursionError):
        return text


def _fold(chunks: Sequence[Chunk], times: Sequence[int]) -> Iterator[Frozen]:
    start = 0
    total = len(chunks)
    while start < total:
        first = chunks[start]
        if first.__class__ not in _DELTAS:
            yield Frozen(type=first.type, time=times[start], **_fields(first))
            start += 1
            continue
        end = start + 1
        while end < total and chunks[end].__class__ is first.__class__ and chunks[end].block == first.block:  # type: ignore[union-attr]  # deltas have an index
            end += 1
        gaps = tuple([times[i] - times[i - 1] for i in range(start + 1, end)])
        parts = tuple([chunks[i].text for i in range(start, end)])  # type: ignore[union-attr]  # as above
        yield Frozen(type=first.type, block=first.block, time=times[start], gaps=gaps, parts=parts)  # type: ignore[union-attr]  # as above
        start = end


def _blank(block: Block) -> bool:
    return str(block.get("text", block.get("thinking", ""))).isspace()


def _fields(chunk: Chunk) -> dict[str, Any]:
    match chunk:
        case Finish(reason, None, None):
            return {"reason": reason}
        case BlockEnd(block, None):
            return {"block": block}
        case BlockStart(kind, block, "", ""):
            return {"kind": kind, "block": block}
        case BlockStart(kind, block, id, name) if id and name:
            return {"kind": kind, "block": block, "id": id, "name": name}
        case _:
            return _all_fields(chunk)


def _all_fields(chunk: Chunk) -> dict[str, Any]:
    usual = chunk._field_defaults
    given: dict[str, Any] = {
        name: value
        for name, value in chunk._asdict().items()
        if value not in (None, "") or value != usual.get(name, value)
    }
    failure = given.get("failure")
    if failure is not None:
        given["failure"] = failure.json()
    return {name: freeze(value) for name, value in given.items()}


def expand(record: Sequence[Mapping[str, Any]]) -> Iterator[tuple[Chunk, float]]:
    """Return every chunk of a compact record with its time in Unix seconds, as it came."""
    for item in record:
        made: Callable[..., Chunk] = CHUNKS[item["type"]]
        if "parts" in item:
            at = item["time"]
            for text, gap in zip(item["parts"], (0, *item["gaps"]), strict=True):
                at += gap
                yield made(text, item["block"]), at / 1_000_000
            continue
        fields = {name: value for name, value in item.items() if name not in ("type", "time")}
        if "failure" in fields:
            fields["failure"] = Failure(**fields["failure"])
        yield made(**fields), item["time"] / 1_000_000
