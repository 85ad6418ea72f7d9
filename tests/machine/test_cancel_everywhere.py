"""Whatever happens at whichever await: the agent comes to rest, and its log is closed and legal."""

from collections.abc import Callable

import anyio
import pytest

from tests.machine.everywhere import SCRIPTS, SECONDS, Checkpoints, Script, at_rest, begin
from turnchart.machine import SessionError, TurnchartError, TurnFailed
from turnchart.machine.table import LIFECYCLE, Row
from turnchart.machine.verify import verify

pytestmark = pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)

Meddle = Callable[[Script, Checkpoints], "object"]


async def clean(script: Script) -> tuple[int, list[Row]]:
    """Play a script without meddling; return how many checkpoints it has, and the rows that it took."""
    points = Checkpoints()
    agent, recording = begin(script, points)
    with anyio.fail_after(SECONDS):
        async with agent:
            await script.play(agent, points)
            await agent.idle()
            recording.check()
            count, rows = points.count, list(agent.rows)
            await at_rest(agent, points)
    return count, rows


async def aborted(script: Script, at: int) -> list[Row]:
    """Play a script that is aborted at one checkpoint."""
    points = Checkpoints(at)
    agent, recording = begin(script, points)
    points.act = agent.abort
    with anyio.fail_after(SECONDS):
        async with agent:
            try:
                await script.play(agent, points)
            except TurnFailed:
                pass
            await agent.idle()
            recording.check()
            rows = list(agent.rows)
            await at_rest(agent, points)
            recording.check()
    return rows


async def test_an_abort(script: Script) -> None:
    count, _ = await clean(script)
    assert count
    for at in range(1, count + 1):
        await aborted(script, at)
