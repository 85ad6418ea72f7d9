"""Durable turns in a file: what is written by whom, who is dead, what is told, and whole turns."""

import asyncio
import json
import sqlite3
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("dbos")

from turnchart.machine import Agent, Reply, ScriptedModel, ToolCall, tool
from turnchart.machine.durable import DurableAgent, DurableError, Worker
from turnchart.machine.durable.exchange import exchange
from turnchart.machine.durable.grouped import Group, GroupedStore
from turnchart.machine.durable.sqlite_database import Ear, SqliteDatabase, connected, exists, path_of
from turnchart.machine.entries import Entry, Frozen
from turnchart.machine.errors import SessionLocked
from turnchart.machine.postgres import PostgresStore
from turnchart.machine.postgres_database import Batch
from turnchart.machine.session import Session
from turnchart.machine.verify import verify

OLD = sys.version_info >= (3, 12) and sqlite3.sqlite_version_info < (3, 42)
pytestmark = pytest.mark.skipif(OLD, reason="DBOS cannot use this SQLite with this Python")


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """DBOS knows asyncio only."""
    return "asyncio"


@pytest.fixture
def db(tmp_path: Path) -> Generator[SqliteDatabase]:
    one = SqliteDatabase(str(tmp_path / "turns.db"))
    one.lease = 60
    with one.used():
        yield one


@pytest.fixture
def group(db: SqliteDatabase) -> Generator[Group]:
    made = Group(db)
    yield made
    made.close()


def entry(seq: int) -> Entry:
    return Entry(seq, seq - 1 if seq else None, "custom", float(seq), Frozen(kind="mine", data=None))


def stored(db: SqliteDatabase, id: str) -> list[int]:
    return [each.seq for each in PostgresStore(db.dsn, id, SqliteDatabase(db.path)).load()]


async def test_a_session_is_written_and_read_again(db: SqliteDatabase, group: Group) -> None:
    store = GroupedStore(db, "s", group)
    for seq in range(3):
        store.append(entry(seq))
    store.keep("key", "{}")
    await store.flush()
    assert stored(db, "s") == [0, 1, 2]
    assert store.kept() == {"key": "{}"}
    store.forget()
    assert store.kept() == {}
    store.release()
    assert store.where == db.dsn


async def test_who_lost_the_session_cannot_write(db: SqliteDatabase, group: Group) -> None:
    lost = GroupedStore(db, "s", group)
    lost.append(entry(0))
    await lost.flush()
    other = db.another()
    other.key = 0
    with other.used():
        mine = GroupedStore(other, "s", Group(other))
        with pytest.raises(SessionLocked, match="being written by process"):
            mine.lock()
        db.part(db.key)
        mine.lock()
        mine.append(entry(1))
        await mine.flush()
        lost.append(entry(1))
        with pytest.raises(SessionLocked, match="was taken over by"):
            await lost.flush()
        assert stored(db, "s") == [0, 1]
        mine.release()


def test_the_dead_are_buried_once(db: SqliteDatabase) -> None:
    for key, lease in ((1, 60.0), (2, -1.0)):
        db.beat(key, f"worker {key}", lease)
    assert db.dead(3) == [2]
    assert db.dead(2) == []
    taken: list[int] = []
    db.bury(1, lambda: taken.append(1))
    db.bury(2, lambda: taken.append(2))
    db.bury(2, lambda: taken.append(2))
    assert taken == [2]
    db.part(1)
    assert db.dead(3) == [1]
    assert db.missing([1, 4]) == [4]
    db.declare_dead(4, 5.0)
    assert db.dead(3) == [1, 4]
    db.beat(4, "lives", 5.0)
    assert db.dead(3) == [1]


def test_what_is_told_is_heard_by_all_from_then_on(db: SqliteDatabase) -> None:
    db.tell("a", "before")
    ears = Ear(db.path), Ear(db.path)
    db.tell("a", "one")
    db.execute("INSERT INTO turnchart_wishes VALUES (1, 's', 1, 'prompt', '{}', 't', NULL, NULL)")
    assert db.claim("s") == (1, 0)
    assert not db.settle(1, "{}", "b", "by one who was the writer", ("s", 0))
    assert db.settle(1, "{}", "b", "two", ("s", 1))
    for ear in ears:
        assert ear.heard() == [("a", "one"), ("b", "two")]
        assert ear.heard() == []
        ear.close()


