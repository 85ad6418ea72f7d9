import pytest

from turnchart.flows.interpolate import Filled, fill, has_references
from turnchart.flows.problems import Problem
from turnchart.flows.source import Scalar, read_text, scalars

ENV = {"A": "1", "EMPTY": "", "LLM_BASE_URLS": "x"}


def only(text: str) -> Scalar:
    root = read_text(text, "a.yaml").root
    assert root is not None
    return next(scalars(root))


def one_problem(text: str) -> Problem:
    value, problems = fill(only(text), ENV)
    assert value is None
    (problem,) = problems
    return problem


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: ${env:A}", "1"),
        ("a: x-${env:A}-${env:A}-y", "x-1-1-y"),
        ('a: "${env:B:-two words}"', "two words"),
        ("a: ${env:EMPTY}", ""),
        ("a: ${env:EMPTY:-used}", "used"),  # as in the shell
        ("a: ${env:B:-}", ""),
        ("a: $${env:A}", "${env:A}"),
        ("a: $$ $A ${env:A}", "$$ $A 1"),
        ("a: |\n  x ${env:A}\n", "x 1\n"),
        ("a: >-\n  x\n  ${env:A}\n", "x 1"),
    ],
)
def test_references_are_filled_in(text: str, value: str) -> None:
    assert fill(only(text), ENV) == (value, [])


def test_single_quotes_are_literal() -> None:
    assert not has_references(only("a: '${env:A}'"))


@pytest.mark.parametrize(
    ("text", "code", "column", "length", "help"),
    [
        ("a: ${NAME}", "env-syntax", 4, 7, "write ${env:NAME}"),
        ("a: x ${NAME:-d}", "env-syntax", 6, 10, "write ${env:NAME:-d}"),
        ("a: ${env.NAME}", "env-syntax", 4, 11, "did you mean ${env:NAME}?"),
        ("a: ${ENV:NAME}", "env-syntax", 4, 11, "did you mean ${env:NAME}?"),
        ("a: ${env:A:B}", "env-syntax", 4, 10, "a default is written ${env:A:-B}"),
        ("a: ${env:}", "env-syntax", 4, 7, "a name is made of letters"),
        ("a: ${}", "env-syntax", 4, 3, "write ${env:NAME}"),
        ("a: ${env:A:-${env:B}}", "env-syntax", 4, 17, "cannot hold another reference"),
        ("a: ${env:A} ${", "env-syntax", 13, 2, "close it with }"),
        ('a: "$${x} ${env:ZZ}"', "env-missing", 11, 9, "a default is written ${env:ZZ:-value}"),
        ("a: ${env:LLM_BASE_URL}", "env-missing", 4, 19, "LLM_BASE_URLS is set; did you mean that?"),
        ("a: ${param:X}", "unknown-param", 4, 10, "declare it at the top: params: {X: {}}. params: none"),
        ("a: ${param:X:-d}", "env-syntax", 4, 13, "a default stands where it is declared"),
        ("a: ${param.X}", "env-syntax", 4, 10, "did you mean ${param:X}?"),
        ('a: "\\x24{env:ZZ}"', "env-missing", 4, 14, "a default"),  # hidden by an escape: the whole value
    ],
)
def test_what_is_wrong_is_marked_exactly(text: str, code: str, column: int, length: int, help: str) -> None:
    problem = one_problem(text)
    assert (problem.code, problem.line, problem.column, problem.length) == (code, 1, column, length)
    assert help in problem.help


def test_each_reference_of_a_block_is_marked_on_its_own_line() -> None:
    _, problems = fill(only("a: |\n  x ${env:Z}\n  ${env:Z} ${env:Z}\n"), ENV)
    assert [(p.line, p.column) for p in problems] == [(2, 5), (3, 3), (3, 12)]


def test_without_variables_only_the_spelling_is_checked() -> None:
    assert fill(only("a: ${env:ZZ}"), None) == (None, [])
    assert fill(only("a: ${ZZ}"), None)[1][0].code == "env-syntax"


def test_filled_text_is_text() -> None:
    assert Filled("5") == "5"
