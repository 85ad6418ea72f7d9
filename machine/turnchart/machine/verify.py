"""Judge a log, or a trace of everything performed, by the declarations.

Order is judged by the automaton that the table makes (``automaton``), numbers and ids by books (``books``,
``queue_book``, ``call_book``). Pure: no store is opened and nothing is written.
"""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

from turnchart.machine.automaton import LOGGED, PERFORMED, automaton, step_name
from turnchart.machine.books import Fields, Requests, Turns, Wrong
from turnchart.machine.call_book import Calls
from turnchart.machine.compaction_book import Compactions
from turnchart.machine.entries import ENTRIES, Entry
from turnchart.machine.errors import named_text_of
from turnchart.machine.queue_book import Queue
from turnchart.machine.records import record
from turnchart.machine.states import State
from turnchart.machine.table import LIFECYCLE, Row, Table

_MALFORMED = (KeyError, TypeError, ValueError, AttributeError, IndexError)
"""What a book raises where a part of an entry is of another form than ``Fields`` looks at."""


class Way(NamedTuple):
    """Part of what could have come instead: in a state, on a row, or by the closing after a crash.

    Attributes:
        state: The state that the walk would be in.
        row: The row that it would be on; None where it stays in the state.
        recovery: It would be the closing of what a crash left open.
        letters: The letters that could come there, sorted.
    """

    state: State
    row: Row | None
    recovery: bool
    letters: tuple[str, ...]


class Verdict(NamedTuple):
    """What a log is: legal, or illegal from one entry on.

    Attributes:
        ok: Every entry is legal.
        open: The log ends inside a turn: it runs, or it was killed. Legal.
        seq: The position of the first illegal entry; None where all are legal.
        type: The type of that entry; empty where all are legal.
        state: The states that the walk was in: ``pre-step``, or ``requesting or tooling`` where both fit.
        came: The letter of the illegal entry, see ``automaton``.
        expected: What would have been legal there.
        message: All of this in words.
        turns: How many turns started before that.
        entries: How many entries are legal.
        ways: Where the order is wrong, the same as ``expected``, told by states and rows; else empty.
        why: What is wrong with the entry, in words; empty where all are legal.
    """

    ok: bool
    open: bool
    seq: int | None
    type: str
    state: str
    came: str
    expected: tuple[str, ...]
    message: str
    turns: int
    entries: int
    ways: tuple[Way, ...] = ()
    why: str = ""


class Judge:
    """Takes a log entry by entry."""

    def __init__(self, table: Table = LIFECYCLE) -> None:
        self._automaton = automaton(table, LOGGED)
        self._at = self._automaton.start
        self._turns = Turns()
        self._books = (Fields(), self._turns, Requests(), Queue(), Calls(), Compactions())
        self._entries = 0
        self._leaf: int | None = None

    @property
    def state(self) -> str:
        """The states that the walk can be in."""
        return _shown(self._automaton.where(self._at))

    def take(self, entry: Entry) -> Verdict | None:
        """Take the next entry, or return why it is illegal. A judge that refused must not be asked again."""
        wrong = self._linked(entry)
        if wrong is not None:
            return self._refused(entry, wrong.text, (wrong.expected,))
        name = step_name(entry)
        if name is not None:
            to = self._automaton.step(self._at, name)
            if not to:
                expected = self._automaton.expected(self._at)
                return self._refused(entry, self._misplaced(entry), expected, self._ways())
        else:
            to = self._at
        if entry.foreign_id is None and entry.type in ENTRIES:
            wrong = self._wrong(entry)
            if wrong is not None:
                return self._refused(entry, wrong.text, (wrong.expected,))
        self._at = to
        self._entries += 1
        self._leaf = entry.data.get("target") if entry.type == "leaf" else entry.seq
        return None

    def verdict(self) -> Verdict:
        """Return what the entries so far are: legal."""
        opened = self._turns.open
        ends = f", ends inside turn {self._turns.number} ({self.state})" if opened else ""
        entries = "1 entry" if self._entries == 1 else f"{self._entries} entries"
        turns = "1 turn" if self._turns.number == 1 else f"{self._turns.number} turns"
        said = f"{entries}, {turns}: legal{ends}"
        return Verdict(True, opened, None, "", self.state, "", (), said, self._turns.number, self._entries)

    def _wrong(self, entry: Entry) -> Wrong | None:
        try:
            for book in self._books:
                wrong = book.take(entry)
                if wrong is not None:
                    return wrong
        except _MALFORMED as error:
            return Wrong(f"its data is malformed ({named_text_of(error)})", ENTRIES[entry.type])
        return None

    def _linked(self, entry: Entry) -> Wrong | None:
        if entry.seq != self._entries:
            return Wrong(f"`seq` is {entry.seq}", str(self._entries))
        if entry.parent != self._leaf:
            return Wrong(f"`parent` is {entry.parent}", str(self._leaf))
        return None

    def _misplaced(self, entry: Entry) -> str:
        if entry.type not in ENTRIES:
            return "no such entry type is known, and it is not marked as ignorable"
        return "it cannot come here"

    def _ways(self) -> tuple[Way, ...]:
        """Return what could come here, in the order of the chart; each letter once."""
        made, found = self._automaton, dict[tuple[State, Row | None, bool], set[str]]()
        for node in sorted(self._at):
            if made.edges[node]:
                place = (made.state[node], made.on[node], node >= made.recovery)
                found.setdefault(place, set()).update(made.edges[node])
        return tuple(Way(*place, tuple(sorted(names))) for place, names in found.items())

    def _refused(
        self, entry: Entry, text: str, expected: Sequence[str], ways: tuple[Way, ...] = ()
    ) -> Verdict:
        came = step_name(entry) or entry.type
        said = (
            f"entry {self._entries} `{came}` in state {self.state}: {text};"
            f" legal would be: {listed(expected) or 'nothing'}"
        )
        return Verdict(
            False, self._turns.open, self._entries, entry.type, self.state, came, tuple(expected), said,
            self._turns.number, self._entries, ways, text,
        )  # fmt: skip


