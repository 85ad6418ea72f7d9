"""The fields of messages and blocks: each has its type from the beginning."""

from enum import Enum
from math import inf, nan
from typing import Any

import pytest

from turnchart.machine.message_fields import check_fields, plain, seconds


class Shade(str, Enum):  # noqa: UP042  # the old kind, whose str() is its name
    DARK = "dark"


def test_text_is_plain_text() -> None:
    assert plain("text", "hi") == "hi"
    assert (plain("text", Shade.DARK), type(plain("text", Shade.DARK))) == ("dark", str)


@pytest.mark.parametrize("value", [None, 5, b"x", ["x"], object()])
def test_everything_else_is_refused_by_name(value: Any) -> None:
    with pytest.raises(TypeError, match=f"id must be text, not {type(value).__name__}"):
        plain("id", value)


class Seconds(float):
    """A number of a kind of its own."""


def test_times_are_finite_numbers() -> None:
    assert [seconds(each) for each in (0, 1.5, Seconds(2))] == [0.0, 1.5, 2.0]
    assert {type(seconds(each)) for each in (0, Seconds(2))} == {float}


@pytest.mark.parametrize("value", [nan, inf, -inf, "noon", None, True, Seconds(nan)])
def test_other_times_are_refused(value: Any) -> None:
    with pytest.raises(TypeError, match="time must be a number of seconds, not"):
        seconds(value)


def test_known_fields_have_their_types_and_others_are_free() -> None:
    check_fields({"id": "a", "time": 1, "is_error": False, "arguments": {}, "mine": 5})


@pytest.mark.parametrize(
    ("name", "value"),
    [("id", 5), ("source", None), ("time", "noon"), ("is_error", 1), ("arguments", []), ("text", ["a"])],
)
def test_a_field_of_another_type_is_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(TypeError, match=f"`{name}` of a message or block is "):
        check_fields({name: value})
