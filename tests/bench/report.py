"""The tables: every peer beside the floor, and Turnchart beside its goals."""

from collections.abc import Sequence
from typing import NamedTuple

from tests.bench import durable, startup, wire
from tests.bench.rounds import Results

FLOOR = "bare"
UNITS = {"g": "KiB", "first": "ms", "durable": "ms", "turns": "/s"} | dict.fromkeys(
    ("a", "b", "c", "d", "e", "p", "s", "t", "wire"), "µs"
)


class Goal(NamedTuple):
    """What a figure of Turnchart may be at most.

    Attributes:
        figure: Its name.
        most: How often its floor, or in its unit where it has none.
        floor: The peer and the figure that it is compared with.
    """

    figure: str
    most: float
    floor: tuple[str, str] | None


class Judged(NamedTuple):
    """A figure beside its goal. ``found`` and ``most`` are multiples of ``floor``, or in ``unit``."""

    figure: str
    value: float
    unit: str
    floor: str
    found: float
    most: float | None

    @property
    def mark(self) -> str:
        """Say whether the goal is met."""
        return "" if self.most is None else "met" if self.found <= self.most else "MISSED"


def _of_floor(figure: str, most: float, reference: float) -> Goal:
    """Return a goal that was set where the floor took ``reference``: what counts is the ratio."""
    return Goal(figure, most / reference, (FLOOR, figure.split()[0]))


def _beside(figure: str, most: float, floor: str) -> Goal:
    """Return a goal beside another figure of Turnchart's own."""
    return Goal(figure, most, ("turnchart", floor))


def _of_start(figure: str, most: float) -> Goal:
    return Goal(figure, most, ("turnchart", startup.FLOOR))


GOALS = (
    _of_floor("a", 70, 0.7),
    _of_floor("b", 120, 14),
    _of_floor("c", 400, 64),
    _of_floor("d", 1, 0.36),
    _of_floor("a jsonl", 150, 0.7),
    _of_floor("b jsonl", 250, 14),
    _of_floor("c jsonl", 600, 64),
    Goal("e10000", 1.2, ("turnchart", "e100")),
    Goal("g agent", 3, None),
    Goal("g conversation", 8, None),
    _of_floor("h", 0.15, 0.06),
    _beside("s JSONL append", 2, "s json.dumps + os.write"),
    _beside("s SQLite append", 2, "s json.dumps + INSERT, WAL NORMAL"),
    _beside("s JSONL session", 3, "s json.loads of each line"),
    _beside("s SQLite session", 3, "s json.loads of each line"),
    _beside("t100000", 1.2, "t100"),
    _beside("p last memory", 1.2, "p first memory"),
    _beside("p last jsonl", 1.2, "p first jsonl"),
    _beside("p last sqlite", 1.2, "p first sqlite"),
    Goal("diagram state", 2, None),
    Goal("diagram sequence", 2, None),
    Goal("verify log", 2, None),
    _of_start("--help", 2.5),
    _of_start("check", 2.5),
    _of_start("check sketch", 2.5),
    _of_start("show --resolved", 3.5),
    _of_start("diagram", 3.5),
    _of_start(startup.FIRST_LINE, 3),
    Goal("load 1,000 lines", 0.05, None),
    Goal("first character", 20, None),
    Goal("first character, 90 %", 40, None),
    _beside(durable.STEP, 1.2, durable.PLAIN),
    *(_beside(wire.OURS.format(name), 1.3, wire.BARE.format(name)) for name in wire.FORMATS),
)


def goals(results: Results) -> list[Judged]:
    """Return the figures of Turnchart: first those that can be judged, then those without goal or floor."""
    judged = [found for goal in GOALS if (found := _judged(results, goal)) is not None]
    known = {each.figure for each in judged}
    others = [name for name in results.rounds.get("turnchart", {}) if name not in known]
    return judged + [_without_goal(results, name) for name in others]


def _without_goal(results: Results, name: str) -> Judged:
    value = results.value("turnchart", name) or 0
    floor = results.value(FLOOR, name.split()[0])
    return Judged(name, value, unit(name), FLOOR, value / floor if floor else 0, None)


def _judged(results: Results, goal: Goal) -> Judged | None:
    value, measured = results.value("turnchart", goal.figure), unit(goal.figure)
    if value is None:
        return None
    if goal.floor is None:
        return Judged(goal.figure, value, measured, "", value, goal.most)
    peer, figure = goal.floor
    floor = results.value(peer, figure)
    named = FLOOR if peer == FLOOR else figure
    return Judged(goal.figure, value, measured, named, value / floor, goal.most) if floor else None


def unit(figure: str) -> str:
    """Return the unit of a figure: times of a turn in microseconds, memory in KiB, the others in seconds."""
    row = figure.split()[0].rstrip("0123456789")
    return UNITS.get(row, "s")


# -- as text -----------------------------------------------------------------------------------


def beside_peers(results: Results) -> str:
    """Return a table with a line a figure and a column a peer; in parentheses the multiple of the floor."""
    peers = list(results.rounds)
    names = [name for name in _figures(results) if any(_of(results, peer, name) for peer in peers)]
    lines = [[f"{name}, {unit(name)}", *[_of(results, peer, name) for peer in peers]] for name in names]
    return table(["figure", *peers], lines) if lines else ""


def _figures(results: Results) -> list[str]:
    """Return the figures that more than one peer has."""
    found = [name for figures in results.rounds.values() for name in figures]
    return [name for name in dict.fromkeys(found) if found.count(name) > 1]


def _of(results: Results, peer: str, name: str) -> str:
    value, floor = results.value(peer, name), results.value(FLOOR, name)
    if value is None:
        return ""
    return number(value) if not floor or peer == FLOOR else f"{number(value)} ({number(value / floor)} x)"


def table_of_goals(judged: Sequence[Judged]) -> str:
    """Return a table with a line a figure: what was found, what the goal allows, and whether it is met."""
    return table(
        ["turnchart", "found", "of its floor", "goal", ""],
        [
            [
                each.figure,
                f"{number(each.value)} {each.unit}",
                f"{number(each.found)} x {each.floor}" if each.floor and each.found else "",
                "" if each.most is None else f"{number(each.most)} {'x' if each.floor else each.unit}",
                each.mark,
            ]
            for each in judged
        ],
    )


def number(value: float) -> str:
    """Return a figure with as many digits as it deserves."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown, whose columns are as wide as they must be."""
    widths = [max(len(line[i]) for line in [head, *lines]) for i in range(len(head))]
    rule = ["-" * widths[0], *["-" * (width - 1) + ":" for width in widths[1:]]]
    padded = [
        "| " + " | ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])]) + " |"
        for line in [head, rule, *lines]
    ]
    return "\n".join([*padded, ""])
