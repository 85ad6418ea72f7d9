"""Asking a person whether a call may run, and what the log says of it."""

from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from tests.machine.drive import always, calls, results, run, scripted, types

from turnchart.machine import (
    Approve,
    ApproveForSession,
    Limits,
    Permissions,
    Question,
    Refuse,
    Session,
    Signal,
    tool,
)
from turnchart.machine.abort import AbortSignal
from turnchart.machine.points import Ask
from turnchart.machine.tooling import CUT_BEFORE_START
from turnchart.testing import FakeClock

ADDS = calls(("add", {"a": 1, "b": 1}), ("add", {"a": 2, "b": 2}))


def decided(session: Session) -> list[str]:
    return [e.data["outcome"] for e in session.entries if e.type == "approval/decided"]


async def test_without_an_approver_what_asks_is_denied() -> None:
    agent, _ = await run([ADDS, "ok"], permissions=Permissions(default="ask"))
    assert results(agent.session) == [("denied", "Denied: no approver")] * 2
    assert decided(agent.session) == ["refused", "refused"]


async def test_a_person_is_asked_with_what_would_run_and_may_refuse() -> None:
    asked: list[Question] = []

    async def approver(question: Question) -> Approve | Refuse:
        asked.append(question)
        return Approve() if question.args["a"] == 1 else Refuse()

    agent, _ = await run([ADDS, "ok"], approver=approver, hooks={"pre_tool": [always(Ask("is that right?"))]})
    assert [(each.tool, each.args, each.reason) for each in asked] == [
        ("add", {"a": 1, "b": 1}, "is that right?"), ("add", {"a": 2, "b": 2}, "is that right?"),
    ]  # fmt: skip
    assert results(agent.session) == [("ok", "2"), ("denied", "Denied: refused")]
    assert decided(agent.session) == ["approved", "refused"]


async def test_what_was_approved_for_the_session_is_not_asked_again() -> None:
    asked: list[str] = []

    @tool(subject="path")
    def read(path: str) -> str:
        """Read."""
        return path

    async def approver(question: Question) -> ApproveForSession:
        asked.append(question.args["path"])
        return ApproveForSession()

    asks = calls(("read", {"path": "a"}), ("read", {"path": "a"}), ("read", {"path": "b"}))
    agent, _ = await run(
        [asks, "ok"], tools=[read], approver=approver, permissions=Permissions(default="ask")
    )
    assert asked == ["a", "b"]
    assert decided(agent.session) == ["approved_for_session"] * 2
    assert [outcome for outcome, _ in results(agent.session)] == ["ok"] * 3


@pytest.mark.parametrize("answer", [None, "yes", ValueError("boom")])
async def test_what_is_no_answer_is_a_refusal(answer: Any) -> None:
    async def approver(question: Question) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    agent, (turn,) = await run([ADDS, "ok"], approver=approver, permissions=Permissions(default="ask"))
    assert turn.ok
    assert [outcome for outcome, _ in results(agent.session)] == ["denied", "denied"]
    said = results(agent.session)[0][1]
    assert (
        "the approver failed: ValueError: boom" if isinstance(answer, Exception) else "is no answer"
    ) in said


async def test_waiting_for_a_person_counts_towards_no_limit_and_an_abort_ends_it() -> None:
    clock = FakeClock()

    async def approver(question: Question) -> Approve:
        await clock.sleep(1000)
        return Approve()

    permissions = Permissions(default="ask")
    limits = Limits(max_seconds=10)
    async with scripted(
        [ADDS, "ok"], clock=clock, limits=limits, approver=approver, permissions=permissions
    ) as agent:
        assert (await agent.prompt("x")).ok

    async def never(question: Question) -> Approve:
        await anyio.sleep_forever()
        raise AssertionError

    async with scripted([ADDS], approver=never, permissions=permissions) as agent:
        agent.follow_up("x")
        while "approval/asked" not in types(agent.session):
            await checkpoint()
        agent.abort()
        await agent.idle()
        assert decided(agent.session) == []
        assert results(agent.session) == [("aborted", CUT_BEFORE_START)] * 2


async def test_listeners_hear_of_a_decision_before_the_tool_runs() -> None:
    heard: list[str] = []

    async def approver(question: Question) -> Approve:
        heard.append("asked")
        return Approve()

    @tool
    async def work() -> str:
        """Work."""
        heard.append("runs")
        return ""

    async with scripted(
        [calls(("work", {})), "ok"], tools=[work], approver=approver, permissions=Permissions(default="ask")
    ) as agent:

        def hear(signal: Signal, _: AbortSignal) -> None:
            if signal.data["entry"].type.startswith("approval/"):
                heard.append(signal.data["entry"].type)

        agent.on("session/event", hear)
        await agent.prompt("x")
    assert heard == ["approval/asked", "asked", "approval/decided", "runs"]
