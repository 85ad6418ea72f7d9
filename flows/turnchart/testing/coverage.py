"""How much of the lifecycle agents walked: states, edges, outcomes of guards, and pairs of rows.

What counts as all of it is what the generated paths reach, so every measure can come to 100 %.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from typing import Final, Literal, get_args

from turnchart.machine.agent import Agent
from turnchart.machine.driver import Driver
from turnchart.machine.records import record
from turnchart.machine.states import State
from turnchart.machine.table import LIFECYCLE, Row, Table
from turnchart.machine.verdict import acted

Measure = Literal["states", "edges", "guards", "pairs", "hooks"]
MEASURES: Final[tuple[Measure, ...]] = get_args(Measure)
SHOWN: Final = 10
"""So many of the missing ones are shown of each measure."""


@record
class Part:
    """One measure.

    Attributes:
        name: What is counted.
        covered: How many were walked.
        whole: How many there are.
        missing: Those that never were, in words, in the order of the table.
    """

    name: Measure
    covered: int
    whole: int
    missing: tuple[str, ...]

    @property
    def percent(self) -> float:
        """From 0 to 100; 100 where there is nothing to cover."""
        return 100 * self.covered / self.whole if self.whole else 100.0


class LifecycleCoverage:
    """Counts what agents walk. ``counting()`` counts every agent that is made in its body.

    A run that was walked elsewhere is added with ``add(agent.walk())``.
    """

    def __init__(self, table: Table = LIFECYCLE) -> None:
        self._table = table
        self._rows: set[Row] = set()
        self._pairs: set[tuple[Row, Row]] = set()
        self._agents: list[Agent] = []
        self._hooks: dict[str, bool] = {}

    @contextmanager
    def counting(self) -> Generator["LifecycleCoverage"]:
        """Count every agent that is made in the body, wherever that happens."""
        stop = self.start()
        try:
            yield self
        finally:
            stop()

    def start(self) -> Callable[[], None]:
        """Count every agent that is made from now on; call what is returned to stop that."""
        before = Driver.counted

        def count(driver: Driver) -> Callable[[Row], object]:
            if isinstance(driver, Agent):
                self._agents.append(driver)
            return _Walker(self._take, before(driver) if before is not None else None)

        def stop() -> None:
            self.settle()
            Driver.counted = before

        Driver.counted = count
        return stop

    def add(self, rows: Iterable[Row]) -> None:
        """Count a walk."""
        walker = _Walker(self._take, None)
        for row in rows:
            walker(row)

    def settle(self) -> None:
        """Count the hooks of the agents that were made since the last time, and let go of these.

        What their hooks do after that is not counted; the rows are.
        """
        agents, self._agents = self._agents, []
        for agent in agents:
            for chain in agent.chains.values():
                for hook in (hook for hook in chain.hooks if hook.where):
                    self._hooks.setdefault(_hook(chain.point, hook.id, hook.where), False)
            for entry in agent.session.entries if self._hooks else ():
                if entry.type == "hook/result" and acted(entry.data):
                    name = _hook(entry.data["point"], entry.data["id"], entry.data.get("where") or "")
                    if name in self._hooks:
                        self._hooks[name] = True

    def parts(self) -> tuple[Part, ...]:
        """Return every measure; hooks only where agents had some that a file names."""
        whole = _reachable(self._table)
        taken = _names(self._table, self._rows, self._pairs)
        parts = [_part(name, taken[name], whole[name]) for name in MEASURES if name != "hooks"]
        if self._hooks:
            acted = [name for name, acts in self._hooks.items() if acts]
            parts.append(_part("hooks", acted, list(self._hooks)))
        return tuple(parts)

    def report(self, shown: int | None = SHOWN) -> str:
        """Return a line for each measure, and below it what is missing; at most so many, None for all."""
        parts = self.parts()
        return "\n".join(line for part in parts for line in _told(part, shown))

    def below(self, least: Mapping[Measure, float]) -> tuple[str, ...]:
        """Return in words which measures are below what is asked, in percent."""
        parts = [part for part in self.parts() if part.percent < least.get(part.name, 0)]
        return tuple(f"{part.name} {_percent(part)} is less than {least[part.name]:g} %" for part in parts)

    def _take(self, before: Row | None, row: Row) -> None:
        self._rows.add(row)
        if before is not None and before.target is row.source:
            self._pairs.add((before, row))


class _Walker:
    """Takes the rows of one agent, in their order."""

    __slots__ = ("_before", "_take", "_then")

    def __init__(self, take: Callable[[Row | None, Row], None], then: Callable[[Row], object] | None) -> None:
        self._take = take
        self._then = then
        self._before: Row | None = None

    def __call__(self, row: Row) -> None:
        self._take(self._before, row)
        self._before = row
        if self._then is not None:
            self._then(row)


def least_of(texts: Sequence[str]) -> dict[Measure, float]:
    """Return what is asked of each measure: ``90`` is asked of all but hooks, ``edges=100`` of one.

    Raises:
        ValueError: If a text is neither.
    """
    found: dict[Measure, float] = {}
    for text in texts:
        name, _, number = text.rpartition("=")
        named: list[Measure] = [
            measure for measure in MEASURES if measure == name or (not name and measure != "hooks")
        ]
        try:
            value = float(number)
        except ValueError:
            value = -1.0
        if not named or not 0 <= value <= 100:
            known = ", ".join(MEASURES)
            raise ValueError(f"{text!r} is neither a percentage nor MEASURE=PERCENTAGE, of: {known}")
        for measure in named:
            found[measure] = value
    return found


def _names(table: Table, rows: Iterable[Row], pairs: Iterable[tuple[Row, Row]]) -> dict[Measure, set[str]]:
    taken = set(rows)
    return {
        "states": {state for row in taken for state in (row.source, row.target)},
        "edges": {f"{row.source} {row.event} {row.target}" for row in taken},
        "guards": {outcome for row in taken for outcome in _outcomes(row, table)},
        "pairs": {f"{_row(one)} > {_row(other)}" for one, other in pairs},
    }


def _outcomes(row: Row, table: Table) -> Iterator[str]:
    """Yield how the guards came out that were asked before this row was taken."""
    for other in table.rows:
        if other[:2] == row[:2] and other.guard:
            holds = "holds" if other == row else "does not hold"
            yield f"{other.source} {other.event}: {other.guard} {holds}"
        if other == row:
            return


def _row(row: Row) -> str:
    return f"{row.source} {row.event}{f' if {row.guard}' if row.guard else ''}"


@cache
def _reachable(table: Table) -> Mapping[Measure, Sequence[str]]:
    """Return all that the generated paths reach, in the order of the table."""
    rows: dict[Row, None] = {}
    pairs: dict[tuple[Row, Row], None] = {}
    for path in (*table.paths("guards", max_length=100), *table.paths("pairs", max_length=100)):
        taken = [table.transition(step.state, step.event, step.facts) for step in path.steps]
        rows |= dict.fromkeys(taken)
        pairs |= dict.fromkeys(pairwise(taken))
    place = {row[:3]: i for i, row in enumerate(table.rows)}
    ordered = sorted(rows, key=lambda row: place[row[:3]])
    follow = sorted(pairs, key=lambda pair: (place[pair[0][:3]], place[pair[1][:3]]))
    seen = _names(table, ordered, follow)
    return {
        "states": [state for state in State if state in seen["states"]],
        "edges": list(dict.fromkeys(f"{row.source} {row.event} {row.target}" for row in ordered)),
        "guards": list(dict.fromkeys(outcome for row in ordered for outcome in _outcomes(row, table))),
        "pairs": [f"{_row(one)} > {_row(other)}" for one, other in follow],
    }


def _part(name: Measure, taken: Iterable[str], whole: Sequence[str]) -> Part:
    walked = set(taken)
    missing = tuple(each for each in whole if each not in walked)
    return Part(name, len(whole) - len(missing), len(whole), missing)


def _told(part: Part, shown: int | None) -> Iterator[str]:
    yield f"{part.name:<7} {part.covered:>3} of {part.whole:<3} {_percent(part):>6}"
    missing = part.missing if shown is None else part.missing[:shown]
    yield from (f"    never: {each}" for each in missing)
    if len(missing) < len(part.missing):
        yield f"    and {len(part.missing) - len(missing)} more"


def _percent(part: Part) -> str:
    """Return the percentage; 100 only where nothing is missing."""
    return "100 %" if part.covered == part.whole else f"{min(part.percent, 99.9):.1f} %"


def _hook(point: str, id: str, where: str) -> str:
    return f"{point} {id} ({where})"
