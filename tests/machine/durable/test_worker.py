"""A worker begins, ends in order, and leaves what it did not finish to the next one."""

import asyncio

import pytest

pytest.importorskip("dbos")

from tests.machine.postgres_server import Server

from turnchart.machine import Agent, ScriptedModel
from turnchart.machine.durable import DurableAgent, DurableError, Worker
from turnchart.machine.session import Session
from turnchart.machine.verify import verify


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """DBOS knows asyncio only."""
    return "asyncio"


def test_an_address_that_is_no_url_is_refused() -> None:
    with pytest.raises(DurableError, match="an address like postgres://"):
        Worker("host=somewhere", lambda session: Agent(ScriptedModel(), session=session))


@pytest.mark.slow
async def test_the_next_worker_goes_on_with_what_one_left(running: Server) -> None:
    dsn, reached = running.dsn(), asyncio.Event()

    async def stand(payload: object) -> None:
        del payload
        reached.set()
        await asyncio.sleep(3600)

    def stands(session: Session) -> Agent:
        return Agent(ScriptedModel(["never"]), session=session, hooks={"request": [stand]})

    def goes(session: Session) -> Agent:
        return Agent(ScriptedModel(["done"]), session=session)

    async with Worker(dsn, stands, lease=30, poll=0.02), DurableAgent(dsn, "s") as agent:
        wish = await agent.follow_up("hi")
        await asyncio.wait_for(reached.wait(), 30)
    entries = Session.postgres(dsn, "s").entries
    assert entries[-1].type != "turn/end", "a turn that goes on is not closed"
    async with Worker(dsn, goes, lease=1, poll=0.02), DurableAgent(dsn, "s") as agent:
        assert (await asyncio.wait_for(agent.result(wish), 20)).text == "done"
        session = await agent.session()
    assert session.entries[: len(entries)] == entries
    assert verify(session.entries).ok
