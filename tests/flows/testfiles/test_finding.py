from collections.abc import Callable
from pathlib import Path

import pytest

from turnchart.flows import FlowError, NotTrusted
from turnchart.flows.testfiles.finding import find_suites, load_suite, problems_of

Write = Callable[..., Path]


def test_test_files_are_found_below_a_folder(write: Write) -> None:
    for name in ("b.test.yaml", "a/c.test.yaml", ".hidden/d.test.yaml", "node_modules/e.test.yaml"):
        write("version: 1\nflow: x.yaml\n", name)
    write("something: else\n", "f.test.yaml")
    write("flow: x.yaml\n", "g.yaml")
    assert find_suites([]) == ["b.test.yaml", "a/c.test.yaml"]
    assert find_suites(["a"]) == ["a/c.test.yaml"]
    assert find_suites(["f.test.yaml", ".", "f.test.yaml"]) == ["f.test.yaml", "b.test.yaml", "a/c.test.yaml"]


def test_the_problems_of_the_flow_are_told_beside_those_of_the_file(write: Write) -> None:
    write("version: 1\nmodle: test\n")
    write("version: 1\nflow: flow.yaml\nother: 1\ntests: [{name: a, prompt: b}]\n", "flow.test.yaml")
    with pytest.raises(FlowError) as error:
        load_suite("flow.test.yaml")
    assert [(each.file, each.line, each.code) for each in error.value.problems] == [
        ("flow.test.yaml", 3, "unknown-key"), ("flow.yaml", 2, "unknown-key"),
    ]  # fmt: skip


def test_what_a_plug_in_brings_is_never_left_out(write: Write) -> None:
    """A guard that is missing would let a test pass that must fail."""
    write('[tool.turnchart]\nplugins = ["guards_that_nobody_agreed_to"]\n', "pyproject.toml")
    write("version: 1\nmodel: test\nextensions: [{use: guard}]\n")
    keys = "prompt: b, expect: {hooks: [{id: guard}]}"
    write(f"version: 1\nflow: flow.yaml\ntests: [{{name: a, {keys}}}]\n", "flow.test.yaml")
    with pytest.raises(NotTrusted, match="imports guards_that_nobody_agreed_to"):
        load_suite("flow.test.yaml")
    problems = problems_of("flow.test.yaml", (), None)
    assert {(each.code, each.level) for each in problems} == {
        ("unknown-id", "warning"), ("unknown-hook", "warning"), ("plugin-not-trusted", "warning"),
    }  # fmt: skip


def test_a_file_that_cannot_be_read_is_refused(write: Write) -> None:
    write("flow: [", "flow.test.yaml")
    with pytest.raises(FlowError, match="yaml-syntax"):
        load_suite("flow.test.yaml")
