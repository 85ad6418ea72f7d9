"""What a turn came to, for whoever prompted it."""

import pytest

from turnchart.machine import Turn, TurnFailed
from turnchart.machine.chart import ON_GOING
from turnchart.machine.table import LIFECYCLE

REASONS = sorted({reason for row in LIFECYCLE.rows for reason in row.reasons})


@pytest.mark.parametrize("reason", REASONS)
def test_a_turn_is_ok_where_it_goes_on_by_itself(reason: str) -> None:
    turn = Turn(1, reason)
    assert turn.ok is (reason in ON_GOING)


@pytest.mark.parametrize("reason", ON_GOING)
def test_checking_a_good_turn_gives_it_back(reason: str) -> None:
    turn = Turn(1, reason, text="hi")
    assert turn.check() is turn


def test_checking_another_one_raises_with_the_turn_and_its_cause() -> None:
    error = ValueError("boom")
    turn = Turn(3, "error", error=error)
    with pytest.raises(TurnFailed, match=r"^turn 3 ended as error: boom$") as caught:
        turn.check()
    assert caught.value.turn is turn
    assert caught.value.__cause__ is error


def test_without_an_error_it_says_the_reason_alone() -> None:
    with pytest.raises(TurnFailed, match=r"^turn 1 ended as blocked$") as caught:
        Turn(1, "blocked").check()
    assert caught.value.__cause__ is None


def test_a_turn_never_changes() -> None:
    with pytest.raises(AttributeError):
        Turn(1, "completed").text = "other"  # type: ignore[misc]  # on purpose
