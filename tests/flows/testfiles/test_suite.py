from typing import get_args

import pytest

from turnchart.flows.testfiles.suite import ANY, Place, PointName, Reason, TextRule, Word
from turnchart.machine import LIFECYCLE, State
from turnchart.machine.points import POINTS


def test_the_words_are_those_of_the_machine() -> None:
    assert set(get_args(Reason)) == {reason for row in LIFECYCLE.rows for reason in row.reasons}
    assert get_args(PointName) == tuple(POINTS)
    assert get_args(Place) == (*State, ANY)
    words = {decision.word for point in POINTS.values() for decision in point.decisions}
    assert set(get_args(Word)) == words


@pytest.mark.parametrize(
    ("rule", "text", "holds"),
    [
        ("Hello.", "Hello.", True),
        ("Hello.\n", "Hello.", True),
        ("Hello", "Hello.", False),
        ({"matches": "^H.*o"}, "Hello.", True),
        ({"matches": "^h"}, "Hello.", False),
        ({"equals": "Hello.", "matches": "x"}, "Hello.", False),
    ],
)
def test_a_text_is_just_this_or_matches_a_pattern(rule: object, text: str, holds: bool) -> None:
    assert TextRule.model_validate(rule).holds(text) is holds