def verify(entries: Iterable[Entry], table: Table = LIFECYCLE) -> Verdict:
    """Judge a log.

    A log that ends inside a turn is legal, and said to be open. Imported entries (``foreign_id``) may stand
    anywhere; so may ignorable entries of foreign types.
    """
    judge = Judge(table)
    for entry in entries:
        refused = judge.take(entry)
        if refused is not None:
            return refused
    return judge.verdict()


@record
class Mismatch:
    """Where a trace leaves the declarations.

    Attributes:
        index: The position of the first name that no walk explains; the trace's length where it ends early.
        name: That name; empty where the trace ends inside a turn.
        expected: What could have come.
        where: The states that the walk could be in.
    """

    index: int
    name: str
    expected: tuple[str, ...]
    where: tuple[State, ...]

    def __str__(self) -> str:
        came = f"`{self.name}`" if self.name else "its end"
        return (
            f"name {self.index} of the trace, {came}, cannot come in {_shown(self.where)};"
            f" it could be: {listed(self.expected)}"
        )


def performed(names: Iterable[str], table: Table = LIFECYCLE, *, complete: bool = True) -> Mismatch | None:
    """Judge a trace of everything performed: entries, signals, hook points and calls, in order.

    ``automaton`` says which word stands for what. Names that are legal at any moment (arrivals in the inbox,
    ``notice``, ``session/event``) may be in the trace or not.

    Args:
        names: What was performed, from an idle agent on.
        table: The declarations.
        complete: The trace must end with an idle agent.
    """
    walk = automaton(table, PERFORMED)
    idle = walk.entry[State.IDLE]
    at = walk.close((idle, walk.recovery))
    index = -1
    for index, name in enumerate(names):
        if name.split(" ")[0] in walk.anywhere:
            continue
        to = walk.step(at, name)
        if not to:
            return Mismatch(index, name, walk.expected(at), walk.where(at))
        at = to
    if complete and idle not in at:
        return Mismatch(index + 1, "", walk.expected(at), walk.where(at))
    return None


def _shown(states: Iterable[State]) -> str:
    return " or ".join(state.shown for state in states)


def listed(letters: Sequence[str]) -> str:
    """Return letters in words, with the variants of one name folded: ``turn/end (aborted, error)``."""
    if len(letters) == 1:
        return letters[0]
    found: list[str] = []
    for name, group in groupby(letters, key=lambda letter: letter.partition(" ")[0]):
        variants = [letter.partition(" ")[2] for letter in group]
        found.append(f"{name} ({', '.join(variants)})" if all(variants) else name)
    return ", ".join(found)
