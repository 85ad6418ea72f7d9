import re
from typing import Annotated, Any, Literal

import pytest
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from turnchart.flows.problems import Problem
from turnchart.flows.source import AnyNode, MapNode, Scalar, read_text
from turnchart.flows.validate import Reading, dotted, find, flow_item, shown


def _even(value: int) -> int:
    if value % 2:
        raise ValueError("it must be even, they say")
    return value


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    count: int = Field(default=0, ge=1)
    names: list[str] = []


class Params(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    need: str
    mode: Literal["all", "one"] = "all"
    inner: Inner = Inner()
    either: str | list[int] = ""
    even: Annotated[int, AfterValidator(_even)] = 0
    regex: re.Pattern[str] = re.compile("")
    code: Annotated[str, Field(pattern="^[a-z]$")] = "a"
    on: bool = False


def node_of(text: str) -> AnyNode:
    root = read_text(text, "f").root
    assert root is not None
    return root


def read(text: str, **env: str) -> tuple[Params | None, list[Problem]]:
    root, reading = node_of(text), Reading(env)
    return reading.valid(Params, root, ("with",), reading.plain(root)), reading.problems


@pytest.mark.parametrize(
    ("text", "code", "line", "column", "message"),
    [
        ("need: a\nmore: b", "unknown-key", 2, 1, 'unknown key "more" in with'),
        ("need: a\ninner: {cont: 1}", "unknown-key", 2, 9, 'unknown key "cont" in with.inner'),
        ("mode: all", "missing-key", 1, 1, "with.need is missing"),
        ("nead: a", "unknown-key", 1, 1, 'unknown key "nead" in with'),  # and no word of the missing one
        ("need: 1", "bad-value", 1, 7, "with.need is 1; it must be text"),
        ("need: [a]", "bad-value", 1, 7, "with.need is a list; it must be text"),
        ("need: {a: b}", "bad-value", 1, 7, "with.need is a map; it must be text"),
        ("need:", "bad-value", 1, 6, "with.need is empty; it must be text"),
        ("need: a\nmode: al", "bad-value", 2, 7, 'with.mode is "al"; it must be one of: all, one'),
        ("need: a\ninner: {count: 0}", "bad-value", 2, 16, "with.inner.count is 0; it must be at least 1"),
        (
            "need: a\ninner: {count: '3'}",
            "bad-value",
            2,
            16,
            'with.inner.count is "3"; it must be a whole number',
        ),
        ("need: a\ninner: {names: [a, 1]}", "bad-value", 2, 20, "with.inner.names[1] is 1; it must be text"),
        ("need: a\ninner: {names: a}", "bad-value", 2, 16, 'with.inner.names is "a"; it must be a list'),
        ("need: a\ninner: x", "bad-value", 2, 8, 'with.inner is "x"; it must be a map'),
        (
            "need: a\neither: 5",
            "bad-value",
            2,
            9,
            "with.either is 5; it must be text",
        ),  # once, not per branch
        ("need: a\nregex: (", "regex", 2, 8, "with.regex: not a valid regular expression"),
        ("need: a\ncode: A", "bad-value", 2, 7, 'with.code is "A"; it must be text that matches ^[a-z]$'),
        ("need: a\non: [yes]", "bad-value", 2, 5, "with.on is a list; it must be true or false"),
        ("need: a\neven: 3", "bad-value", 2, 7, "with.even: it must be even, they say"),
    ],
)
def test_errors_of_pydantic_become_problems_with_a_place(
    text: str, code: str, line: int, column: int, message: str
) -> None:
    (problem,) = read(text)[1]
    assert (problem.code, problem.line, problem.column, problem.message) == (code, line, column, message)


def test_what_is_right_is_kept() -> None:
    params, problems = read("need: a\nmode: al\nzz: 1\ninner: {count: 3}")
    assert params == Params(need="a", inner=Inner(count=3))
    assert len(problems) == 2
    assert read("mode: al")[0] is None


@pytest.mark.parametrize(
    ("text", "cure"),
    [
        ("need: 1.0", "put it in quotes: '1.0'"),
        ("need: {a: b}", 'text that holds ": " goes in quotes'),
        ("need: [a]", "write one value, without brackets or dashes"),
        ("need: a\ninner: {count: '3'}", "write 3 without quotes"),
        ("need: a\ninner: {names: 'a, b|c d'}", "write [a, b, c, d]"),
        ("need: a\non: off", "write false"),
        ("need: a\non: maybe", ""),
        ("need: a\ninner: {names: '9999999999'}", "write ['9999999999']"),
        ("need: a\ninner: {names: }", "write [] for an empty list, or leave the key out"),
        ("need: a\ninner: {names: {a: b}}", "begin the entry with a dash: - key: value"),
    ],
)
def test_the_usual_mistakes_have_a_cure(text: str, cure: str) -> None:
    assert read(text)[1][0].help == cure


def test_references_are_typed_by_the_field_that_they_stand_in() -> None:
    text = 'need: ${env:A}\ninner:\n  count: ${env:A}\n  names: ["${env:A}"]\neither: [1]\n'
    params, problems = read(text, A="5")
    assert problems == []
    assert params == Params(need="5", inner=Inner(count=5, names=["5"]), either=[1])
    assert [p.message for p in read("need: a\ninner:\n  count: ${env:A}\n", A="x")[1]] == [
        'with.inner.count is "${env:A}"; it must be a whole number'
    ]


def test_what_is_not_known_is_not_judged() -> None:
    assert [p.code for p in read("need: ${env:A}\ninner:\n  count: ${env:B}\n")[1]] == ["env-missing"] * 2
    assert [p.code for p in read("need: a\ninner: !x 1")[1]] == []


def test_places_are_found_also_past_the_tags_of_unions() -> None:
    root = node_of("a: [x, {b: c}]")
    assert isinstance(root, MapNode)
    exact = find(root, ("a", 1, "b"))
    assert isinstance(exact.value, Scalar)
    assert exact.key is not None
    assert (exact.value.text, exact.key.text, exact.exact) == ("c", "b", True)
    loose = find(root, ("a", 1, "function-plain", "b"))
    assert (loose.value, loose.exact) == (exact.value, False)


@pytest.mark.parametrize(
    ("loc", "text"), [((), ""), (("a",), "a"), (("a", 0, "b"), "a[0].b"), ((1, "b"), "[1].b")]
)
def test_places_are_written_with_dots(loc: tuple[Any, ...], text: str) -> None:
    assert dotted(loc) == text


@pytest.mark.parametrize(
    ("text", "words"),
    [("5", "5"), ("'5'", '"5"'), ("x", '"x"'), ("~", "empty"), ("[]", "a list"), ("{}", "a map")],
)
def test_values_in_messages(text: str, words: str) -> None:
    assert shown(node_of(text)) == words


@pytest.mark.parametrize(
    ("text", "item"), [("a b", "a b"), ("*x", "'*x'"), ("5", "'5'"), ("it's", "'it''s'"), ("true", "'true'")]
)
def test_items_of_a_list_are_quoted_where_they_need_it(text: str, item: str) -> None:
    assert flow_item(text) == item
