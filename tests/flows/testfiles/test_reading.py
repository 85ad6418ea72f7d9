from collections.abc import Callable
from pathlib import Path

import pytest

from turnchart.flows.problems import Problem, render_all
from turnchart.flows.script import ScriptInput, ScriptStep
from turnchart.flows.testfiles.reading import is_suite, read_suite
from turnchart.flows.testfiles.suite import (
    EVERY_MODEL,
    CallRule,
    Case,
    CommandStub,
    HookRule,
    RequestRule,
    ToolStub,
)
from turnchart.machine import State

Write = Callable[..., Path]

WHOLE = """\
    approve: ['shell(ls *)']
    files: {src/a.py: "x = 1\\n"}
    prompts: [Look., Go on.]
    model:
      - {call: shell, args: {command: rm -rf build}}
      - {fail: rate_limit, retry_after: 2}
      - I cannot do that.
    tools: {shell: {returns: 3 passed}, read_file: [{fails: no}, {real: true}]}
    commands: {pytest: {exit: 1, output: bad}, python check.py: {real: true}}
    at: [{state: tooling, step: 1, steer: Only the parser.}]
    expect:
      reason: completed
      text: {matches: cannot}
      states: [idle, ..., idle]
      calls: [..., {tool: shell, decision: deny, by: no-destructive, ran: false}]
      hooks: [{point: pre_tool, id: no-destructive, decision: deny}]
      requests: [{step: 2, model: test, contains: Only the parser.}]
"""


@pytest.fixture
def read(suite: Callable[..., str]) -> Callable[[str], tuple[Case | None, list[Problem]]]:
    """Read a file with one test."""

    def read(keys: str) -> tuple[Case | None, list[Problem]]:
        found, problems = read_suite(suite(keys))
        return (found.cases[0] if found and found.cases else None), problems

    return read


Read = Callable[[str], tuple[Case | None, list[Problem]]]


def test_every_key_is_read(read: Read) -> None:
    case, problems = read(WHOLE)
    assert problems == []
    assert case is not None
    assert (case.name, case.where, case.approve) == ("one", "flow.test.yaml:4", ("shell(ls *)",))
    assert (case.prompts, case.files) == (("Look.", "Go on."), {"src/a.py": "x = 1\n"})
    steps = case.scripts[EVERY_MODEL]
    assert [step.fail or step.text or step.calls[0].tool for step in steps] == [
        "shell", "rate_limit", "I cannot do that.",
    ]  # fmt: skip
    assert case.inputs == (ScriptInput(State.TOOLING, "steer", "Only the parser.", 1),)
    assert case.tools == {
        "shell": (ToolStub(returns="3 passed"),),
        "read_file": (ToolStub(fails="no"), ToolStub(real=True)),
    }
    assert case.commands == {
        "pytest": (CommandStub(exit=1, output="bad"),),
        "python check.py": (CommandStub(real=True),),
    }
    assert case.real
    expect = case.expect
    assert expect.states == ("idle", "...", "idle")
    assert expect.calls == (None, CallRule(tool="shell", decision="deny", by="no-destructive", ran=False))
    assert expect.hooks == (HookRule(point="pre_tool", id="no-destructive", decision="deny"),)
    assert expect.requests == (RequestRule(step=2, model="test", contains=["Only the parser."]),)


def test_what_is_left_out_is_not_asked(read: Read) -> None:
    case, problems = read("prompt: Hello.")
    assert (case is not None and not case.real, problems) == (True, [])
    assert case is not None
    assert (case.approve, case.scripts, case.expect.reason) == ("none", {}, "completed")
    assert case.expect.states is None


def test_the_flow_of_a_suite_is_relative_to_its_file(write: Write) -> None:
    write("version: 1", "flows/a.yaml")
    write("version: 1\nflow: ../flows/a.yaml\ntests: [{name: x, prompt: y}]", "tests/a.test.yaml")
    suite, problems = read_suite("tests/a.test.yaml")
    assert problems == []
    assert suite is not None
    assert suite.flow == "flows/a.yaml"


def test_a_shipped_flow_is_found_by_its_name(write: Write) -> None:
    write("version: 1\nflow: demo\ntests: [{name: x, prompt: y}]", "a.test.yaml")
    suite, problems = read_suite("a.test.yaml")
    assert (suite is not None and suite.flow, problems) == ("demo", [])


def test_a_script_may_lie_in_a_file_and_let_people_do_something(read: Read, write: Write) -> None:
    write("model: [Hello.]\nat: [{state: tooling, abort: stop}]", "s.yaml")
    case, problems = read("model: script:s.yaml\nprompt: x")
    assert problems == []
    assert case is not None
    assert case.scripts == {EVERY_MODEL: (ScriptStep("Hello."),)}
    assert case.inputs == (ScriptInput(State.TOOLING, "abort", "stop"),)


def test_each_model_may_have_a_script_of_its_own(read: Read) -> None:
    case, _ = read("model: {test: [a], openai:gpt-5: [b, c]}\nprompt: x")
    assert case is not None
    assert {id: len(steps) for id, steps in case.scripts.items()} == {"test": 1, "openai:gpt-5": 2}


