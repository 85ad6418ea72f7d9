"""The tree of errors is the one that its docstring draws, and messages carry their facts."""

import inspect
import re

import pytest

from turnchart.machine import errors
from turnchart.machine.errors import (
    AgentBusy,
    AppendRefused,
    HookFailed,
    RequestFailed,
    TransitionError,
    TurnchartError,
    TurnFailed,
    named_text_of,
    text_of,
)
from turnchart.machine.messages import Failure
from turnchart.machine.states import Event, State


def drawn() -> dict[str, str]:
    """Return the parent of each class that the docstring draws."""
    parents: dict[str, str] = {}
    above = ["TurnchartError"]
    for line in inspect.cleandoc(errors.__doc__ or "").splitlines():
        found = re.match(r"^([│├└─ ]+)(\w+) ", line)
        if found:
            depth = len(found[1]) // 4
            above[depth:] = [found[2]]
            parents[found[2]] = above[depth - 1]
    return parents


def test_the_docstring_draws_the_tree() -> None:
    classes = {
        name: each.__base__.__name__
        for name, each in inspect.getmembers(errors, inspect.isclass)
        if each.__module__ == errors.__name__ and each is not TurnchartError and each.__base__
    }
    assert drawn() == classes


@pytest.mark.parametrize("name", drawn())
def test_every_error_is_one_of_ours_and_says_what_it_is(name: str) -> None:
    found = getattr(errors, name)
    assert issubclass(found, TurnchartError)
    assert found.__doc__


def test_a_transition_error_says_what_the_state_takes() -> None:
    error = TransitionError(State.IDLE, Event.RESPOND, (Event.WAKE, Event.MAINTAIN))
    assert str(error) == "state `idle` does not take event `respond`; it takes wake, maintain"
    assert (error.state, error.event, error.accepted, error.guard) == (
        State.IDLE, Event.RESPOND, (Event.WAKE, Event.MAINTAIN), None,
    )  # fmt: skip
    guarded = TransitionError(State.PRE_STEP, Event.ENTER, (), "request_due")
    assert str(guarded) == "state `pre_step` does not take event `enter` unless request_due; it takes nothing"


def test_agent_busy_names_the_ways_out() -> None:
    assert re.search(r"state `tooling`.*steer\(\).*follow_up\(\).*idle\(\)", str(AgentBusy(State.TOOLING)))


def test_errors_keep_their_facts() -> None:
    refused = AppendRefused("custom", "too long")
    assert (refused.type, refused.reason) == ("custom", "too long")
    assert str(refused) == "the entry `custom` was refused: too long"
    hook = HookFailed("pre_tool", "guard", "flow.yaml:3", "boom")
    assert (hook.point, hook.id, hook.where) == ("pre_tool", "guard", "flow.yaml:3")
    assert str(hook) == "hook `guard` (flow.yaml:3) on pre_tool failed: boom"
    assert str(HookFailed("pre_tool", "guard", "", "boom")) == "hook `guard` on pre_tool failed: boom"
    failed = RequestFailed(Failure("quota", message="no money left"), " after 5 attempts")
    assert failed.failure.kind == "quota"
    assert str(failed) == "model request failed (quota): no money left after 5 attempts"
    assert str(RequestFailed(Failure("quota"))) == "model request failed (quota)"
    assert TurnFailed("no turn took it").turn is None


class _Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def test_what_a_foreign_error_says_is_read_without_harm() -> None:
    assert [text_of(each) for each in (ValueError("no"), ValueError(), _Mute())] == ["no", "", ""]
    assert [named_text_of(each) for each in (ValueError("no"), ValueError(), _Mute())] == [
        "ValueError: no", "ValueError", "_Mute",
    ]  # fmt: skip
