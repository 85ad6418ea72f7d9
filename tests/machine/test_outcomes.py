"""What a tool may give back, and what is said of the rest."""

from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

from turnchart.machine.entries import Frozen, encode
from turnchart.machine.messages import Image, Text, Thinking, ToolCall
from turnchart.machine.outcomes import failed, outcome_of
from turnchart.machine.points import ToolOutcome


@pytest.mark.parametrize(
    ("value", "content"),
    [
        ("hi", (Text("hi"),)),
        ("", ()),
        (None, ()),
        (Text("a"), (Text("a"),)),
        ([Text("a"), Image("Yg==")], (Text("a"), Image("Yg=="))),
        ((Text("a"),), (Text("a"),)),
        (0, (Text("0"),)),
        (False, (Text("false"),)),
        ([], (Text("[]"),)),
        ({}, (Text("{}"),)),
        ({"a": [1, 2.5, None]}, (Text('{"a":[1,2.5,null]}'),)),
        ({"type": "text", "text": "a"}, (Text('{"type":"text","text":"a"}'),)),
        ("half \ud800", (Text("half ?"),)),
        ({"ä": "\udc80"}, (Text('{"ä":"?"}'),)),
    ],
)
def test_values_become_content(value: object, content: tuple[Text, ...]) -> None:
    assert outcome_of(value) == ToolOutcome(content)


class Colour(Enum):
    RED = 1


class Shade(str, Enum):  # noqa: UP042  # the old kind, whose str() is its name
    DARK = "dark"


def test_a_text_of_a_kind_of_its_own_is_plain_text() -> None:
    text = outcome_of(Shade.DARK).content[0]["text"]
    assert (text, type(text)) == ("dark", str)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (object(), "the tool returned a object, which cannot be shown"),
        (Path("a"), "the tool returned a PosixPath"),
        ({"at": {1, 2}}, "$.at is a set, which is not JSON"),
        ({1: 2}, "JSON keys are strings"),
        (float("nan"), "$ is nan"),
        ([Text("a"), object()], "$[1] is a object"),
        (
            ToolOutcome([{"type": "image", "data": "no base64!", "media_type": "image/png"}]),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # foreign
            "data must be base64: only base64 data is allowed",
        ),
        (Thinking("hm"), "not a block of type 'thinking'"),
        ([ToolCall("x")], "not a block of type 'tool_call'"),
        (Colour.RED, "the tool returned a Colour"),
        (ToolOutcome(details=object()), "the tool returned a ToolOutcome"),
        ((each for each in "ab"), "the tool returned a generator"),
    ],
)
def test_nonsense_is_an_error_that_names_its_type(value: object, says: str) -> None:
    outcome = outcome_of(value)
    assert says in outcome.content[0]["text"]
    assert outcome.content[0]["text"].endswith("return text, JSON, content blocks or a ToolOutcome")
    assert (outcome.is_error, outcome.outcome) == (True, "error")


def test_a_circle_is_an_error() -> None:
    circle: list[Any] = []
    circle.append(circle)
    assert "contains itself" in outcome_of(circle).content[0]["text"]


def test_an_outcome_keeps_what_it_says_and_can_be_logged() -> None:
    given = ToolOutcome((Text("a"),), {"n": [1]}, usage={"input": 3}, terminate=True, added_tools=("b",))
    kept = outcome_of(given)
    assert kept == replace(given, details={"n": (1,)})
    assert isinstance(kept.details, Frozen)
    assert encode([kept.details, kept.usage]) == '[{"n":[1]},{"input":3}]'


def test_an_outcome_with_text_for_content_is_put_right() -> None:
    assert outcome_of(ToolOutcome("text")).content == (Text("text"),)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def test_an_outcome_that_is_an_error_is_not_called_ok() -> None:
    assert outcome_of(ToolOutcome(is_error=True)).outcome == "error"
    assert outcome_of(ToolOutcome(is_error=True, outcome="denied")).outcome == "denied"


def test_a_failure_has_text_and_details() -> None:
    assert failed("no", details=Frozen(a=1)) == ToolOutcome((Text("no"),), {"a": 1}, True, outcome="error")