def test_who_cannot_hear_for_a_while_hears_it_later(
    db: SqliteDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    ear = Ear(db.path)
    db.tell("a", "one")

    class Busy:
        def execute(self, *what: object) -> None:
            raise sqlite3.OperationalError("database is locked")

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(ear, "_db", Busy())
        assert ear.heard() == []
    assert ear.heard() == [("a", "one")]
    ear.close()


def test_those_that_said_that_they_end_are_told_from_the_silent(db: SqliteDatabase) -> None:
    for key, lease in ((1, 60.0), (2, -1.0)):
        db.beat(key, f"worker {key}", lease)
    db.part(1)
    assert db.dead(3, parted=True) == [1]
    assert db.dead(3) == [1, 2]


def test_what_cannot_be_committed_holds_up_nothing(
    db: SqliteDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = connected(db.path)

    class Full:
        in_transaction = True

        def execute(self, sql: str, *args: Any) -> sqlite3.Cursor:
            if sql == "COMMIT":
                raise sqlite3.OperationalError("database or disk is full")
            return file.execute(sql, *args)

    monkeypatch.setattr(db, "_opened", Full)
    with pytest.raises(sqlite3.OperationalError, match="disk is full"):
        db.settle(1, "{}", "b", "two", ("s", 1))
    assert not file.in_transaction, "the next one can begin"
    file.close()


def test_what_fails_half_way_is_not_there(db: SqliteDatabase) -> None:
    assert db.claim("s") == (1, 0)
    rows = [(0, "custom", 1.0, entry(0).line())] * 2
    with pytest.raises(sqlite3.IntegrityError):
        db.write([Batch("s", 1, 0, 2, 1.0, rows, {}, ())])
    assert db.write([Batch("s", 1, 0, 1, 1.0, rows[:1], {}, ()), Batch("s", 1, 5, 6, 1.0, [], {}, ())]) == {
        "s"
    }
    assert stored(db, "s") == [0]


def test_addresses(tmp_path: Path) -> None:
    addresses = {
        "sqlite:a.db": "a.db",
        "sqlite://a.db": "a.db",
        "sqlite:///a/b.db": "/a/b.db",
        "postgres://x": None,
    }
    assert {address: path_of(address) for address in addresses} == addresses
    with pytest.raises(DurableError, match="names a file, and 'sqlite://' names none"):
        path_of("sqlite://")
    assert not exists(str(tmp_path / "none"))
    sqlite3.connect(tmp_path / "empty").close()
    assert not exists(str(tmp_path / "empty"))


def test_a_sqlite_that_dbos_cannot_use_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 13))
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 40, 1))
    with pytest.raises(DurableError, match=r"need SQLite 3\.42 with this Python"):
        path_of("sqlite:a.db")


def test_what_is_no_database_is_named(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("no database, but longer than the head of one\n" * 100, "utf-8")
    for path, why in ((text, "file is not a database"), (tmp_path / "no" / "file", "unable to open")):
        with pytest.raises(DurableError, match=f"{path} cannot be used for durable turns: {why}"):
            SqliteDatabase(str(path)).execute("SELECT 1")
    file = tmp_path / "turns.db"
    connected(str(file)).close()
    file.write_bytes(
        file.read_bytes().replace(b"CREATE TABLE turnchart_told", b"CREATE TABL\xdd turnchart_told")
    )
    with pytest.raises(DurableError, match=r"turns\.db cannot be used for durable turns"):
        SqliteDatabase(str(file)).execute("SELECT 1")


# -- whole turns -----------------------------------------------------------------------------------


@tool(replay="idempotent")
async def look() -> str:
    """Look."""
    return "seen"


@pytest.mark.slow
async def test_turns_run_in_a_worker(tmp_path: Path) -> None:
    dsn = f"sqlite:{tmp_path / 'turns.db'}"
    calls = Reply(tool_calls=[ToolCall("look", {}, id="c1")])
    with pytest.raises(DurableError, match="no worker has used this database yet"):
        await DurableAgent(dsn, "s").__aenter__()

    def make(session: Session) -> Agent:
        return Agent(ScriptedModel([calls, Reply(chunks=["o", "k"]), "two"]), tools=[look], session=session)

    pieces: list[dict[str, Any]] = []

    async def listen(agent: DurableAgent) -> None:
        async for piece in agent.chunks():
            pieces.append(piece)

    async with Worker(dsn, make, lease=5, poll=0.02), DurableAgent(dsn, "s") as agent:
        listening = asyncio.create_task(listen(agent))
        turn = await agent.prompt("hi")
        assert (turn.text, turn.steps) == ("ok", 2)
        assert (await agent.prompt("again")).text == "two"
        session = await agent.session()
        while len(pieces) < 10:  # noqa: ASYNC110  # they are in the file
            await asyncio.sleep(0.01)
        listening.cancel()
    assert verify(session.entries).ok
    said = "".join(piece["text"] for piece in pieces if piece.get("type") == "text_delta")
    assert said.startswith("ok")


@pytest.mark.slow
async def test_who_has_entered_misses_nothing(tmp_path: Path) -> None:
    path, heard = tmp_path / "turns.db", asyncio.Event()

    def hear(told: dict[str, Any]) -> None:
        assert told == {"n": 1}
        heard.set()

    async with Worker(f"sqlite:{path}", lambda session: Agent(ScriptedModel(), session=session)):
        pass
    one = exchange(f"sqlite:{path}")
    await one.enter()
    stop = one.listen("a", hear)
    SqliteDatabase(str(path)).tell("a", '{"n":1}')
    await asyncio.wait_for(heard.wait(), 60)
    stop()
    await one.leave()


@pytest.mark.slow
async def test_the_next_worker_goes_on_with_what_one_left(tmp_path: Path) -> None:
    dsn, reached = f"sqlite:{tmp_path / 'turns.db'}", asyncio.Event()

    async def stand(payload: object) -> None:
        del payload
        reached.set()
        await asyncio.sleep(3600)

    def stands(session: Session) -> Agent:
        return Agent(ScriptedModel(["never"]), session=session, hooks={"request": [stand]})

    def goes(session: Session) -> Agent:
        return Agent(ScriptedModel(["done"]), session=session)

    async with Worker(dsn, stands, lease=30, poll=0.02), DurableAgent(dsn, "s") as agent:
        wish = await agent.follow_up(json.dumps("hi"))
        await asyncio.wait_for(reached.wait(), 60)
    async with Worker(dsn, goes, lease=1, poll=0.02), DurableAgent(dsn, "s") as agent:
        assert (await asyncio.wait_for(agent.result(wish), 60)).text == "done"
        assert verify((await agent.session()).entries).ok
