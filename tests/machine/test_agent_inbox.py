"""What is sent to an agent: when it is read, together with what, and that no wake is lost."""

import asyncio
from collections.abc import Callable

import anyio
import pytest
import trio
from tests.machine.drive import calls, drop, scripted, texts, types

from turnchart.machine import (
    Agent,
    Failure,
    Queues,
    Reply,
    ScriptedModel,
    Session,
    Signal,
    State,
    UserMessage,
)
from turnchart.machine.abort import AbortSignal
from turnchart.machine.points import PreStep, Reject

ADD = calls(("add", {"a": 1, "b": 2}))


def starts(session: Session) -> int:
    return types(session).count("turn/start")


async def test_steering_an_idle_agent_opens_a_turn_and_an_inject_waits_for_one() -> None:
    async with scripted(["a"]) as agent:
        agent.inject("by the way", source="me")
        assert agent.state == "idle"
        assert agent.parked
        agent.steer("now")
        await agent.idle()
        assert texts(agent.session, "user/message") == ["by the way", "now"]
        (first, _) = [e.data["message"] for e in agent.session.entries if e.type == "user/message"]
        assert first["source"] == "me"


async def test_a_list_is_one_item_and_one_user_message_each() -> None:
    async with scripted(["a"]) as agent:
        item = agent.follow_up([UserMessage("one"), UserMessage("two")])
        await agent.idle()
        assert [message.text for message in item.messages] == ["one", "two"]
        assert texts(agent.session, "user/message") == ["one", "two"]
        assert starts(agent.session) == 1


async def test_follow_ups_open_one_turn_each_unless_all_are_asked_for_together() -> None:
    async with scripted(["a", "b"]) as agent:
        agent.follow_up("one")
        agent.follow_up("two")
        await agent.idle()
        assert starts(agent.session) == 2
    async with scripted(["a", "b"]) as agent:
        agent.follow_up("one")
        agent.queues = Queues(follow_up="all")
        agent.follow_up("two")
        agent.follow_up("three")
        await agent.idle()
        assert starts(agent.session) == 2
        assert texts(agent.session, "user/message") == ["one", "two", "three"]


async def test_one_at_a_time_holds_back_steering_and_never_injects() -> None:
    async with scripted(["a", "b", "c"], queues=Queues(steering="one-at-a-time")) as agent:
        agent.follow_up("x")
        await agent.until(State.REQUESTING)
        agent.steer("one")
        agent.steer("two")
        agent.inject("and this")
        agent.go_on()
        await agent.idle()
        assert texts(agent.session, "user/message") == ["x", "one", "and this", "two"]
        assert types(agent.session).count("step/start") == 3


async def test_a_rider_starts_no_turn_enters_no_running_one_and_goes_with_the_next_prompt() -> None:
    async with scripted(["a", "b"]) as agent:
        agent.next_turn("rider")
        assert not agent.parked
        assert not agent.resume()
        assert agent.state == "idle"
        agent.follow_up("x")
        await agent.until(State.REQUESTING)
        agent.next_turn("late rider")
        agent.steer("steer")
        agent.go_on()
        await agent.idle()
        assert texts(agent.session, "user/message") == ["rider", "x", "steer"]
        assert [item.messages[0].text for item in agent.queued.riders] == ["late rider"]


async def test_a_parked_inbox_goes_on_when_it_is_told_to() -> None:
    seen: list[int] = []

    def first(payload: PreStep) -> Reject | None:
        seen.append(payload.turn.number)
        return Reject("no") if len(seen) == 1 else None

    async with scripted(["a"], hooks={"pre_step": [first]}) as agent:
        agent.follow_up("one")
        agent.follow_up("two")
        await agent.idle()
        assert agent.parked
        assert agent.resume()
        await agent.idle()
        assert not agent.parked
        assert not agent.resume()
        assert texts(agent.session, "user/message") == ["two"]


async def test_a_prompt_that_follows_on_goes_without_idle_between() -> None:
    heard: list[str] = []
    async with scripted(["a", "b"]) as agent:
        agent.on("agent/status", lambda signal, _: heard.append(signal.data["status"]))
        agent.follow_up("one")
        agent.follow_up("two")
        await agent.idle()
    assert heard == ["running", "idle"]


@pytest.mark.parametrize("kind", ["plain", "async"])
async def test_no_wake_of_an_idle_listener_is_lost(kind: str) -> None:
    left = ["two", "three"]
    async with scripted(["a", "b", "c"]) as agent:

        def hear(signal: Signal, _: AbortSignal) -> None:
            if signal.data["status"] == "idle" and left:
                agent.follow_up(left.pop(0))

        async def hear_async(signal: Signal, abort: AbortSignal) -> None:
            await anyio.lowlevel.checkpoint()
            hear(signal, abort)

        agent.on("agent/status", hear if kind == "plain" else hear_async)
        with anyio.fail_after(5):
            await agent.prompt("one")
        assert agent.state == "idle"
        assert texts(agent.session, "user/message") == ["one", "two", "three"]


async def test_no_wake_is_lost_after_a_turn_that_failed() -> None:
    async with scripted([Failure("auth"), "b"]) as agent:

        def hear(signal: Signal, _: AbortSignal) -> None:
            agent.follow_up("again")

        agent.on("agent/error", hear)
        await agent.prompt("one")
        await agent.idle()
        assert texts(agent.session, "assistant/message") == ["b"]


async def test_a_listener_may_send_when_the_agent_begins_to_run() -> None:
    async with scripted(["a", "b"]) as agent:

        def hear(signal: Signal, _: AbortSignal) -> None:
            if signal.data["status"] == "running":
                agent.follow_up("two")

        agent.on("agent/status", hear)
        turn = await agent.prompt("one")
        assert turn.ok
        assert texts(agent.session, "user/message") == ["one", "two"]


async def test_a_callback_of_the_loop_that_is_no_task_may_send_and_abort(anyio_backend_name: str) -> None:
    call_soon: Callable[..., object]
    if anyio_backend_name == "asyncio":
        call_soon = asyncio.get_running_loop().call_soon
    else:
        call_soon = trio.lowlevel.current_trio_token().run_sync_soon

    async with scripted([Reply("late", delay=50)]) as agent:
        heard: list[str] = []
        agent.on("*", lambda signal, _: heard.append(signal.kind))
        call_soon(agent.follow_up, "x")
        await agent.until(State.REQUESTING)
        agent.go_on()
        call_soon(agent.abort)
        while agent.turning.cause is None:
            await anyio.lowlevel.checkpoint()
        await agent.idle()
        assert agent.session.entries[-1].data["reason"] == "aborted"
        assert "agent/inbox/inserted" in heard
        drop(agent)


async def test_an_agent_works_inside_its_async_with_only() -> None:
    agent = Agent(ScriptedModel())
    for send in (agent.follow_up, agent.steer):
        with pytest.raises(RuntimeError, match="works inside `async with agent:`"):
            send("x")
    with pytest.raises(RuntimeError, match="works inside"):
        await agent.prompt("x")
    assert types(agent.session) == []
    assert (agent.state, agent.abort()) == ("idle", ())
