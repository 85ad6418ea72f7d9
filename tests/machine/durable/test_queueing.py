"""Turns go back into the queue of those who may have them, and of nobody else."""

from collections.abc import Generator
from pathlib import Path

import pytest

from turnchart.machine.durable.queueing import begun_with, has, put_back, unpin
from turnchart.machine.durable.sqlite_database import SqliteDatabase

TABLE = """CREATE TABLE workflow_status (workflow_uuid, status, executor_id, application_version, queue_name,
    queue_partition_key, owner_xid, started_at_epoch_ms, recovery_attempts, updated_at)"""


@pytest.fixture
def db(tmp_path: Path) -> Generator[SqliteDatabase]:
    one = SqliteDatabase(str(tmp_path / "turns.db"))
    with one.used():
        one.execute(TABLE)
        yield one


def add(db: SqliteDatabase, session: str, ticket: int, status: str, version: str | None) -> None:
    sql = """INSERT INTO workflow_status (workflow_uuid, status, executor_id, application_version,
        queue_name, queue_partition_key) VALUES (?, ?, 'me', ?, 'q', ?)"""
    db.execute(sql, (f"{session}:{ticket}", status, version, session))


def row(db: SqliteDatabase, workflow: str) -> tuple[object, ...]:
    sql = "SELECT status, application_version FROM workflow_status WHERE workflow_uuid = ?"
    found: tuple[object, ...] = db.execute(sql, (workflow,)).fetchone()
    return found


def test_only_who_has_a_turn_puts_it_back(db: SqliteDatabase) -> None:
    add(db, "s", 1, "PENDING", "1")
    assert (has(db, "s:1", "me"), has(db, "s:1", "another"), has(db, "s:2", "me")) == (True, False, False)
    assert not put_back(db, "s:1", "another")
    assert row(db, "s:1") == ("PENDING", "1")
    assert put_back(db, "s:1", "me")
    assert row(db, "s:1") == ("ENQUEUED", "1")
    assert not has(db, "s:1", "me")
    assert not put_back(db, "s:1", "me"), "it may be on its way to somebody else"


def test_a_turn_is_put_back_for_another_version(db: SqliteDatabase) -> None:
    add(db, "s", 2, "PENDING", "2")
    assert put_back(db, "s:2", "me", "1")
    assert row(db, "s:2") == ("ENQUEUED", "1")


def test_what_waits_in_a_session_at_rest_is_for_every_version(db: SqliteDatabase) -> None:
    db.lease = 60
    assert db.claim("s") == (1, 0)
    for session, ticket, status in (("s", 1, "PENDING"), ("s", 2, "ENQUEUED"), ("t", 1, "ENQUEUED")):
        add(db, session, ticket, status, "1")
    for queue, writer in (("q", ("s", 0)), ("another", ("s", 1))):
        unpin(db, queue, writer)
        assert row(db, "s:2") == ("ENQUEUED", "1")
    unpin(db, "q", ("s", 1))
    found = [row(db, workflow) for workflow in ("s:1", "s:2", "t:1")]
    assert found == [("PENDING", "1"), ("ENQUEUED", None), ("ENQUEUED", "1")]


def test_the_oldest_turn_that_is_not_over_says_who_goes_on(db: SqliteDatabase) -> None:
    for ticket, status, version in ((9, "SUCCESS", "0"), (10, "ENQUEUED", "1"), (11, "PENDING", "2")):
        add(db, "a:b", ticket, status, version)
    add(db, "a", 1, "PENDING", "7")
    add(db, "new", 1, "ENQUEUED", None)
    assert begun_with(db, "q", "a:b", 12) == "1"
    assert begun_with(db, "q", "a:b", 11) == "1"
    assert begun_with(db, "q", "a:b", 10) is None
    assert begun_with(db, "another queue", "a:b", 12) is None
    assert begun_with(db, "q", "new", 2) is None, "nobody ever took it"
