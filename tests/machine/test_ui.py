"""UI events: one name for each thing that happens, in order, whoever listens and from whenever on."""

import os
import subprocess
import sys
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from tests.conformance.hearing import Heard, admitted, said, watched
from tests.conformance.toolkit import asks
from tests.machine.drive import add, calls, drop, run, scripted, slow, slows, types

from turnchart.machine import (
    Agent,
    CustomMessage,
    Entry,
    Failure,
    Limits,
    Reply,
    ScriptedModel,
    Session,
    Signal,
    State,
    ToolContext,
    UserMessage,
    tool,
)
from turnchart.machine.abort import AbortSignal
from turnchart.machine.entries import Frozen
from turnchart.machine.models import BlockEnd, BlockStart, Chunk, Finish, TextDelta, ToolCallDelta
from turnchart.machine.points import PreStep, Reject, Request
from turnchart.machine.scripted import Scripted
from turnchart.machine.stores import MemoryStore
from turnchart.machine.ui import (
    AfterProviderResponse,
    AgentEnd,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    QueueUpdate,
    ToolExecutionUpdate,
    TurnEnd,
    TurnStart,
    UiEvent,
)
from turnchart.testing import FakeClock

SUM = calls(("add", {"a": 1, "b": 2}))
STORY: list[Scripted] = [slows(0, 1), SUM, Failure("overloaded"), "done", "next"]
"""Tools side by side, a tool alone, a failed attempt, an answer; then another turn."""
ENDS = ["save_point", "agent_end", "settled"]


async def test_a_step_is_a_turn_and_tells_which() -> None:
    async with watched([SUM, "a", "b"]) as (agent, heard):
        await agent.prompt("x")
        await agent.prompt("y")
    assert heard.of(TurnStart) == [TurnStart(1, 1), TurnStart(1, 2), TurnStart(2, 1)]


async def test_a_turn_ends_with_its_answer_and_its_results() -> None:
    async with watched([SUM, "done"]) as (agent, heard):
        await agent.prompt("x")
    first, second = heard.of(TurnEnd)
    assert first.message is not None
    assert [call.name for call in first.message.tool_calls] == ["add"]
    assert said(first.tool_results) == ["3"]
    assert second.message is not None
    assert (second.message.text, second.tool_results, second.error_message) == ("done", (), None)


async def test_updates_say_what_there_is_so_far_whenever_they_are_looked_at() -> None:
    async with watched([Reply(chunks=["a", "b", "c"], thinking="hm")]) as (agent, heard):
        seen: list[str] = []
        agent.ui(lambda event, _: seen.append(event.message.text) if event.type == "message_update" else None)
        await agent.prompt("x")
    updates = heard.of(MessageUpdate)
    assert [update.message.text for update in updates] == seen == ["a", "ab", "abc", "abc", "abc", "abc"]
    assert updates[0].message is updates[0].message
    assert updates[0].chunk == TextDelta("a")
    assert updates[-1].message.content[-1].type == "thinking"


async def test_an_update_that_is_looked_at_late_says_what_was_true_then() -> None:
    async with scripted([Reply(chunks=["a", "b"])]) as agent:
        kept: list[MessageUpdate] = []
        agent.ui(lambda event, _: kept.append(event) if isinstance(event, MessageUpdate) else None)
        await agent.prompt("x")
    assert [update.message.text for update in kept] == ["a", "ab"]


async def test_a_call_that_is_coming_in_is_seen_as_text_until_it_is_whole() -> None:
    half, rest = ToolCallDelta('{"a": 1,'), ToolCallDelta(' "b": 2}')
    chunks: list[Chunk] = [
        BlockStart("tool_call", 0, "c1", "add"),
        half,
        rest,
        BlockEnd(0),
        Finish("tool_calls"),
    ]
    async with watched([Reply(chunks=chunks), "ok"]) as (agent, heard):
        await agent.prompt("x")
    shown = [update.message.tool_calls[0].arguments for update in heard.of(MessageUpdate)[:4]]
    assert shown == [{}, '{"a": 1,', {"a": 1, "b": 2}, {"a": 1, "b": 2}]


