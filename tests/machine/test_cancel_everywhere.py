"""Whatever happens at whichever await: the agent comes to rest, and its log is closed and legal."""

from collections.abc import Awaitable, Callable

import anyio
import pytest

from tests.machine.drive import types
from tests.machine.everywhere import (
    SCRIPTS,
    SECONDS,
    Checkpoints,
    Script,
    Walker,
    at_rest,
    begin,
    unanswered,
)
from turnchart.machine import TurnFailed
from turnchart.machine.table import LIFECYCLE
from turnchart.machine.verify import verify

Played = Callable[[Script, int], Awaitable[Walker]]

of_every_script = pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)


async def clean(script: Script) -> tuple[int, Walker]:
    """Play a script undisturbed; return how many checkpoints it has, and the agent."""
    points = Checkpoints()
    agent, recording = begin(script, points)
    with anyio.fail_after(SECONDS):
        async with agent:
            await script.play(agent, points)
            await agent.idle()
            recording.check()
            count = points.count
            await at_rest(agent, points)
    return count, agent


async def meddled(script: Script, at: int, act: Callable[[Walker], object]) -> Walker:
    """Play a script in which somebody does something to the agent at one checkpoint."""
    points = Checkpoints(at)
    agent, recording = begin(script, points)
    points.act = lambda: act(agent)
    with anyio.fail_after(SECONDS):
        async with agent:
            try:
                await script.play(agent, points)
            except TurnFailed:
                pass
            await at_rest(agent, points)
            recording.check()
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
    agent, recording = begin(script, points)
    with anyio.fail_after(SECONDS):
        async with agent:
            with anyio.CancelScope() as scope:
                points.act = scope.cancel
                await script.play(agent, points)
            if scope.cancelled_caught and agent.session.brackets.turn:
                assert "turn/end" in types(agent.session) or script.name == "maintenance"
            await at_rest(agent, points)
            recording.check()
    return agent


async def host_cancelled(script: Script, at: int) -> Walker:
    """Play a script whose whole ``async with agent`` is cancelled at one checkpoint."""
    points = Checkpoints(at)
    agent, _ = begin(script, points)
    with anyio.fail_after(SECONDS):
        with anyio.CancelScope() as scope:
            points.act = scope.cancel
            async with agent:
                await script.play(agent, points)
        verdict = verify(agent.session.entries)
        assert verdict.ok, verdict.message
        assert not verdict.open
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
    agent, recording = begin(script, points)
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
            recording.check()
    return agent


MEDDLING: list[Played] = [
    aborted, aborted_keeping_the_inbox, aborted_twice_with_a_prompt_between, prompt_cancelled, host_cancelled,
    broken,
]  # fmt: skip


@of_every_script
@pytest.mark.parametrize("played", MEDDLING)
async def test_at_every_await(script: Script, played: Played) -> None:
    count, _ = await clean(script)
    assert count > 0
    if script.name == "time limit" and played is broken:
        return  # a clock that fails under the watch over a turn's time is nobody's to contain
    for at in range(1, count + 1):
        agent = await played(script, at)
        assert unanswered(agent.session) == [], at


async def test_the_scripts_and_what_happens_in_them_walk_every_row() -> None:
    walked = set[object]()
    for script in SCRIPTS:
        count, agent = await clean(script)
        walked |= {id(row) for row in agent.rows}
        for at in range(1, count + 1):
            for played in (aborted, broken) if script.name != "time limit" else (aborted,):
                walked |= {id(row) for row in (await played(script, at)).rows}
    assert [f"{row.source} {row.event} {row.guard}" for row in LIFECYCLE.rows if id(row) not in walked] == []


@of_every_script
async def test_a_script_comes_out_the_same_each_time(script: Script) -> None:
    """The count of a clean run is what a sweep goes through, so it must not depend on chance."""
    first, agent = await clean(script)
    second, other = await clean(script)
    assert first == second
    assert types(agent.session) == types(other.session)
