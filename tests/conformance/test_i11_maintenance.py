"""I.11 of the lifecycle: a job that runs while no turn can begin, and the wakes that are kept meanwhile."""

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from tests.conformance.watching import count, ends, hear, refuse, turns, waiting, when
from tests.machine.drive import scripted, types

from turnchart.machine import Agent, AgentBusy, State

Job = Callable[[Agent], Awaitable[object]]


class Held:
    """A job that waits until it is let go."""

    def __init__(self, result: object = "done") -> None:
        self.began, self.over = anyio.Event(), anyio.Event()
        self.result = result

    async def __call__(self, agent: Agent) -> object:
        """Wait, then give or raise the result."""
        assert agent.state is State.MAINTENANCE
        self.began.set()
        await self.over.wait()
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


async def test_i213_a_follow_up_waits_for_the_job_and_is_one_turn_then() -> None:
    job = Held()
    async with scripted(["a", "b"]) as agent, anyio.create_task_group() as group:
        group.start_soon(agent.maintain, job)
        await job.began.wait()
        agent.follow_up("x")
        agent.steer("s")
        await checkpoint()
        assert count(agent.session, "turn/start") == (0,)
        assert waiting(agent) == (["s"], ["x"], [])
        job.over.set()
        await agent.idle()
        assert turns(agent.session) == [["s", "x"]]
        agent.model.drop()  # type: ignore[union-attr]  # scripted


async def test_i213_two_follow_ups_are_two_turns_in_one_running_interval() -> None:
    job = Held()
    async with scripted(["a", "b"]) as agent, anyio.create_task_group() as group:
        heard = hear(agent, "agent/status")
        group.start_soon(agent.maintain, job)
        await job.began.wait()
        agent.follow_up("x")
        agent.follow_up("y")
        job.over.set()
        await agent.idle()
        assert (turns(agent.session), heard) == ([["x"], ["y"]], ["status running", "status idle"])


@pytest.mark.parametrize("gone", ["remove", "clear", "abort"])
async def test_i214_if_the_message_is_gone_no_turn_begins(gone: str) -> None:
    job = Held()
    async with scripted([]) as agent, anyio.create_task_group() as group:
        agent.next_turn("r")
        group.start_soon(agent.maintain, job)
        await job.began.wait()
        item = agent.follow_up("x")
        acts: dict[str, Callable[[], Any]] = {
            "remove": lambda: agent.remove(item.id), "clear": agent.clear, "abort": agent.abort,
        }  # fmt: skip
        acts[gone]()
        if gone == "abort":
            agent.inject("i")
        job.over.set()
        await agent.idle()
        assert (count(agent.session, "turn/start"), agent.state) == ((0,), State.IDLE)
        assert waiting(agent)[2] == ["r"]


async def test_i215_a_job_while_a_turn_or_another_job_runs_is_refused_at_once() -> None:
    job = Held()
    async with scripted(["a"]) as agent:
        agent.follow_up("x")
        with pytest.raises(AgentBusy, match="claiming"):
            await agent.maintain(job)
        await agent.idle()
        async with anyio.create_task_group() as group:
            group.start_soon(agent.maintain, job)
            await job.began.wait()
            with pytest.raises(AgentBusy, match="maintenance"):
                await agent.maintain(job)
            with pytest.raises(AgentBusy, match="maintenance"):
                await agent.prompt("y")
            job.over.set()
        assert agent.state is State.IDLE


async def test_i216_a_job_gives_its_result_or_raises_and_the_agent_is_idle_either_way() -> None:
    async with scripted(["a"]) as agent:
        job = Held(7)
        job.over.set()
        assert await agent.maintain(job) == 7
        job = Held(ValueError("no"))
        job.over.set()
        with pytest.raises(ValueError, match="no"):
            await agent.maintain(job)
        assert (agent.state, agent.session.entries) == (State.IDLE, [])
        assert (await agent.prompt("x")).number == 1


async def test_i217_a_job_is_idle_for_everybody_and_tells_no_status() -> None:
    job = Held()
    async with scripted([]) as agent, anyio.create_task_group() as group:
        heard = hear(agent)
        group.start_soon(agent.maintain, job)
        await job.began.wait()
        assert (agent.status, agent.state) == ("idle", State.MAINTENANCE)
        job.over.set()
        await agent.idle()
        assert (agent.status, agent.state, heard) == ("idle", State.IDLE, [])


async def test_i218_an_inject_meanwhile_waits_for_the_next_step_and_wakes_nobody() -> None:
    job = Held()
    async with scripted(["a"]) as agent, anyio.create_task_group() as group:
        group.start_soon(agent.maintain, job)
        await job.began.wait()
        agent.inject("i")
        agent.next_turn("r")
        job.over.set()
        await agent.idle()
        assert (waiting(agent), agent.parked) == ((["i"], [], ["r"]), True)
        await agent.prompt("x")
        assert turns(agent.session) == [["i", "r", "x"]]


