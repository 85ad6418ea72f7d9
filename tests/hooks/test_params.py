"""The types of parameters that YAML writes."""

import re
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field, TypeAdapter, ValidationError

from turnchart.hooks.params import Command, Glob, InRoot, Path, Pattern, meaning_of


def test_a_pattern_arrives_compiled() -> None:
    adapter = TypeAdapter(list[Pattern])
    assert adapter.validate_python(["a+", re.compile("b")]) == [re.compile("a+"), re.compile("b")]
    assert adapter.json_schema() == {"type": "array", "items": {"type": "string", "format": "regex"}}


def test_a_broken_pattern_says_where_and_why() -> None:
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(list[Pattern]).validate_python(["ok", "rm -rf ("])
    (error,) = caught.value.errors()
    assert error["loc"] == (1,)
    assert error["type"] == "regex"
    assert error["msg"] == (
        "not a valid regular expression: missing ), unterminated subpattern at position 7"
    )
    with pytest.raises(ValidationError, match="valid pattern"):
        TypeAdapter(Pattern).validate_python(5)


def test_a_command_is_a_list_of_words() -> None:
    adapter = TypeAdapter(Command)
    assert adapter.validate_python(["pytest", "-q"]) == ["pytest", "-q"]
    for wrong in ([], [""], "pytest -q", [1]):
        with pytest.raises(ValidationError):
            adapter.validate_python(wrong)


@pytest.mark.parametrize("path", ["logs/a.jsonl", "a", "./a", "a..b/c"])
def test_a_path_below_the_root(path: str) -> None:
    assert TypeAdapter(InRoot).validate_python(path) == path


@pytest.mark.parametrize(
    "path", ["", "/etc/passwd", "../a", "a/../../b", "C:\\a", "\\\\host\\a", "a\\..\\b", "C:a"]
)
def test_a_path_that_leads_out_of_the_root_is_refused(path: str) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(InRoot).validate_python(path)


@pytest.mark.parametrize(
    ("annotation", "meaning"),
    [
        (str, ""),
        (list[str], ""),
        (Literal["a"], ""),
        (Annotated[int, Field(gt=1)], ""),
        (Pattern, "pattern"),
        (list[Glob], "glob"),
        (Command, "command"),
        (Path | None, "path"),
        (dict[str, InRoot], "in_root"),
    ],
)
def test_what_a_parameter_stands_for(annotation: Any, meaning: str) -> None:
    assert meaning_of(annotation) == meaning