@pytest.mark.parametrize(
    ("keys", "found"),
    [
        ("prompts: x", [("bad-value", 5, 14)]),
        ("pronpt: x", [("unknown-key", 5, 5)]),
        ("prompt: x\nprompts: [y]", [("key-not-here", 6, 5)]),
        ("prompt: x\napprove: some", [("bad-value", 6, 14)]),
        ("prompt: x\napprove: [1]", [("bad-value", 6, 15)]),
        ("prompt: x\nfiles: {../a: b}", [("path-outside", 6, 13)]),
        ("prompt: x\nfiles: {/a: b}", [("path-outside", 6, 13)]),
        ("prompt: x\nfiles: {a: 1}", [("bad-value", 6, 16)]),
        ("prompt: x\nmodel: [{txt: a}]", [("unknown-key", 6, 14)]),
        ("prompt: x\nmodel: script:none.yaml", [("file-missing", 6, 12)]),
        ("prompt: x\nmodel: 3", [("bad-value", 6, 12)]),
        ("prompt: x\ntools: {shell: {retruns: a}}", [("unknown-key", 6, 21)]),
        ("prompt: x\ntools: {shell: {returns: a, fails: b}}", [("missing-key", 6, 20)]),
        ("prompt: x\ntools: {shell: {real: false}}", [("bad-value", 6, 27)]),
        ("prompt: x\ntools: {shell: []}", [("bad-value", 6, 13)]),
        ("prompt: x\ncommands: {a: {real: true, exit: 1}}", [("key-not-here", 6, 19)]),
        ("prompt: x\ncommands: {a: {exit: '1'}}", [("bad-value", 6, 26)]),
        ("prompt: x\nat: [{state: toolin, steer: a}]", [("bad-value", 6, 18)]),
        ("prompt: x\nexpect: {reason: done}", [("bad-value", 6, 22)]),
        ("prompt: x\nexpect: {states: [idle, pre-step]}", [("bad-value", 6, 29)]),
        ("prompt: x\nexpect: {states: idle}", [("bad-value", 6, 22)]),
        ("prompt: x\nexpect: {calls: [{toool: x}]}", [("unknown-key", 6, 23)]),
        ("prompt: x\nexpect: {calls: [{tool: x, decision: no}]}", [("bad-value", 6, 42)]),
        ("prompt: x\nexpect: {hooks: [{point: pre-tool}]}", [("bad-value", 6, 30)]),
        ("prompt: x\nexpect: {requests: [{step: 0}]}", [("bad-value", 6, 32)]),
        ("prompt: x\nexpect: {requests: {step: 1}}", [("bad-value", 6, 24)]),
        ("prompt: x\nexpect: {text: {matches: '('}}", [("regex", 6, 30)]),
        ("prompt: x\nexpect: {text: {}}", [("bad-value", 6, 20)]),
        ("prompt: x\nexpect: [a]", [("bad-value", 6, 13)]),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_its_place(
    keys: str, found: list[tuple[str, int, int]], read: Read
) -> None:
    _, problems = read(keys)
    assert [(each.code, each.line, each.column) for each in problems] == found


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        ("flow: flow.yaml\ntests: [{name: a, prompt: b}]", "version", 1),
        ("version: 2\nflow: flow.yaml\ntests: [{name: a, prompt: b}]", "version", 1),
        ("version: 1\nflow: none.yaml\ntests: [{name: a, prompt: b}]", "file-missing", 2),
        ("version: 1\nflow: [a]\ntests: [{name: a, prompt: b}]", "bad-value", 2),
        ("version: 1\ntests: [{name: a, prompt: b}]", "missing-key", 1),
        ("version: 1\nflow: flow.yaml", "missing-key", 1),
        ("version: 1\nflow: flow.yaml\ntests: []", "bad-value", 3),
        ("version: 1\nflow: flow.yaml\ntests: {a: b}", "bad-value", 3),
        ("version: 1\nflow: flow.yaml\ntest: 1\ntests: [{name: a, prompt: b}]", "unknown-key", 3),
        ("version: 1\nflow: flow.yaml\ntests: [{name: a}, {name: a}]", "duplicate-id", 3),
        ("version: 1\nflow: flow.yaml\ntests: [a]", "bad-value", 3),
        ("- a", "bad-value", 1),
        ("", "yaml-empty", 1),
        ("flow: [", "yaml-syntax", 1),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_file_is_told(text: str, code: str, line: int, write: Write) -> None:
    write("version: 1")
    write(text, "a.test.yaml")
    _, problems = read_suite("a.test.yaml")
    assert [(each.code, each.line) for each in problems] == [(code, line)]


def test_a_problem_has_its_line_a_caret_and_a_cure(read: Read) -> None:
    _, problems = read("prompt: x\nexpect: {states: [idle, toolin]}")
    where = 'flow.test.yaml:6:29: error: tests[0].expect.states[1] is "toolin"; it must be one of: '
    assert render_all(problems).splitlines() == [
        f"{where}{', '.join([*State, '...'])} [bad-value]",
        "  |",
        "6 |     expect: {states: [idle, toolin]}",
        "  |                             ^^^^^^",
        '  = help: did you mean "tooling"?',
    ]


@pytest.mark.parametrize(
    ("name", "text", "ours"),
    [
        ("a.test.yaml", "version: 1\nflow: a.yaml\n", True),
        ("a.test.yaml", "version: 1\nsteps:\n  flow: a\n", False),
        ("a.yaml", "flow: a.yaml\n", False),
    ],
)
def test_a_file_is_ours_by_its_name_and_its_flow(name: str, text: str, ours: bool, write: Write) -> None:
    assert is_suite(write(text, name)) is ours


def test_a_file_that_is_not_there_is_none_of_ours(tmp_path: Path) -> None:
    assert not is_suite(tmp_path / "a.test.yaml")
    suite, [problem] = read_suite(tmp_path / "a.test.yaml", "a.test.yaml")
    assert (suite, problem.code) == (None, "file-missing")
