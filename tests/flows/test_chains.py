from collections.abc import Callable
from pathlib import Path

import pytest

from turnchart.flows.chains import chains
from turnchart.flows.check import examine

Write = Callable[..., Path]


def test_the_hooks_are_told_in_the_order_in_which_they_run(write: Write) -> None:
    write(
        """
        version: 1
        tools: [shell]
        hooks:
          turn_stopping:
            - {use: keep_going, with: {prompt: On}, max_continues: 2}
          pre_tool:
            - {use: audit_log, with: {path: a.jsonl}}
            - {use: deny_commands, id: no-rm, tools: [shell], timeout: 5, with: {patterns: [rm]}}
            - {run: [python3, "${env:SCRIPT}"], disabled: true}
            - {use: redact_secrets}
        disable_hooks: [redact_secrets]
        """
    )
    lines = list(chains(examine("flow.yaml", env=None, unexpanded=True)))
    assert lines == [
        "pre_tool  (gate, in tooling): lets a tool call run or not, and rewrites its arguments",
        "  if a hook fails or is late: call denied",
        "  1. no-rm  use deny_commands  flow.yaml:8",
        '       tools: ["shell"]',
        "       timeout: 5",
        '       with: {"patterns": ["rm"]}',
        '  2. python3  (off)  run ["python3", "${env:SCRIPT}"]  flow.yaml:9',
        "  3. redact_secrets  (off)  use redact_secrets  flow.yaml:10",
        "  after: audit_log  use audit_log  flow.yaml:7",
        '       with: {"path": "a.jsonl"}',
        "",
        "turn_stopping  (first answer, in stopping): may send the turn back to the model",
        "  if a hook fails or is late: turn error",
        "  1. keep_going  use keep_going  flow.yaml:5",
        "       max_continues: 2",
        '       with: {"prompt": "On"}',
    ]


def test_a_choice_of_on_error_is_told(write: Write) -> None:
    write("version: 1\nhooks:\n  context: [{use: nobody}]\n")
    lines = list(chains(examine("flow.yaml")))
    assert lines[1:] == [
        "  if a hook fails or is late: on_error, warn unless said otherwise",
        "  1. nobody  use nobody (not known here)  flow.yaml:3",
    ]


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ("{use: redact_secrets}", ["       on_error: stop (its own)"]),
        ("{use: redact_secrets, on_error: warn}", ['       on_error: "warn"']),
        ("{use: trim_tool_results}", []),
    ],
)
def test_what_a_hook_says_of_its_own_failures_is_told(write: Write, entry: str, told: list[str]) -> None:
    write(f"version: 1\nhooks:\n  post_tool: [{entry}]\n  pre_tool: [{{use: redact_secrets}}]\n")
    lines = [line for line in chains(examine("flow.yaml")) if line.startswith("       on_error")]
    assert lines == told


def test_a_flow_without_hooks(write: Write) -> None:
    write("version: 1\n")
    assert list(chains(examine("flow.yaml"))) == ["no hooks"]
    assert list(chains(examine("gone.yaml"))) == ["no hooks"]


def test_what_holds_the_last_answer_against_a_schema_is_a_hook_too(write: Write) -> None:
    write("version: 1\noutput:\n  schema: {type: integer}\n")
    assert list(chains(examine("flow.yaml"))) == [
        "turn_stopping  (first answer, in stopping): may send the turn back to the model",
        "  if a hook fails or is late: turn error",
        "  1. output  the last answer fits output.schema  flow.yaml:3",
    ]
    write(
        "version: 1\noutput: {schema: {type: integer}}\n"
        "hooks: {turn_stopping: [{use: keep_going, with: {prompt: On}}]}\n"
    )
    assert (
        list(chains(examine("flow.yaml")))[-1]
        == "  2. output  the last answer fits output.schema  flow.yaml:2"
    )
