"""data-flow G 36 to 58: the agent. Its view, its listeners, its signal, resuming, what it refuses."""

import logging
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from tests.conformance.hearing import Heard, requests, roles, said, users, watched
from tests.conformance.toolkit import after, asks
from tests.machine.drive import ADD, add, drop, run, scripted, slows, texts, types

from turnchart.machine import (
    Agent,
    AgentBusy,
    AgentState,
    AppendRefused,
    Failure,
    Queues,
    Reply,
    ScriptedModel,
    State,
    ToolContext,
    tool,
)
from turnchart.machine.abort import AbortSignal
from turnchart.machine.models import ModelRequest
from turnchart.machine.points import AfterStep, Request, TurnStopping
from turnchart.machine.ui import (
    AgentEnd,
    AgentStart,
    MessageEnd,
    ModelUpdate,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
    UiEvent,
)
from turnchart.testing import FakeClock


async def test_g036_what_an_agent_is_before_its_first_prompt() -> None:
    agent = Agent(ScriptedModel())
    assert agent.view == AgentState(model="test")
    view = agent.view
    assert (view.system_prompt, view.thinking_level, view.tools, list(view.messages)) == ("", "off", (), [])
    assert (view.is_streaming, view.streaming_message, view.error_message) == (False, None, None)
    assert view.pending_tool_calls == frozenset()


async def test_g036_what_an_agent_is_made_with_is_seen() -> None:
    agent = Agent(ScriptedModel(id="m"), prompt=["Be brief.", "Be kind."], tools=[add], thinking="high")
    view = agent.view
    assert (view.system_prompt, view.model, view.thinking_level) == ("Be brief.\n\nBe kind.", "m", "high")
    assert [each.name for each in view.tools] == ["add"]
    with pytest.raises(AttributeError):
        view.model = "other"  # type: ignore[misc]  # it is frozen


async def test_g037_subscribing_tells_nothing_and_can_be_ended() -> None:
    async with scripted(["a", "b"]) as agent:
        heard = Heard(agent)
        other = Heard(agent)
        agent.queues = Queues(steering="one-at-a-time")
        agent.approver = None
        assert heard.events == []
        await agent.prompt("x")
        count = len(heard.events)
        assert count == len(other.events) > 0
        heard.stop()
        heard.stop()
        await agent.prompt("y")
        assert len(heard.events) == count
        assert len(other.events) > count


async def test_g037_a_setting_is_told_only_where_it_is_written() -> None:
    async with watched([]) as (agent, heard):
        agent.set_model("other")
        assert heard.of(ModelUpdate) == [ModelUpdate("other", "test")]
        assert agent.view.model == "other"


class Held:
    """A listener that waits at one type of event until it is let go."""

    def __init__(self, agent: Agent, type: str) -> None:
        self._type = type
        self.reached, self.go_on = anyio.Event(), anyio.Event()
        agent.ui(self._hear)

    async def _hear(self, event: UiEvent, _: AbortSignal) -> None:
        if event.type == self._type:
            self.reached.set()
            await self.go_on.wait()


async def test_g040_a_prompt_returns_after_the_listeners_of_agent_end() -> None:
    done: list[object] = []

    async def prompt() -> None:
        done.append(await agent.prompt("x"))

    async with scripted(["hi"]) as agent, anyio.create_task_group() as group:
        held = Held(agent, "agent_end")
        group.start_soon(prompt)
        await held.reached.wait()
        for _ in range(20):
            await checkpoint()
        assert done == []
        assert agent.view.is_streaming
        assert agent.state is State.IDLE
        held.go_on.set()
        await agent.idle()
        assert not agent.view.is_streaming
    assert len(done) == 1


@pytest.mark.parametrize("type", ["message_end", "agent_end"])
async def test_g041_idle_waits_for_a_listener(type: str) -> None:
    rested: list[bool] = []

    async def rest() -> None:
        await agent.idle()
        rested.append(True)

    async with scripted(["hi"]) as agent, anyio.create_task_group() as group:
        held = Held(agent, type)
        agent.follow_up("x")
        await held.reached.wait()
        group.start_soon(rest)
        for _ in range(20):
            await checkpoint()
        assert rested == []
        held.go_on.set()
    assert rested == [True]


