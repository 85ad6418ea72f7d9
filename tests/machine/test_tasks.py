"""The task of a wake: what it raises ends its group, and who cancels the program around an agent stops it."""

import asyncio
from collections.abc import Awaitable, Callable

import anyio
import pytest
from anyio.lowlevel import checkpoint

from turnchart.machine import Agent, Reply, ScriptedModel, State, ToolCall, ToolContext, tool
from turnchart.machine.tasks import current_task, event_for, scope_for, start, timed_scope
from turnchart.machine.verify import verify
from turnchart.testing import FakeClock


async def test_it_runs_beside_whoever_started_it() -> None:
    done = anyio.Event()

    async def run() -> None:
        done.set()

    async with anyio.create_task_group() as group:
        task = start(group, run)
        assert not done.is_set()
        await done.wait()
        assert task is None or not task.cancelled()


async def test_an_event_is_waited_for() -> None:
    async with anyio.create_task_group() as group:
        for each in (event_for(group), event_for(None)):
            group.start_soon(each.wait)
            await checkpoint()
            each.set()
            await each.wait()


async def test_waiting_for_an_event_can_be_cancelled() -> None:
    async def cancel(scope: anyio.CancelScope) -> None:
        scope.cancel()

    async with anyio.create_task_group() as group:
        for scope in (scope_for(group), scope_for(None)):
            with scope:
                group.start_soon(cancel, scope)
                await event_for(group).wait()
            assert scope.cancelled_caught


async def test_a_scope_knows_when_its_time_is_over() -> None:
    with timed_scope(3600) as scope:
        assert anyio.current_effective_deadline() == scope.deadline
        assert 3500 < scope.deadline - anyio.current_time() <= 3600
        await checkpoint()
    with timed_scope(0) as scope:
        await anyio.sleep_forever()
    assert scope.cancelled_caught


async def test_a_task_has_the_id_that_anyio_gives_it() -> None:
    assert current_task() == anyio.get_current_task().id


async def test_a_callback_of_the_loop_is_no_task() -> None:
    if anyio.get_cancelled_exc_class() is not asyncio.CancelledError:
        return
    seen, called = list[int](), anyio.Event()

    def look() -> None:
        seen.append(current_task())
        called.set()

    asyncio.get_running_loop().call_soon(look)
    await called.wait()
    assert seen == [0]


async def test_an_agent_is_woken_by_a_callback_of_the_loop() -> None:
    if anyio.get_cancelled_exc_class() is not asyncio.CancelledError:
        return
    async with Agent(ScriptedModel(["a", "b"])) as agent:
        await agent.prompt("x")
        asyncio.get_running_loop().call_soon(agent.follow_up, "y")
        await checkpoint()
        await agent.idle()
        assert agent.last_turn is not None
        assert agent.last_turn.text == "b"


async def test_what_it_raises_ends_its_group() -> None:
    async def run() -> None:
        await checkpoint()
        raise LookupError("lost")

    async def live() -> None:
        async with anyio.create_task_group() as group:
            start(group, run)
            await anyio.sleep_forever()

    with pytest.raises(ExceptionGroup) as caught:
        await live()
    assert [repr(each) for each in caught.value.exceptions] == ["LookupError('lost')"]


async def test_what_is_no_usual_exception_ends_it_too() -> None:
    class Outcome(BaseException):
        """As that of a test that fails."""

    @tool
    async def judge() -> str:
        """Judge."""
        raise Outcome("failed")

    with pytest.raises(Outcome, match="failed"):
        async with Agent(ScriptedModel([Reply(tool_calls=[ToolCall("judge", {})])]), tools=[judge]) as agent:
            await agent.prompt("x")


@pytest.mark.skipif(not hasattr(asyncio, "eager_task_factory"), reason="Python 3.12 has it first")
async def test_it_does_not_run_within_the_call_that_starts_it() -> None:
    if anyio.get_cancelled_exc_class() is not asyncio.CancelledError:
        return
    loop = asyncio.get_running_loop()
    before = loop.get_task_factory()
    loop.set_task_factory(asyncio.eager_task_factory)  # type: ignore[attr-defined,unused-ignore]  # as above
    try:
        async with Agent(ScriptedModel(["a"])) as agent:
            agent.follow_up("x")
            assert agent.state is State.CLAIMING
            await agent.idle()
    finally:
        loop.set_task_factory(before)


# -- the program around an agent is cancelled -------------------------------------------------------


def made(*replies: object, **settings: object) -> Agent:
    return Agent(ScriptedModel(replies), clock=FakeClock(autojump=False), **settings)  # type: ignore[arg-type]  # as given


async def cancelled_while(
    agent: Agent, begin: Callable[[], Awaitable[object]], last: Callable[[], object] = bool
) -> None:
    """Open an agent, begin something, and cancel the program around it, which does one thing more."""
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:

            async def live() -> None:
                async with agent:
                    await begin()
                    group.cancel_scope.cancel()
                    try:
                        await anyio.sleep_forever()
                    finally:
                        last()

            group.start_soon(live)
    assert agent.state is State.IDLE
    verdict = verify(agent.session.entries)
    assert verdict.ok, verdict.message
    assert not verdict.open


def reasons(agent: Agent) -> list[str]:
    return [entry.data["reason"] for entry in agent.session.entries if entry.type == "turn/end"]


