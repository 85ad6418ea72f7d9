"""Speaking with workers: what is refused, and what waits for a worker."""

import asyncio
from types import SimpleNamespace

import psycopg
import pytest

pytest.importorskip("dbos")

from tests.machine.durable.conftest import Makes
from tests.machine.postgres_server import Server

from turnchart.machine import Agent, Reply, ScriptedModel, TurnFailed
from turnchart.machine.durable import DurableAgent, DurableError, DurableTurn, client, mailbox


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


@pytest.mark.parametrize("id", ["", "a\0b", "a\ud800b", "x" * 1001])
def test_a_session_without_an_id_is_refused(id: str) -> None:
    with pytest.raises(DurableError, match="named by its id, a text of 1 to 1000 bytes in UTF-8 without NUL"):
        DurableAgent("postgres://nobody@127.0.0.1:1/x", id)


@pytest.mark.slow
async def test_half_a_character_reaches_the_model_as_in_process(works: Makes, dsn: str) -> None:
    holds, text = asyncio.Event(), "a \ud800 b"

    async def wait(payload: object) -> None:
        del payload
        await holds.wait()

    works.how = lambda session: Agent(
        ScriptedModel([], default=Reply(text)), session=session, hooks={"request": [wait]}
    )
    async with DurableAgent(dsn, "half") as agent:
        asked = await agent.follow_up(text)
        await agent.steer(text)
        await agent.inject(text)
        holds.set()
        turn = await agent.result(asked)
        assert (turn.ok, turn.text) == (True, text)
        await agent.prompt("and on")
        await agent.abort(text)
        assert (await agent.prompt("further")).ok
        entries = (await agent.session()).entries
    said = [e.data["message"]["content"][0]["text"] for e in entries if e.type == "user/message"]
    assert (said.count(text), said[-1]) == (3, "further")


@pytest.mark.slow
async def test_a_try_that_seemed_to_have_failed_is_not_sent_twice(
    works: Makes, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "uuid4", lambda: SimpleNamespace(hex="token"))
    values = {"session": "slow", "more": 1, "kind": "prompt", "body": "{}", "token": "token"}
    waits = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    async with DurableAgent(dsn, "slow") as agent:
        with psycopg.connect(dsn) as first, psycopg.connect(dsn, autocommit=True) as looks:
            [(id, _)] = first.execute(mailbox.MAKE, values).fetchall()
            again = asyncio.create_task(agent.follow_up("hi"))
            while not looks.execute(waits).fetchall():  # noqa: ASYNC110  # it is in the server
                await asyncio.sleep(0.01)
            first.commit()
        assert await again == id


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
