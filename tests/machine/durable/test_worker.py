"""A worker begins, ends in order, and leaves what it did not finish to the next one."""

import asyncio
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("dbos")

from tests.machine.postgres_server import Server

from turnchart.machine import Agent, Reply, ScriptedModel
from turnchart.machine.durable import DurableAgent, DurableError, Worker, worker
from turnchart.machine.durable.queueing import BegunElsewhere
from turnchart.machine.durable.sqlite_database import SqliteDatabase
from turnchart.machine.errors import SessionCorrupt, SessionError, SessionReadOnly
from turnchart.machine.session import Session
from turnchart.machine.verify import verify


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """DBOS knows asyncio only."""
    return "asyncio"


def test_an_address_that_is_no_url_is_refused() -> None:
    with pytest.raises(DurableError, match="an address like postgres://"):
        Worker("host=somewhere", lambda session: Agent(ScriptedModel(), session=session))


class Bench:
    """A worker that is not entered, with one turn that comes to what the test says."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.db = SqliteDatabase(str(path))

        def put_back(db: object, *what: object) -> None:
            del db
            self.back.append(what)

        def at_path(dsn: str) -> str:
            del dsn
            return str(path)

        def opened(dsn: str) -> SqliteDatabase:
            del dsn
            return self.db

        for name, instead in (("path_of", at_path), ("opened", opened), ("put_back", put_back)):
            monkeypatch.setattr(worker, name, instead)
        monkeypatch.setattr(worker, "PAUSE", 0.0)
        self.back: list[tuple[object, ...]] = []
        self.fails: list[Exception] = []
        self.worker: Any = Worker("sqlite:x", lambda session: Agent(ScriptedModel(), session=session))
        monkeypatch.setattr(self.worker, "_attend", self._attend)

    async def _attend(self, id: str, ticket: int) -> dict[str, Any]:
        if self.fails:
            raise self.fails.pop()
        return {"session": id, "turn": ticket}

    async def turn(self) -> Any:
        return await self.worker._turn("s", 1)


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    one = Bench(tmp_path / "turns.db", monkeypatch)
    with one.db.used():
        yield one


async def test_no_turn_begins_while_the_worker_ends(bench: Bench) -> None:
    assert await bench.turn() == {"session": "s", "turn": 1}
    bench.worker._stopping = True
    with pytest.raises(asyncio.CancelledError):
        await bench.turn()
    assert bench.back == [], "it is given back with all the others"


@pytest.mark.parametrize(
    "error",
    [SessionError("the database cannot be reached"), SessionReadOnly("full"), sqlite3.OperationalError("x")],
)
async def test_a_turn_that_the_database_failed_is_put_back(bench: Bench, error: Exception) -> None:
    bench.fails = [error]
    with pytest.raises(asyncio.CancelledError):
        await bench.turn()
    assert bench.back == [("s:1", "", None)]
    assert await bench.turn() == {"session": "s", "turn": 1}


async def test_a_turn_of_another_version_is_put_back_for_that(bench: Bench) -> None:
    bench.fails = [BegunElsewhere("flow:1")]
    with pytest.raises(asyncio.CancelledError):
        await bench.turn()
    assert bench.back == [("s:1", "", "flow:1")]


async def test_a_database_that_stays_away_is_waited_for(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = [SessionError("not yet"), sqlite3.OperationalError("locked")]

    def late(db: object, *what: object) -> None:
        if away:
            raise away.pop()
        bench.back.append(what)

    monkeypatch.setattr(worker, "put_back", late)
    bench.fails = [SessionError("the database cannot be reached")]
    with pytest.raises(asyncio.CancelledError):
        await bench.turn()
    assert (away, bench.back) == ([], [("s:1", "", None)])


async def test_a_failure_is_told_to_who_waits_for_the_turn_and_nobody_else(bench: Bench) -> None:
    sql = """INSERT INTO turnchart_wishes (session, ticket, kind, body, token)
        VALUES ('s', 1, ?, '{}', ?)"""
    kinds = ("prompt", "inject", "abort", "decide")
    for kind in kinds:
        bench.db.execute(sql, (kind, kind))
    bench.fails = [SessionCorrupt("entry 3 is damaged")]
    with pytest.raises(SessionCorrupt):
        await bench.turn()
    found = bench.db.execute("SELECT kind FROM turnchart_wishes WHERE done IS NULL ORDER BY id").fetchall()
    assert [kind for (kind,) in found] == list(kinds[1:])
    assert bench.back == []


async def test_a_failure_that_cannot_be_told_is_no_end_yet(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*what: object) -> None:
        raise SessionError("the database cannot be reached")

    monkeypatch.setattr(bench.db, "execute", away)
    bench.fails = [LookupError("no such model")]
    with pytest.raises(asyncio.CancelledError):
        await bench.turn()
    assert bench.back == [("s:1", "", None)]


@pytest.mark.slow
async def test_an_older_version_gets_the_turns_when_the_newer_one_has_ended(running: Server) -> None:
    dsn = running.dsn()

    def make(session: Session) -> Agent:
        return Agent(ScriptedModel([], default=Reply("ok")), session=session)

    for version in ("1", "2", "1"):
        async with Worker(dsn, make, version=version, poll=0.02), DurableAgent(dsn, "s") as agent:
            assert (await asyncio.wait_for(agent.prompt("hi"), 20)).ok


@pytest.mark.slow
async def test_the_next_worker_goes_on_with_what_one_left(
    running: Server, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
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
    assert "cancelled" not in capfd.readouterr().err
    assert [each.message for each in caplog.records if each.levelname == "WARNING"] == []
    entries = Session.postgres(dsn, "s").entries
    assert entries[-1].type != "turn/end", "a turn that goes on is not closed"
    async with Worker(dsn, goes, lease=1, poll=0.02), DurableAgent(dsn, "s") as agent:
        assert (await asyncio.wait_for(agent.result(wish), 20)).text == "done"
        session = await agent.session()
    assert session.entries[: len(entries)] == entries
    assert verify(session.entries).ok
