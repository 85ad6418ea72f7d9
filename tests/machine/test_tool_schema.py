"""The schema of a function's parameters, and what is said of arguments that do not fit."""

from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from pydantic import AfterValidator, BaseModel, Field

from turnchart.machine.entries import Frozen, freeze
from turnchart.machine.tool_schema import Parameters, argument_texts
from turnchart.machine.tools import ToolArgumentError


class Point(BaseModel):
    """Where it is."""

    title: str
    x: int = 0


class Size(Enum):
    BIG = "big"
    SMALL = "small"


def draw(
    at: Point,
    copy: list[Point],
    size: Size = Size.BIG,
    *,
    json: Annotated[int, Field(ge=0, description="mine")] = 1,
    mode: Literal["a", "b"] | None = None,
) -> None:
    """Draw.

    Args:
        at: Where
            to draw.
        copy (list): Where else.
        json: Not this.
        *mode: How.

            Over a blank line.

    Returns:
        x: Not a parameter.
    """


def test_descriptions_come_from_the_docstring_unless_field_has_one() -> None:
    properties = Parameters("draw", draw).schema["properties"]
    assert {name: each.get("description") for name, each in properties.items()} == {
        "at": "Where to draw.",
        "copy": "Where else.",
        "size": None,
        "json": "mine",
        "mode": "How. Over a blank line.",
    }


def test_there_are_no_titles_but_those_of_the_user() -> None:
    schema = Parameters("draw", draw).schema
    assert schema["$defs"]["Point"] == {
        "description": "Where it is.",
        "properties": {"title": {"type": "string"}, "x": {"type": "integer", "default": 0}},
        "required": ("title",),
        "type": "object",
    }
    assert "title" not in schema
    assert schema["required"] == ("at", "copy")
    assert schema["additionalProperties"] is False


def test_a_default_named_title_survives() -> None:
    def note(where: dict[str, str] = {"title": "x"}) -> None:  # noqa: B006
        """Note."""

    assert Parameters("note", note).schema["properties"]["where"]["default"] == {"title": "x"}


def test_no_parameters_make_an_empty_object() -> None:
    def now() -> None:
        """Say the time."""

    assert Parameters("now", now).schema == {
        "type": "object",
        "properties": {},
        "additionalProperties": False,
    }
    assert Parameters("now", now).parse({}) == {}


def test_parsing_gives_the_types_that_the_function_declares() -> None:
    args = Parameters("draw", draw).parse(
        freeze({"at": {"title": "t", "x": "3"}, "copy": [], "size": "small"})
    )
    assert args == {"at": Point(title="t", x=3), "copy": [], "size": Size.SMALL, "json": 1, "mode": None}


def test_what_a_tool_gets_is_its_own_to_change() -> None:
    def keep(data: dict[str, Any], more: Any = None) -> None:
        """Keep."""

    given = {"data": {"list": [1, {"a": 2}]}, "more": [3]}
    for each in (given, freeze(given)):
        args = Parameters("keep", keep).parse(each)
        args["data"]["list"].append(4)
        args["data"]["list"][1]["a"] = 5
        args["more"].clear()
    assert given == {"data": {"list": [1, {"a": 2}]}, "more": [3]}


def test_mutable_defaults_are_not_shared() -> None:
    def collect(into: list[int] = []) -> None:  # noqa: B006
        """Collect."""

    parameters = Parameters("collect", collect)
    parameters.parse({})["into"].append(1)
    assert parameters.parse({}) == {"into": []}


def problems(given: dict[str, Any]) -> dict[str, str]:
    with pytest.raises(ToolArgumentError) as caught:
        Parameters("draw", draw).parse(given)
    return dict(caught.value.problems)


def test_each_wrong_field_is_named_with_what_was_expected() -> None:
    assert problems({"at": {"x": "no"}, "copy": [{"title": 1}], "json": -1, "colour": "red"}) == {
        "at.title": "is required and missing",
        "at.x": "Input should be a valid integer, unable to parse string as an integer, not no",
        "copy[0].title": "Input should be a valid string, not 1",
        "json": "Input should be greater than or equal to 0, not -1",
        "colour": "is unknown; the tool takes at, copy, size, json, mode",
    }


def test_the_message_lists_the_problems_and_echoes_what_came() -> None:
    with pytest.raises(ToolArgumentError) as caught:
        Parameters("draw", draw).parse({"copy": []})
    assert str(caught.value) == (
        'the arguments of tool `draw` are wrong:\n- `at`: is required and missing\nreceived: {"copy": []}'
    )


def test_a_flood_of_problems_and_of_text_is_cut() -> None:
    with pytest.raises(ToolArgumentError) as caught:
        Parameters("draw", draw).parse({"at": {"title": "x" * 9_000}, "copy": [{}] * 100})
    assert "- and 80 more\nreceived: " in str(caught.value)
    assert len(str(caught.value)) < 2_500
    assert len(caught.value.problems) == 100


def test_a_validator_that_raises_what_it_should_not_is_contained() -> None:
    def explode(value: int) -> int:
        raise LookupError("odd")

    def count(n: Annotated[int, AfterValidator(explode)]) -> None:
        """Count."""

    with pytest.raises(ToolArgumentError, match="they cannot be checked: LookupError: odd"):
        Parameters("count", count).parse({"n": 1})


def test_a_forbidden_field_inside_of_a_parameter() -> None:
    class Strict(BaseModel, extra="forbid"):
        a: int = 0

    def take(strict: Strict) -> None:
        """Take."""

    take.__annotations__["strict"] = Strict
    with pytest.raises(ToolArgumentError) as caught:
        Parameters("take", take).parse({"strict": {"b": 1}})
    assert caught.value.problems == (("strict.b", "is unknown; there is no such field"),)


def test_a_type_without_a_schema_is_refused_with_its_name() -> None:
    def take(thing: Parameters) -> None:
        """Take."""

    with pytest.raises(TypeError, match=r"tool `take`: a parameter's type has no JSON schema: .*Parameters"):
        Parameters("take", take)


def test_nesting_that_no_one_can_copy_is_an_argument_error() -> None:
    deep: Any = {}
    for _ in range(5_000):
        deep = {"a": deep}
    with pytest.raises(ToolArgumentError, match="cannot be checked"):
        Parameters("draw", draw).parse(Frozen(at=deep, copy=()))


def test_the_section_may_be_missing_and_ends_at_the_next() -> None:
    assert argument_texts("Do it.") == {}
    assert argument_texts("Do it.\n\nArgs:\n    a: one\n\nReturns:\n    b: two") == {"a": "one"}
    assert argument_texts("Do it.\n\nArgs:\n    no colon here\n    a: one") == {"a": "one"}
