"""Walks of a table that can really happen, generated: every edge, every guard, or every pair of rows.

A row is taken under facts, and facts have their history: results are owed after tools only, and a step begins
with input or with results. ``_choices`` says what can happen next; the table says where that leads.
"""

from collections import deque
from collections.abc import Hashable, Iterator
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias, get_args

from turnchart.machine.errors import TransitionError
from turnchart.machine.states import NO_FACTS, TURN_STATES, Event, Facts, State

if TYPE_CHECKING:
    from turnchart.machine.agent import Agent
    from turnchart.machine.conducting import Driven, PathScript
    from turnchart.machine.table import Row, Table

Coverage = Literal["edges", "guards", "pairs"]


class Step(NamedTuple):
    """One transition of a path: the event, the facts that its guard asks, and where it leads."""

    state: State
    event: Event
    facts: Facts
    target: State


class Path(NamedTuple):
    """A walk that begins at rest and ends where it was asked to. ``str(path)`` is ``idle>claiming>...``."""

    steps: tuple[Step, ...]

    def __str__(self) -> str:
        return ">".join([self.steps[0].state, *(step.target for step in self.steps)])

    def script(self) -> "PathScript":
        """Return what makes an agent walk this path: a model, tools, hooks, and what people do. Used once."""
        from turnchart.machine.conducting import script_of  # which loads the driver

        return script_of(self)

    async def drive(self, agent: "Agent") -> "Driven":
        """Make an agent walk this path, and compare. Its own hooks run; it gets another model.

        Args:
            agent: Not open yet; it cannot be used again.

        Returns:
            Whether a hook of the agent's own made the path impossible, and which.

        Raises:
            WalkDiffers: If it walks otherwise, with the two walks side by side.
        """
        from turnchart.machine.conducting import drive  # as above

        return await drive(self, agent)


class _At(NamedTuple):
    """Where a walk is, and what it owes to its past."""

    state: State
    owed: bool = False
    """There are results that the model has not seen."""
    batch: bool = False
    """Something was claimed for the next step."""


class _Move(NamedTuple):
    """One row, taken from one place."""

    source: _At
    facts: Facts
    row: "Row"
    target: _At


_Way: TypeAlias = tuple[_Move, ...]
_START: Final = _At(State.IDLE)


def paths(table: "Table", coverage: Coverage, to: State | None, max_length: int) -> tuple[Path, ...]:
    """Return paths as ``Table.paths`` says."""
    if coverage not in get_args(Coverage):
        raise ValueError(f"coverage is {coverage!r}; it must be one of: {', '.join(get_args(Coverage))}")
    return _paths(table, coverage, State.IDLE if to is None else State(to), max_length)


@lru_cache(maxsize=64)
def _paths(table: "Table", coverage: Coverage, to: State, max_length: int) -> tuple[Path, ...]:
    covered: set[Hashable] = set()
    found: list[Path] = []
    for goal, way in _Moves(table, to).goals(coverage):
        if goal not in covered and len(way) <= max_length:
            covered |= {*_covers(way, coverage)}
            found.append(Path(tuple(Step(*move.row[:2], move.facts, move.row.target) for move in way)))
    return tuple(found)


def _covers(way: _Way, coverage: Coverage) -> Iterator[Hashable]:
    """Yield what a way covers."""
    rows = [move.row for move in way]
    if coverage == "edges":
        yield from ((row.source, row.event, row.target) for row in rows)
    elif coverage == "guards":
        yield from (row[:3] for row in rows)
    else:
        yield from ((first[:3], second[:3]) for first, second in pairwise(rows))