# -- what lies between -------------------------------------------------------------------------------


async def test_an_abort_only_sets_the_signal_of_the_job() -> None:
    async def job(agent: Agent) -> str:
        return await agent.turning.abort.wait()

    async def run() -> None:
        reasons.append(await agent.maintain(job))

    reasons: list[str] = []
    async with scripted([]) as agent, anyio.create_task_group() as group:
        group.start_soon(run)
        while agent.state is State.IDLE:
            await checkpoint()
        agent.abort("enough")
        await agent.idle()
        assert reasons == ["enough"]
        assert types(agent.session) == []


async def test_a_wake_after_such_an_abort_is_still_kept() -> None:
    job = Held()
    async with scripted(["a"]) as agent, anyio.create_task_group() as group:
        group.start_soon(agent.maintain, job)
        await job.began.wait()
        agent.abort()
        agent.steer("s")
        job.over.set()
        await agent.idle()
        assert turns(agent.session) == [["s"]]


async def test_a_job_that_is_cancelled_leaves_the_agent_idle_and_the_wake_is_honoured() -> None:
    job = Held()
    async with scripted(["a"]) as agent:
        async with anyio.create_task_group() as group:
            group.start_soon(agent.maintain, job)
            await job.began.wait()
            agent.follow_up("x")
            group.cancel_scope.cancel()
        await agent.idle()
        assert (turns(agent.session), ends(agent.session)) == ([["x"]], ["completed"])


async def test_what_is_written_meanwhile_is_written_when_the_job_is_over() -> None:
    job = Held()
    async with scripted([]) as agent, anyio.create_task_group() as group:
        group.start_soon(agent.maintain, job)
        await job.began.wait()
        agent.set_thinking_level("high")
        job.over.set()
        await agent.idle()
        assert types(agent.session) == ["thinking_level_change"]


async def test_a_veto_of_the_turn_after_the_job_parks_what_waits() -> None:
    job = Held()
    async with scripted(["a"]) as agent, anyio.create_task_group() as group:
        group.start_soon(agent.maintain, job)
        await job.began.wait()
        agent.follow_up("x")
        stop = refuse(agent.session, "turn/start")
        heard = hear(agent, "agent/error", "agent/status")
        job.over.set()
        await agent.idle()
        stop()
        assert heard == ["status running", "agent/error", "status idle"]
        assert (agent.state, agent.parked) == (State.IDLE, True)
        agent.trace().clear()
        agent.resume()
        await agent.idle()
        assert turns(agent.session) == [["x"]]


async def test_the_last_turn_is_still_known_after_a_job() -> None:
    async with scripted(["a"]) as agent:
        turn = await agent.prompt("x")
        await agent.maintain(lambda _: checkpoint())
        assert agent.last_turn == turn


async def test_a_job_can_begin_while_listeners_still_hear_of_the_last_turn() -> None:
    async def slow(*_: object) -> None:
        for _i in range(5):
            await checkpoint()

    async def job(_: Agent) -> None:
        for _i in range(20):
            await checkpoint()

    async with scripted(["a", "b"]) as agent:
        agent.on("agent/status", slow)
        agent.follow_up("x")
        while agent.state is not State.IDLE:
            await checkpoint()
        with anyio.fail_after(5):
            await agent.maintain(job)
            await agent.idle()
        assert (await agent.prompt("y")).ok


async def test_a_listener_may_start_a_job_when_it_hears_of_rest() -> None:
    done: list[object] = []

    async def listen(*_: object) -> None:
        if not done and agent.state is State.IDLE:
            done.append(await agent.maintain(Held.__call__.__get__(job)))

    job = Held()
    job.over.set()
    async with scripted(["a", "b"]) as agent:
        when(agent, "status idle", lambda: None)
        agent.on("agent/status", listen)
        await agent.prompt("x")
        await agent.prompt("y")
        assert done == ["done"]


async def test_a_job_cannot_wait_for_the_end_of_its_own_maintenance() -> None:
    rested: list[int] = []

    async def beside(agent: Agent, done: anyio.Event) -> None:
        await agent.idle()
        rested.append(1)
        done.set()

    async def job(agent: Agent) -> None:
        with pytest.raises(RuntimeError, match=r"would wait for itself.*a job inside its maintenance"):
            await agent.idle()

    async with scripted(["a"]) as agent:
        await agent.maintain(job)
        await agent.idle()
        held, done = Held(), anyio.Event()
        async with anyio.create_task_group() as group:
            group.start_soon(agent.maintain, held)
            await held.began.wait()
            group.start_soon(beside, agent, done)  # somebody else may wait for it
            await checkpoint()
            assert rested == []
            held.over.set()
            await done.wait()
        assert (await agent.prompt("x")).text == "a"
