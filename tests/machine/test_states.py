from typing import Any, cast

import pytest

from turnchart.machine.chart import Lifecycle
from turnchart.machine.states import NO_FACTS, TURN_STATES, Event, Facts, State


def test_the_states_are_those_of_the_chart() -> None:
    assert [state.value for state in State] == [state.id for state in cast(Any, Lifecycle).states]


def test_the_events_are_those_of_the_chart() -> None:
    events = {str(event) for event in cast(Any, Lifecycle).events}
    assert {event.value for event in Event} == events


def test_a_state_is_shown_as_the_chart_names_it() -> None:
    assert [state.shown for state in State] == [state.name for state in cast(Any, Lifecycle).states]


def test_the_states_of_a_turn() -> None:
    assert set(State) - TURN_STATES == {State.IDLE, State.MAINTENANCE}


@pytest.mark.parametrize(
    ("facts", "due"),
    [
        (NO_FACTS, (False, False, False, False)),
        (Facts(has_input=True), (True, False, False, False)),
        (Facts(results_owed=True), (True, True, False, False)),
        (Facts(next_step_pending=True), (False, False, True, False)),
        (Facts(prompt_queued=True), (False, False, False, True)),
        (Facts(True, True, True, True, True, must_stop=True), (True, False, False, False)),
    ],
)
def test_derived_facts(facts: Facts, due: tuple[bool, ...]) -> None:
    assert (facts.request_due, facts.results_due, facts.input_due, facts.prompt_due) == due


def test_no_fact_holds_unless_it_is_given() -> None:
    assert not any(NO_FACTS)
