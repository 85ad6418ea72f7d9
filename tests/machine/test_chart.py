"""The chart class alone; that the table agrees with it is shown in test_table."""

from typing import Any, cast

import pytest

from turnchart.machine import chart
from turnchart.machine.chart import Lifecycle, way
from turnchart.machine.entries import ENTRIES, SIGNALS
from turnchart.machine.points import POINTS
from turnchart.machine.says import Arrow, Block, Kind, Line, Silent
from turnchart.machine.states import Facts, State

TRANSITIONS = [transition for state in cast(Any, Lifecycle).states for transition in state.transitions]
LINES: list[Line] = [
    *(line for state in cast(Any, Lifecycle).states for line in state.says),
    *(line for transition in TRANSITIONS for line in way(transition).says),
]

CALLS = {"prepare", "stream", "poll_steering", "poll_follow_up", "pre_tool", "post_tool", "summarise"}
FAMILIES = {"writes"}


def flat(lines: list[Line]) -> list[Arrow | Silent]:
    found: list[Arrow | Silent] = []
    for line in lines:
        if isinstance(line, Block):
            found += flat(list(line.lines))
        elif isinstance(line, Arrow | Silent):
            found.append(line)
    return found


def test_the_chart_starts_idle_and_never_ends() -> None:
    states = list(cast(Any, Lifecycle).states)
    assert [state.id for state in states if state.initial] == [State.IDLE]
    assert not [state.id for state in states if state.final]


def test_every_transition_has_one_event_one_target_and_a_declared_way() -> None:
    for transition in TRANSITIONS:
        assert len(list(transition.events)) == len(list(transition.targets)) == 1
        assert way(transition).guard is None or hasattr(Facts(), str(way(transition).guard))


def test_the_machine_itself_performs_nothing() -> None:
    for transition in TRANSITIONS:
        assert not [spec for group in (transition.on, transition.before, transition.after)
                    for spec in group if not spec.is_convention]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "known"),
    [
        (Kind.LOG, set(ENTRIES) | FAMILIES),
        (Kind.EMIT, set(SIGNALS)),
        (Kind.HOOK, set(POINTS)),
        (Kind.CALL, CALLS),
        (Kind.REPLY, set[str]()),
    ],
)
def test_what_a_line_does_is_in_the_catalogues(kind: Kind, known: set[str]) -> None:
    does = {name.split(" ")[0] for line in flat(LINES) if line.kind is kind for name in line.does}
    assert does <= known


def test_a_point_acts_in_the_states_that_its_contract_names() -> None:
    says = {State(state.id): flat(list(state.says)) for state in cast(Any, Lifecycle).states}
    acting = {
        (name, state)
        for state, lines in says.items() for line in lines for name in line.does if name in POINTS
    }  # fmt: skip
    contract = {(point.name, state) for point in POINTS.values() for state in point.states}
    assert acting == contract


def test_every_silent_line_says_why_it_is_not_drawn() -> None:
    assert all(line.reason for line in flat(LINES) if isinstance(line, Silent))


def test_the_kinds_of_reasons_are_apart() -> None:
    assert not {*chart.CUT} & {*chart.NATURAL}
    assert not {*chart.BROKEN} & {*chart.NATURAL, *chart.CUT}
    assert {*chart.ON_GOING} < {*chart.NATURAL}
