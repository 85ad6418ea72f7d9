"""The Postgres store: what every store does, one writer, fencing, refusals, a server that goes away."""

from typing import Any

import psycopg
import pytest
from tests.machine.postgres_server import Server
from tests.machine.processes import python, run

from turnchart.machine import Agent, Reply, ScriptedModel
from turnchart.machine.entries import Entry, Frozen
from turnchart.machine.errors import SessionCorrupt, SessionError, SessionLocked
from turnchart.machine.postgres import PostgresStore, shown
from turnchart.machine.session import Session
from turnchart.testing import check_store

HOLD = """
import sys
import time
from turnchart.machine.session import Session

session = Session.postgres(sys.argv[1], "held")
session.attach()
print("attached", flush=True)
time.sleep(60)
"""


def entry(seq: int, text: str = "x") -> Entry:
    return Entry(seq, seq - 1 if seq else None, "custom", float(seq), Frozen(kind="mine", data=text))


def ask(dsn: str, sql: str, *args: object) -> list[tuple[Any, ...]]:
    with psycopg.connect(dsn, autocommit=True) as db:
        done = db.execute(sql.encode(), args)
        return done.fetchall() if done.description else []


def test_it_does_what_every_store_must(dsn: str) -> None:
    check_store(lambda id: PostgresStore(dsn, id))


def test_an_entry_is_a_row_with_its_line(dsn: str) -> None:
    store = PostgresStore(dsn, "rows")
    for seq in (0, 1):
        store.append(entry(seq))
    store.close()
    found = ask(
        dsn, "SELECT seq, type, time, line FROM turnchart.entries WHERE session = 'rows' ORDER BY seq"
    )
    assert found == [(seq, "custom", float(seq), entry(seq).line()) for seq in (0, 1)]


async def test_an_agent_works_on_it(dsn: str, anyio_backend_name: str) -> None:
    session = Session.postgres(dsn, f"agent on {anyio_backend_name}")
    async with Agent(ScriptedModel([Reply("Hello")]), session=session) as agent:
        assert (await agent.prompt("hi")).text == "Hello"
    again = Session.postgres(dsn, session.id)
    assert [each.line() for each in again.entries] == [each.line() for each in session.entries]


# -- one writer ------------------------------------------------------------------------------------


def test_a_process_that_was_killed_is_a_writer_no_more(dsn: str) -> None:
    with python(HOLD, dsn) as (process, output):
        assert output.readline() == "attached\n"
        store = PostgresStore(dsn, "held")
        with pytest.raises(SessionLocked, match=f"process {process.pid} on .*close it there"):
            store.lock()
        process.kill()
        process.wait()
        for _ in range(1000):  # until the server has noticed
            try:
                store.lock()
            except SessionLocked:
                continue
            break
        store.append(entry(0))
        store.close()


def test_another_object_of_this_process_is_named(dsn: str) -> None:
    first, second = PostgresStore(dsn, "twice"), PostgresStore(dsn, "twice")
    first.lock()
    with pytest.raises(SessionLocked, match="another object of this process"):
        second.lock()
    first.close()
    second.lock()
    second.close()


def test_a_forked_child_is_no_writer(dsn: str) -> None:
    code = """
import os, sys
from turnchart.machine.entries import Entry, Frozen
from turnchart.machine.errors import SessionLocked
from turnchart.machine.postgres import PostgresStore

def entry(seq): return Entry(seq, seq - 1 if seq else None, "custom", 0.0, Frozen(kind="mine", data=seq))

store = PostgresStore(sys.argv[1], "forked")
store.append(entry(0))
child = os.fork()
if not child:
    try:
        PostgresStore(sys.argv[1], "forked").lock()
    except SessionLocked:
        os._exit(7)
    os._exit(1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
store.append(entry(1))
store.close()
"""
    assert run(code, dsn) == "7\n"
    assert len(list(PostgresStore(dsn, "forked").load())) == 2


def stolen(dsn: str, id: str) -> PostgresStore:
    """Return a store that was the writer, until another one became it."""
    store = PostgresStore(dsn, id)
    store.append(entry(0))
    ask(dsn, "UPDATE turnchart.sessions SET epoch = epoch + 1, holder = NULL WHERE id = %s", id)
    return store


def test_a_writer_that_lost_its_session_writes_nothing(dsn: str) -> None:
    store = stolen(dsn, "lost")
    with pytest.raises(SessionLocked, match=r"was taken over .* nothing was written"):
        store.append(entry(1))
    with pytest.raises(SessionLocked, match="was taken over"):
        store.append(entry(1))  # it does not become the writer again by itself
    with pytest.raises(SessionLocked, match="was taken over"):
        store.lock()
    store.close()
    assert len(list(PostgresStore(dsn, "lost").load())) == 1


def test_nor_keeps_it_what_a_step_came_to(dsn: str) -> None:
    store = stolen(dsn, "lost steps")
    with pytest.raises(SessionLocked):
        store.keep("c1", "{}")
    store.close()
    assert PostgresStore(dsn, "lost steps").kept() == {}


