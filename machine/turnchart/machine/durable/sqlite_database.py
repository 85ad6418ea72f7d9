"""The database of durable turns as one SQLite file, for the workers and programs of one machine.

It has the tables of ``postgres_database`` and ``mailbox``, with ``turnchart_`` in front of their names,
beside those of DBOS, and one more for what Postgres tells by itself:

    turnchart_told(id, channel, payload, at)

Times are Unix seconds. Who listens looks again and again; the file is local, so that costs little.
"""

from __future__ import annotations

import sqlite3
import sys
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import SystemRandom
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, cast

from turnchart.machine.durable.journal import DurableError
from turnchart.machine.postgres_database import Batch, Database

if TYPE_CHECKING:
    from sqlalchemy import Engine

PREFIX: Final = "sqlite:"
LOOK: Final = 0.02
"""Seconds between looks at what is told."""
_KEPT: Final = 60
"""Seconds for which what was told can be heard."""
_PATIENCE: Final = 30.0
"""Seconds for which a writer waits for the others."""
_SCHEMA: Final = """
    CREATE TABLE IF NOT EXISTS turnchart_writers (key INTEGER PRIMARY KEY, name TEXT NOT NULL, lease REAL,
        seen REAL NOT NULL);
    CREATE TABLE IF NOT EXISTS turnchart_sessions (id TEXT PRIMARY KEY, created REAL NOT NULL,
        updated REAL NOT NULL, epoch INTEGER NOT NULL, entries INTEGER NOT NULL DEFAULT 0, holder INTEGER);
    CREATE TABLE IF NOT EXISTS turnchart_entries (session TEXT, seq INTEGER, type TEXT NOT NULL,
        time REAL NOT NULL, line TEXT NOT NULL, PRIMARY KEY (session, seq)) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS turnchart_outcomes (session TEXT, key TEXT, line TEXT NOT NULL,
        PRIMARY KEY (session, key)) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS turnchart_tickets (session TEXT PRIMARY KEY, last INTEGER NOT NULL);
    CREATE TABLE IF NOT EXISTS turnchart_wishes (id INTEGER PRIMARY KEY AUTOINCREMENT, session TEXT NOT NULL,
        ticket INTEGER NOT NULL, kind TEXT NOT NULL, body TEXT NOT NULL, token TEXT UNIQUE NOT NULL,
        done REAL, result TEXT);
    CREATE INDEX IF NOT EXISTS turnchart_open ON turnchart_wishes (session, id) WHERE done IS NULL;
    CREATE TABLE IF NOT EXISTS turnchart_told (id INTEGER PRIMARY KEY AUTOINCREMENT, channel TEXT NOT NULL,
        payload TEXT NOT NULL, at REAL NOT NULL);
    CREATE INDEX IF NOT EXISTS turnchart_told_at ON turnchart_told (at);"""
_CLAIM: Final = """
    INSERT INTO turnchart_sessions AS s (id, created, updated, epoch, holder) VALUES (?, now(), now(), 1, ?)
    ON CONFLICT (id) DO UPDATE SET epoch = s.epoch + 1, holder = excluded.holder
        WHERE NOT EXISTS (SELECT 1 FROM turnchart_writers w
            WHERE w.key = s.holder AND w.seen + w.lease > now())
    RETURNING epoch, entries"""
_TELL: Final = "INSERT INTO turnchart_told (channel, payload, at) VALUES (?, ?, now())"


def path_of(dsn: str) -> str | None:
    """Return the path of a SQLite file that an address names; None where it names no such file.

    Raises:
        DurableError: If DBOS cannot use the SQLite of this Python.
    """
    if not dsn.startswith(PREFIX):
        return None
    if sys.version_info >= (3, 12) and sqlite3.sqlite_version_info < (3, 42):
        raise DurableError(
            f"durable turns in a file need SQLite 3.42 with this Python, which has {sqlite3.sqlite_version};"
            " take a newer one, Python 3.11, or a postgres:// address"
        )
    path = dsn.removeprefix(PREFIX).removeprefix("//")
    if not path.strip("/"):
        raise DurableError(f"an address like sqlite:PATH names a file, and {dsn!r} names none")
    return path