async def test_g042_listeners_get_the_signal_of_the_turn_and_an_abort_sets_it() -> None:
    async with watched([Reply("late", delay=5), "again"]) as (agent, heard):
        agent.follow_up("x")
        await agent.until(State.REQUESTING)
        running = agent.turning.abort
        agent.go_on()
        agent.abort("user")
        await agent.idle()
        of_the_run = heard.signals[heard.names().index("agent_start") :]
        assert {id(each) for each in of_the_run} == {id(running)}
        assert (running.aborted, running.reason) == (True, "user")
        heard.clear()
        drop(agent)
        agent.model = ScriptedModel(["again"])
        await agent.prompt("y")
        (fresh,) = {id(each) for each in heard.signals[heard.names().index("agent_start") :]}
        assert fresh != id(running)
        assert not heard.signals[-1].aborted


async def test_g043_progress_of_a_call_that_is_over_is_heard_by_nobody() -> None:
    kept: list[ToolContext] = []

    @tool(execution="parallel")
    async def quick(ctx: ToolContext) -> str:
        """Say something and leave."""
        kept.append(ctx)
        ctx.progress("in time")
        return "done"

    @tool(execution="parallel")
    async def sibling(ctx: ToolContext) -> str:
        """Speak for the other, which is over."""
        await ctx.clock.sleep(1)
        kept[0].progress("late")
        return "done"

    async with watched([asks("quick", "sibling"), "ok"], tools=[quick, sibling]) as (agent, heard):
        await agent.prompt("x")
        kept[0].progress("much too late")
    assert [said_of(event) for event in heard.of(ToolExecutionUpdate)] == ["in time"]


def said_of(event: ToolExecutionUpdate) -> str:
    return "".join(part["text"] for part in event.content)


@pytest.mark.parametrize("send", ["steer", "follow_up"])
async def test_g044_input_to_an_idle_agent_wakes_it(send: str) -> None:
    async with watched(["hi"]) as (agent, _):
        getattr(agent, send)("x")
        assert agent.status == "running"
        assert roles(agent.session) == []
        await agent.idle()
        assert roles(agent.session) == ["user", "assistant"]


async def test_g045_aborting_an_idle_agent_is_harmless() -> None:
    async with watched(["hi"]) as (agent, heard):
        assert agent.abort("user") == ()
        assert heard.events == []
        assert (await agent.prompt("x")).ok


async def test_g046_prompting_and_resuming_while_a_turn_is_open_are_refused() -> None:
    async with watched(["hi"]) as (agent, _):
        agent.follow_up("x")
        await agent.until(State.REQUESTING)
        with pytest.raises(AgentBusy):
            await agent.prompt("y")
        with pytest.raises(AgentBusy):
            agent.resume()
        agent.go_on()
        await agent.idle()
        assert agent.resume() is False
    assert types(agent.session).count("turn/start") == 1


async def test_g047_resuming_delivers_a_parked_prompt() -> None:
    async with watched([Failure("auth"), "hi"]) as (agent, _):
        agent.follow_up("x")
        agent.follow_up("next")
        await agent.idle()
        assert agent.parked
        assert agent.resume() is True
        await agent.idle()
        assert not agent.parked
        assert roles(agent.session) == ["user", "user", "assistant"]


async def test_g049_hooks_of_a_request_get_the_signal_of_the_turn() -> None:
    seen: list[object] = []

    def look(payload: Request | AfterStep | TurnStopping) -> None:
        seen.append(payload.abort)

    hooks: dict[str, Any] = {"request": [look], "after_step": [look], "turn_stopping": [look]}
    agent, _ = await run(["hi"], hooks=hooks)
    assert seen == [agent.turning.abort] * 3


async def test_g051_an_agent_needs_a_model() -> None:
    with pytest.raises(TypeError):
        Agent()  # type: ignore[call-arg]  # that is the test
    async with Agent("nowhere:nothing", clock=FakeClock()) as agent:
        turn = await agent.prompt("x")
    assert turn.reason == "error"
    assert "no model 'nowhere:nothing'" in str(turn.error)


@pytest.mark.parametrize(
    ("mode", "replies", "want"),
    [
        ("all", ["a", "b"], [["x"], ["x", "one", "two"]]),
        ("one-at-a-time", ["a", "b", "c"], [["x"], ["x", "one"], ["x", "one", "two"]]),
    ],
)
async def test_g052_steering_all_at_once_or_one_at_a_time(
    mode: Any, replies: list[str], want: list[list[str]]
) -> None:
    async with watched(replies, queues=Queues(steering=mode)) as (agent, _):
        agent.follow_up("x")
        await agent.until(State.REQUESTING)
        agent.steer("one")
        agent.steer("two")
        agent.go_on()
        await agent.idle()
    assert users(agent) == want


