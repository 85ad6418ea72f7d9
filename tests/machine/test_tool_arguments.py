"""Arguments as models give them."""

import pytest

from turnchart.machine.tool_arguments import ToolArgumentError, echo, json_object


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("[1]", "they must be a JSON object, not list"),
        ("null", "they must be a JSON object, not null"),
        ("{", "they must be a JSON object: "),
        ('{"a": NaN}', "NaN is no JSON number"),
        ("[" * 100_000, "nested too deeply"),
        ('{"a": ' + "9" * 5_000 + "}", "they must be a JSON object: "),
    ],
)
def test_text_that_is_no_object_is_an_argument_error(given: str, says: str) -> None:
    with pytest.raises(ToolArgumentError) as caught:
        json_object("add", given)
    assert says in str(caught.value)
    assert caught.value.problems[0][0] == ""
    assert len(str(caught.value)) < 800


@pytest.mark.parametrize("given", ["", "  \n", "{}"])
def test_no_text_is_the_empty_object(given: str) -> None:
    assert json_object("look", given) == {}


def test_what_is_echoed_is_cut_and_never_fails() -> None:
    circle: list[object] = []
    circle.append(circle)
    assert echo("x" * 30, 20) == "x" * 20 + "... (30 characters)"
    assert echo(circle, 20) == "a list that is no JSON"


def test_an_object_is_taken_as_it_is() -> None:
    given = {"a": 1}
    assert json_object("add", given) is given
    assert json_object("add", '{"a": [1]}') == {"a": [1]}
