from pathlib import Path

import pytest

from turnchart.flows.check import check_flow, examine
from turnchart.flows.lint import given_of, lint_flow
from turnchart.flows.shipped import shipped_flows
from turnchart.machine.lint import Given
from turnchart.machine.table import LIFECYCLE


def found(tmp_path: Path, text: str) -> list[tuple[str, int, int, str]]:
    path = tmp_path / "flow.yaml"
    path.write_text(f"version: 1\nmodel: test\n{text}", "utf-8")
    return [
        (each.code, each.line, each.column, each.level)
        for each in check_flow(path, lint=True)
        if each.code != "program" and each.level != "note"
    ]


def test_each_finding_is_a_warning_at_the_key_that_causes_it(tmp_path: Path) -> None:
    text = "compaction: {strategy: none}\nretry:\n  max_attempts: 1\n  base_delay: 2\n"
    assert found(tmp_path, text) == [
        ("edge-unreachable", 5, 17, "warning"),
        ("setting-unused", 6, 15, "warning"),
    ]


def test_nothing_is_said_unasked(tmp_path: Path) -> None:
    path = tmp_path / "flow.yaml"
    path.write_text("version: 1\nmodel: test\nlimits: {max_steps: 1}\n", "utf-8")
    assert check_flow(path) == []
    assert {each.code for each in check_flow(path, lint=True)} == {"edge-unreachable", "queue-starved"}


def test_a_flow_with_errors_is_put_right_first(tmp_path: Path) -> None:
    assert [each[0] for each in found(tmp_path, "limits: {max_steps: 1}\nqueue: x\n")] == ["unknown-key"]
    assert [each[0] for each in found(tmp_path, "limits: [\n")] == ["yaml-syntax"]


def test_a_disabled_hook_may_be_one_that_never_runs(tmp_path: Path) -> None:
    hook = "hooks:\n  pre_tool:\n    - use: deny_commands\n      with: {patterns: [rm]}\n"
    assert found(tmp_path, hook) == [("hook-never", 5, 7, "warning")]
    assert found(tmp_path, f"{hook}      disabled: true\n") == []


def test_the_form_of_an_answer_sends_turns_on_too(tmp_path: Path) -> None:
    text = "output: {schema: {type: object}}\nlimits: {max_continues: 0}\n"
    assert found(tmp_path, text)[-1] == ("edge-unreachable", 4, 25, "warning")


def test_what_a_parent_says_is_told_in_its_file(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text("version: 1\nmodel: test\nlimits: {max_steps: 1}\n", "utf-8")
    (tmp_path / "flow.yaml").write_text("version: 1\nextends: base.yaml\n", "utf-8")
    first = check_flow(tmp_path / "flow.yaml", lint=True)[0]
    assert (Path(first.file).name, first.line) == ("base.yaml", 3)


def test_a_flow_that_says_nothing_has_the_defaults(tmp_path: Path) -> None:
    path = tmp_path / "flow.yaml"
    path.write_text("version: 1\nmodel: test\n", "utf-8")
    checked = examine(path)
    assert checked.parts is not None
    given = given_of(checked, checked.parts)
    defaults = Given()
    for name in ("limits", "queues", "retry", "compaction", "fallback", "written"):
        assert getattr(given, name) == getattr(defaults, name), name
    assert given.tools == {}


def test_a_table_of_ones_own_is_judged_with_the_flow(tmp_path: Path) -> None:
    path = tmp_path / "flow.yaml"
    path.write_text("version: 1\nmodel: test\n", "utf-8")
    [cancel] = [row for row in LIFECYCLE.rows if row[:2] == ("tooling", "cancel")]
    [problem] = lint_flow(examine(path), LIFECYCLE.without(cancel))
    assert (problem.code, problem.line) == ("no-cancel", 1)


@pytest.mark.parametrize("flow", shipped_flows(), ids=lambda flow: flow.name)
def test_shipped_flows_have_no_findings(flow: object) -> None:
    assert [each for each in check_flow(flow.name, lint=True) if each.code != "program"] == []  # type: ignore[attr-defined]


def test_the_tools_of_a_server_are_not_known(tmp_path: Path) -> None:
    text = """mcp: {files: {command: [sh]}}
tools: [{mcp: files}]
permissions: {default: deny, allow: [files.read]}
hooks:
  pre_tool:
    - use: deny_commands
      with: {patterns: [rm]}
"""
    assert found(tmp_path, text) == []
