import math
from pathlib import Path

import pytest

from turnchart.flows.problems import Problem
from turnchart.flows.source import (
    MAX_BYTES,
    ListNode,
    MapNode,
    NotFinite,
    Scalar,
    as_written,
    read_file,
    read_text,
    scalars,
    split_lines,
    value_of,
)


def problem_of(text: str) -> Problem:
    document = read_text(text, "a.yaml", empty_help="write something")
    (problem,) = document.problems
    return problem


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("on", "on"), ("Off", "Off"), ("yes", "yes"), ("NO", "NO"), ("y", "y"),  # text since YAML 1.2
        ("true", True), ("FALSE", False), ("null", None), ("~", None), ("", None),
        ("017", 17), ("0o17", 15), ("0x1F", 31), ("-3", -3), ("+3", 3), ("1_000", "1_000"),
        ("12:30", "12:30"), ("2024-01-01", "2024-01-01"),
        ("1.5", 1.5), (".5", 0.5), ("1.", 1.0), ("1e3", 1000.0),
        ("1.2.3", "1.2.3"), ("0b1", "0b1"), ("-", "-"), (".", "."),
    ],
)  # fmt: skip
def test_plain_scalars_mean_what_yaml_1_2_says(text: str, value: object) -> None:
    got = value_of(text)
    assert (got, type(got)) == (value, type(value))


@pytest.mark.parametrize("text", [".inf", "-.INF", ".nan", "1e999", "9" * 301])
def test_numbers_that_json_cannot_hold_are_refused(text: str) -> None:
    with pytest.raises(NotFinite):
        value_of(text)
    assert problem_of(f"a: {text}").code == "yaml-number"


def test_nodes_know_where_they_stand() -> None:
    root = read_text("a: 1\nb:\n  - x\n  - {c: 'y'}\n", "f").root
    assert isinstance(root, MapNode)
    key, items = root.fields["b"]
    assert (key.line, key.column, key.length) == (2, 1, 1)
    assert isinstance(items, ListNode)
    assert (items.line, items.column) == (3, 3)
    inner = items.items[1]
    assert (inner.line, inner.column, inner.length) == (4, 5, 8)
    assert [(s.text, s.line, s.column, s.style) for s in scalars(root)] == [
        ("1", 1, 4, "plain"), ("x", 3, 5, "plain"), ("y", 4, 9, "single"),
    ]  # fmt: skip


def test_keys_are_text_and_content_is_kept_as_written() -> None:
    root = read_text("1: ${env:A}\non: '1'\nc: [1, null]\n", "f").root
    assert root is not None
    assert as_written(root) == {"1": "${env:A}", "on": "1", "c": [1, None]}


@pytest.mark.parametrize("text", ["", "# only a comment\n", "\ufeff", "---\n...\n", "  \n\n"])
def test_an_empty_file_is_one_problem(text: str) -> None:
    document = read_text(text, "a.yaml", empty_help="write something")
    if document.root is None:
        assert [p.code for p in document.problems] == ["yaml-empty"]
        assert document.problems[0].help == "write something"
    else:
        assert as_written(document.root) is None


def test_a_byte_order_mark_moves_nothing() -> None:
    root = read_text("\ufeffa: 1", "f").root
    assert isinstance(root, MapNode)
    assert root.fields["a"][0].column == 1


@pytest.mark.parametrize(
    ("data", "code", "line", "column", "help"),
    [
        (b"a: 1\nb: \xff\n", "yaml-encoding", 2, 4, "save the file as UTF-8"),
        ("a: 1".encode("utf-16"), "yaml-encoding", 1, 1, "it looks like UTF-16"),
        (b"a: 1\nb: \x01x\n", "yaml-character", 2, 4, "double quotes"),
        ("a: \ufeff".encode(), "yaml-character", 1, 4, "double quotes"),
    ],
)
def test_bytes_that_are_no_yaml_text(
    tmp_path: Path, data: bytes, code: str, line: int, column: int, help: str
) -> None:
    (tmp_path / "a.yaml").write_bytes(data)
    (problem,) = read_file(tmp_path / "a.yaml", "a.yaml").problems
    assert (problem.code, problem.line, problem.column) == (code, line, column)
    assert help in problem.help


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "big.yaml").write_bytes(b"#" * (MAX_BYTES + 1))
    (tmp_path / "just.yaml").write_bytes(b"a: 1\n#" + b"#" * (MAX_BYTES - 6))
    codes = {
        name: [p.code for p in read_file(tmp_path / name).problems]
        for name in ("big.yaml", "just.yaml", "none.yaml", ".", "nul\0")
    }
    missing = ["file-missing"]
    assert codes == {
        "big.yaml": ["file-size"], "just.yaml": [], "none.yaml": missing, ".": missing, "nul\0": missing,
    }  # fmt: skip


def test_a_pipe_is_not_opened(tmp_path: Path) -> None:
    import os

    os.mkfifo(tmp_path / "pipe.yaml")
    assert "no regular file" in read_file(tmp_path / "pipe.yaml").problems[0].message


def test_lines_end_where_the_parser_ends_them() -> None:
    assert split_lines("a\r\nb\rc\x85d\u2028e\u2029f\n") == ("a", "b", "c", "d", "e", "f", "")
    problem = problem_of("a: x\u2028b: @\n")
    assert (problem.line, problem.text) == (2, "b: @")


def test_secrets_are_masked_in_snippets() -> None:
    problem = problem_of("key: @sk-abcdefghijklmnopqrstuv")
    assert problem.text == "key: @sk-" + "*" * 22


def test_broken_values_stand_for_nothing() -> None:
    document = read_text("a: !x 1\n", "f")
    assert isinstance(document.root, MapNode)
    value = document.root.get("a")
    assert isinstance(value, Scalar)
    assert value.broken
    assert document.root.get("b") is None
    assert math.isclose(1.0, 1)
