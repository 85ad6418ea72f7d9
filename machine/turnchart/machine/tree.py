"""The tree of a session: paths, places, labels, the name, and what a move leaves behind.

Reading writes nothing; a fork writes to another session.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from turnchart.machine.entries import Entry
    from turnchart.machine.forking import Position
    from turnchart.machine.session import Session
    from turnchart.machine.statistics import Prices, Statistics

_OUTSIDE = frozenset(("step/start", "step/end", "turn/start", "turn/end", "user/message"))
"""Between these and the place before them no call of a step waits for its result."""
_REQUESTS = frozenset(("assistant/message", "assistant/attempt", "request/header", "request/context"))
"""What the log has of a request that was made."""


class Tree:
    """How a session is read as a tree: every entry follows its parent, and a ``leaf`` entry is on no path."""

    __slots__ = ()

    if TYPE_CHECKING:
        entries: list[Entry]
        leaf: int | None
        _now: Callable[[], float]

    def path(self, leaf: int | None = None) -> list[Entry]:
        """Return the entries of a branch, root first: up to ``leaf``, or up to the current leaf.

        Raises:
            IndexError: If there is no such entry.
        """
        if leaf is not None:
            check_place(leaf, self.entries)
        return path(self.entries, self.leaf if leaf is None else leaf)

    def children(self) -> Mapping[int | None, tuple[int, ...]]:
        """Return which entries follow each entry, oldest first; the roots follow None."""
        found: dict[int | None, list[int]] = {}
        for entry in self.entries:
            if entry.type != "leaf":
                found.setdefault(entry.parent, []).append(entry.seq)
        return {parent: tuple(seqs) for parent, seqs in found.items()}

    def labels(self) -> Mapping[int, str]:
        """Return the entries that have a label, each with its last one."""
        return labels(self.entries)

    @property
    def name(self) -> str:
        """What ``set_name`` last called the session; empty where nothing did."""
        for entry in reversed(self.entries):
            if entry.type == "session_info" and "name" in entry.data:
                return str(entry.data["name"])
        return ""

    def statistics(self, prices: Prices | None = None) -> Statistics:
        """Count messages, tokens and cost over the whole log, other branches included.

        Args:
            prices: What a million tokens cost, by model and then by kind of token; used for answers whose
                usage does not say its cost.
        """
        from turnchart.machine.statistics import statistics

        return statistics(self.entries, prices)

    def fork(
        self, at: int | None = None, *, position: Position = "at", into: Session | None = None
    ) -> Session:
        """Copy this session into a new one, with the entries under their numbers and an empty inbox.

        A turn that the place is inside of is cut off in the copy. From an answer that calls tools the place
        goes on to the last of their results.

        Args:
            at: The entry that the fork goes on from, with all that was logged before it; None copies all.
            position: ``before``: go on from before that entry, which must be the message of a user.
            into: An empty session; None: a new one of the same store, a file beside the file of this one.

        Raises:
            AppendRefused: If a turn is open.
            IndexError: If there is no such entry.
            ValueError: If the entry before which to fork is no ``user/message``.
            SessionError: If ``into`` is not empty, or the store is of a kind that cannot make another.
        """
        from turnchart.machine.forking import beside, fork

        session = cast("Session", self)
        into = beside(session.store, self._now) if into is None else into
        return fork(session, at, position, into, into._now)


def path(entries: Sequence[Entry], leaf: int | None) -> list[Entry]:
    """Return the entries from the root to a leaf; nothing before the first root."""
    return list(_upwards(entries, leaf))[::-1]


def _upwards(entries: Sequence[Entry], leaf: int | None) -> Iterator[Entry]:
    at = leaf
    while at is not None:
        yield entries[at]
        at = entries[at].parent


def labels(entries: Sequence[Entry]) -> dict[int, str]:
    """Return the last label of each entry that has one."""
    found: dict[int, str] = {}
    for entry in entries:
        if entry.type == "label":
            found.pop(entry.data["target"], None)
            if entry.data.get("text"):
                found[entry.data["target"]] = entry.data["text"]
    return found


def check_place(seq: object, entries: Collection[object], what: str = "") -> None:
    """Do nothing where a number names an entry.

    Raises:
        TypeError: If it is no whole number.
        IndexError: If there is no such entry.
    """
    if type(seq) is not int:
        raise TypeError(f"an entry is named by its number, not by {seq!r}")
    if not 0 <= seq < len(entries):
        raise IndexError(f"there is no entry {seq}{what}; the log has {len(entries)}")


def settled(entries: Sequence[Entry], seq: int) -> int:
    """Return the first place from an entry on where no tool call waits for its result.

    That is the entry itself, unless it stands between an answer that calls tools and the last of their
    results. A call that never got a result holds nothing up.
    """
    waiting = _waiting(entries, seq)
    at = seq
    while waiting and at + 1 < len(entries) and entries[at + 1].parent == at:
        at += 1
        if entries[at].type in _OUTSIDE:
            break
        waiting.discard(_answered(entries[at]))
    return seq if waiting else at


def _waiting(entries: Sequence[Entry], seq: int) -> set[str]:
    """Return the ids of the calls of the step around an entry that have no result up to it."""
    done: set[str] = set()
    for entry in _upwards(entries, seq):
        if entry.type in _OUTSIDE:
            break
        done.add(_answered(entry))
        if entry.type == "assistant/message":
            content = entry.data["message"]["content"]
            return {part["id"] for part in content if part["type"] == "tool_call"} - done
    return set()


def _answered(entry: Entry) -> str:
    """Return the id of the call that an entry answers; empty where it answers none."""
    return str(entry.data["message"]["call_id"]) if entry.type == "tool/result" else ""


def abandoned(entries: Sequence[Entry], left: int | None, entered: int | None) -> list[Entry]:
    """Return what is on the path to one leaf and not on the path to another, oldest first."""
    kept = {entry.seq for entry in _upwards(entries, entered)}
    found: list[Entry] = []
    for entry in _upwards(entries, left):
        if entry.seq in kept:
            break
        found.append(entry)
    return found[::-1]


def starts_series(entries: Sequence[Entry]) -> bool:
    """Whether the next request follows on another history than the last one: moved, or replaced."""
    for entry in reversed(entries):
        if entry.type == "leaf" or (entry.replaces is not None and entry.type != "system/message"):
            return True
        if entry.type in _REQUESTS:
            return False
    return False