async def test_what_waits_stays_parked() -> None:
    agent = made(Reply("late", delay=5))

    async def begin() -> None:
        agent.follow_up("x")
        while agent.state is not State.REQUESTING:
            await checkpoint()
        agent.follow_up("y")

    await cancelled_while(agent, begin)
    assert reasons(agent) == ["aborted"]
    assert agent.turning.cause == "host"
    assert [item.messages[0].text for item in agent.session.inbox.next_turn] == ["y"]


async def test_a_turn_whose_task_has_not_run_yet_is_closed() -> None:
    agent = made("never")
    await cancelled_while(agent, checkpoint, lambda: agent.follow_up("x"))
    assert (reasons(agent), agent.turning.cause) == (["aborted"], "host")


async def test_an_agent_at_rest_keeps_how_its_last_turn_ended() -> None:
    agent = made("a")

    async def begin() -> None:
        await agent.prompt("x")

    await cancelled_while(agent, begin)
    assert (reasons(agent), agent.turning.cause) == (["completed"], None)


@pytest.mark.parametrize("inside", [True, False], ids=["in the turn", "at its end"])
async def test_a_listener_that_never_returns_keeps_nobody(inside: bool) -> None:
    async def slow(*_: object) -> None:
        if (agent.state is not State.IDLE) is inside:
            reached.set()
            await anyio.sleep_forever()

    async def begin() -> None:
        agent.on("agent/status", slow)
        agent.follow_up("x")
        await reached.wait()

    reached, agent = anyio.Event(), made("a")
    await cancelled_while(agent, begin)
    assert reasons(agent) == ["aborted" if inside else "completed"]
    assert agent.turning.cause == ("host" if inside else None)


async def never(*_: object) -> None:
    await anyio.sleep_forever()


@pytest.mark.parametrize("begun", [True, False], ids=["begun", "not begun"])
async def test_a_listener_that_never_returns_from_any_signal_keeps_nobody(begun: bool) -> None:
    async def begin() -> None:
        agent.on("agent/status", never)
        if begun:
            agent.follow_up("x")
        for _ in range(5):
            await checkpoint()

    agent = made("a")
    await cancelled_while(agent, begin, bool if begun else lambda: agent.follow_up("x"))
    assert reasons(agent) == ["aborted"]


async def test_a_prompt_that_a_listener_sends_at_the_end_begins_no_turn() -> None:
    async def asks(*_: object) -> None:
        if agent.state is State.IDLE:
            agent.follow_up("once more")
            reached.set()
            await anyio.sleep_forever()

    async def begin() -> None:
        agent.on("agent/status", asks)
        agent.follow_up("x")
        await reached.wait()

    reached, agent = anyio.Event(), made("a", "never")
    await cancelled_while(agent, begin)
    assert reasons(agent) == ["completed", "aborted"]


async def test_who_leaves_it_may_be_cancelled_while_a_listener_keeps_it() -> None:
    async def live() -> None:
        async with agent:
            agent.on("agent/status", never)
            agent.follow_up("x")

    agent = made("never")
    async with anyio.create_task_group() as group:
        group.start_soon(live)
        for _ in range(10):
            await checkpoint()
        group.cancel_scope.cancel()
    assert agent.state is State.IDLE
    assert reasons(agent) == ["aborted"]
    assert agent.turning.cause == "disposed"


@pytest.mark.parametrize("later", [0, 1, 3, 8])
async def test_who_is_cancelled_twice_by_asyncio_leaves_nothing_behind(later: int) -> None:
    if anyio.get_cancelled_exc_class() is not asyncio.CancelledError:
        return

    @tool
    async def careful() -> str:
        """Clean up whatever happens."""
        began.set()
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                for _ in range(20):
                    await checkpoint()
                seen.append("clean")
        return "never"

    async def live() -> None:
        async with agent:
            await agent.prompt("x")

    began, seen = anyio.Event(), list[str]()
    agent = made(Reply(tool_calls=[ToolCall("careful", {})]), tools=[careful])
    before = asyncio.all_tasks()
    task = asyncio.create_task(live())
    await began.wait()
    task.cancel()
    for _ in range(later):
        await checkpoint()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (seen, reasons(agent), agent.state) == (["clean"], ["aborted"], State.IDLE)
    assert asyncio.all_tasks() == before


async def test_who_is_cancelled_by_asyncio_while_leaving_waits_for_no_listener() -> None:
    if anyio.get_cancelled_exc_class() is not asyncio.CancelledError:
        return

    async def live() -> None:
        async with agent:
            agent.on("agent/status", never)
            agent.follow_up("x")

    agent, before = made("never"), asyncio.all_tasks()
    task = asyncio.create_task(live())
    for _ in range(10):
        await checkpoint()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert reasons(agent) == ["aborted"]
    assert asyncio.all_tasks() == before


async def test_a_tool_that_shields_itself_is_waited_for() -> None:
    @tool
    async def careful(ctx: ToolContext) -> str:
        """Clean up whatever happens."""
        began.set()
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                for _ in range(5):
                    await checkpoint()
                seen.append(str(ctx.abort.reason))
        return "never"

    async def begin() -> None:
        agent.follow_up("x")
        await began.wait()

    began, seen = anyio.Event(), list[str]()
    agent = made(Reply(tool_calls=[ToolCall("careful", {})]), tools=[careful])
    await cancelled_while(agent, begin)
    assert (seen, reasons(agent)) == (["host"], ["aborted"])