async def test_each_attempt_answers_for_itself() -> None:
    async with watched([Failure("overloaded"), Failure("timeout"), "ok"]) as (agent, heard):
        await agent.prompt("x")
    assert heard.of(AfterProviderResponse) == [AfterProviderResponse("test", n) for n in (1, 2, 3)]
    ends = [event for event in heard.of(MessageEnd) if event.message.role == "assistant"]
    assert [event.attempt for event in ends] == [1, 2, None]
    assert len([each for each in heard.of(MessageStart) if each.message.role == "assistant"]) == 3


async def test_a_model_that_raises_is_told_like_one_that_says_it_failed() -> None:
    async with watched([ConnectionError("refused"), "ok"]) as (agent, heard):
        await agent.prompt("x")
    assert heard.names().count("ms assistant") == heard.names().count("me assistant") == 2


async def test_an_attempt_that_ended_the_turn_is_its_message() -> None:
    async with watched([Failure("auth", message="no key")]) as (agent, heard):
        await agent.prompt("x")
    (end,) = heard.of(TurnEnd)
    assert end.message is not None
    assert end.message.stop_reason == "error"
    assert "no key" in (end.error_message or "")
    assert heard.of(AgentEnd)[0].error_message == end.error_message
    assert heard.names()[-4:] == ["turn_end", *ENDS]


async def test_a_step_that_asked_nobody_has_no_message() -> None:
    def broken(_: Request) -> None:
        raise ValueError("boom")

    async with watched([], hooks={"request": [broken]}) as (agent, heard):
        await agent.prompt("x")
    (end,) = heard.of(TurnEnd)
    assert (end.message, end.tool_results) == (None, ())
    assert "boom" in (end.error_message or "")
    assert heard.names() == ["queue_update", "agent_start", "queue_update", "turn_start", "turn_end", *ENDS]


@pytest.mark.parametrize("failing", [False, True])
async def test_a_turn_without_a_step_is_a_run_without_turns(failing: bool) -> None:
    def gate(_: PreStep) -> Reject:
        if failing:
            raise ValueError("boom")
        return Reject("no")

    async with watched([], hooks={"pre_step": [gate]}) as (agent, heard):
        await agent.prompt("x")
        assert heard.names("queue_update") == ["agent_start", "agent_end", "settled"]
        assert ("boom" in (agent.view.error_message or "")) == failing


async def test_a_limit_is_no_error() -> None:
    async with watched([Reply("late", delay=100)], limits=Limits(max_seconds=10)) as (agent, heard):
        await agent.prompt("x")
    assert heard.of(TurnEnd)[0].error_message is None
    assert agent.view.error_message is None


async def test_what_is_written_between_turns_is_told_at_once() -> None:
    async with watched(["hi"]) as (agent, heard):
        agent.append_message(UserMessage("by the way"))
        agent.session.append_custom_message("note", "n")
        assert heard.names() == ["ms user", "me user", "ms custom", "me custom"]
        assert said(agent.view.messages) == ["by the way", "n"]
        heard.clear()
        await agent.prompt("x")
        assert said(heard.of(AgentEnd)[0].messages) == ["x", "hi"]


async def test_what_only_the_model_is_told_is_no_message() -> None:
    def by_step(payload: Any) -> Any:
        return payload.replace(sections=(f"Step {payload.turn.steps}.",))

    model = ScriptedModel([SUM, "done"], capabilities=["system_prompt_update"])
    agent = Agent(model, tools=[add], hooks={"assemble": [by_step]}, clock=FakeClock())
    async with agent:
        heard = Heard(agent)
        await agent.prompt("x")
        assert [message.role for message in agent.session.context()].count("system") == 1
        kept = agent.view
        assert [each.role for each in kept.messages] == ["user", "assistant", "tool_result", "assistant"]
        heard.stop()
        assert agent.view == kept


async def test_moving_in_the_tree_changes_the_view_and_is_no_event() -> None:
    async with watched(["a", "b"]) as (agent, heard):
        await agent.prompt("x")
        at = agent.session.leaf
        await agent.prompt("y")
        heard.clear()
        agent.session.navigate(at)
        assert heard.events == []
        assert said(agent.view.messages) == ["x", "a"]