async def test_g053_another_model_counts_from_the_next_step() -> None:
    other = ScriptedModel(["done"], id="other")

    @tool
    def switch() -> str:
        """Choose another model."""
        agent.set_model("other")
        assert agent.view.model == "test"
        return "switched"

    async with watched([asks("switch")], tools=[switch], models={"other": other}) as (agent, heard):
        turn = await agent.prompt("x")
    assert [request.model for request in requests(agent)] == ["test"]
    assert [request.model for request in other.requests] == ["other"]
    assert turn.text == "done"
    names = heard.names()
    assert names.index("turn_end") < names.index("model_update") < names.index("save_point")


async def test_g054_an_abort_empties_the_inbox_unless_it_is_kept() -> None:
    async with watched([Reply("late", delay=5), "hi", "ho"]) as (agent, _):
        agent.follow_up("x")
        await agent.until(State.REQUESTING)
        agent.steer("steered")
        agent.follow_up("next")
        agent.go_on()
        assert agent.abort("user", keep_inbox=True) == ()
        await agent.idle()
        assert agent.parked
        agent.resume()
        await agent.idle()
        # The first prompt was put back, as it had not been admitted.
        assert texts(agent.session, "user/message") == ["steered", "x", "next"]
        drop(agent)


async def test_g054_resuming_after_an_abort_delivers_both_in_order() -> None:
    async def cut(agent: Agent, clock: FakeClock) -> None:
        await clock.sleep(1)
        agent.steer("steered")
        agent.follow_up("next")
        agent.abort("user", keep_inbox=True)
        await agent.idle()
        agent.model = ScriptedModel(["hi"])
        agent.resume()

    agent, (turn,) = await run([Reply("late", delay=5)], act=cut)
    assert turn.reason == "aborted"
    assert texts(agent.session, "user/message") == ["x", "steered", "next"]


async def test_g055_the_set_of_pending_calls_is_another_one_at_each_change() -> None:
    async with watched([slows(0, 1), "done"]) as (agent, heard):
        await agent.prompt("x")
    (first, second) = [event.call_id for event in heard.of(ToolExecutionStart)]
    seen = [view.pending_tool_calls for view in heard.at((ToolExecutionStart, ToolExecutionEnd))]  # type: ignore[arg-type]  # what isinstance takes
    assert seen == [{first}, {first, second}, {second}, frozenset()]
    assert len({id(each) for each in seen}) == 4
    assert all(isinstance(each, frozenset) for each in seen)


async def test_g055_the_same_without_anybody_who_listens() -> None:
    seen: list[frozenset[str]] = []

    @tool(execution="parallel")
    async def look(ctx: ToolContext) -> str:
        """Look at the agent."""
        seen.append(agent.view.pending_tool_calls)
        assert agent.view.is_streaming
        return ctx.call_id

    async with scripted([asks("look"), "done"], tools=[look]) as agent:
        await agent.prompt("x")
        assert agent.view.pending_tool_calls == frozenset()
        assert not agent.view.is_streaming
    assert [sorted(each) for each in seen] == [texts(agent.session, "tool/result")]


async def test_g056_agent_end_has_what_this_run_added() -> None:
    async with watched([ADD, "a", "b", "c"]) as (agent, heard):
        agent.follow_up("one")
        await agent.until(State.TOOLING)
        agent.steer("steered")
        agent.follow_up("two")
        agent.go_on()
        await agent.idle()
        await agent.prompt("three")
    first, second = heard.of(AgentEnd)
    assert said(first.messages) == ["one", "", "3", "steered", "a", "two", "b"]
    assert said(second.messages) == ["three", "c"]


async def test_g057_a_listener_that_raises_breaks_nothing_and_is_reported_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def bad(_: UiEvent, __: AbortSignal) -> None:
        raise ValueError("boom")

    async with scripted(["a", "b"]) as agent:
        agent.ui(bad)
        heard = Heard(agent)
        with caplog.at_level(logging.ERROR):
            assert (await agent.prompt("x")).ok
            assert (await agent.prompt("y")).ok
    assert len(heard.of(AgentEnd)) == 2
    assert [record.message.count("failed on") for record in caplog.records] == [1]


