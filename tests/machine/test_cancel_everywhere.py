"""Whatever happens at whichever await: the agent comes to rest, and its log is closed and legal."""

import asyncio
from collections.abc import Awaitable, Callable

import anyio
import pytest
from tests.machine.drive import drop, types
from tests.machine.everywhere import (
    SCRIPTS,
    SECONDS,
    Checkpoints,
    Script,
    Walker,
    at_rest,
    begin,
    check_closed,
    check_walk,
)

from turnchart.machine import TurnFailed

Played = Callable[[Script, int], Awaitable[Walker]]

of_every_script = pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)


async def clean(script: Script) -> tuple[int, Walker]:
    """Play a script undisturbed; return how many checkpoints it has, and the agent."""
    points = Checkpoints()
    agent = begin(script, points)
    with anyio.fail_after(SECONDS):
        async with agent:
            await script.play(agent, points)
            await agent.idle()
            count = points.count
            await at_rest(agent, points)
            check_walk(agent)
    return count, agent


async def meddled(script: Script, at: int, act: Callable[[Walker], object]) -> Walker:
    """Play a script in which somebody does something to the agent at one checkpoint."""
    points = Checkpoints(at)
    agent = begin(script, points)
    points.act = lambda: act(agent)
    with anyio.fail_after(SECONDS):
        async with agent:
            try:
                await script.play(agent, points)
            except TurnFailed:
                pass
            await at_rest(agent, points)
            check_walk(agent)
    return agent


async def aborted(script: Script, at: int) -> Walker:
    return await meddled(script, at, lambda agent: agent.abort())


async def aborted_keeping_the_inbox(script: Script, at: int) -> Walker:
    return await meddled(script, at, lambda agent: agent.abort(keep_inbox=True))


async def aborted_twice_with_a_prompt_between(script: Script, at: int) -> Walker:
    def act(agent: Walker) -> None:
        agent.abort("first")
        agent.follow_up("meanwhile")
        agent.abort("second")

    return await meddled(script, at, act)


async def prompt_cancelled(script: Script, at: int) -> Walker:
    """Play a script whose prompt() is cancelled at one checkpoint: its turn is over when that returns."""
    points = Checkpoints(at)
    agent = begin(script, points)
    with anyio.fail_after(SECONDS):
        async with agent:
            with anyio.CancelScope() as scope:
                points.act = scope.cancel
                await script.play(agent, points)
            if scope.cancelled_caught and agent.session.brackets.turn:
                assert "turn/end" in types(agent.session) or script.name == "maintenance"
            await at_rest(agent, points)
            check_walk(agent)
    return agent


async def host_cancelled(script: Script, at: int) -> Walker:
    """Play a script whose whole ``async with agent`` is cancelled at one checkpoint."""
    points = Checkpoints(at)
    agent = begin(script, points)
    with anyio.fail_after(SECONDS):
        with anyio.CancelScope() as scope:
            points.act = scope.cancel
            async with agent:
                await script.play(agent, points)
        check_closed(agent.session)
        assert agent.state == "idle"
        async with agent:
            await at_rest(agent, points)
    return agent


async def natively_cancelled(script: Script, at: int) -> Walker:
    """Play a script in a task of asyncio that is cancelled at one checkpoint, as by ``asyncio.timeout``."""
    if anyio.get_cancelled_exc_class() is not asyncio.CancelledError:
        return await host_cancelled(script, at)
    points = Checkpoints(at)
    agent = begin(script, points)

    async def live() -> None:
        async with agent:
            await script.play(agent, points)

    task = asyncio.create_task(live())
    points.act = task.cancel
    with anyio.fail_after(SECONDS):
        await asyncio.wait([task])
        assert task.cancelled() or task.exception() is None
        check_closed(agent.session)
        assert agent.state == "idle"
        async with agent:
            await at_rest(agent, points)
    return agent


async def sibling_failed(script: Script, at: int) -> Walker:
    """Play a script in a group that another of its tasks ends at one checkpoint."""
    points, failing = Checkpoints(at), anyio.Event()
    points.act = failing.set
    agent = begin(script, points)

    async def fail() -> None:
        await failing.wait()
        raise Boom("sibling")

    async def live() -> None:
        async with agent:
            await script.play(agent, points)
            drop(agent)  # what the second of two prompts would have asked for
        failing.set()

    async def both() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(fail)
            group.start_soon(live)

    with anyio.fail_after(SECONDS):
        with pytest.raises(ExceptionGroup) as caught:
            await both()
        assert [str(each) for each in caught.value.exceptions] == ["sibling"]
        check_closed(agent.session)
        assert agent.state == "idle"
        async with agent:
            await at_rest(agent, points)
    return agent


class Boom(Exception):
    """Raised where no exception is expected."""


def _raise() -> None:
    raise Boom("boom")


async def broken(script: Script, at: int) -> Walker:
    """Play a script in which the hook, tool, model, clock or listener of one checkpoint raises."""
    points = Checkpoints(at)
    points.act = _raise
    agent = begin(script, points)
    errors: list[object] = []
    agent.on("agent/error", lambda signal, _: errors.append(signal.data["error"]))
    with anyio.fail_after(SECONDS):
        async with agent:
            try:
                await script.play(agent, points)
            except (Boom, TurnFailed):
                pass
            await agent.idle()
            failed = [each for each in agent.session.entries if each.data.get("reason") == "error"]
            assert len(errors) == len(failed)
            await at_rest(agent, points)
            check_walk(agent)
    return agent


QUEUEING = ("steering", "empty", "polls")
"""The scripts in which something waits while the agent works."""


def meddling(script: Script) -> list[Played]:
    """Return what may happen in a script."""
    more = [aborted_keeping_the_inbox, aborted_twice_with_a_prompt_between] if script.name in QUEUEING else []
    if script.name != "time limit":  # a clock that fails under that watch is nobody's to contain
        more.append(broken)
    return [aborted, prompt_cancelled, host_cancelled, natively_cancelled, sibling_failed, *more]


@pytest.mark.parametrize(
    ("script", "played"),
    [(script, played) for script in SCRIPTS for played in meddling(script)],
    ids=lambda each: each.name if isinstance(each, Script) else each.__name__,
)
async def test_at_every_await(script: Script, played: Played) -> None:
    count, _ = await clean(script)
    assert count > 0
    for at in range(1, count + 1):
        await played(script, at)


@of_every_script
async def test_a_script_comes_out_the_same_each_time(script: Script) -> None:
    """The count of a clean run is what a sweep goes through, so it must not depend on chance."""
    first, agent = await clean(script)
    second, other = await clean(script)
    assert first == second
    assert types(agent.session) == types(other.session)
