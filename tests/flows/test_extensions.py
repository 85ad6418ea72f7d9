from collections.abc import Callable
from pathlib import Path

import pytest

from turnchart.flows import load_flow
from turnchart.flows.chains import chains
from turnchart.flows.drawn import overlay
from turnchart.hooks import HOOKS, Deny, PostTool, PreTool, hook
from turnchart.machine import Reply, ScriptedModel, ToolCall

Found = Callable[..., list[tuple[str, int, int]]]
Write = Callable[..., Path]


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    assert HOOKS.names()  # loads the built-in ones
    monkeypatch.setattr(HOOKS, "_specs", dict(HOOKS._specs))  # pyright: ignore[reportPrivateUsage]  # put back after

    @hook("call_limit")
    class CallLimit:
        """Deny a tool after it has given back so many results."""

        most: int = 1

        def __post_init__(self) -> None:
            self.seen = 0

        def pre_tool(self, payload: PreTool) -> Deny | None:
            return Deny("enough") if self.seen >= self.most else None

        def post_tool(self, payload: PostTool) -> None:
            self.seen += 1

    assert HOOKS.get("call_limit") is not None
    assert CallLimit is not None


FLOW = """
version: 1
model: test
tools: [list_files]
hooks:
  pre_tool:
    - {use: deny_paths, with: {globs: [x]}}
extensions:
  - use: call_limit
    with: {most: 2}
  - {use: call_limit, id: other, with: {most: 9}}
  - repeat_guard
"""


async def test_the_legs_of_an_agent_share_one_object(write: Write) -> None:
    write(FLOW)
    flow = load_flow("flow.yaml")
    for _ in range(2):  # nothing is left over for the next agent
        call = Reply(tool_calls=[ToolCall("list_files", {})])
        async with flow.agent(model=ScriptedModel([call, call, call, "Done."])) as agent:
            await agent.prompt("x")
        outcomes = [each.data["outcome"] for each in agent.session.entries if each.type == "tool/result"]
        assert outcomes == ["ok", "ok", "denied"]


def test_legs_stand_before_the_hooks_of_the_chain(write: Write) -> None:
    write(FLOW)
    flow = load_flow("flow.yaml")
    assert [each.id for each in flow.hooks("pre_tool")] == ["call_limit", "other", "deny_paths"]
    assert [each.id for each in flow.hooks("post_tool")] == ["call_limit", "other", "repeat_guard"]
    assert [each.where for each in flow.hooks("post_tool")] == ["flow.yaml:8", "flow.yaml:10", "flow.yaml:11"]


def test_it_is_shown_where_each_leg_lands(write: Write) -> None:
    write(FLOW)
    flow = load_flow("flow.yaml")
    drawn = overlay(flow).hooks
    assert drawn["pre_tool"][0] == "call_limit (flow.yaml:8)"
    assert drawn["post_tool"][0] == "call_limit (flow.yaml:8)"
    shown = "\n".join(chains(flow.checked))
    assert "1. call_limit  use call_limit  flow.yaml:8" in shown
    assert shown.count("use call_limit") == 4


def test_it_is_switched_off_as_a_whole(write: Write) -> None:
    write(FLOW + "disable_hooks: [call_limit]\n")
    flow = load_flow("flow.yaml")
    assert [each.id for each in flow.hooks("pre_tool")] == ["other", "deny_paths"]
    assert [each.id for each in flow.hooks("post_tool")] == ["other", "repeat_guard"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("extensions: [call_limit]\n", []),
        ("extensions: [call_limit, call_limit]\n", []),
        ("extensions: [{use: call_limit, id: a}, {use: call_limit, id: a}]\n", [("duplicate-id", 2, 62)]),
        ("extensions: [{use: call_limit, id: a}]\ndisable_hooks: [b]\n", [("unknown-id", 3, 17)]),
        ("extensions: [call_limits]\n", [("unknown-hook", 2, 14)]),
        ("extensions: [{use: call_limit, with: {most: many}}]\n", [("bad-value", 2, 45)]),
        ("extensions: [{use: call_limit, timeout: 5}]\n", [("unknown-key", 2, 32)]),
        ("extensions: [{with: {}}]\n", [("missing-key", 2, 14)]),
        ("extensions: call_limit\n", [("bad-value", 2, 13)]),
        (
            "extensions: [{use: run_on_file, with: {glob: '*', command: [no-such, '{path}']}}]\n",
            [("program", 2, 61)],
        ),
    ],
)
def test_what_is_wrong(found: Found, text: str, expected: list[tuple[str, int, int]]) -> None:
    assert found(text) == expected


def test_programs_of_an_extension_are_agreed_to_like_others(write: Write) -> None:
    write("version: 1\nextensions: [{use: run_on_file, with: {glob: '*', command: [sh, '{path}']}}]\n")
    assert [reach.what for reach in load_flow("flow.yaml").reaches] == ["sh '{path}'"]