async def test_a_result_that_is_replaced_later_changes_the_view_and_is_no_event() -> None:
    async with Agent(ScriptedModel([SUM, "done"]), tools=[add], clock=FakeClock()) as agent:
        heard = Heard(agent)
        await agent.prompt("x")
        (entry,) = [each for each in agent.session.entries if each.type == "tool/result"]
        shorter = Frozen(entry.data, message=entry.data["message"].with_content("(cut)"))
        heard.clear()
        agent.session.append("tool/result", shorter, replaces=(entry.seq, entry.seq), sources=(entry.seq,))
        assert heard.events == []
        assert said(agent.view.messages) == ["x", "", "(cut)", "done"]


async def test_the_end_of_a_call_is_heard_before_the_entry_of_its_result() -> None:
    seen: list[str] = []

    def entry(signal: Signal, _: AbortSignal) -> None:
        seen.append(signal.data["entry"].type)

    async with scripted([SUM, "done"]) as agent:
        agent.ui(lambda event, _: seen.append(event.type))
        agent.on("session/event", entry)
        await agent.prompt("x")
    at = seen.index("tool_execution_end")
    assert seen[at - 2 : at] == ["tool/call", "tool_execution_start"]
    assert seen[at : at + 4] == ["tool_execution_end", "tool/result", "message_start", "message_end"]


async def test_updates_of_a_tool_in_a_thread_are_heard_in_order() -> None:
    @tool
    def far(ctx: ToolContext) -> str:
        """Count."""
        for n in range(3):
            ctx.progress(str(n))
        return "done"

    heard_late: list[str] = []

    async def slowly(event: UiEvent, _: AbortSignal) -> None:
        await checkpoint()
        if isinstance(event, ToolExecutionUpdate):
            heard_late.append("".join(part["text"] for part in event.content))
        if event.type == "tool_execution_end":
            heard_late.append("end")

    async with watched([asks("far"), "ok"], tools=[far]) as (agent, heard):
        agent.ui(slowly)
        await agent.prompt("x")
    assert heard_late == ["0", "1", "2", "end"]
    (update, *_) = heard.of(ToolExecutionUpdate)
    assert (update.tool, update.args) == ("far", {})


@pytest.mark.parametrize("at", range(1, 60, 2))
async def test_whoever_comes_in_the_middle_sees_what_the_log_says(at: int) -> None:
    count = 0
    late: list[Heard] = []

    def come(_: Signal, __: AbortSignal) -> None:
        nonlocal count
        count += 1
        if count == at:
            late.append(Heard(agent))

    async with scripted(STORY) as agent:
        agent.on("*", come)
        await agent.prompt("x")
        await agent.prompt("y")
        assert late, f"fewer than {at} signals"
        kept = agent.view
        late[0].stop()
        assert agent.view == kept
    names = late[0].names()
    assert names.count("ms assistant") == names.count("me assistant")
    assert names[-1] == "settled"


async def test_ending_the_last_subscription_in_the_middle_drops_what_waits() -> None:
    async with scripted(STORY) as agent:
        heard = Heard(agent)

        def leave(event: UiEvent, _: AbortSignal) -> None:
            if event.type == "tool_execution_start":
                heard.stop()
                stop()

        stop = agent.ui(leave)
        await agent.prompt("x")
        assert heard.names()[-1] == "tool_execution_start"
        again = Heard(agent)
        assert again.events == []
        await agent.prompt("y")
        assert again.names()[:2] == ["queue_update", "agent_start"]
        kept = agent.view
        again.stop()
        assert agent.view == kept


