"""One line a mistake: the code, the place, the length of the caret, and words of the message and the cure."""

import pytest
import yaml

from turnchart.flows import events
from turnchart.flows.problems import Problem
from turnchart.flows.source import read_text
from turnchart.flows.syntax import tag_name

CASES = [
    ("a: *_file", "yaml-alias", 1, 4, 6, "*_file has no anchor", "in quotes: '*_file'"),
    ("a: [*_file, b]", "yaml-alias", 1, 5, 6, "*_file has no anchor", "in quotes: '*_file'"),
    ("a: *.go", "yaml-alias", 1, 4, 4, '"*.go" is no alias', "in quotes: '*.go'"),
    ("a: [*, b]", "yaml-alias", 1, 5, 1, '"*" is no alias', "in quotes: '*'"),
    ("a: *x y", "yaml-syntax", 1, 7, 1, "not valid YAML", "a value cannot begin with *"),
    ('a: "\\d"', "yaml-syntax", 1, 5, 2, "\\d is no escape", "single quotes for patterns"),
    ("a: @x", "yaml-syntax", 1, 4, 1, "cannot begin with @", "in quotes: '@x'"),
    ("a: %x", "yaml-syntax", 1, 4, 1, "cannot begin with %", "in quotes: '%x'"),
    ("a: `x`", "yaml-syntax", 1, 4, 1, "cannot begin with `", "in quotes: 'x'"),
    ("a: &* x", "yaml-syntax", 1, 4, 2, '"&*" is no anchor', "in quotes"),
    ("a:\n\tb: 1", "yaml-tab", 2, 1, 1, "indented with a tab", "spaces only"),
    ("a:\n  \tb: 1\n\tc: 1\n\td: 1", "yaml-tab", 2, 3, 1, "indented with a tab", "2 other lines"),
    ("a: x\n\ty", "yaml-tab", 2, 1, 1, "indented with a tab", "spaces only"),
    ('a: "x', "yaml-syntax", 1, 4, 1, 'the quote " is never closed', 'close it with "'),
    ("a: 'it''s", "yaml-syntax", 1, 4, 1, "the quote ' is never closed", "an apostrophe is written twice"),
    ("a: [1, 2", "yaml-syntax", 1, 4, 1, "[ is never closed", "close it with ]"),
    ("a: {b: 1\n\n", "yaml-syntax", 1, 4, 1, "{ is never closed", "close it with }"),
    ("a: [1, 'x' y]", "yaml-syntax", 1, 12, 1, "a comma or ] is missing", "begins with [ on line 1"),
    ("a: b: c", "yaml-syntax", 1, 5, 1, "mapping values are not allowed", "put the value in quotes"),
    ("a: 1\n b: 2", "yaml-syntax", 2, 3, 1, "mapping values are not allowed", "like the key above"),
    ("a: 1\nfoo\nb: 2", "yaml-syntax", 2, 1, 3, "a key without a colon", "write key: value"),
    ('a: "x" y', "yaml-syntax", 1, 8, 1, "not valid YAML", "nothing may follow a closing quote"),
    ("- a\nb: c", "yaml-syntax", 2, 1, 1, "not valid YAML", "look at the indentation"),
    ("a: - b", "yaml-syntax", 1, 4, 1, "not valid YAML", "look at the indentation"),
    ("[" * 1500, "yaml-depth", 1, None, 1, "nested deeper than 100", ""),
    ("a: [" + "[" * 150 + "]" * 151, "yaml-depth", 1, None, 1, "nested deeper than 100", ""),
]


@pytest.fixture(params=["CLoader", "Loader"])
def _parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.setattr(events, "_PARSER", getattr(yaml, request.param))


@pytest.mark.usefixtures("_parser")
@pytest.mark.parametrize("case", CASES, ids=[case[0][:20] for case in CASES])
def test_mistakes_are_said_with_their_place_and_cure_by_both_parsers(
    case: tuple[str, str, int, int | None, int, str, str],
) -> None:
    text, code, line, column, length, message, help = case
    problems = read_text(text, "a.yaml").problems
    assert problems
    found: Problem = problems[0]
    assert (found.code, found.line, found.length) == (code, line, length)
    assert column in (None, found.column)
    assert message in found.message
    assert help in found.help


def test_tags_are_named_as_people_write_them() -> None:
    assert tag_name("tag:yaml.org,2002:python/name:x") == "!!python/name:x"
    assert tag_name("!x") == "!x"
