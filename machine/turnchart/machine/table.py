"""The table extracted from the chart class, and the pure transition. No engine, no instance, no I/O."""

from collections.abc import Iterable, Mapping
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from statemachine.transition import Transition

from turnchart.machine.chart import ChartState, Lifecycle, way
from turnchart.machine.errors import TransitionError
from turnchart.machine.says import Line, names
from turnchart.machine.states import NO_FACTS, Event, Facts, State

if TYPE_CHECKING:
    from turnchart.machine.walks import Coverage, Path


class Row(NamedTuple):
    """One transition: where it goes, when, and what is said on the way."""

    source: State
    event: Event
    guard: str | None
    target: State
    says: tuple[Line, ...]
    reasons: tuple[str, ...]
    """The reasons that its ``turn/end`` may give."""
    branch: str | None
    undrawn: str
    does: tuple[str, ...]
    """What the driver performs when the row is taken, in order."""

    @property
    def drawn(self) -> bool:
        """The bare sequence view shows this row."""
        return not self.undrawn


class Table:
    """Rows by state and event, and what each state says.

    Attributes:
        rows: All rows, by state and then in order of priority.
        says: The lines of each state.
        does: Everything that a state may perform.
    """

    def __init__(self, rows: Iterable[Row], says: Mapping[State, tuple[Line, ...]]) -> None:
        self.rows = tuple(rows)
        self.says = MappingProxyType(dict(says))
        self.does = MappingProxyType({state: frozenset(names(lines)) for state, lines in says.items()})
        self._at: dict[tuple[State, Event], list[tuple[Any, Row]]] = {}
        for row in self.rows:
            guard = attrgetter(row.guard) if row.guard else None
            self._at.setdefault((row.source, row.event), []).append((guard, row))
        self._only = {at: rows[0][1] for at, rows in self._at.items() if rows[0][0] is None}

    @classmethod
    def of(cls, chart: type[Lifecycle]) -> "Table":
        """Extract the table of a chart class."""
        states = cast("list[ChartState]", list(cast(Any, chart).states))
        rows = [
            _row(state, str(event), transition)
            for state in states
            for transition in cast("list[Transition]", list(cast(Any, state).transitions))
            for event in cast(Any, transition).events
        ]
        return cls(rows, {State(state.id): state.says for state in states})

    def transition(self, state: State, event: Event, facts: Facts = NO_FACTS) -> Row:
        """Return the row that this event takes in this state, under these facts.

        Raises:
            TransitionError: If the state does not take the event. Nothing has changed.
        """
        guard: str | None = None
        for holds, row in self._at.get((state, event), ()):
            if holds is None or holds(facts):
                return row
            guard = row.guard
        raise TransitionError(state, event, self.accepts(state), guard)

    def only(self, state: State, event: Event) -> Row | None:
        """Return the row that this event takes under all facts; None where there is no such row."""
        return self._only.get((state, event))

    def accepts(self, state: State) -> tuple[Event, ...]:
        """Return the events that a state takes, in the order of the chart."""
        taken = {event for source, event in self._at if source is state}
        return tuple(event for event in Event if event in taken)

    def paths(
        self, coverage: "Coverage" = "edges", to: State | None = None, max_length: int = 40
    ) -> "tuple[Path, ...]":
        """Return walks that together take every row that can be taken, the same ones every time.

        A path begins at rest and ends where the agent rests again, or first comes to the state ``to``.

        Args:
            coverage: ``edges``: every state and event with its target; ``guards``: every row; ``pairs``:
                every two rows that can follow on each other.
            to: Where the paths end; None: at rest.
            max_length: In rows. What only longer paths could take is left out.

        Raises:
            ValueError: If there is no such coverage or state.
        """
        from turnchart.machine.walks import paths  # most users of a table want no paths

        return paths(self, coverage, to, max_length)

    def without(self, row: Row) -> "Table":
        """Return a table that lacks one row (to see what stands on it)."""
        return Table([other for other in self.rows if other is not row], self.says)


def _row(state: ChartState, event: str, transition: Transition) -> Row:
    declared = way(transition)
    target = cast(str, cast(Any, transition).target.id)
    return Row(
        State(state.id), Event(event), declared.guard, State(target), declared.says,
        declared.reasons, declared.branch, declared.undrawn, names(declared.says),
    )  # fmt: skip


LIFECYCLE = Table.of(Lifecycle)
