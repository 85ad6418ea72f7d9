"""The sequence of a recorded session: its entries in their true order, each as the arrow that performs it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, TypeVar

from turnchart.diagrams.fold import LEVELS, Level, shortened
from turnchart.diagrams.overlay import Overlay, Record
from turnchart.machine.books import as_list, as_object
from turnchart.machine.entries import Entry
from turnchart.machine.says import Arrow, Block, Kind, Line, Note, Part, Silent
from turnchart.machine.says import log as log_arrow
from turnchart.machine.states import State

T = TypeVar("T")

WHOLE = 200
"""A session of up to so many entries is drawn entry by entry; of a longer one, what repeats is folded."""

EXCERPT = 40
"""How much of a message is shown, in characters."""

LONGEST = 60
"""The longest part that is looked for when repetitions are folded, in arrows."""

_ENDS: dict[Kind, Part] = {
    Kind.LOG: Part.SESSION, Kind.EMIT: Part.SDK, Kind.HOOK: Part.HOOKS, Kind.CALL: Part.DRIVER,
}  # fmt: skip

_FIELDS: dict[str, tuple[str, ...]] = {
    "turn/start": ("turn",),
    "turn/end": ("turn", "reason"),
    "step/start": ("step",),
    "step/end": ("step",),
    "request/header": ("reason", "model"),
    "tool/call": ("tool",),
    "tool/result": ("outcome",),
    "hook/result": ("point", "id", "decision"),
    "llm/retry": ("retry", "kind"),
    "llm/retry-started": ("retry",),
    "approval/asked": ("tool",),
    "approval/decided": ("outcome",),
    "agent/inbox/spliced": ("target", "outcome"),
}
"""What an arrow tells of its entry, beside an excerpt of the message in it."""


def silent_arrow(line: Silent) -> Arrow:
    """Return the arrow of a line that the bare view leaves out."""
    often = {"1": "", "?": ", maybe", "*": ", any number"}[line.times]
    label = f"{' and '.join(line.does)}{often}: {line.reason}"
    return Arrow(
        line.kind, Part.DRIVER, _ENDS.get(line.kind, Part.DRIVER), label, dashed=line.kind is Kind.EMIT
    )


def session_lines(
    overlay: Overlay, record: Record, *, detail: bool = False, level: Level = LEVELS[0]
) -> tuple[Line, ...]:
    """Return the lines of a recorded session.

    Args:
        overlay: Says which lines perform what.
        record: The session.
        detail: Say how long after the entry before it each one came.
        level: How many arrows there may be (the middle of a longer session is told as a number), and how
            long a label may be.
    """
    long = len(record.entries) > WHOLE
    lines: list[Line] = []
    last: Entry | None = None
    for entry in record.entries:
        if record.refused == entry.seq:
            lines.append(_note(f"entry {entry.seq} is illegal here, see turnchart verify"))
        label = entry.type if long else label_of(entry)
        if detail and not long and last is not None:
            label += f" +{max(0.0, entry.time - last.time):.2f} s"
        if entry.type == "turn/start":
            lines.append(_A_TURN if long else _note(f"turn {entry.data.get('turn')}"))
        lines.append(arrow_of(entry, overlay, record, level.short(label)))
        last = entry
    if long:
        lines = _fold_turns(lines)
    return tuple(_middle_out(lines, level.edges))


def fold_loops(lines: Sequence[Line]) -> list[Line]:
    """Fold what repeats into loops that say how often."""
    folded: list[Line] = []
    for part, times in repeated(lines):
        folded += [_loop(times, fold_loops(part))] if times > 1 else part
    return folded


def repeated(items: Sequence[T]) -> Iterator[tuple[Sequence[T], int]]:
    """Yield the parts of a sequence, each with how often it stands there one after the other.

    At each place the repetition is taken that folds most away.
    """
    at = 0
    while at < len(items):
        best = (1, 1)
        for length in range(1, min(LONGEST, (len(items) - at) // 2) + 1):
            part, times = items[at : at + length], 1
            while items[at + times * length : at + (times + 1) * length] == part:
                times += 1
            if length * (times - 1) > best[0] * (best[1] - 1):
                best = (length, times)
        yield items[at : at + best[0]], best[1]
        at += best[0] * best[1]


def _fold_turns(lines: Sequence[Line]) -> list[Line]:
    """Fold turns that are alike first, so that a loop begins where a turn does."""
    turns: list[list[Line]] = [[]]
    for line in lines:
        if line == _A_TURN:
            turns.append([])
        turns[-1].append(line)
    folded: list[Line] = []
    for part, times in repeated(turns):
        body = fold_loops([line for turn in part for line in turn])
        folded += [_loop(times, body)] if times > 1 else body
    return folded


def _loop(times: int, lines: list[Line]) -> Block:
    return Block("loop", f"{times} times", tuple(lines))


def _middle_out(lines: list[Line], edges: int) -> Iterable[Line]:
    if _count(lines) <= edges:
        return lines
    head = _first(lines, edges // 2)
    tail = _first(lines[len(head) :][::-1], edges // 2)
    left_out = len(lines) - len(head) - len(tail)
    return [*head, _note(f"{left_out} more lines are left out here"), *reversed(tail)]


def _first(lines: Sequence[Line], edges: int) -> list[Line]:
    ends = accumulate(_count([line]) for line in lines)
    return [line for line, end in zip(lines, ends, strict=True) if end <= edges]


def _count(lines: Iterable[Line]) -> int:
    return sum(_count(line.lines) if isinstance(line, Block) else isinstance(line, Arrow) for line in lines)


def arrow_of(entry: Entry, overlay: Overlay, record: Record, label: str) -> Arrow:
    """Return the arrow that performs an entry."""
    took = record.took.get(entry.seq)
    line = took.line if took else None
    if isinstance(line, Arrow):
        return Arrow(line.kind, line.source, line.target, label, dashed=line.dashed)
    if isinstance(line, Silent):
        return silent_arrow(line)._replace(label=label)
    for arrival in overlay.table.says[State.IDLE]:
        if isinstance(arrival, Arrow) and arrival.source is Part.AGENT and entry.type in arrival.does:
            return arrival._replace(label=label)
    return log_arrow(entry.type, label=label)


def _note(text: str) -> Note:
    return Note(Part.AGENT, Part.DRIVER, text)


_A_TURN = _note("a turn")


def label_of(entry: Entry) -> str:
    """Return an entry in words: its type, what matters of its fields, an excerpt of its message."""
    told = [entry.data.get(name) for name in _FIELDS.get(entry.type, ())]
    excerpt = _excerpt(as_object(entry.data.get("message")))
    return " ".join([entry.type, *(str(value) for value in (*told, excerpt) if value is not None)])


def _excerpt(message: Mapping[str, Any]) -> str | None:
    parts = [as_object(part) for part in as_list(message.get("content"))]
    words = [str(part.get("text") or part.get("name") or part.get("type")) for part in parts]
    return shortened(" ".join(words), EXCERPT) if words else None