class _Moves:
    """All moves of a table from rest to one state, and the shortest ways to and from each of them."""

    def __init__(self, table: "Table", to: State) -> None:
        self._to = to
        self._rank = {row[:3]: i for i, row in enumerate(table.rows)}
        self._from: dict[_At, tuple[_Move, ...]] = {}
        self._before: dict[_At, _Way] = {_START: ()}
        todo = deque([_START])
        while todo:  # breadth first, so that the first way is a shortest
            at = todo.popleft()
            self._from[at] = tuple(_moves(table, at))
            for move in self._from[at]:
                if move.target not in self._before and move.target.state not in (State.IDLE, to):
                    self._before[move.target] = (*self._before[at], move)
                    todo.append(move.target)
        self._behind = self._ways_on()

    def goals(self, coverage: Coverage) -> list[tuple[Hashable, _Way]]:
        """Return what can be covered, in the order of the table, each with a shortest way."""
        best: dict[Hashable, _Way] = {}
        rank: dict[Hashable, list[int]] = {}
        for part in self._pairs() if coverage == "pairs" else self._singles():
            after = self._behind.get(part[-1].target)
            if after is None:
                continue
            way = (*self._before[part[0].source], *part, *after)
            place = [self._rank[move.row[:3]] for move in part]
            for goal in _covers(part, coverage):
                if goal not in best or len(way) < len(best[goal]):
                    best[goal] = way
                rank[goal] = min(rank.get(goal, place), place)
        return sorted(best.items(), key=lambda found: rank[found[0]])

    def _singles(self) -> Iterator[_Way]:
        for moves in self._from.values():
            for move in moves:
                yield (move,)

    def _pairs(self) -> Iterator[_Way]:
        for moves in self._from.values():
            for first in moves:
                for second in self._from.get(first.target, ()) if self._goes_on(first) else ():
                    yield (first, second)

    def _goes_on(self, move: _Move) -> bool:
        return move.target.state not in (State.IDLE, self._to)

    def _ways_on(self) -> dict[_At, _Way]:
        """Return from each place a shortest way to where paths end; nothing where there is none."""
        ends = {
            move.target for moves in self._from.values() for move in moves if move.target.state is self._to
        }
        found: dict[_At, _Way] = dict.fromkeys(ends, ())
        into: dict[_At, list[_Move]] = {}
        for moves in self._from.values():
            for move in moves:
                into.setdefault(move.target, []).append(move)
        todo = deque(ends)
        while todo:
            at = todo.popleft()
            for move in into.get(at, ()):
                if move.source not in found and move.source != _START:
                    found[move.source] = (move, *found[at])
                    todo.append(move.source)
        return found


def _moves(table: "Table", at: _At) -> Iterator[_Move]:
    """Yield what can happen at a place: each row once for each place that it leads to."""
    seen: set[Hashable] = set()
    for event, facts in _choices(at):
        try:
            row = table.transition(at.state, event, facts)
        except TransitionError:  # a table that lacks the row
            continue
        target = _after(at, event, facts, row.target)
        if (row[:3], target) not in seen:
            seen.add((row[:3], target))
            yield _Move(at, facts, row, target)


def _choices(at: _At) -> Iterator[tuple[Event, Facts]]:
    """Yield the events that can come at a place, with the facts that can hold then."""
    match at.state:
        case State.IDLE:
            yield Event.WAKE, NO_FACTS
            yield Event.MAINTAIN, NO_FACTS
        case State.MAINTENANCE:
            yield Event.MAINTAINED, Facts(wake_latched=True)
            yield Event.MAINTAINED, NO_FACTS
        case State.CLAIMING:
            yield Event.CLAIMED, NO_FACTS
        case State.PRE_STEP:
            yield from _entries(at)
        case State.REQUESTING:
            yield from _requests()
        case State.RETRYING:
            yield Event.RETRY, NO_FACTS
            yield Event.GIVE_UP, NO_FACTS
        case State.TOOLING:
            yield Event.TOOLS_DONE, Facts(results_owed=True)
            yield Event.TOOLS_DONE, NO_FACTS
        case State.STOPPING:
            yield from _ends(at)
    if at.state in TURN_STATES:
        yield Event.CANCEL, NO_FACTS
        yield Event.FAIL, NO_FACTS


def _entries(at: _At) -> Iterator[tuple[Event, Facts]]:
    """Yield how a step is entered; a hook may empty it, but never take owed results away."""
    yield Event.ENTER, Facts(has_input=at.batch, results_owed=at.owed)
    if not at.owed:
        yield Event.ENTER, Facts(prompt_queued=True)
        yield Event.ENTER, NO_FACTS
    yield Event.REJECT, NO_FACTS


def _requests() -> Iterator[tuple[Event, Facts]]:
    yield Event.REQUEST_FAILED, Facts(dispatched=True)
    yield Event.RESPOND, Facts(has_tool_calls=True, dispatched=True)
    yield Event.RESPOND, Facts(dispatched=True)
    yield Event.CANCEL, Facts(dispatched=True, has_text=True)
    yield Event.CANCEL, Facts(dispatched=True)
    yield Event.FAIL, Facts(dispatched=True)


def _ends(at: _At) -> Iterator[tuple[Event, Facts]]:
    """Yield what a step can lead to; owed results are always seen, unless a hook ends the turn."""
    if at.owed:
        yield Event.SETTLE, Facts(results_owed=True)
        yield Event.SETTLE, Facts(results_owed=True, must_stop=True)
    else:
        yield Event.SETTLE, Facts(next_step_pending=True)
        yield Event.SETTLE, Facts(prompt_queued=True)
        yield Event.SETTLE, NO_FACTS


def _after(at: _At, event: Event, facts: Facts, target: State) -> _At:
    """Return where a row leads, with what is owed there."""
    if target is State.CLAIMING:
        owed = event is Event.SETTLE and facts.results_owed
        return _At(target, owed, batch=not owed)
    if event is Event.CLAIMED:
        return at._replace(state=target)
    return _At(target, owed=event is Event.TOOLS_DONE and facts.results_owed)
