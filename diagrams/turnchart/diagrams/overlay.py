"""What is drawn over a table: a flow's hooks and settings, or what a recorded session did."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import field
from types import MappingProxyType
from typing import Protocol, TypeAlias, runtime_checkable

from turnchart.diagrams.trail import Took, trail
from turnchart.machine.entries import Entry
from turnchart.machine.points import POINTS
from turnchart.machine.records import record
from turnchart.machine.states import State
from turnchart.machine.table import LIFECYCLE, Row, Table


@record
class Record:
    """What a session did.

    Attributes:
        entries: Its log.
        took: The entries that the walk explains, by seq.
        rows: How often each row was taken; a row that was never taken is missing.
        visits: How often each state was entered.
        seconds: How long the entries of each state were waited for, in seconds.
        refused: The seq of the first entry that no walk explains; None where all are explained.
    """

    entries: tuple[Entry, ...]
    took: Mapping[int, Took]
    rows: Mapping[Row, int]
    visits: Mapping[State, int]
    seconds: Mapping[State, float]
    refused: int | None = None


def _nothing() -> MappingProxyType[str, tuple[str, ...]]:
    return MappingProxyType({})


@record
class Overlay:
    """What is drawn over a table. All text is plain; the pictures escape it.

    Attributes:
        title: Stands above the picture; empty for none.
        notes: Per state lines that say what holds there: queue modes, retry, tools, permissions, limits.
        hooks: Per hook point its chain in order, one label a hook.
        record: What a session did; None for the picture of a table or a flow.
        table: What it is drawn over.
        changed: The states at which a difference holds something; they are coloured.
        row_notes: What a difference says of a row.
    """

    title: str = ""
    notes: Mapping[State, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    hooks: Mapping[str, tuple[str, ...]] = field(default_factory=_nothing)
    record: Record | None = None
    table: Table = LIFECYCLE
    changed: frozenset[State] = frozenset()
    row_notes: Mapping[Row, str] = field(default_factory=lambda: MappingProxyType({}))

    def notes_at(self, state: State) -> tuple[str, ...]:
        """Return what holds in a state."""
        return self.notes.get(state, ())

    def points(self) -> tuple[str, ...]:
        """Return the points that have hooks, in the order of a turn."""
        known = [point for point in POINTS if self.hooks.get(point)]
        return (*known, *sorted(point for point in self.hooks if point not in POINTS))

    def chain(self, point: str) -> tuple[str, ...]:
        """Return the chain of a point, one line a hook: ``pre_tool 1: deny_paths``."""
        return tuple(f"{point} {place}: {label}" for place, label in enumerate(self.hooks.get(point, ()), 1))

    def hooks_at(self, state: State) -> tuple[str, ...]:
        """Return the chains that act in a state, one line a hook."""
        return tuple(line for point in self.points() if state in acts_in(point) for line in self.chain(point))


@runtime_checkable
class HasOverlay(Protocol):
    """Anything that can be drawn over the table: a flow, for instance."""

    def overlay(self) -> Overlay:
        """Return what is to be drawn."""
        ...


Drawable: TypeAlias = Table | Overlay | HasOverlay


def overlay_of(drawn: Drawable) -> Overlay:
    """Return what is to be drawn of anything that can be drawn."""
    if isinstance(drawn, Overlay):
        return drawn
    return Overlay(table=drawn) if isinstance(drawn, Table) else drawn.overlay()


def acts_in(point: str) -> tuple[State, ...]:
    """Return the states in which a hook point acts; idle stands for every state and for unknown points."""
    known = POINTS.get(point)
    return (known.states if known else ()) or (State.IDLE,)


def session_overlay(entries: Iterable[Entry], title: str = "", table: Table = LIFECYCLE) -> Overlay:
    """Return what a recorded session did: how often each row was taken, and the true order of its entries."""
    log = tuple(entries)
    walked = trail(log, table)
    rows, visits, took = Counter[Row](), Counter[State](), dict[int, Took]()
    seconds: dict[State, float] = {}
    last = log[0].time if log else 0.0
    for item in walked.items:
        if isinstance(item, Took):
            took[item.seq] = item
            time = log[item.seq].time
            seconds[item.state] = seconds.get(item.state, 0.0) + max(0.0, time - last)
            last = time
        else:
            rows[item] += 1
            visits[item.target] += 1
    return Overlay(title, record=Record(log, took, rows, visits, seconds, walked.refused), table=table)
