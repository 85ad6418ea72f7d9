from pathlib import Path

import pytest

from turnchart.flows.problems import FlowError, Problem
from turnchart.flows.script import (
    Script,
    ScriptCall,
    ScriptInput,
    ScriptStep,
    load_script,
    read_script,
    script_of,
    to_model,
)
from turnchart.flows.source import read_text
from turnchart.machine.messages import Failure, ToolCall
from turnchart.machine.scripted import Reply
from turnchart.machine.states import State


def parse(text: str) -> Script:
    script, problems = script_of(read_text(text, "s.yaml"))
    assert problems == []
    return script


def problems_of(text: str) -> list[tuple[str, int, int]]:
    found: list[Problem] = script_of(read_text(text, "s.yaml"))[1]
    return [(problem.code, problem.line, problem.column) for problem in found]


def test_every_kind_of_answer() -> None:
    script = parse("""
- plain text with ${env:A}
- {call: shell, args: {command: ls}, text: I look.}
- calls: [{call: a, id: x}, {call: b, args: {n: 1}}]
- {fail: rate_limit, retry_after: 2, status: 429, message: slow down}
- {thinking: hm, text: Hi, usage: {input: 3, output: 1}, finish: max_tokens, delay: 0.5}
- {chunks: [Hel, 0.2, lo]}
- {text: ''}
""")
    assert script.steps == (
        ScriptStep("plain text with ${env:A}"),
        ScriptStep("I look.", (ScriptCall("shell", {"command": "ls"}),)),
        ScriptStep(calls=(ScriptCall("a", {}, "x"), ScriptCall("b", {"n": 1}))),
        ScriptStep(fail="rate_limit", retry_after=2, status=429, message="slow down"),
        ScriptStep("Hi", (), "hm", None, {"input": 3, "output": 1}, "max_tokens", 0.5),
        ScriptStep(chunks=("Hel", 0.2, "lo")),
        ScriptStep(),
    )


def test_a_map_says_too_what_people_say_meanwhile() -> None:
    script = parse(
        "model: [Hi]\nat:\n- {state: tooling, step: 1, steer: Stop.}\n- {state: idle, abort: ''}\n"
    )
    assert script.steps == (ScriptStep("Hi"),)
    assert script.at == (
        ScriptInput(State.TOOLING, "steer", "Stop.", 1),
        ScriptInput(State.IDLE, "abort", ""),
    )


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("- {fail: rate_limi}", [("bad-value", 1, 10)]),
        ("- {fail: quota, retry_after: 2s}", [("bad-value", 1, 30)]),
        ("- {fail: quota, finish: stop}", [("key-not-here", 1, 17)]),
        ("- {fail: quota, args: {a: 1}}", [("key-not-here", 1, 17)]),
        ("- {text: x, retry_after: 1}", [("key-not-here", 1, 13)]),
        ("- {call: a, calls: [{call: b}]}", [("key-not-here", 1, 13)]),
        ("- {args: {a: 1}}", [("key-not-here", 1, 4)]),
        ("- {calls: [{cal: b}]}", [("unknown-key", 1, 13)]),
        ("- {usage: {outpt: 1}}", [("unknown-key", 1, 12)]),
        ("- {chunks: [{a: 1}]}", [("bad-value", 1, 13)]),
        ("- {}", [("missing-key", 1, 3)]),
        ("- !x {}", [("yaml-tag", 1, 3)]),
        ("text: hi", [("unknown-key", 1, 1), ("missing-key", 1, 1)]),
        ("model: hi", [("bad-value", 1, 8)]),
        ("hi", [("bad-value", 1, 1)]),
        ("", [("yaml-empty", 1, 1)]),
        ("model: []\nat: [{state: toolin, steer: x}]", [("bad-value", 2, 14)]),
        ("model: []\nat: [{state: idle}]", [("missing-key", 2, 6)]),
        ("model: []\nat: [{state: idle, steer: a, inject: b}]", [("missing-key", 2, 6)]),
        ("model: []\nat: [{state: idle, ster: a}]", [("unknown-key", 2, 20)]),
    ],
)
def test_mistakes_have_a_place(text: str, found: list[tuple[str, int, int]]) -> None:
    assert problems_of(text) == found


def test_a_file_is_read_or_refused_with_every_problem(tmp_path: Path) -> None:
    (tmp_path / "good.yaml").write_text("- Hi\n")
    (tmp_path / "bad.yaml").write_text("- {a: 1}\n- {b: 1}\n")
    assert load_script(tmp_path / "good.yaml").steps == (ScriptStep("Hi"),)
    with pytest.raises(FlowError) as caught:
        load_script(tmp_path / "bad.yaml", "bad.yaml")
    assert [problem.line for problem in caught.value.problems] == [1, 2]
    assert read_script(tmp_path / "none.yaml")[1][0].code == "file-missing"


def test_a_model_plays_the_steps() -> None:
    script = parse(
        "- {call: add, args: {a: 1}, text: x}\n- {fail: quota, status: 402}\n- {chunks: [a, 0.5]}\n"
    )
    model = to_model(script.steps, id="script:x.yaml")
    assert model.id == "script:x.yaml"
    from turnchart.flows.script import _reply  # pyright: ignore[reportPrivateUsage]

    replies = [_reply(step) for step in script.steps]
    assert getattr(replies[0], "tool_calls", None) == [ToolCall("add", {"a": 1})]
    assert replies[1] == Reply(failure=Failure("quota", status=402), tool_calls=[])
    assert getattr(replies[2], "chunks", None) == ["a", 0.5]


def test_an_answer_may_fail_after_what_it_said() -> None:
    script = parse(
        "- {text: A is, thinking: Hm., chunks: [a, 0.5], delay: 2, fail: connection, message: reset}\n"
    )
    from turnchart.flows.script import _reply  # pyright: ignore[reportPrivateUsage]

    [reply] = [_reply(step) for step in script.steps]
    failure = Failure("connection", message="reset")
    assert reply == Reply("A is", [], "Hm.", ["a", 0.5], delay=2, failure=failure)
