"""One streamed answer: put together into a message, and recorded chunk by chunk with its times. Pure."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import sub
from typing import Any, get_args

from turnchart.machine.entries import Frozen, decode_foreign, freeze
from turnchart.machine.messages import AssistantMessage, Block, Failure, StopReason, Text, Thinking, ToolCall
from turnchart.machine.models import (
    CHUNKS,
    NAMES,
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
_BLOCKS = frozenset(_DELTAS.values())

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


def _check_text(chunk: Any) -> None:
    if not isinstance(chunk.text, str):
        raise _Nonsense(chunk)


class _Open:
    """A block that is being put together, of the parts of its runs."""

    __slots__ = ("closed", "id", "kind", "name", "runs", "signature")

    def __init__(self, kind: BlockKind, id: str = "", name: str = "") -> None:
        self.kind = kind
        self.id = id
        self.name = name
        self.runs: list[list[str]] = []
        self.closed = False
        self.signature: str | None = None

    @property
    def text(self) -> str:
        """What its deltas say."""
        if len(self.runs) == 1:
            return "".join(self.runs[0])
        return "".join([part for parts in self.runs for part in parts])


class _Run:
    """Deltas of one block that came one after another, with their times."""

    __slots__ = ("block", "kind", "parts", "times")

    def __init__(self, kind: type, block: int) -> None:
        self.kind = kind
        self.block = block
        self.parts: list[str] = []
        self.times: list[float] = []


_NO_RUN = _Run(_Run, -1)


class Answer:
    """Takes chunks in order, gives one message and one compact record.

    Rules: the first block_end closes a block and later deltas of it are ignored; chunks after ``finish`` are
    ignored; a missing or repeated call id becomes a positional one; a missing finish means stop; max_tokens
    drops tool calls; an interrupted answer keeps only text and thoughts that are not blank.

    Attributes:
        finish: The finish chunk; None before it.
        usage: The last usage that was reported.
    """

    __slots__ = ("_blocks", "_record", "_run", "finish", "usage")

    def __init__(self) -> None:
        self._blocks: dict[int, _Open] = {}
        self._record: list[_Run | tuple[Chunk, float]] = []
        self._run = _NO_RUN
        self.finish: Finish | None = None
        self.usage: Frozen | None = None

    @property
    def count(self) -> int:
        """How many chunks came."""
        return sum([len(each.parts) if isinstance(each, _Run) else 1 for each in self._record])

    @property
    def time(self) -> float:
        """When the last chunk came, in Unix seconds, as the record keeps it."""
        last = self._record[-1]
        return _micros(last.times[-1] if isinstance(last, _Run) else last[1]) / 1_000_000

    def add(self, chunk: Chunk, time: float) -> Chunk:
        """Take the next chunk, which came at ``time`` (Unix seconds, kept to the microsecond).

        Returns:
            The chunk as the record keeps it: frozen.

        Raises:
            TypeError: If it is no chunk, or holds what a chunk cannot hold.
            ValueError: If it holds a number that JSON cannot hold.
        """
        run = self._run
        delta: Any = chunk
        kind = chunk.__class__
        if kind is not run.kind or delta[1] != run.block:
            take = _MARKS.get(kind)
            if take is not None:
                kept = take(self, chunk)
                self._record.append((kept, time))
                self._run = _NO_RUN
                return kept
            run = self._begin(chunk)
        text = delta[0]
        if text.__class__ is not str:
            _check_text(chunk)
        run.parts.append(text)
        run.times.append(time)
        return chunk

    def _begin(self, chunk: Chunk) -> _Run:
        """Begin a run with a delta of another block, or behind something else."""
        if chunk.__class__ not in _DELTAS:
            raise _Nonsense(chunk)
        index = _index(chunk)
        _check_text(chunk)
        block = self._blocks.get(index)
        if block is None:
            block = self._blocks[index] = _Open(_DELTAS[chunk.__class__])
        run = self._run = _Run(chunk.__class__, index)
        if not block.closed:
            block.runs.append(run.parts)
        self._record.append(run)
        return run

    def _start(self, chunk: BlockStart) -> Chunk:
        kind, index, id, name = chunk
        if kind not in _BLOCKS or not isinstance(id, str) or not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # foreign
            raise _Nonsense(chunk)
        if index not in self._blocks:
            self._blocks[_index(chunk)] = _Open(kind, id, name)
        return chunk

    def _end(self, chunk: BlockEnd) -> Chunk:
        index, signature = chunk
        if signature is not None and not isinstance(signature, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # foreign
            raise _Nonsense(chunk)
        block = self._blocks.get(index)
        if block is None:
            _index(chunk)
        elif not block.closed:
            block.closed, block.signature = True, signature
        return chunk

    def _used(self, chunk: UsageReport) -> Chunk:
        usage = chunk.usage
        if not isinstance(usage, Mapping) or not all(map(_counts, usage.items())):  # pyright: ignore[reportUnnecessaryIsInstance]  # foreign
            raise _Nonsense(chunk)
        self.usage = frozen = freeze(dict(usage))
        return UsageReport(frozen)

    def _finished(self, chunk: Finish) -> Chunk:
        reason, failure, replay = chunk
        if reason not in _REASONS or not (failure is None or isinstance(failure, Failure)):  # pyright: ignore[reportUnnecessaryIsInstance]  # foreign
            raise _Nonsense(chunk)
        self.finish = chunk if replay is None else Finish(reason, failure, freeze(replay))
        return self.finish

    @property
    def has_text(self) -> bool:
        """It showed something: text or a thought that is not blank."""
        return any(
            part and not part.isspace()
            for block in self._blocks.values()
            if block.kind != "tool_call"
            for parts in block.runs
            for part in parts
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
            text = block.text
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
        return tuple([_folded(each) if isinstance(each, _Run) else _marked(*each) for each in self._record])


_MARKS: Mapping[type, Callable[[Answer, Any], Chunk]] = {
    BlockStart: Answer._start,  # pyright: ignore[reportPrivateUsage]  # the answer's own table
    BlockEnd: Answer._end,  # pyright: ignore[reportPrivateUsage]  # as above
    UsageReport: Answer._used,  # pyright: ignore[reportPrivateUsage]  # as above
    Finish: Answer._finished,  # pyright: ignore[reportPrivateUsage]  # as above
}


def _counts(item: tuple[str, object]) -> bool:
    """Tell whether a name of a usage has a value that counts: a whole number, but for the cost."""
    return type(item[1]) is int or (item[0] == "cost" and type(item[1]) is float)


def _arguments(text: str) -> Frozen | str:
    if not text.strip():
        return Frozen()
    try:
        parsed = decode_foreign(text)
        return parsed if isinstance(parsed, Frozen) else text
    except (ValueError, RecursionError):
        return text


def _folded(run: _Run) -> Frozen:
    times = [round(time * 1_000_000) for time in run.times]
    gaps = tuple(map(sub, times[1:], times)) if len(times) > 1 else ()
    return Frozen(type=NAMES[run.kind], block=run.block, time=times[0], gaps=gaps, parts=tuple(run.parts))


def _marked(chunk: Chunk, time: float) -> Frozen:
    """Return what the record says of a chunk that is no delta; the usual ones first, as there are many."""
    at, kind, fields = round(time * 1_000_000), chunk.__class__, tuple(chunk)
    if kind is BlockEnd and fields[1] is None:
        return Frozen(type="block_end", time=at, block=fields[0])
    if kind is BlockStart and fields[2] and fields[3]:
        return Frozen(
            type="block_start", time=at, kind=fields[0], block=fields[1], id=fields[2], name=fields[3]
        )
    return Frozen(type=NAMES[kind], time=at, **_fields(chunk))


def _micros(time: float) -> int:
    return round(time * 1_000_000)


def _blank(block: Block) -> bool:
    return str(block.get("text", block.get("thinking", ""))).isspace()


def _fields(chunk: Chunk) -> dict[str, Any]:
    if isinstance(chunk, Finish) and chunk[1:] == (None, None):
        return {"reason": chunk.reason}
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