async def test_g058_the_conversation_is_not_taken_away_under_a_turn() -> None:
    async with watched(["hi"]) as (agent, _):
        agent.follow_up("x")
        await agent.until(State.REQUESTING)
        with pytest.raises(AppendRefused, match="turn 1 is open"):
            agent.session.navigate(None)
        agent.go_on()
        await agent.idle()
        agent.session.navigate(None)
        assert list(agent.view.messages) == []


# -- what lies between -----------------------------------------------------------------------------------


async def test_b8_listeners_are_awaited_in_the_order_in_which_they_came() -> None:
    seen: list[str] = []

    def listener(name: str, wait: int) -> Any:
        async def hear(event: UiEvent, _: AbortSignal) -> None:
            for _each in range(wait):
                await checkpoint()
            seen.append(f"{name} {event.type}")

        return hear

    async with scripted(["hi"]) as agent:
        agent.ui(listener("slow", 5))
        agent.ui(lambda event, _: seen.append(f"plain {event.type}"))
        agent.ui(listener("quick", 0))
        await agent.prompt("x")
    each = [name.split()[1] for name in seen if name.startswith("slow")]
    assert each[-2:] == ["agent_end", "settled"]
    run_of = seen[seen.index("slow turn_start") :]
    wanted = [
        f"{who} {type}" for type in each[each.index("turn_start") :] for who in ("slow", "plain", "quick")
    ]
    assert run_of == wanted
    assert [name.split()[1] for name in seen if name.startswith("plain")] == each


async def test_b8_the_view_is_changed_before_the_listeners_run() -> None:
    async with watched([ADD, "done"]) as (agent, heard):
        await agent.prompt("x")
    ends = [
        (event.message, view) for event, view in zip(heard.events, heard.views, strict=True)
        if isinstance(event, MessageEnd)
    ]  # fmt: skip
    assert [len(view.messages) for _, view in ends] == [1, 2, 3, 4]
    assert all(view.messages[-1] is message and view.streaming_message is None for message, view in ends)


async def test_b8_an_answer_is_in_the_view_before_the_hooks_of_its_tools_run() -> None:
    seen: list[list[str]] = []

    def look(_: object) -> None:
        seen.append([message.role for message in agent.view.messages])

    async with watched([ADD, "done"], hooks={"pre_tool": [look]}) as (agent, _):
        await agent.prompt("x")
    assert seen == [["user", "assistant"]]


async def test_b8_an_error_is_seen_until_the_next_run() -> None:
    async with watched([Failure("auth", message="no key"), "hi"]) as (agent, heard):
        await agent.prompt("x")
        assert "no key" in (agent.view.error_message or "")
        await agent.prompt("y")
        assert agent.view.error_message is None
    assert [view.error_message is None for view in heard.at(AgentStart)] == [True, True]


async def test_b8_waiting_for_oneself_is_refused_and_not_a_dead_lock() -> None:
    raised: list[str] = []

    async def impatient(event: UiEvent, _: AbortSignal) -> None:
        if event.type in ("message_end", "queue_update"):
            for wait in (agent.idle, lambda: agent.prompt("y")):
                try:
                    await wait()
                except (RuntimeError, AgentBusy) as error:
                    raised.append(type(error).__name__)

    async with scripted(["hi"]) as agent:
        stop = agent.ui(impatient)
        agent.inject("z")
        for _ in range(20):
            await checkpoint()
        assert raised == ["RuntimeError", "RuntimeError"]
        await agent.prompt("x")
        stop()
    assert set(raised) == {"RuntimeError", "AgentBusy"}


async def test_b10_a_message_that_was_cut_off_keeps_what_was_shown() -> None:
    reply = Reply(chunks=["par", 5.0, "tial"])
    agent, (turn,) = await run([reply], act=after(1, lambda agent: agent.abort("user")))
    assert turn.reason == "aborted"
    (message,) = [each for each in agent.view.messages if each.role == "assistant"]
    assert (message.text, message["stop_reason"]) == ("par", "aborted")


async def test_a7_a_request_is_frozen_and_its_own() -> None:
    async with watched([ADD, "done"]) as (agent, _):
        await agent.prompt("x")
    first, second = requests(agent)
    assert isinstance(first, ModelRequest)
    assert len(first.messages) == 1
    assert len(second.messages) == 3
