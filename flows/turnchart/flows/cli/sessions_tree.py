"""A log as a tree of lines: indented by turn and step, with its branches, labels and the current leaf."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from turnchart.flows.cli.provided import provided
from turnchart.flows.cli.words import one_line, words
from turnchart.machine.entries import Entry
from turnchart.machine.tree import labels

HERE: Final = "  <- here"
_LAST: Final = ("└─ ", "   ")
_MORE: Final = ("├─ ", "│  ")


class _Start(NamedTuple):
    """Where a branch begins to be drawn.

    Attributes:
        seq: Its first entry.
        first: Stands before its first line.
        rest: Stands before its other lines.
    """

    seq: int
    first: str
    rest: str


def tree(entries: Sequence[Entry]) -> Iterator[str]:
    """Yield a log line by line: each entry below the one that it follows, branches beside each other.

    A line has the number of its entry, its label in brackets, and says where the next entry will follow.
    """
    return _Drawing(entries).lines()


def leaf_of(entries: Sequence[Entry]) -> int | None:
    """Return the entry that the next one will follow; None for a new root."""
    if not entries:
        return None
    last = entries[-1]
    target: int | None = last.data.get("target")
    return target if last.type == "leaf" else last.seq


class _Drawing:
    def __init__(self, entries: Sequence[Entry]) -> None:
        self._entries = entries
        self._said = [None if entry.type == "leaf" else words(entry) for entry in entries]
        self._depths = list(_depths(entries))
        self._followers: dict[int | None, list[int]] = {}
        for entry in entries:
            if entry.type != "leaf":
                self._followers.setdefault(entry.parent, []).append(entry.seq)
        self._marks = self._at_what_is_shown(labels(entries))
        self._here = self._shown(leaf_of(entries))

    def _at_what_is_shown(self, named: Mapping[int, str]) -> dict[int | None, list[str]]:
        found: dict[int | None, list[str]] = {}
        for seq, text in named.items():
            if 0 <= seq < len(self._entries):
                found.setdefault(self._shown(seq), []).append(text)
        return found

    def _shown(self, seq: int | None) -> int | None:
        """Return the entry itself, or the nearest one before it that has a line."""
        while seq is not None and self._said[seq] is None:
            seq = self._entries[seq].parent
        return seq

    def lines(self) -> Iterator[str]:
        if self._here is None and self._entries:
            yield f"{'':>5}  (before the first entry){HERE}"
        todo = self._branches(None, "")
        while todo:
            start = todo.pop()
            at, prefix = start.seq, start.first
            while True:
                line = self._line(at, prefix)
                if line:
                    yield line
                    prefix = start.rest
                    yield from self._below(at, prefix)
                followers = self._followers.get(at, ())
                if len(followers) != 1:
                    todo += self._branches(at, start.rest)
                    break
                at = followers[0]

    def _below(self, seq: int, prefix: str) -> Iterator[str]:
        """Yield what else an entry says: what ran at the provider for an answer."""
        entry = self._entries[seq]
        if entry.type == "assistant/message":
            for line in provided(entry.data.get("message", {})):
                yield f"{'':>5}  {prefix}{'  ' * self._depths[seq]}{'':<10} {line}"

    def _branches(self, at: int | None, prefix: str) -> list[_Start]:
        """Return what follows an entry, the last one first."""
        followers = self._followers.get(at, ())
        if len(followers) == 1:
            return [_Start(followers[0], prefix, prefix)]
        drawn = [_MORE] * (len(followers) - 1) + [_LAST]
        made = zip(followers, drawn, strict=False)
        return [_Start(seq, prefix + first, prefix + rest) for seq, (first, rest) in made][::-1]

    def _line(self, seq: int, prefix: str) -> str:
        said = self._said[seq]
        if said is None:
            return ""
        named = "".join(f" [{one_line(text)}]" for text in self._marks.get(seq, ()))
        text = f"{said.label:<10} {said.text}".rstrip()
        return f"{seq:>5}  {prefix}{'  ' * self._depths[seq]}{text}{named}{HERE if seq == self._here else ''}"


def _depths(entries: Sequence[Entry]) -> Iterator[int]:
    """Yield how far the turn and the step that were open indent each entry: in the order of the log."""
    depth = 0
    for entry in entries:
        if entry.type in ("turn/start", "turn/end"):
            depth = 0
        elif entry.type == "step/start":
            depth = 1
        yield depth
        if entry.type in ("turn/start", "step/start"):
            depth += 1
        elif entry.type == "step/end":
            depth = 1
