from collections.abc import Callable
from pathlib import Path

import pytest

from turnchart.flows.check import examine
from turnchart.flows.problems import Problem
from turnchart.machine.points import POINTS, WITH_ON_ERROR

Found = Callable[..., list[tuple[str, int, int]]]
Problems = Callable[..., list[Problem]]
Write = Callable[..., Path]


def test_ids_are_given_by_name_and_number(write: Write) -> None:
    write(
        """
        version: 1
        hooks:
          context: [{use: redact_secrets}]
          pre_tool: [{use: redact_secrets}, {use: redact_secrets, id: redact_secrets-2}, {run: [./x/sh, a]}]
          post_tool: [{use: redact_secrets, disabled: true}, {use: redact_secrets, id: mine}]
        disable_hooks: [sh, mine]
        """
    )
    uses = examine("flow.yaml").hooks
    assert [(use.part.id, use.disabled) for use in uses] == [
        ("redact_secrets", False), ("redact_secrets-3", False), ("redact_secrets-2", False), ("sh", True),
        ("redact_secrets-4", True), ("mine", True),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("chain", "expected"),
    [
        ("pre_tool: [{use: os.system}]", [("unknown-hook", 2, 26)]),
        ("pre_tool: [{use: notify, with: {text: x}}]", [("hook-event", 2, 26)]),
        ("stream: [{use: notify, with: {text: x}}]", [("hook-event", 2, 24)]),
        ("pre_tool: [{use: audit_log}]", [("missing-key", 2, 26)]),
        ("pre_tool: [{use: audit_log, with: {path: ../x}}]", [("bad-value", 2, 50)]),
        ("pre_tool: [{use: ask_unless, with: {patterns: ['(']}}]", [("regex", 2, 56)]),
        ("convert: [{run: [sh]}]", [("hook-event", 2, 20)]),
        ("context: [{run: [sh], dialect: claude_code}]", [("hook-event", 2, 40)]),
        ("pre_tool: [{run: [sh], dialect: claude_code}]", []),
        ("context: [{run: [sh], dialect: other}]", [("bad-value", 2, 40)]),
        ("context: [{run: [sh], cwd: src}]", [("file-missing", 2, 36)]),
        ("context: [{run: [sh], cwd: ..}]", [("path-outside", 2, 36)]),
        ("context: [{run: [sh], cwd: .}]", []),
        ("request_error: [{use: fallback_on, with: {errors: [quota]}}]", [("no-fallback", 2, 31)]),
        ("context: [{run: []}]", [("bad-value", 2, 25)]),
        ("context: [{run: [no-such-program]}]", [("program", 2, 26)]),
        ("context: [{run: [./none.sh]}]", [("program", 2, 26)]),
        ("context: [{run: [../none.sh]}]", [("path-outside", 2, 26)]),
        ("context: [{run: [sh], env_from: [A, {B: C}], env: {D: e}}]", []),
        ("turn_stopping: [{use: notify, with: {text: x}, max_continues: 9}]", [("limit-shadowed", 2, 71)]),
        ("turn_stopping: [{use: notify, with: {text: x}, max_continues: 0}]", [("bad-value", 2, 71)]),
    ],
)
def test_hooks(found: Found, chain: str, expected: list[tuple[str, int, int]]) -> None:
    assert found(f"hooks: {{{chain}}}\n") == expected


@pytest.mark.parametrize("point", POINTS)
def test_on_error_may_stand_where_the_table_says(found: Found, point: str) -> None:
    told = found(
        f"hooks:\n  {point}:\n    - use: audit_log\n      with: {{path: a.jsonl}}\n      on_error: warn\n"
    )
    assert (("gate-on-error", 6, 7) in told) is (point not in WITH_ON_ERROR)


@pytest.mark.parametrize("point", POINTS)
def test_tool_patterns_may_stand_where_the_table_says(found: Found, point: str) -> None:
    told = found(
        f"hooks:\n  {point}:\n    - use: audit_log\n      with: {{path: a.jsonl}}\n      tools: ['*']\n"
    )
    assert (("key-not-here", 6, 7) in told) is not POINTS[point].tools


def test_paths_of_parameters_are_relative_to_the_file_that_wrote_them(write: Write) -> None:
    write("Remember.\n", "flows/texts/note.txt")
    write(
        "version: 1\nhooks: {assemble: [{use: add_text, with: {file: texts/note.txt}}]}\n", "flows/flow.yaml"
    )
    checked = examine("flows/flow.yaml")
    assert checked.problems == []
    assert checked.hooks[0].params == {"file": "flows/texts/note.txt"}
    write(
        "version: 1\nhooks: {assemble: [{use: add_text, with: {file: texts/none.txt}}]}\n", "flows/flow.yaml"
    )
    (problem,) = examine("flows/flow.yaml").problems
    assert (problem.code, problem.column, problem.level) == ("run-file", 49, "warning")


def test_what_is_not_known_is_not_judged(found: Found) -> None:
    flow = 'hooks: {pre_tool: [{use: deny_commands, with: {patterns: ["${env:P}"], message: x}}]}\n'
    assert found(flow) == [("env-missing", 2, 60)]
    assert found(flow, P="(") == [("regex", 2, 59)]


def test_paths_of_parameters_stay_in_the_project(found: Found) -> None:
    assert found("hooks: {assemble: [{use: add_text, with: {file: ../x}}]}\n") == [("path-outside", 2, 49)]


def test_parameters_that_do_not_go_together_are_told(problems: Problems) -> None:
    told = problems("hooks: {assemble: [{use: add_text, with: {text: a, file: flow.yaml}}]}\n")
    assert [problem.code for problem in told] == ["bad-value"]


def test_a_program_with_a_slash_is_found_from_the_file_that_wrote_it(write: Write) -> None:
    program = write("#!/bin/sh\n", "flows/run.sh")
    program.chmod(0o755)
    write("version: 1\nhooks: {context: [{run: [./run.sh, x]}]}\n", "flows/flow.yaml")
    checked = examine("flows/flow.yaml")
    assert checked.problems == []
    assert checked.hooks[0].argv == (str(program), "x")


def test_only_patterns_of_the_file_that_lists_the_tools_can_be_dead(write: Write) -> None:
    hooks = "hooks: {pre_tool: [{use: redact_secrets, tools: [read_file]}]}"
    write(f"version: 1\ntools: [shell, read_file]\n{hooks}\n", "base.yaml")
    write("version: 1\nextends: base.yaml\ntools: [shell]\n")
    assert examine("flow.yaml").problems == []


def test_a_fallback_is_found_where_the_rest_of_the_model_is_not_known(write: Write) -> None:
    write(
        """
        version: 1
        model: {id: a:b, base_url: "${env:NO_SUCH}", fallback: [c:d]}
        hooks: {request_error: [{use: fallback_on, with: {errors: [quota]}}]}
        """
    )
    assert [problem.code for problem in examine("flow.yaml", env=None).problems] == []
    write(
        "version: 1\nmodel: {id: a:b, fallback: []}\n"
        "hooks: {request_error: [{use: fallback_on, with: {errors: [quota]}}]}\n"
    )
    assert "no-fallback" in {problem.code for problem in examine("flow.yaml").problems}
