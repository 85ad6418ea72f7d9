import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.hooks.stub_world import StubWorld

from turnchart.hooks import HOOKS, Context, Deny, ParamError, PreStep, PreTool, TurnView, run_chain
from turnchart.machine.chain import BoundHook
from turnchart.machine.entries import Frozen
from turnchart.machine.errors import HookFailed
from turnchart.machine.messages import UserMessage
from turnchart.machine.points import POINTS

pytestmark = pytest.mark.anyio


def made(point: str, path: str = "logs/a.jsonl", **options: Any) -> BoundHook:
    spec = HOOKS.get("audit_log")
    assert spec is not None
    return spec.bind(point, {"path": path}, **options)


def lines(world: StubWorld) -> list[Mapping[str, Any]]:
    return [json.loads(line) for line in (Path(world.root) / "logs/a.jsonl").read_text("utf-8").splitlines()]


async def test_a_line_tells_what_was_asked_and_what_came_out(world: StubWorld) -> None:
    def denies(payload: PreTool) -> Deny:
        return Deny("no")

    call = PreTool(
        tool="shell", args=Frozen(command="ls"), call_id="c1", subject="ls", subject_name="command",
        session="s", agent="a", step=2, turn=TurnView(3),
    )  # fmt: skip
    hooks = [made("pre_tool"), BoundHook(denies, "denies", "f.yaml:3")]
    verdict = await run_chain("pre_tool", call, hooks, world=world)
    assert verdict.decision == Deny("no")
    assert lines(world) == [{
        "time": world.time, "point": "pre_tool", "session": "s", "agent": "a", "flow": "", "step": 2,
        "turn": 3, "tool": "shell", "args": {"command": "ls"}, "call_id": "c1", "subject": "ls",
        "subject_name": "command", "decision": "deny", "reason": "no", "by": "denies",
        "hooks": [{"id": "denies", "where": "f.yaml:3", "decision": "deny", "changed": [], "error": None}],
    }]  # fmt: skip


@pytest.mark.parametrize("point", POINTS)
async def test_it_stands_in_any_chain(world: StubWorld, point: str) -> None:
    for _ in range(2):
        await run_chain(point, POINTS[point].payload(), [made(point)], world=world)
    assert [line["point"] for line in lines(world)] == [point, point]


async def test_messages_are_not_copied_into_the_log(world: StubWorld) -> None:
    await run_chain("context", Context(messages=[UserMessage("long")]), [made("context")], world=world)
    assert "messages" not in lines(world)[0]


async def test_a_failed_chain_is_logged_too(world: StubWorld) -> None:
    def fails(payload: PreStep) -> None:
        raise ValueError("broken")

    with pytest.raises(HookFailed):
        await run_chain("pre_step", PreStep(), [fails, made("pre_step")], world=world)
    assert lines(world)[0]["hooks"][0]["error"] == "ValueError: broken"


async def test_it_keeps_to_its_tools(world: StubWorld) -> None:
    for tool in ("git", "shell"):
        await run_chain("pre_tool", PreTool(tool=tool), [made("pre_tool", tools=["shell"])], world=world)
    assert [line["tool"] for line in lines(world)] == ["shell"]


async def test_a_failure_to_write_is_only_reported(world: StubWorld) -> None:
    verdict = await run_chain("pre_tool", PreTool(), [made("pre_tool")])
    assert verdict.decision is None
    assert verdict.trace[0].error == "RuntimeError: audit_log needs a world to write to"
    (Path(world.root) / "logs").write_text("in the way")
    verdict = await run_chain("pre_tool", PreTool(), [made("pre_tool")], world=world)
    assert verdict.decision is None
    assert verdict.trace[0].error


def test_a_path_out_of_the_root_is_told_when_the_flow_is_loaded() -> None:
    for path in ("/var/log/a", "../a", "a/../../b"):
        with pytest.raises(ParamError, match="must be relative and stay below the root"):
            made("pre_tool", path)
