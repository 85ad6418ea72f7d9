"""What hooks may decide."""

from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from turnchart.machine import UserMessage, decisions
from turnchart.machine.decisions import Decision, Enter, Retry, Summary
from turnchart.machine.points import POINTS

EVERY = [
    each
    for each in vars(decisions).values()
    if isinstance(each, type) and issubclass(each, Decision) and each is not Decision
    if not each.__name__.startswith("_")
]


def made(kind: type[Decision]) -> Decision:
    return Enter((UserMessage("x"),)) if kind is Enter else kind()


@pytest.mark.parametrize("kind", EVERY)
def test_it_has_a_word_of_its_own_and_some_point_takes_it(kind: type[Decision]) -> None:
    assert kind.word
    assert [each for each in EVERY if each.word == kind.word] == [kind]
    assert any(kind in point.decisions for point in POINTS.values())


@pytest.mark.parametrize("kind", EVERY)
def test_it_is_frozen_and_equal_to_its_like(kind: type[Decision]) -> None:
    decision = made(kind)
    assert decision == made(kind)
    with pytest.raises((FrozenInstanceError, AttributeError, TypeError)):
        decision.reason = "other"  # type: ignore[attr-defined]  # on purpose


def test_decisions_of_two_kinds_are_never_equal() -> None:
    for kind in EVERY:
        assert [each for each in EVERY if made(each) == made(kind)] == [kind]


def test_the_words_are_those_that_programs_write() -> None:
    words = {"enter", "reject", "retry", "give_up", "allow", "ask", "deny", "stop", "continue", "add_context"}
    assert {kind.word for kind in EVERY} == words | {"block", "veto", "summary"}


def test_a_retry_is_at_once_and_with_the_same_model_unless_it_says_otherwise() -> None:
    assert (Retry().after, Retry().model) == (0, None)
    assert Retry(2.5, "other") == Retry(after=2.5, model="other")


def test_reasons_and_texts_are_positional() -> None:
    reasons: list[Any] = [kind for kind in EVERY if hasattr(made(kind), "reason")]
    assert len(reasons) == 9
    assert all(kind("why").reason == "why" for kind in reasons)
    assert Summary("short").text == "short"
