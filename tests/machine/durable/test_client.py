"""Speaking with workers: what is refused, and what waits for a worker."""

import asyncio

import pytest

pytest.importorskip("dbos")

from tests.machine.durable.conftest import Makes
from tests.machine.postgres_server import Server

from turnchart.machine import Agent, ScriptedModel, TurnFailed
from turnchart.machine.durable import DurableAgent, DurableError, DurableTurn


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """DBOS knows asyncio only."""
    return "asyncio"


def test_a_turn_that_ended_badly_raises_where_it_is_checked() -> None:
    good = DurableTurn(1, "completed", "ok", 1)
    assert good.check() is good
    with pytest.raises(TurnFailed, match="turn 2 ended as error: no money"):
        DurableTurn(2, "error", error="no money").check()


async def test_a_database_without_a_worker_is_refused(running: Server) -> None:
    with pytest.raises(DurableError, match="no worker has used this database yet: start `turnchart worker`"):
        await DurableAgent(running.dsn(), "s").__aenter__()


async def test_a_server_that_is_not_there_is_named() -> None:
    with pytest.raises(DurableError, match=r"the database cannot be reached: .*refused"):
        await DurableAgent("postgres://nobody@127.0.0.1:1/x", "s").__aenter__()


@pytest.mark.slow
async def test_results_are_there_for_whoever_asks_later(works: Makes, dsn: str) -> None:
    works.how = lambda session: Agent(ScriptedModel(["ok"]), session=session)
    async with DurableAgent(dsn, "later") as agent:
        wish = await agent.follow_up("hi")
    async with DurableAgent(dsn, "later") as agent:
        assert await agent.result(wish) == DurableTurn(1, "completed", "ok", 1)
        with pytest.raises(ValueError, match="empty"):
            await agent.prompt("")


@pytest.mark.slow
async def test_who_stops_waiting_stops_no_turn(works: Makes, dsn: str) -> None:
    goes = asyncio.Event()

    async def wait(payload: object) -> None:
        del payload
        await goes.wait()

    works.how = lambda session: Agent(
        ScriptedModel(["ok", "again"]), session=session, hooks={"assemble": [wait]}
    )
    async with DurableAgent(dsn, "waits") as agent:
        waiting = asyncio.create_task(agent.prompt("hi"))
        while not (await agent.session()).entries:  # noqa: ASYNC110  # they are in the database
            await asyncio.sleep(0.01)
        waiting.cancel()
        goes.set()
        assert (await agent.prompt("more")).number == 2
        assert await agent.questions() == ()
