"""A worker begins, ends in order, and leaves what it did not finish to the next one."""

import asyncio
import logging
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

pytest.importorskip("dbos")

from tests.machine.durable.conftest import Stand
from tests.machine.postgres_server import Server

from turnchart.machine import Agent, Reply, ScriptedModel
from turnchart.machine.durable import DurableAgent, DurableError, Worker, mailbox, worker
from turnchart.machine.durable.journal import version_of
from turnchart.machine.durable.queueing import BegunElsewhere
from turnchart.machine.durable.sqlite_database import SqliteDatabase
from turnchart.machine.errors import SessionCorrupt, SessionError, SessionLocked, SessionReadOnly
from turnchart.machine.session import Session
from turnchart.machine.verify import verify

PATIENCE = 60
"""Seconds that a test waits for what happens soon where the machine has nothing else to do."""


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

        def has(db: object, *what: object) -> bool:
            del db, what
            return self.ours

        for name, instead in (
            ("path_of", at_path), ("opened", opened), ("put_back", put_back), ("has", has)
        ):  # fmt: skip
            monkeypatch.setattr(worker, name, instead)
        monkeypatch.setattr(worker, "PAUSE", 0.0)
        self.ours = True
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


async def test_a_turn_whose_session_was_lost_to_no_worker_is_not_left_behind(bench: Bench) -> None:
    bench.fails = [SessionLocked("taken over by a program that is no worker")]
    with pytest.raises(asyncio.CancelledError):
        await bench.turn()
    assert bench.back == [("s:1", "", None)]


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


async def test_who_has_neither_turn_nor_session_does_not_say_that_it_failed(bench: Bench) -> None:
    bench.db.execute(
        "INSERT INTO turnchart_wishes (session, ticket, kind, body, token) VALUES ('s', 1, 'prompt', '', 't')"
    )
    bench.ours = False
    bench.fails = [LookupError("no such model")]
    with pytest.raises(LookupError):
        await bench.turn()
    other = SqliteDatabase(bench.db.path)
    other.lease = 60
    with other.used():
        assert other.claim("s")
        bench.ours = True
        bench.fails = [LookupError("no such model")]
        with pytest.raises(asyncio.CancelledError):
            await bench.turn()
    assert bench.db.execute("SELECT done, result FROM turnchart_wishes").fetchall() == [(None, None)]
    assert bench.back == [("s:1", "", None)]


@pytest.mark.parametrize(
    ("said", "passes"),
    [
        ("Asyncio task cancelled for workflow or step s:1", False),
        ("Current version 'flow:1' is not the latest version. Latest version is 'flow:2'.", False),
        ("Workflow s:1 is no longer owned by this execution", True),
    ],
)
def test_what_dbos_says_that_is_no_news(said: str, passes: bool) -> None:
    record = logging.LogRecord("dbos", logging.WARNING, "x.py", 1, said, None, None)
    assert worker.is_news(record) is passes


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


async def test_all_is_told_over_one_connection(dsn: str) -> None:
    worker: Any = Worker(dsn, lambda session: Agent(ScriptedModel(), session=session))
    with psycopg.connect(dsn, autocommit=True) as db:
        db.execute(f"LISTEN {mailbox.channel('s')}".encode())
        await asyncio.gather(*(worker.tell("s", [f"{i}"]) for i in range(5)))
        told = [each.payload for each in db.notifies(timeout=10, stop_after=5)]
        others = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_notify%'"
        assert db.execute(f"{others} AND datname = current_database()".encode()).fetchone() == (1,)
    assert sorted(told) == [f'{{"pieces":[{i}]}}' for i in range(5)]
    await worker._side.close()


@pytest.mark.slow
async def test_an_older_version_gets_the_turns_when_the_newer_one_has_ended(running: Server) -> None:
    dsn = running.dsn()

    def make(session: Session) -> Agent:
        return Agent(ScriptedModel([], default=Reply("ok")), session=session)

    for version in ("1", "2", "1"):
        async with Worker(dsn, make, version=version, poll=0.02), DurableAgent(dsn, "s") as agent:
            assert (await asyncio.wait_for(agent.prompt("hi"), PATIENCE)).ok


class Ends(Worker):
    """A worker that ends behind a turn, before it takes the next one of the session."""

    async def _attend(self, id: str, ticket: int) -> dict[str, Any]:
        await super()._attend(id, ticket)
        await asyncio.sleep(3600)
        raise AssertionError("it has ended")


@pytest.mark.slow
async def test_what_waited_for_a_turn_of_another_version_does_not_wait_for_that_version(
    running: Server,
) -> None:
    dsn, stand = running.dsn(), Stand()

    def stands(session: Session) -> Agent:
        return Agent(ScriptedModel(["never"]), session=session, hooks={"request": [stand]})

    def goes(session: Session) -> Agent:
        return Agent(ScriptedModel([], default=Reply("ok")), session=session)

    async def waits_for(version: str | None) -> None:
        sql = "SELECT application_version FROM dbos.workflow_status WHERE workflow_uuid = 's:2'"
        async with asyncio.timeout(PATIENCE):
            with psycopg.connect(dsn, autocommit=True) as db:
                pinned = version and version_of("agent", version)
                while db.execute(sql).fetchone() != (pinned,):  # noqa: ASYNC110  # it is in the server
                    await asyncio.sleep(0.01)

    async with Worker(dsn, stands, version="1", lease=1, poll=0.02), DurableAgent(dsn, "s") as agent:
        first = await agent.follow_up("first")
        await asyncio.wait_for(stand.reached.wait(), PATIENCE)
        later = await agent.follow_up("later")
    async with Worker(dsn, goes, version="2", lease=1, poll=0.02):
        await waits_for("1")
    async with Ends(dsn, goes, version="1", lease=1, poll=0.02), DurableAgent(dsn, "s") as agent:
        assert (await asyncio.wait_for(agent.result(first), PATIENCE)).ok
        await waits_for(None)
    async with Worker(dsn, goes, version="2", lease=1, poll=0.02), DurableAgent(dsn, "s") as agent:
        assert (await asyncio.wait_for(agent.result(later), PATIENCE)).ok


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
        await asyncio.wait_for(reached.wait(), PATIENCE)
    assert "cancelled" not in capfd.readouterr().err
    assert [each.message for each in caplog.records if each.levelname == "WARNING"] == []
    entries = Session.postgres(dsn, "s").entries
    assert entries[-1].type != "turn/end", "a turn that goes on is not closed"
    async with Worker(dsn, goes, lease=1, poll=0.02), DurableAgent(dsn, "s") as agent:
        assert (await asyncio.wait_for(agent.result(wish), PATIENCE)).text == "done"
        session = await agent.session()
    assert session.entries[: len(entries)] == entries
    assert verify(session.entries).ok
