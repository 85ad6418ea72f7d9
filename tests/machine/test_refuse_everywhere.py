"""A store or a validator that refuses any one entry: the agent rests, and what can go on goes on."""

import anyio
import pytest
from tests.machine.drive import drop
from tests.machine.everywhere import (
    SCRIPTS,
    SECONDS,
    Checkpoints,
    Script,
    Walker,
    begin,
    check_closed,
    goes_on,
)
from tests.machine.test_cancel_everywhere import aborted, broken, clean, of_every_script

from turnchart.machine import AppendRefused, Entry, Session, SessionReadOnly, TurnFailed
from turnchart.machine.stores import Durability
from turnchart.machine.table import LIFECYCLE
from turnchart.machine.verify import verify


class Full:
    """A store that takes so many entries and then has no space left."""

    id = where = "full"
    durability: Durability = "flush"
    dropped = ""

    def __init__(self, room: int) -> None:
        self._room = room

    def load(self) -> tuple[Entry, ...]:
        return ()

    def lock(self) -> None: ...

    def append(self, entry: Entry) -> None:
        if entry.seq >= self._room:
            raise OSError(28, "No space left on device")

    async def flush(self) -> None: ...

    def close(self) -> None: ...


async def written(script: Script) -> int:
    """Return how many entries a clean run writes."""
    points = Checkpoints()
    agent = begin(script, points)
    async with agent:
        await script.play(agent, points)
        await agent.idle()
        drop(agent)
        return len(agent.session.entries)


@of_every_script
async def test_a_store_that_is_full_at_any_entry(script: Script) -> None:
    for room in range(await written(script)):
        points = Checkpoints()
        agent = begin(script, points, Session(Full(room)))
        errors: list[object] = []
        agent.on("agent/error", lambda signal, _, errors=errors: errors.append(signal.data["error"]))  # type: ignore[misc]  # mypy cannot infer a lambda with a default
        with anyio.fail_after(SECONDS):
            async with agent:
                raised = False
                try:
                    await script.play(agent, points)
                except SessionReadOnly:
                    raised = True
                assert raised or script.name == "maintenance"
                await agent.idle()
                assert agent.state == "idle"
                with pytest.raises(SessionReadOnly):
                    await agent.prompt("y")
                assert len(agent.session.entries) == room
                verdict = verify(agent.session.entries)
                assert verdict.ok, verdict.message
                # Of the first entry its caller hears; the job's buffered write fails on its own.
                assert len(errors) == (1 if room or script.name == "maintenance" else 0), room
                drop(agent)


async def refused(script: Script, at: int) -> Walker:
    """Play a script in which a validator refuses the entry with this number, once."""
    points = Checkpoints()
    agent = begin(script, points)
    asked: list[str] = []
    errors: list[object] = []

    def once(entry: Entry) -> str | None:
        asked.append(entry.type)
        return "no" if len(asked) == at + 1 else None

    agent.session.validate(once)
    agent.on("agent/error", lambda signal, _: errors.append(signal.data["error"]))
    with anyio.fail_after(SECONDS):
        async with agent:
            try:
                await script.play(agent, points)
            except (AppendRefused, TurnFailed):
                pass
            await agent.idle()
            assert agent.state == "idle", at
            assert len(errors) <= 1, (at, errors)
            verdict = verify(agent.session.entries)  # open where a line of the closing row was refused
            assert verdict.ok, verdict.message
            if at % 2:  # otherwise the next wake does it
                agent.session.recover()
                check_closed(agent.session)
            await goes_on(agent, points)
    return agent


@of_every_script
async def test_a_validator_that_refuses_any_entry(script: Script) -> None:
    for at in range(await written(script)):
        await refused(script, at)


async def test_the_scripts_and_what_happens_in_them_walk_every_row() -> None:
    walked = set[int]()
    for script in SCRIPTS:
        count, agent = await clean(script)
        agents = [agent]
        if script.name in ("answer", "retry"):
            agents += [await played(script, at) for at in range(1, count + 1) for played in (aborted, broken)]
        elif script.name == "bare tools":
            agents += [await aborted(script, at) for at in range(1, count + 1)]
            agents += [await refused(script, at) for at in range(await written(script))]
        walked |= {id(row) for agent in agents for row in agent.rows}
    assert [f"{row.source} {row.event} {row.guard}" for row in LIFECYCLE.rows if id(row) not in walked] == []
