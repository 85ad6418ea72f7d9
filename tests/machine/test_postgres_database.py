"""The connection that the sessions of a process share."""

import threading

import pytest
from tests.machine.postgres_server import Server

from turnchart.machine.errors import SessionError
from turnchart.machine.postgres_database import Database, database


def test_an_address_has_one_connection_as_long_as_somebody_uses_it(dsn: str) -> None:
    one = database(dsn)
    assert database(dsn) is one
    with one.used(), database(dsn).used():
        [(pid,)] = one.execute("SELECT pg_backend_pid()").fetchall()
        assert one.execute("SELECT pg_backend_pid()").fetchone() == (pid,)
    with one.used():
        assert one.execute("SELECT pg_backend_pid()").fetchone() != (pid,)


def test_the_row_of_a_writer_goes_with_its_last_session(dsn: str) -> None:
    one = Database(dsn)
    with one.used():
        key = one.be_writer()
        assert one.be_writer() == key
        sql = "SELECT name, lease FROM turnchart.writers WHERE key = %s"
        assert one.execute(sql, (key,)).fetchall() == [(one.name, None)]
    with one.used():
        assert one.execute(sql, (key,)).fetchall() == []


def test_the_row_of_a_worker_stays_for_those_who_take_its_turns_over(dsn: str) -> None:
    one = Database(dsn)
    one.lease = 5.0
    with one.used():
        key = one.be_writer()
    with one.used():
        assert one.execute("SELECT key FROM turnchart.writers WHERE key = %s", (key,)).fetchall() == [(key,)]


def test_who_becomes_a_worker_has_a_lease_from_then_on(dsn: str) -> None:
    other = Database(dsn)
    with Database(dsn).used() as db, other.used():
        key = db.be_writer()
        db.beat(key, db.name, -1)
        assert other.dead(1) == [key]


def test_many_may_make_the_tables_at_once(running: Server) -> None:
    dsn, failed = running.dsn(), list[Exception]()

    def make() -> None:
        try:
            with Database(dsn).used() as one:
                one.execute("SELECT 1")
        except Exception as error:  # noqa: BLE001  # a thread cannot raise into the test
            failed.append(error)

    threads = [threading.Thread(target=make) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not failed


def test_a_server_that_was_never_there_is_not_waited_for() -> None:
    with (
        Database("postgresql://nobody@127.0.0.1:1/x").used() as one,
        pytest.raises(SessionError, match="refused"),
    ):
        one.execute("SELECT 1")