async def test_a_turn_that_lost_its_session_ends_without_a_word(dsn: str, anyio_backend_name: str) -> None:
    id = f"lost turn on {anyio_backend_name}"
    session = Session.postgres(dsn, id)
    agent = Agent(ScriptedModel([], default=Reply("ok")), session=session)
    await agent.__aenter__()
    await agent.prompt("one")
    before = len(session.entries)
    ask(dsn, "UPDATE turnchart.sessions SET epoch = epoch + 1 WHERE id = %s", id)
    with pytest.raises(SessionLocked):
        agent.follow_up("two")
    await agent.__aexit__(None, None, None)
    assert len(Session.postgres(dsn, id).entries) == before


def test_one_who_leaves_for_good_stays_away(dsn: str) -> None:
    store = PostgresStore(dsn, "left")
    store.append(entry(0))
    store.abandon()
    with pytest.raises(SessionLocked, match="was left to another writer"):
        store.append(entry(1))
    other = PostgresStore(dsn, "left")
    other.append(entry(1))
    other.close()


# -- beside the log ----------------------------------------------------------------------------------


def test_what_steps_came_to_is_kept_until_it_is_forgotten(dsn: str) -> None:
    store = PostgresStore(dsn, "kept")
    store.lock()
    store.keep("c1", "one")
    store.keep("c1", "two")
    store.keep("c2", "three")
    assert PostgresStore(dsn, "kept").kept() == {"c1": "two", "c2": "three"}
    store.forget()
    assert store.kept() == {}
    store.close()


# -- a server that goes away, and what is refused ------------------------------------------------------


def test_a_restarted_server_is_found_again(running: Server, dsn: str) -> None:
    store = PostgresStore(dsn, "restarted")
    store.append(entry(0))
    running.stop()
    running.start()
    store.append(entry(1))
    assert PostgresStore(dsn, "restarted").load()
    ask(dsn, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'turnchart'")
    store.append(entry(2))
    store.close()
    assert len(list(PostgresStore(dsn, "restarted").load())) == 3


def test_an_append_whose_answer_was_lost_is_not_done_twice(dsn: str) -> None:
    store = PostgresStore(dsn, "doubt")
    store.append(entry(0))
    ask(dsn, "INSERT INTO turnchart.entries VALUES ('doubt', 1, 'custom', 1, %s)", entry(1).line())
    ask(dsn, "UPDATE turnchart.sessions SET entries = 2 WHERE id = 'doubt'")  # as the lost statement did
    store.append(entry(1))
    store.append(entry(2))
    store.close()
    assert len(list(PostgresStore(dsn, "doubt").load())) == 3


def test_no_server_is_said_in_words() -> None:
    with pytest.raises(SessionError, match=r"the database cannot be reached: .*refused"):
        Session.postgres("postgresql://nobody@127.0.0.1:1/nothing", "s")


def test_a_damaged_entry_is_named(dsn: str) -> None:
    store = PostgresStore(dsn, "damaged")
    store.append(entry(0))
    store.close()
    ask(dsn, "UPDATE turnchart.entries SET line = '{' WHERE session = 'damaged'")
    with pytest.raises(SessionCorrupt, match="session damaged, entry 0: no valid JSON"):
        store.load()


def test_a_newer_format_and_another_encoding_are_refused(running: Server) -> None:
    dsn = running.dsn()
    assert Session.postgres(dsn, "s").entries == []
    ask(dsn, "UPDATE turnchart.meta SET version = 99")
    with pytest.raises(SessionError, match=r"newer Turnchart \(format 99, this one reads up to 1\)"):
        Session.postgres(dsn, "s")
    ask(dsn, "DELETE FROM turnchart.meta")
    with pytest.raises(SessionCorrupt, match="does not say which format"):
        Session.postgres(dsn, "s")
    ask(dsn, "CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'")
    with pytest.raises(SessionError, match="has the encoding LATIN1"):
        Session.postgres(f"{dsn.rpartition('/')[0]}/latin", "s")


def test_a_session_has_an_id(dsn: str) -> None:
    for id in ("", "a\0b", "a\ud800b", "x" * 1001):
        with pytest.raises(SessionError, match="is named by its id"):
            PostgresStore(dsn, id)


def test_a_password_is_not_shown() -> None:
    assert shown("postgres://me:secret@host:1/name") == "postgres://host:1/name"
    assert shown("host=h password=secret") == "postgres"


def test_without_psycopg_the_extra_is_named() -> None:
    code = """
import sys
sys.modules["psycopg"] = None
from turnchart.machine.session import Session
try:
    Session.postgres("postgres://x", "s")
except Exception as error:
    print(type(error).__name__, error)
"""
    assert "SessionError" in (said := run(code))
    assert "pip install 'turnchart[durable]'" in said


def test_nothing_of_it_is_loaded_before() -> None:
    code = "import sys, turnchart.machine.session, turnchart.machine.tooling; print('psycopg' in sys.modules)"
    assert run(code) == "False\n"
