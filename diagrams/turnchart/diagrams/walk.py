"""The walk that makes a sequence out of a table.

It follows the drawn rows from idle. Three rules make blocks out of a graph:

1. Rows with a branch label are alternatives (``alt``; ``opt`` where only one is left); rows without one go on
   in the line.
2. A state that several ways reach is drawn once, behind the block in which they part; what all rows into it
   say last is drawn there and not in each way.
3. A way that leads back to a drawn state says its own row, then what the states that it comes back to say
   ``again``.

With ``detail`` every row is named where it is taken, and every undrawn row is drawn behind its state: as a
``break`` where it ends the turn, else as an ``opt``.
"""

from collections.abc import Iterable, Sequence
from typing import Literal

from turnchart.machine.records import record
from turnchart.machine.says import Arrow, Line, Note, Part
from turnchart.machine.states import State
from turnchart.machine.table import Row, Table


@record
class Mark:
    """A state begins here; drawn only where something is to be noted at it."""

    state: State


@record
class Way:
    """One alternative of a fork."""

    label: str
    nodes: tuple["Node", ...]


@record
class Fork:
    """Ways of which one is taken, or none in an ``opt`` or ``break``."""

    kind: Literal["alt", "opt", "break"]
    ways: tuple[Way, ...]


Node = Line | Mark | Fork


def walk(table: Table, *, detail: bool = False) -> tuple[Node, ...]:
    """Return the sequence of a table."""
    return tuple(_Walk(table, detail).tree())


def title(row: Row) -> str:
    """Return a row in words: ``respond if has_tool_calls, requesting to tooling``."""
    guard = f" if {row.guard}" if row.guard else ""
    reasons = f" ({', '.join(row.reasons)})" if row.reasons else ""
    return f"{row.event.replace('_', ' ')}{guard}, {row.source.shown} to {row.target.shown}{reasons}"


class _Walk:
    def __init__(self, table: Table, detail: bool) -> None:
        self._table = table
        self._detail = detail
        self._done: set[State] = set()
        self._exits = {
            state: [row for row in table.rows if row.source is state and row.drawn] for state in State
        }
        self._main = set(self._reach(State.IDLE))

    def tree(self) -> list[Node]:
        nodes = self._begin(State.IDLE)
        for row in self._exits[State.IDLE]:
            nodes += [*self._named([row]), *row.says, *self._state(row.target, State.IDLE)]
        return [*nodes, *(self._tail(State.IDLE) if len(self._main) > 1 else ())]

    # -- the graph ---------------------------------------------------------------------------

    def _ahead(self, row: Row) -> bool:
        return row.target is not State.IDLE and row.target not in self._done

    def _reach(self, state: State, path: tuple[State, ...] = ()) -> list[State]:
        """Return the states ahead in drawing order, the state itself first."""
        found = [state]
        for row in self._exits[state]:
            if self._ahead(row) and row.target not in (*path, state):
                ahead = self._reach(row.target, (*path, state))
                found += [each for each in ahead if each not in found]
        return found

    def _meet(self, rows: Sequence[Row]) -> State:
        """Return the nearest state ahead where all these rows come together; idle where there is none."""
        if not all(self._ahead(row) for row in rows):
            return State.IDLE
        first, *others = [self._reach(row.target) for row in rows]
        return next((state for state in first if all(state in other for other in others)), State.IDLE)

    def _tail(self, target: State) -> tuple[Line, ...]:
        """Return what all drawn rows into a state say last; nothing where only one row leads there."""
        says = [
            row.says
            for row in self._table.rows
            if row.target is target and row.drawn and row.source is not State.IDLE
        ]
        if len(says) < 2:
            return ()
        shared = 0
        while all(len(lines) > shared and lines[-1 - shared] == says[0][-1 - shared] for lines in says):
            shared += 1
        return says[0][len(says[0]) - shared :]

    def _own(self, row: Row) -> tuple[Line, ...]:
        return row.says[: len(row.says) - len(self._tail(row.target))]

    # -- drawing -----------------------------------------------------------------------------

    def _begin(self, state: State) -> list[Node]:
        return [Mark(state), *self._table.says[state], *self._asides(state)]

    def _state(self, state: State, stop: State) -> list[Node]:
        self._done.add(state)
        nodes = self._begin(state)
        branches: dict[str, list[Row]] = {}
        for row in self._exits[state]:
            branches.setdefault(row.branch or "", []).append(row)
        plain = branches.pop("", [])
        ways = [Way(label, tuple(self._group(rows, State.IDLE))) for label, rows in branches.items()]
        if ways:
            nodes.append(Fork("alt" if len(ways) > 1 else "opt", tuple(ways)))
        return nodes + self._group(plain, stop)

    def _group(self, rows: list[Row], stop: State) -> list[Node]:
        """Draw rows as one line: what they share, each way ahead, then where they meet.

        A way back beside a way ahead is not drawn.
        """
        if not rows:
            return []
        going = [row for row in rows if self._ahead(row)] or rows
        join = self._meet(going)
        nodes: list[Node] = [*self._named(rows), *self._own(going[0]), *self._others(rows, going[0])]
        for row in going:
            if self._ahead(row) and row.target is not join:
                nodes += self._state(row.target, join)
            elif row.target in self._done and (row.branch or len(going) == 1):
                nodes += self._again(row.target)
        if join is not State.IDLE and join is not stop and join not in self._done:
            nodes += [*self._tail(join), *self._state(join, stop)]
        return nodes

    def _again(self, state: State) -> list[Node]:
        nodes: list[Node] = [
            line for line in self._table.says[state] if isinstance(line, Arrow | Note) and line.again
        ]
        exits = self._exits[state]
        return nodes + (self._again(exits[0].target) if len(exits) == 1 else [])

    # -- detail ------------------------------------------------------------------------------

    def _named(self, rows: Iterable[Row]) -> list[Node]:
        if not self._detail:
            return []
        return [Note(Part.DRIVER, Part.DRIVER, title(row)) for row in rows]

    def _others(self, rows: Iterable[Row], drawn: Row) -> list[Node]:
        """Return what rows of a group say and the drawn one does not."""
        if not self._detail:
            return []
        own = self._own(drawn)
        others = [row for row in rows if row is not drawn and self._own(row) not in ((), own)]
        return [Fork("opt", (Way(title(row), self._own(row)),)) for row in others]

    def _asides(self, state: State) -> list[Node]:
        if not self._detail:
            return []
        nodes: list[Node] = []
        for row in self._table.rows:
            if row.source is state and not row.drawn:
                more: list[Node] = []
                if row.target not in self._main and row.target not in self._done:
                    more = self._state(row.target, State.IDLE)
                kind: Literal["break", "opt"] = "break" if row.target is State.IDLE else "opt"
                nodes.append(Fork(kind, (Way(title(row), (*row.says, *more)),)))
        return nodes
