import io
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import typer

from turnchart.flows import load_flow
from turnchart.flows.cli.places import MEMORY, Shelf, usual
from turnchart.flows.cli.plan import Plan, info_of, params_of, plan_of, shelf_of, without_hooks
from turnchart.flows.script import ScriptInput
from turnchart.machine.states import State

Write = Callable[..., str]
TWO_HOOKS = """\
hooks:
  pre_tool:
    - {use: deny_commands, id: first, with: {patterns: [a]}}
    - {use: deny_commands, with: {patterns: [b]}}
"""
STEERED = "at: [{state: tooling, steer: quick}]\nmodel: [hi]\n"
ALONE = "at: [{state: idle, follow_up: go}, {state: tooling, steer: quick}]\nmodel: [hi]\n"
QUICK = ScriptInput(State.TOOLING, "steer", "quick")


def stdin(text: str, monkeypatch: pytest.MonkeyPatch, *, terminal: bool = False) -> None:
    stream = io.StringIO(text)
    stream.isatty = lambda: terminal  # type: ignore[method-assign]  # a test double
    monkeypatch.setattr(sys, "stdin", stream)


@pytest.mark.parametrize(
    ("script", "prompt", "piped", "expected"),
    [
        ("[hi]", "hello", "", Plan(("hello",))),
        ("[hi]", "-", "from a pipe\n", Plan(("from a pipe",))),
        ("[hi]", None, "from a pipe\n", Plan(("from a pipe",))),
        (STEERED, "hello", "", Plan(("hello",), (QUICK,))),
        (ALONE, None, "not read", Plan(("go",), (QUICK,))),
        (ALONE, "hello", "", Plan(("hello",), (QUICK,))),
        (ALONE, "-", "read", Plan(("read",), (QUICK,))),
    ],
)
def test_what_is_said(
    script: str, prompt: str | None, piped: str, expected: Plan, flow: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    stdin(piped, monkeypatch)
    assert plan_of(load_flow(flow(script)), prompt, None, as_json=False) == expected


def test_on_a_terminal_a_person_types_it(flow: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    stdin("", monkeypatch, terminal=True)
    loaded = load_flow(flow("[hi]"))
    assert plan_of(loaded, None, None, as_json=False) == Plan(())
    with pytest.raises(typer.BadParameter):
        plan_of(loaded, None, None, as_json=True)


@pytest.mark.parametrize("prompt", [None, "-", ""])
def test_nothing_to_say(prompt: str | None, flow: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    stdin("\n", monkeypatch)
    with pytest.raises(typer.BadParameter, match="pipe it in"):
        plan_of(load_flow(flow("[hi]")), prompt, None, as_json=False)


def test_another_model_has_inputs_of_its_own(flow: Write, tmp_path: Path) -> None:
    loaded = load_flow(flow(ALONE))
    (tmp_path / "other.yaml").write_text("at: [{state: stopping, steer: more}]\nmodel: [hi]\n", "utf-8")
    plan = plan_of(loaded, "hello", f"script:{tmp_path / 'other.yaml'}", as_json=False)
    assert [given.text for given in plan.inputs] == ["more"]
    assert plan_of(loaded, "hello", "test", as_json=False).inputs == ()


def test_to_compact_nothing_need_be_said(flow: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    stdin("not read", monkeypatch)
    loaded = load_flow(flow(ALONE))
    assert plan_of(loaded, None, None, as_json=True, compact=True) == Plan((), compact=True)
    plan = plan_of(loaded, "hello", None, as_json=False, compact=True)
    assert plan == Plan(("hello",), (QUICK,), compact=True)


def test_hooks_can_be_left_out(flow: Write) -> None:
    loaded = load_flow(flow("[hi]", TWO_HOOKS))
    assert [hook.id for hook in loaded.hooks("pre_tool")] == ["first", "deny_commands"]
    assert [hook.id for hook in without_hooks(loaded, ["first"]).hooks("pre_tool")] == ["deny_commands"]
    with pytest.raises(typer.BadParameter, match="no hook has the id 'last'; the ids: first, deny_commands"):
        without_hooks(loaded, ["last"])


def test_where_the_session_is_kept(flow: Write, tmp_path: Path) -> None:
    plain = load_flow(flow("[hi]"))
    assert shelf_of(plain, None) == usual()
    assert shelf_of(plain, "memory") == MEMORY
    assert shelf_of(plain, "./memory") == Shelf("sqlite", Path("memory"), "./memory")
    assert shelf_of(plain, "x.jsonl") == Shelf("file", Path("x.jsonl"), "x.jsonl")
    declared = load_flow(flow("[hi]", "session: {store: jsonl, path: logs}\n"))
    assert (shelf_of(declared, None).kind, shelf_of(declared, None).path) == ("folder", tmp_path / "logs")
    assert shelf_of(declared, "x.jsonl").kind == "file"


def test_what_a_session_says_of_its_flow(flow: Write) -> None:
    loaded = load_flow(flow("[hi]"))
    info = info_of(loaded)
    assert {key: info[key] for key in ("flow", "path", "digest")} == loaded.info


def test_params_of_the_command_line() -> None:
    assert params_of(["a=1", "b=x=y", "c="]) == {"a": "1", "b": "x=y", "c": ""}
    for wrong, message in (
        (["a"], "'a' is not NAME=VALUE"),
        (["=1"], "not NAME"),
        (["a=1", "a=2"], "given twice"),
    ):
        with pytest.raises(typer.BadParameter, match=message):
            params_of(wrong)
