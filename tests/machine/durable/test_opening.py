"""An address names a server or a file."""

import sqlite3
import sys
from pathlib import Path

import pytest

pytest.importorskip("dbos")

from turnchart.machine.durable import DurableError
from turnchart.machine.durable.opening import engine_of, opened
from turnchart.machine.durable.sqlite_database import SqliteDatabase

OLD = sys.version_info >= (3, 12) and sqlite3.sqlite_version_info < (3, 42)


@pytest.mark.skipif(OLD, reason="DBOS cannot use this SQLite with this Python")
def test_a_server_or_a_file_is_opened(tmp_path: Path, dsn: str) -> None:
    assert type(opened(f"sqlite:{tmp_path / 'a.db'}")) is SqliteDatabase
    assert opened(dsn).dsn == dsn
    for address, dialect in ((dsn, "postgresql"), (f"sqlite:{tmp_path / 'a.db'}", "sqlite")):
        engine = engine_of(address)
        with engine.connect() as db:
            assert db.dialect.name == dialect
        engine.dispose()


def test_what_is_neither_is_refused() -> None:
    with pytest.raises(DurableError, match="an address like postgres://"):
        opened("mysql://x/y")