async def test_listening_before_the_agent_is_entered() -> None:
    first = Session.memory()
    async with scripted([slows(0, 1)], session=first) as agent:
        agent.follow_up("x")
        await agent.until(State.TOOLING)
        cut_off = list(first.entries)
        drop(agent)
        agent.go_on()
        agent.abort()
    agent = Agent(ScriptedModel(["ok"]), tools=[add, slow], session=copied(cut_off), clock=FakeClock())
    heard = Heard(agent)
    async with agent:
        assert heard.events == []
        assert types(agent.session)[-2:] == ["step/end", "turn/end"]
        assert len(agent.view.messages) == len(agent.session.context()) == 4
        await agent.prompt("y")
        kept = agent.view
        heard.stop()
        assert agent.view == kept


def copied(entries: list[Entry]) -> Session:
    session = Session.memory()
    session.copy(entries)
    return session


class Full(MemoryStore):
    """A store that has no space for the result of a tool."""

    def append(self, entry: Entry) -> None:
        if entry.type == "tool/result":
            raise OSError(28, "No space left on device")


async def test_a_store_that_fails_ends_the_run_for_those_who_listen() -> None:
    session = Session(Full())
    async with scripted([SUM], session=session) as agent:
        heard = Heard(agent)
        agent.follow_up("x")
        await agent.idle()
        assert heard.names()[-2:] == ["agent_end", "settled"]
        assert "No space" in (agent.view.error_message or "")
        assert agent.view.pending_tool_calls == frozenset()
        assert not agent.view.is_streaming
        agent.trace().clear()
        session.entries.clear()


async def test_an_abort_while_it_streams_ends_message_turn_and_run_in_order() -> None:
    async with watched([Reply(chunks=["par", 5.0, "tial"])]) as (agent, heard):
        agent.follow_up("x")
        await agent.clock.sleep(1)
        heard.clear()
        agent.abort("user")
        await agent.idle()
    assert heard.names() == ["me assistant", "turn_end", *ENDS]
    (end,) = heard.of(MessageEnd)
    assert (end.message.text, end.attempt) == ("par", None)


async def test_two_agents_do_not_hear_each_other() -> None:
    async with watched(["a"]) as (one, heard_one), watched(["b"]) as (other, heard_other):
        await one.prompt("x")
        assert heard_other.events == []
        await other.prompt("y")
    assert said(heard_one.of(AgentEnd)[0].messages) == ["x", "a"]
    assert said(heard_other.of(AgentEnd)[0].messages) == ["y", "b"]


def test_nobody_loads_it_who_does_not_listen() -> None:
    script = """
import anyio, sys
from turnchart.machine import Agent, ScriptedModel
async def main():
    async with Agent(ScriptedModel(["hi"])) as agent:
        agent.on("*", lambda signal, abort: None)
        await agent.prompt("x")
        print("turnchart.machine.ui" in sys.modules, "turnchart.machine.view" in sys.modules)
        agent.ui(lambda event, abort: None)
        print("turnchart.machine.ui" in sys.modules)
anyio.run(main)
"""
    ended = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.stdout, ended.stderr) == ("False False\nTrue\n", "")


async def test_a_custom_message_that_waited_is_told_like_any_other() -> None:
    async with watched(["ok"]) as (agent, heard):
        await agent.prompt(CustomMessage("note", "n"))
    assert "ms custom" in heard.names()
    assert [message.role for message in agent.view.messages] == ["custom", "assistant"]


async def test_hearing_costs_no_entry() -> None:
    plain, _ = await run(STORY[:4])
    async with watched(STORY[:4]) as (agent, _):
        await agent.prompt("x")
    assert types(plain.session) == types(agent.session)


async def test_an_abort_is_not_held_up_by_whoever_still_hears_something_else() -> None:
    go_on, reached = anyio.Event(), anyio.Event()

    async def wait(event: UiEvent, _: AbortSignal) -> None:
        if isinstance(event, QueueUpdate) and event.steer:
            reached.set()
            await go_on.wait()

    clock = FakeClock(autojump=False)
    async with scripted([Reply("late", delay=5)], clock=clock) as agent:
        agent.follow_up("x")
        await admitted(agent)
        agent.ui(wait)
        agent.steer("also")
        await reached.wait()
        agent.abort("user")
        for _ in range(20):
            await checkpoint()
        assert types(agent.session)[-1] == "turn/end"
        go_on.set()
        await agent.idle()
