"""lifecycle I.4: the facts of the moment, told to the model as a message whenever they change."""

import pytest
from tests.conformance.asking import Board, all_of, asked, reasons, replace, resumed, said, systems
from tests.machine.drive import add, calls, drop, run, texts

from turnchart.machine import Agent, Session
from turnchart.machine.context import RUNTIME_CONTEXT
from turnchart.machine.effects import NO_FACTS_TEXT
from turnchart.machine.messages import message
from turnchart.machine.points import Assemble, Enter, PreStep, Reject
from turnchart.machine.scripted import ScriptedModel


def facts(session: Session) -> list[str]:
    """Return the text of every message with facts."""
    users = [message(entry.data["message"]) for entry in all_of(session, "user/message")]
    return [each.text for each in users if each.get("source") == RUNTIME_CONTEXT]


async def turns(agent: Agent, board: Board, *told: dict[str, str]) -> None:
    """Run one turn for each state of the facts."""
    for each in told:
        board.facts = each
        await agent.prompt("x")


def model() -> ScriptedModel:
    return ScriptedModel(default="ok")


async def test_i064_the_same_facts_are_told_once() -> None:
    board = Board(day="Monday")
    async with asked(model(), hooks={"assemble": [board]}) as agent:
        await turns(agent, board, {"day": "Monday"}, {"day": "Monday"})
    assert facts(agent.session) == ["day: Monday"]
    assert texts(agent.session, "user/message") == ["x", "day: Monday", "x"]


async def test_i065_changed_facts_are_told_at_the_tail_and_the_prompt_stays() -> None:
    board, route = Board(day="Monday"), model()
    async with asked(route, hooks={"assemble": [board]}) as agent:
        await turns(agent, board, {"day": "Monday"}, {"day": "Tuesday"})
    assert said(route.requests[1].messages) == ["x", "day: Monday", "ok", "x", "day: Tuesday"]
    assert systems(agent.session) == [("Be brief.", False)]


async def test_i066_vanished_facts_leave_one_marker() -> None:
    board = Board()
    async with asked(model(), hooks={"assemble": [board]}) as agent:
        await turns(agent, board, {"day": "Monday"}, {}, {}, {"day": "Monday"})
    assert facts(agent.session) == ["day: Monday", NO_FACTS_TEXT, "day: Monday"]


async def test_where_there_never_were_facts_nothing_is_told() -> None:
    board = Board()
    async with asked(model(), hooks={"assemble": [board]}) as agent:
        await turns(agent, board, {}, {})
    assert facts(agent.session) == []


async def test_i068_facts_that_a_replacement_shadows_are_told_again() -> None:
    board = Board()
    async with asked(model(), hooks={"assemble": [board]}) as agent:
        await turns(agent, board, {"day": "Monday"})
        first, last = (all_of(agent.session, "user/message")[i].seq for i in (0, -1))
        replace(agent.session, first, last, "so far")
        await turns(agent, board, {"day": "Monday"}, {"day": "Monday"})
    assert facts(agent.session) == ["day: Monday", "day: Monday"]


async def test_i070_a_resumed_agent_does_not_repeat_what_is_visible() -> None:
    board = Board()
    async with asked(model(), hooks={"assemble": [board]}) as agent:
        await turns(agent, board, {"day": "Monday"})
    async with asked(model(), session=resumed(agent.session), hooks={"assemble": [board]}) as agent:
        await turns(agent, board, {"day": "Monday"}, {"day": "Tuesday"})
    assert facts(agent.session) == ["day: Monday", "day: Tuesday"]


# -- between the numbers -----------------------------------------------------------------------------


async def test_facts_stand_behind_what_was_claimed_and_the_hook_sees_them() -> None:
    shown: list[list[str]] = []

    def look(payload: PreStep) -> None:
        shown.append(said(payload.messages))

    board = Board(day="Monday")
    async with asked(model(), hooks={"assemble": [board], "pre_step": [look]}) as agent:
        agent.inject("first")
        await agent.prompt("x")
    assert shown == [["first", "x", "day: Monday"]]
    assert texts(agent.session, "user/message") == shown[0]


async def test_facts_that_change_in_the_turn_come_after_the_results() -> None:
    board = Board(day="Monday")

    def next_day(payload: Assemble) -> Assemble:
        board.facts = {"day": "Monday" if payload.step == 0 else "Tuesday"}
        return board(payload)

    agent, (turn,) = await run([calls(("add", {"a": 1, "b": 2})), "ok"], hooks={"assemble": [next_day]})
    assert turn.steps == 2
    roles = [(each.role, each.text) for each in agent.session.context()]
    assert roles[1:5] == [
        ("user", "day: Monday"), ("assistant", ""), ("tool_result", "3"), ("user", "day: Tuesday"),
    ]  # fmt: skip


async def test_a_turn_without_a_message_enters_a_step_only_where_the_facts_changed() -> None:
    board = Board(day="Monday")
    async with asked(model(), tools=[add], hooks={"assemble": [board]}) as agent:
        for day in ("Monday", "Monday", "Tuesday"):
            board.facts = {"day": day}
            agent.wake()
            await agent.idle()
    assert [entry.data["steps"] for entry in all_of(agent.session, "turn/end")] == [1, 0, 1]
    assert reasons(agent.session) == ["completed"] * 3
    assert texts(agent.session, "user/message") == ["day: Monday", "day: Tuesday"]


@pytest.mark.parametrize("way", ["rejected", "dropped", "aborted"])
async def test_facts_that_did_not_reach_the_conversation_are_told_by_the_next_step(way: str) -> None:
    board = Board(day="Monday")

    def stop_once(payload: PreStep) -> Reject | Enter | None:
        if payload.turn.number > 1:
            return None
        if way == "rejected":
            return Reject("not now")
        if way == "aborted":
            agent.abort()
        return Enter(payload.messages[:1])

    script = model()
    async with asked(script, hooks={"assemble": [board], "pre_step": [stop_once]}) as agent:
        await agent.prompt("x")
        assert facts(agent.session) == []
        await agent.prompt("y")
        drop(agent)
    assert facts(agent.session) == ["day: Monday"]


async def test_several_facts_are_one_message_in_the_order_given() -> None:
    board = Board(day="Monday", cwd="/x")
    async with asked(model(), hooks={"assemble": [board]}) as agent:
        await turns(agent, board, {"day": "Monday", "cwd": "/x"}, {"cwd": "/x"})
    assert facts(agent.session) == ["day: Monday\ncwd: /x", "cwd: /x"]