def translated(sql: str) -> str:
    """Return SQL for Postgres as SQLite takes it; what more differs than this is said anew below."""
    return sql.replace("turnchart.", "turnchart_").replace("dbos.", "").replace("%s", "?")


def connected(path: str) -> sqlite3.Connection:
    """Open the file, and make the tables where there are none.

    Raises:
        DurableError: If it cannot be opened, or is no database.
    """
    try:
        db = sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False)
        db.create_function("now", 0, time.time)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        db.executescript(_SCHEMA)
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # what is said may be bytes of the file
        raise DurableError(f"{path} cannot be used for durable turns: {error}") from error
    return db


def engine(path: str) -> Engine:
    """Return what DBOS speaks with the file through, as other programs do at the same time."""
    import sqlalchemy
    from sqlalchemy import event

    made = sqlalchemy.create_engine(f"sqlite:///{path}", connect_args={"timeout": _PATIENCE})

    def opened(db: Any, record: object) -> None:
        del record
        db.isolation_level = "IMMEDIATE"
        db.create_function("now", 0, time.time)
        for pragma in ("journal_mode = WAL", "synchronous = NORMAL", "foreign_keys = ON"):
            db.execute(f"PRAGMA {pragma}")

    event.listen(made, "connect", opened)
    return made


class Rows:
    """What a statement gave, read to its end."""

    def __init__(self, rows: list[tuple[Any, ...]], changed: int) -> None:
        self._rows = rows
        self.rowcount = len(rows) or changed

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Return all rows."""
        return self._rows

    def fetchone(self) -> tuple[Any, ...] | None:
        """Return the first row; None where there is none."""
        return self._rows[0] if self._rows else None


class SqliteDatabase(Database):
    """A connection to the file, with all that ``Database`` does for those who work on turns.

    Args:
        path: Of the file.
    """

    def __init__(self, path: str) -> None:
        errors = SimpleNamespace(Error=sqlite3.Error, OperationalError=sqlite3.OperationalError)
        super().__init__(f"{PREFIX}{path}", cast(Any, errors))
        self.path = path
        self._file: sqlite3.Connection | None = None

    def another(self) -> Database:
        """Return a connection more; see ``Database.another``."""
        more = SqliteDatabase(self.path)
        more.key, more.name, more.lease = self.key, self.name, self.lease
        return more

    def leave(self) -> None:
        """Use it no more."""
        with self._lock:
            self._users -= 1
            if not self._users:
                self.key, self.lease = 0, None
                if self._file is not None:
                    self._file.close()
                    self._file = None

    def _opened(self) -> sqlite3.Connection:
        if self._file is None:
            self._file = connected(self.path)
        return self._file

    def execute(self, sql: str, args: Sequence[object] = (), *, again: bool = True) -> Any:
        """Run one statement, which is a transaction of its own."""
        del again
        with self._lock:
            done = self._opened().execute(translated(sql), tuple(args))
            return Rows(done.fetchall(), done.rowcount)

    @contextmanager
    def _whole(self) -> Generator[sqlite3.Connection]:
        """Do several things in one transaction."""
        with self._lock:
            db = self._opened()
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise

    # -- writers -------------------------------------------------------------------------------

    def be_writer(self) -> int:
        """Make this process known as a writer, which has a lease; return its number."""
        with self._lock:
            if not self.key:
                self.key = SystemRandom().randrange(1, 1 << 62)
                self.beat(self.key, self.name, self.lease or 0)
            return self.key

    def claim(self, id: str) -> tuple[int, int] | None:
        """Become the writer of a session; see ``Database.claim``."""
        return cast("tuple[int, int] | None", self.execute(_CLAIM, (id, self.be_writer())).fetchone())

    def beat(self, key: int, name: str, lease: float) -> None:
        """Say that a worker lives."""
        sql = """INSERT INTO turnchart_writers VALUES (?, ?, ?, now())
            ON CONFLICT (key) DO UPDATE SET seen = now(), lease = excluded.lease"""
        self.execute(sql, (key, name, lease))
        self.execute("DELETE FROM turnchart_told WHERE at < now() - ?", (_KEPT,))

    def dead(self, key: int, *, parted: bool = False) -> list[int]:
        """Return the workers other than this one that are not heard of any more; see ``Database.dead``."""
        sql = """SELECT key FROM turnchart_writers
            WHERE seen + lease < now() AND key <> ? AND (seen = 0 OR NOT ?)"""
        return [found for (found,) in self.execute(sql, (key, parted)).fetchall()]

    def bury(self, key: int, take_over: Callable[[], object]) -> None:
        """Take the turns of a dead worker over, unless somebody else does.

        Nobody can write while this holds the file, so it says first that it is at it: should it die, the
        worker counts as dead again after a lease.
        """
        sql = "UPDATE turnchart_writers SET seen = now() WHERE key = ? AND seen + lease < now()"
        if self.execute(sql, (key,)).rowcount == 1:
            take_over()
            self.execute("DELETE FROM turnchart_writers WHERE key = ?", (key,))

    def declare_dead(self, key: int, lease: float) -> None:
        """Count a worker that is not known as dead; see ``Database.declare_dead``."""
        self.execute("INSERT OR IGNORE INTO turnchart_writers VALUES (?, 'unknown', ?, 0)", (key, lease))

    def part(self, key: int) -> None:
        """Say that a worker has ended, so that nobody waits for its lease."""
        self.execute("UPDATE turnchart_writers SET seen = 0 WHERE key = ?", (key,))

    # -- sessions ------------------------------------------------------------------------------

    def write(self, batches: Sequence[Batch]) -> set[str]:
        """Write what several sessions have; see ``Database.write``."""
        with self._whole() as db:
            return {each.id for each in batches if _write(db, each)}

    def settle(self, id: int, result: str, channel: str, told: str, writer: tuple[str, int]) -> bool:
        """Say what a wish came to; see ``Database.settle``."""
        with self._whole() as db:
            sql = """UPDATE turnchart_wishes SET result = ?, done = coalesce(done, now())
                WHERE id = ? AND EXISTS (SELECT 1 FROM turnchart_sessions WHERE id = ? AND epoch = ?)"""
            if db.execute(sql, (result, id, *writer)).rowcount != 1:
                return False
            db.execute(_TELL, (channel, told))
            return True

    def tell(self, channel: str, payload: str) -> None:
        """Tell whoever listens."""
        self.execute(_TELL, (channel, payload))

    def make_tables(self, name: str, statements: Iterable[str]) -> None:
        """Do nothing: they are made when the file is opened."""


def _write(db: sqlite3.Connection, batch: Batch) -> bool:
    sql = """UPDATE turnchart_sessions SET entries = ?, updated = coalesce(?, updated)
        WHERE id = ? AND epoch = ? AND entries = ?"""
    if db.execute(sql, (batch.next, batch.at, batch.id, batch.epoch, batch.first)).rowcount != 1:
        return False
    db.executemany(
        "INSERT INTO turnchart_entries (session, seq, type, time, line) VALUES (?, ?, ?, ?, ?)",
        [(batch.id, *row) for row in batch.entries],
    )
    db.executemany(
        "INSERT OR REPLACE INTO turnchart_outcomes VALUES (?, ?, ?)",
        [(batch.id, *row) for row in batch.kept.items()],
    )
    db.executemany("UPDATE turnchart_wishes SET done = now() WHERE id = ?", [(id,) for id in batch.done])
    return True


class Ear:
    """Hears what is told from now on."""

    def __init__(self, path: str) -> None:
        self._db = connected(path)
        (self._last,) = self._db.execute("SELECT coalesce(max(id), 0) FROM turnchart_told").fetchone()

    def heard(self) -> list[tuple[str, str]]:
        """Return channel and payload of what was told since the last look; who cannot look does so later."""
        sql = "SELECT id, channel, payload FROM turnchart_told WHERE id > ? ORDER BY id"
        try:
            rows = self._db.execute(sql, (self._last,)).fetchall()
        except sqlite3.OperationalError:
            return []
        if rows:
            self._last = rows[-1][0]
        return [(channel, payload) for _, channel, payload in rows]

    def close(self) -> None:
        """Hear no more."""
        self._db.close()


def exists(path: str) -> bool:
    """Tell whether a worker has used the file."""
    if not Path(path).exists():
        return False
    db = sqlite3.connect(path)
    try:
        sql = "SELECT count(*) FROM sqlite_master WHERE name IN ('turnchart_wishes', 'workflow_status')"
        return bool(db.execute(sql).fetchone() == (2,))
    finally:
        db.close()
