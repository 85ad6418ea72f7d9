from pathlib import Path

import anyio
import pytest
from tests.machine.drive import calls, scripted

from turnchart.machine import Session
from turnchart.machine.approvals import Answer, Approve, Question, Refuse
from turnchart.machine.nesting import ask_through, child_session, link, restrictions
from turnchart.machine.permissions import Permissions, merge_strictest
from turnchart.testing import FakeClock

pytestmark = pytest.mark.anyio

QUESTION = Question("c1", "shell", {})


async def test_a_child_is_kept_beside_its_parent(tmp_path: Path) -> None:
    async with scripted(
        [calls(("add", {"a": 1, "b": 2})), "3"], session=Session.jsonl(tmp_path / "p.jsonl")
    ) as agent:
        await agent.prompt("x")
    [call] = [entry for entry in agent.session.entries if entry.type == "tool/call"]
    child = child_session(agent.session, call.data["call_id"])
    assert (child.id, child.store.where) == (
        f"p.{call.seq}",
        str((tmp_path / f"p.{call.seq}.jsonl").resolve()),
    )
    link(child, agent.session, call.data["call_id"])
    assert child.entries[0].data["parent"] == {"session": "p", "call_id": call.data["call_id"]}
    child.close()
    assert child_session(Session.memory("m"), "none").id == "m.0"


def test_only_what_is_forbidden_or_asked_about_is_handed_on() -> None:
    first = Permissions("deny", deny=["a"], ask=["b"], allow=["c"])
    handed = restrictions(merge_strictest(first, Permissions("deny", deny=["d"], allow=["e"])))
    assert [handed.judge(tool, {}).verdict for tool in "abcdef"] == [
        "deny",
        "ask",
        "allow",
        "deny",
        "allow",
        "allow",
    ]


async def test_questions_are_asked_one_at_a_time_and_count_towards_no_limit() -> None:
    clock, order = FakeClock(), list[str]()

    async def approver(question: Question) -> Answer:
        order.append(f"{question.tool} asked")
        await clock.sleep(10)
        order.append(f"{question.tool} answered")
        return Approve()

    async with scripted([], clock=clock, approver=approver) as agent, anyio.create_task_group() as group:
        for tool in ("one", "two"):
            group.start_soon(ask_through, agent, Question("c", tool, {}))
    assert order == ["one asked", "one answered", "two asked", "two answered"] or order == [
        "two asked", "two answered", "one asked", "one answered",
    ]  # fmt: skip
    assert agent.turning.waited == 20


async def test_nobody_there_is_a_no_and_a_failure_leaves_nobody_waiting() -> None:
    async def broken(question: Question) -> Answer:
        raise RuntimeError("gone")

    async with scripted([]) as agent:
        assert await ask_through(agent, QUESTION) == Refuse("no approver")
        agent.approver = broken
        for _ in range(2):
            with pytest.raises(RuntimeError, match="gone"):
                await ask_through(agent, QUESTION)
