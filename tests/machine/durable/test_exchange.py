"""What durable agents share: few connections, each hears its own, and a line that breaks is mended."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest

pytest.importorskip("dbos")

from tests.machine.postgres_server import Server

from turnchart.machine import Agent, ScriptedModel
from turnchart.machine.durable import DurableAgent, DurableError, Worker
from turnchart.machine.durable.exchange import Exchange, exchange


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """DBOS knows asyncio only."""
    return "asyncio"


@pytest.fixture(scope="module")
async def used(running: Server) -> str:
    """A database that a worker has used."""
    dsn = running.dsn()
    async with Worker(dsn, lambda session: Agent(ScriptedModel(), session=session)):
        pass
    return dsn


@pytest.fixture
async def shared(used: str) -> AsyncIterator[Exchange]:
    one = exchange(used)
    await one.enter()
    yield one
    await one.leave()


def ask(dsn: str, sql: str) -> list[Any]:
    with psycopg.connect(dsn, autocommit=True) as db:
        done = db.execute(sql.encode())
        return done.fetchall() if done.description else []


async def heard(by: list[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    async with asyncio.timeout(60):
        while len(by) < count:  # noqa: ASYNC110  # it comes over a socket
            await asyncio.sleep(0.005)
    return by


@pytest.mark.slow
async def test_each_hears_what_is_told_on_its_channel(used: str, shared: Exchange) -> None:
    one: list[dict[str, Any]] = []
    two: list[dict[str, Any]] = []
    stop_one, stop_two = shared.listen("a", one.append), shared.listen("b", two.append)
    ask(used, """SELECT pg_notify('a', '{"n":1}'), pg_notify('b', '{"n":2}')""")
    assert (await heard(one, 1), await heard(two, 1)) == ([{"n": 1}], [{"n": 2}])
    stop_one()
    ask(used, """SELECT pg_notify('a', '{"n":3}'), pg_notify('b', '{"n":4}')""")
    assert (await heard(two, 2), len(one)) == ([{"n": 2}, {"n": 4}], 1)
    stop_two()


@pytest.mark.slow
async def test_many_agents_need_few_connections(used: str, shared: Exchange) -> None:
    agents = [DurableAgent(used, f"s{i}") for i in range(30)]
    for each in agents:
        await each.__aenter__()
    assert exchange(used) is shared
    few = "SELECT count(*) < 10 FROM pg_stat_activity WHERE datname = current_database()"
    async with asyncio.timeout(60):
        while ask(used, few) != [(True,)]:  # noqa: ASYNC110  # those of the worker go on ending behind it
            await asyncio.sleep(0.01)
    for each in agents:
        await each.__aexit__(None, None, None)


@pytest.mark.slow
async def test_a_line_that_broke_is_mended_and_says_so(used: str, shared: Exchange) -> None:
    told: list[dict[str, Any]] = []
    stop = shared.listen("a", told.append)
    ask(
        used,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'turnchart-ear'",
    )
    assert await heard(told, 1) == [{"missed": True}]
    ask(used, """SELECT pg_notify('a', '{"n":1}')""")
    assert (await heard(told, 2))[1] == {"n": 1}
    stop()


async def test_a_database_without_a_worker_is_refused(running: Server) -> None:
    with pytest.raises(DurableError, match="no worker has used this database yet"):
        await exchange(running.dsn()).enter()
