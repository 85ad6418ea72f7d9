import json

import pytest

from turnchart.flows.problems import (
    CODES,
    FlowError,
    Problem,
    exit_code,
    in_order,
    meant,
    nearest,
    quoted,
    render,
    render_all,
    sentence,
)

QUEUES = Problem(
    "unknown-key", 'unknown key "followup" in queues', "agent.yaml", 72, 3, 8,
    'did you mean "follow_up"? known keys: steering, follow_up', text="  followup: all  # x",
)  # fmt: skip


def test_a_problem_is_printed_with_its_line_a_caret_and_the_cure() -> None:
    assert str(QUEUES).splitlines() == [
        'agent.yaml:72:3: error: unknown key "followup" in queues [unknown-key]',
        "   |",
        "72 |   followup: all  # x",
        "   |   ^^^^^^^^",
        '   = help: did you mean "follow_up"? known keys: steering, follow_up',
    ]


def test_without_a_place_only_the_file_is_named() -> None:
    assert render(Problem("file-missing", "it is not there", "a.yaml", help="look")) == (
        "a.yaml: error: it is not there [file-missing]\n = help: look"
    )


@pytest.mark.parametrize(
    ("text", "column", "length", "shown", "caret"),
    [
        ("日本: x", 5, 1, "日本: x", " " * 6 + "^"),  # wide letters take two columns
        ("a: 日本", 4, 2, "a: 日本", " " * 3 + "^^^^"),
        ("e\u0301: x", 5, 1, "e\u0301: x", " " * 3 + "^"),  # a combining accent takes none
        ("\ta: x", 2, 1, "    a: x", " " * 4 + "^"),  # a tab is drawn as four
        ("a: \x1b[31m", 4, 5, "a: �[31m", " " * 3 + "^^^^^"),  # nothing moves the cursor
        ("a: \u202eb", 5, 1, "a: �b", " " * 4 + "^"),  # nor turns the line round
        ("a:", 9, 1, "a:", " " * 8 + "^"),
    ],
)
def test_the_caret_stands_where_a_terminal_shows_the_value(
    text: str, column: int, length: int, shown: str, caret: str
) -> None:
    lines = render(Problem("bad-value", "m", "f", 1, column, length, text=text)).splitlines()
    assert lines[2:] == [f"1 | {shown}", f"  | {caret}"]


@pytest.mark.parametrize("column", [1, 100, 500, 999])
def test_a_long_line_is_cut_around_the_caret(column: int) -> None:
    text = "".join(chr(97 + i % 26) for i in range(1000))
    shown, caret = render(Problem("bad-value", "m", "f", 1, column, 1, text=text)).splitlines()[2:]
    assert len(shown) < 170
    assert shown[caret.index("^")] == text[column - 1]


def test_problems_are_sorted_by_place_and_printed_once() -> None:
    first, second = Problem("regex", "a", "f", 2, 9), Problem("regex", "b", "f", 10, 1)
    assert in_order([second, first, second]) == [first, second]


def test_json_has_the_same_facts() -> None:
    assert json.loads(render_all([QUEUES], "json")) == [{
        "file": "agent.yaml", "line": 72, "column": 3, "length": 8, "level": "error", "code": "unknown-key",
        "message": QUEUES.message, "help": QUEUES.help,
    }]  # fmt: skip


def test_only_errors_fail_unless_strict() -> None:
    warning = Problem("secret-literal", "m", level="warning")
    assert (exit_code([]), exit_code([warning]), exit_code([warning], strict=True), exit_code([QUEUES])) == (
        0,
        0,
        1,
        1,
    )


def test_a_flow_error_prints_every_problem_in_order() -> None:
    error = FlowError([QUEUES, Problem("regex", "m", "agent.yaml", 1, 1)])
    assert [problem.line for problem in error.problems] == [1, 72]
    assert str(error) == render_all(error.problems)


@pytest.mark.parametrize(
    ("name", "known", "found"),
    [
        ("pre-tool", ["pre_step", "pre_tool"], "pre_tool"),
        ("one_at_a_time", ["all", "one-at-a-time"], "one-at-a-time"),
        ("Shell", ["shell"], "shell"),
        ("deny_comands", ["allow", "deny_commands"], "deny_commands"),
        ("zzz", ["allow"], None),
    ],
)
def test_what_was_meant(name: str, known: list[str], found: str | None) -> None:
    assert nearest(name, known) == found
    assert meant(name, known) == (f'did you mean "{found}"?' if found else "")


def test_words() -> None:
    assert quoted("a\nb\x1b") == '"a b�"'
    assert len(quoted("x" * 999)) < 70
    assert sentence("a", "", "b") == "a b"


def test_every_code_says_what_it_stands_for() -> None:
    assert all(CODES.values())
