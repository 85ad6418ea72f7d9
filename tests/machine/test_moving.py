"""What an agent offers for moving in the tree, and when it may."""

import pytest
from tests.machine.drive import scripted

from turnchart.machine import AgentBusy, Session, State
from turnchart.machine.errors import SessionError


async def test_in_a_turn_nothing_moves() -> None:
    async with scripted(["a"]) as agent:
        agent.follow_up("x")
        await agent.until(State.REQUESTING)
        entries = len(agent.session.entries)
        with pytest.raises(AgentBusy):
            await agent.navigate(0)
        with pytest.raises(AgentBusy):
            await agent.session.navigate(0, summarize=True)
        assert len(agent.session.entries) == entries
        agent.go_on()
        await agent.idle()


async def test_a_session_asks_the_agent_that_writes_it_and_nobody_after_that() -> None:
    session = Session.memory()
    async with scripted(["a", "Summed up."], session=session) as agent:
        await agent.prompt("x")
        entry = await session.navigate(None, summarize=True)
        assert (entry.type, entry.data["summary"]) == ("branch_summary", "Summed up.")
    with pytest.raises(SessionError, match="no agent writes this session"):
        await session.navigate(None, summarize=True)
