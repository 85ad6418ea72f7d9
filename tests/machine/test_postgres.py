"""The Postgres store: the suite of every store, one writer, fencing, what is refused, a server that goes away."""

from collections.abc import Generator

import pytest
from tests.machine.postgres_server import Server, binaries, server
from tests.machine.processes import python

from turnchart.machine.entries import Entry, Frozen
from turnchart.machine.errors import SessionCorrupt, SessionError, SessionLocked
from turnchart.machine.postgres import PostgresStore, shown
from turnchart.machine.postgres_database import Database, database
from turnchart.machine.session import Session
from turnchart.testing import check_store

psycopg = pytest.importorskip("psycopg")
pytestmark = pytest.mark.skipif(binaries() is None, reason="Postgres is not installed")


@pytest.fixture(scope="module")
def running() -> Generator[Server]:
    with server() as one:
        yield one


@pytest.fixture(scope="module")
def dsn(running: Server) -> str:
    return running.dsn()


def entry(seq: int, text: str = "x") -> Entry:
    return Entry(seq, seq - 1 if seq else None, "custom", float(seq), Frozen(kind="mine", data=text))


def test_it_does_what_every_store_must(dsn: str) -> None:
    check_store(lambda id: PostgresStore(dsn, id))
