from collections.abc import Callable
from typing import Any

import pytest

from turnchart.machine.interchange.fields import (
    Malformed,
    an_object,
    as_list,
    as_object,
    listed,
    named,
    nullable,
    optional,
    required,
)

RAW: dict[str, Any] = {
    "text": "x",
    "empty": "",
    "none": None,
    "list": (1,),
    "object": {"a": 1},
    "yes": True,
    "n": 7,
}


@pytest.mark.parametrize(
    ("read", "name", "value"),
    [
        (required, "text", "x"),
        (required, "empty", ""),
        (named, "text", "x"),
        (optional, "text", "x"),
        (optional, "none", ""),
        (optional, "nothing", ""),
        (nullable, "none", None),
        (nullable, "text", "x"),
        (listed, "list", (1,)),
        (an_object, "object", {"a": 1}),
    ],
)
def test_what_is_right_is_returned(read: Callable[..., Any], name: str, value: Any) -> None:
    assert read(RAW, name) == value


@pytest.mark.parametrize(
    ("read", "name", "path", "what"),
    [
        (required, "nothing", (), "`nothing` is missing; it must be text"),
        (required, "none", ("none",), "`none` is null; it must be text"),
        (required, "yes", ("yes",), "`yes` is true; it must be text"),
        (named, "empty", ("empty",), '`empty` is ""; it must be text that is not empty'),
        (optional, "n", ("n",), "`n` is 7; it must be text"),
        (nullable, "nothing", (), "`nothing` is missing; it must be text or null"),
        (nullable, "list", ("list",), "`list` is a list; it must be text or null"),
        (listed, "object", ("object",), "`object` is an object; it must be a list"),
        (an_object, "text", ("text",), '`text` is "x"; it must be an object'),
    ],
)
def test_what_is_wrong_is_named(
    read: Callable[..., Any], name: str, path: tuple[str, ...], what: str
) -> None:
    with pytest.raises(Malformed) as error:
        read(RAW, name)
    assert (error.value.path, str(error.value)) == (path, what)


def test_an_error_can_be_seen_from_further_out() -> None:
    error = Malformed(("text",), "wrong").below("content", 2)
    assert (error.path, error.what) == (("content", 2, "text"), "wrong")


def test_what_is_no_object_and_no_list() -> None:
    assert as_object([1]) is None
    assert as_list("text") is None
