from collections.abc import Callable

import pytest

Report = Callable[..., str]
DENIED = "prompt: Go.\nmodel: [{call: shell, args: {command: rm -rf build}}, I cannot.]\n"


def expecting(keys: str, script: str = DENIED) -> str:
    return f"{script}expect:\n  {keys}"


@pytest.mark.parametrize(
    "keys",
    [
        "reason: completed",
        "text: I cannot.",
        "text: {matches: can.ot}",
        "states: [idle, ..., tooling, ..., idle]",
        "states: [idle, claiming, pre_step, requesting, tooling, stopping, ..., stopping, idle]",
        "calls: [{tool: shell, args: {command: rm -rf build}, by: no-destructive, ran: false}]",
        "calls: [...]",
        "calls: [{tool: shell, result: {matches: ^Denied}, outcome: denied}, ...]",
        "hooks: [{point: pre_tool, id: no-destructive, decision: deny, failed: false}]",
        "hooks: [{reason: {matches: .}}]",
        "requests: [{step: 2, contains: [Denied, rm -rf], lacks: secret}]",
        "requests: [{model: 'anthropic:claude-sonnet-4-5'}]",
        "requests: [{turn: 1, tools: [read_file, shell]}]",
    ],
)  # fmt: skip
def test_what_came_as_expected_is_not_reported(keys: str, reported: Report) -> None:
    assert reported(expecting(keys)) == ""


def test_a_walk_that_differs_is_shown_beside_the_one_expected(reported: Report) -> None:
    assert reported(
        expecting("states: [idle, claiming, pre_step, requesting, stopping, idle]")
    ).splitlines() == [
        "flow.test.yaml:8: the walk is another one",
        "      expected    actual",
        "      idle        idle",
        "      claiming    claiming",
        "      pre_step    pre_step",
        "      requesting  requesting",
        "    >             tooling",
        "      stopping    stopping",
        "    >             claiming",
        "    >             pre_step",
        "    >             requesting",
        "    >             stopping",
        "      idle        idle",
    ]


def test_calls_that_differ_are_shown_side_by_side_with_what_differs(reported: Report) -> None:
    lines = reported(expecting("calls: [{tool: shell, decision: allow, ran: true}]")).splitlines()
    assert lines[0] == "flow.test.yaml:8: the calls are others"
    assert lines[2].startswith("    > shell() decision=allow ran=true  shell(")
    assert lines[3] == "    calls[0]: decision should be allow, not deny; ran should be true, not false"
    assert lines[4].startswith("the walk was: idle > claiming > pre_step > requesting > tooling > stopping")


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ("reason: stopped", "the last turn should end as stopped, not as completed"),
        ("text: Yes.", "the last answer should be 'Yes.', not 'I cannot.'"),
        ("text: {matches: Yes}", "the last answer should be text that matches Yes, not 'I cannot.'"),
        ("calls: []", "the calls are others"),
        ("calls: [{tool: shell, args: {command: ls}}]", 'args should be {"command": "ls"}, not '),
        ("calls: [{tool: shell, result: no}]", "result should be 'no', not "),
        ("hooks: []", "no hook should do anything"),
        ("hooks: [{point: pre_step}]", "no hook did what hooks[0] says (point: pre_step)"),
        ("hooks: [{id: no-destructive, decision: allow}]", "pre_tool no-destructive decision=deny"),
        ("hooks: [{changed: args}]", "no hook did what hooks[0] says"),
        ("hooks: [{failed: true}]", "no hook did what hooks[0] says"),
        ("requests: []", "no model should be asked, but 2 requests were made"),
        ("requests: [{step: 3}]", "requests[0]: there was no such request"),
        ("requests: [{step: 1, model: test}]", "model should be test, not anthropic:claude-sonnet-4-5"),
        ("requests: [{step: 1, tools: [shell]}]", 'tools should be ["shell"], not ["read_file", "shell"]'),
        ("requests: [{step: 2, contains: haiku}]", "request 1.2 should show 'haiku'; it shows:"),
        ("requests: [{lacks: Denied}]", "request 1.2 should not show 'Denied'"),
    ],
)  # fmt: skip
def test_what_came_otherwise_is_reported_with_its_place(keys: str, said: str, reported: Report) -> None:
    report = reported(expecting(keys))
    assert report.startswith("flow.test.yaml:8: ")
    assert said in report


def test_a_turn_must_complete_unless_something_else_is_said(reported: Report) -> None:
    report = reported("prompt: x\nmodel: [{fail: auth, message: no key}]")
    assert (
        "the last turn should end as completed, not as error (model request failed (auth): no key)" in report
    )
    assert reported("prompt: x\nmodel: [{fail: auth}]\nexpect: {reason: error}") == ""


def test_what_is_missing_is_reported_whatever_was_expected(reported: Report) -> None:
    report = reported("prompt: x\nexpect: {reason: error}")
    assert report.startswith("flow.test.yaml:4: the model 'anthropic:claude-sonnet-4-5' has no script")
