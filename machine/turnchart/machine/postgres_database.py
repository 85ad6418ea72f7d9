"""One connection of this process to a Postgres database of sessions, and the proof that its writers live.

    turnchart.meta(version)
    turnchart.writers(key, name, lease, seen)   one row a process that writes, or did
    turnchart.sessions(id, created, updated, epoch, entries, holder)
    turnchart.entries(session, seq, type, time, line)   line: the entry as in a JSON-lines file
    turnchart.outcomes(session, key, line)      what steps of an open turn came to, see ``PostgresStore.keep``

A process without a lease holds an advisory lock with the number of its row as long as its connection lasts,
so the server knows at once when it died. A worker has a lease instead: it says ``seen`` again and again, and
counts as dead when its lease ran out, whatever its connection says; so one that is merely stopped is dead
too.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from random import SystemRandom
from threading import RLock
from typing import TYPE_CHECKING, Any, Final, LiteralString, NamedTuple
from weakref import WeakValueDictionary

from turnchart.machine.errors import SessionCorrupt, SessionError

if TYPE_CHECKING:
    from types import ModuleType

    from psycopg import Connection, Cursor

EXTRA: Final = "pip install 'turnchart[durable]'"
VERSION: Final = 1
"""The format that this program writes, and the newest that it reads."""
PATIENCE = 30.0
"""Seconds for which a server that went away is asked again."""
LOCK_CLASS: Final = 1953854062
"""Keeps the advisory locks of writers apart from those of other programs."""

_SCHEMA: Final[tuple[LiteralString, ...]] = (
    "CREATE SCHEMA IF NOT EXISTS turnchart",
    "CREATE TABLE turnchart.meta (version integer NOT NULL)",
    """CREATE TABLE turnchart.writers (key integer PRIMARY KEY, name text NOT NULL, lease interval,
        seen timestamptz NOT NULL DEFAULT clock_timestamp())""",
    """CREATE TABLE turnchart.sessions (id text PRIMARY KEY, created double precision NOT NULL,
        updated double precision NOT NULL, epoch bigint NOT NULL DEFAULT 0,
        entries integer NOT NULL DEFAULT 0, holder integer) WITH (fillfactor = 50)""",
    """CREATE TABLE turnchart.entries (session text, seq integer, type text NOT NULL,
        time double precision NOT NULL, line text NOT NULL, PRIMARY KEY (session, seq))""",
    """CREATE TABLE turnchart.outcomes (session text, key text, line text NOT NULL,
        PRIMARY KEY (session, key))""",
)
ALIVE: Final[LiteralString] = """EXISTS (SELECT FROM turnchart.writers w WHERE w.key = s.holder AND CASE
    WHEN w.lease IS NOT NULL THEN w.seen + w.lease > clock_timestamp()
    ELSE EXISTS (SELECT FROM pg_locks l WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 2
        AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND l.classid = 1953854062 AND l.objid::bigint = w.key) END)"""
"""Of a row ``s`` of sessions: its holder is a process that is still there."""

_CLAIM: Final[LiteralString] = f"""
    INSERT INTO turnchart.sessions AS s (id, created, updated, epoch, holder)
        VALUES (%s, extract(epoch FROM now()), extract(epoch FROM now()), 1, %s)
    ON CONFLICT (id) DO UPDATE SET epoch = s.epoch + 1, holder = excluded.holder WHERE NOT {ALIVE}
    RETURNING epoch, entries"""
_BEAT: Final = """
    INSERT INTO turnchart.writers AS w (key, name, lease) VALUES (%s, %s, %s * interval '1 s')
    ON CONFLICT (key) DO UPDATE SET seen = clock_timestamp(), lease = excluded.lease"""
_DEAD: Final = """
    SELECT key FROM turnchart.writers
    WHERE lease IS NOT NULL AND seen + lease < clock_timestamp() AND key <> %s
        AND (seen = '-infinity' OR NOT %s)"""
_DECLARE_DEAD: Final = """
    INSERT INTO turnchart.writers VALUES (%s, 'unknown', %s * interval '1 s', '-infinity')
    ON CONFLICT DO NOTHING"""
_STILL: Final = """
    SELECT FROM turnchart.writers
    WHERE key = %s AND seen + lease < clock_timestamp() FOR UPDATE SKIP LOCKED"""
_SETTLE: Final = """
    WITH mine AS (SELECT FROM turnchart.sessions WHERE id = %s AND epoch = %s FOR SHARE),
        settled AS (UPDATE turnchart.wishes SET result = %s, done = coalesce(done, now())
            WHERE id = %s AND EXISTS (SELECT FROM mine) RETURNING id)
    SELECT pg_notify(%s, %s) FROM settled"""
_WRITE: Final = """
    WITH given AS (SELECT * FROM unnest(%s::text[], %s::bigint[], %s::integer[], %s::integer[], %s::float8[])
            AS g(id, epoch, first, next, at)),
        mine AS (UPDATE turnchart.sessions s SET entries = g.next, updated = coalesce(g.at, s.updated)
            FROM given g WHERE s.id = g.id AND s.epoch = g.epoch AND s.entries = g.first RETURNING s.id),
        log AS (INSERT INTO turnchart.entries SELECT e.*
            FROM unnest(%s::text[], %s::integer[], %s::text[], %s::float8[], %s::text[])
                AS e(session, seq, type, time, line) JOIN mine ON mine.id = e.session),
        kept AS (INSERT INTO turnchart.outcomes SELECT k.*
            FROM unnest(%s::text[], %s::text[], %s::text[]) AS k(session, key, line)
                JOIN mine ON mine.id = k.session
            ON CONFLICT (session, key) DO UPDATE SET line = excluded.line),
        done AS (UPDATE turnchart.wishes w SET done = now()
            FROM unnest(%s::text[], %s::bigint[]) AS d(session, id) JOIN mine ON mine.id = d.session
            WHERE w.id = d.id)
    SELECT id FROM mine"""
"""Writes for each session whose writer this still is all that is new, and tells which sessions these were."""


class Batch(NamedTuple):
    """What one session has to write.

    Attributes:
        id: Of the session.
        epoch: The number of its writer.
        first: How many entries are stored.
        next: How many there are then.
        at: The time of the last one; None where none is new.
        entries: Sequence number, type, time and line of each new entry.
        kept: Key and line of what steps came to.
        done: The ids of the wishes that are fulfilled with this.
    """

    id: str
    epoch: int
    first: int
    next: int
    at: float | None
    entries: Sequence[tuple[int, str, float, str]]
    kept: Mapping[str, str]
    done: Sequence[int]


def driver() -> ModuleType:
    """Return psycopg, which is loaded with the first use.

    Raises:
        SessionError: If it is not installed.
    """
    try:
        import psycopg
    except ImportError as error:
        raise SessionError(
            f"a session in Postgres needs psycopg, which cannot be loaded ({error}): {EXTRA}"
        ) from error
    return psycopg


class Database:
    """A connection that everything of this process shares which uses the same address.

    It is opened with the first use, and closed when nobody uses it any more. One that is lost is opened
    again, for as long as ``PATIENCE`` says. Calls block their thread, as those of other stores do.

    Args:
        dsn: The address, ``postgres://user@host:port/database`` or in words, as libpq takes it.
    """

    def __init__(self, dsn: str, errors: ModuleType | None = None) -> None:
        self.dsn = dsn
        self.psycopg = errors or driver()
        self.key = 0
        """The number of this process's row in ``writers``; 0 before there is one."""
        self.name = f"process {os.getpid()} on {os.uname().nodename}"
        self.lease: float | None = None
        """Seconds, for a worker; set before the first use."""
        self._db: Connection[Any] | None = None
        self._users = 0
        self._lock = RLock()

    @contextmanager
    def used(self) -> Generator[Database]:
        """Keep the connection open meanwhile."""
        self.enter()
        try:
            yield self
        finally:
            self.leave()

    def another(self) -> Database:
        """Return a connection more, for a worker, which writes as what this process is known as."""
        more = Database(self.dsn)
        more.key, more.name, more.lease = self.key, self.name, self.lease
        return more

    def enter(self) -> None:
        """Become one of those who use the connection."""
        with self._lock:
            self._users += 1

    def leave(self) -> None:
        """Use it no more."""
        with self._lock:
            self._users -= 1
            if not self._users and self._db is not None:
                self._forget_writer()
                self._db.close()
                self._db = None

    def execute(self, sql: LiteralString, args: Sequence[object] = (), *, again: bool = True) -> Cursor[Any]:
        """Run one statement, which is a transaction of its own.

        Where the connection is lost meanwhile nobody knows whether it took effect; ``again`` runs it again.

        Raises:
            SessionError: If the server cannot be reached.
            psycopg.Error: If it refuses the statement, or the connection is lost and ``again`` is False.
        """
        until = time.monotonic() + PATIENCE
        with self._lock:
            while True:
                db = self._connected(until)
                try:
                    return db.execute(sql, args)
                except self.psycopg.OperationalError:
                    if not self._lost(db) or not again or time.monotonic() > until:
                        raise

    @contextmanager
    def alone(self) -> Generator[Connection[Any]]:
        """Keep the connection to oneself, for a transaction that is done once."""
        with self._lock:
            db = self._connected(time.monotonic() + PATIENCE)
            with db.transaction():
                yield db

    def _lost(self, db: Connection[Any]) -> bool:
        """Return whether the connection is gone; then the next call opens another."""
        if not (db.closed or db.broken):
            return False
        db.close()
        self._db = None
        return True

    def _connected(self, until: float) -> Connection[Any]:
        if self._db is not None and not self._db.closed:
            return self._db
        wait = 0.05
        while True:
            try:
                db: Connection[Any] = self.psycopg.connect(
                    self.dsn, autocommit=True, connect_timeout=10, application_name="turnchart"
                )
            except self.psycopg.OperationalError as error:
                # A server that was there before may be just starting again.
                if not self.key or time.monotonic() > until:
                    raise SessionError(
                        f"the database cannot be reached: {' '.join(str(error).split())}"
                    ) from error
                time.sleep(wait)
                wait = min(1.0, wait * 2)
                continue
            try:
                _prepare(db)
                if self.key and self.lease is None:
                    self._prove(db)
            except BaseException:
                db.close()
                raise
            self._db = db
            return db

    # -- sessions ------------------------------------------------------------------------------

    def write(self, batches: Sequence[Batch]) -> set[str]:
        """Write what several sessions have with one statement.

        Returns:
            The ids of those whose writer this still is; of the others nothing is written.
        """
        heads = [(each.id, each.epoch, each.first, each.next, each.at) for each in batches]
        rows = [(each.id, *row) for each in batches for row in each.entries]
        kept = [(each.id, *row) for each in batches for row in each.kept.items()]
        done = [(each.id, wish) for each in batches for wish in each.done]
        args = chain(_columns(heads, 5), _columns(rows, 5), _columns(kept, 3), _columns(done, 2))
        return {id for (id,) in self.execute(_WRITE, tuple(args)).fetchall()}

    def settle(self, id: int, result: str, channel: str, told: str, writer: tuple[str, int]) -> bool:
        """Say what a wish came to, and tell whoever listens.

        Args:
            id: Of the wish.
            result: What it came to.
            channel: Where it is told.
            told: What is told.
            writer: The session, and the number of its writer.

        Returns:
            Whether that is the writer still; else nothing is said.
        """
        return self.execute(_SETTLE, (*writer, result, id, channel, told)).rowcount == 1

    def tell(self, channel: str, payload: str) -> None:
        """Tell whoever listens."""
        self.execute("SELECT pg_notify(%s, %s)", (channel, payload))

    def make_tables(self, name: str, statements: Iterable[LiteralString]) -> None:
        """Make tables where the one of this name is not there."""
        with self.alone() as db:
            db.execute("SELECT pg_advisory_xact_lock(%s, 0)", (LOCK_CLASS,))  # others may be at it, too
            if not has_table(db, name):
                for statement in statements:
                    db.execute(statement)

    # -- writers -------------------------------------------------------------------------------

    def claim(self, id: str) -> tuple[int, int] | None:
        """Become the writer of a session; return its epoch and how many entries it has.

        None where somebody else writes it who is still there.
        """
        return self.execute(_CLAIM, (id, self.be_writer())).fetchone()

    def beat(self, key: int, name: str, lease: float) -> None:
        """Say that a worker lives."""
        self.execute(_BEAT, (key, name, lease))

    def dead(self, key: int, *, parted: bool = False) -> list[int]:
        """Return the workers other than this one that are not heard of any more.

        Args:
            key: This one.
            parted: Only those that said themselves that they ended, or were declared dead.
        """
        return [found for (found,) in self.execute(_DEAD, (key, parted)).fetchall()]

    def bury(self, key: int, take_over: Callable[[], object]) -> None:
        """Take the turns of a dead worker over, unless somebody else does."""
        with self.alone() as db:  # by one only, so that what it put back is not put back again
            if db.execute(_STILL, (key,)).rowcount == 1:
                take_over()
                db.execute("DELETE FROM turnchart.writers WHERE key = %s", (key,))

    def missing(self, keys: Iterable[int]) -> list[int]:
        """Return those of these workers that are not known, dead or alive."""
        known = {found for (found,) in self.execute("SELECT key FROM turnchart.writers").fetchall()}
        return [key for key in keys if key not in known]

    def declare_dead(self, key: int, lease: float) -> None:
        """Count a worker that is not known as dead, unless it says that it lives."""
        self.execute(_DECLARE_DEAD, (key, lease))

    def part(self, key: int) -> None:
        """Say that a worker has ended, so that nobody waits for its lease."""
        self.execute("UPDATE turnchart.writers SET seen = '-infinity' WHERE key = %s", (key,))

    def be_writer(self) -> int:
        """Make this process known as a writer; return its number."""
        with self._lock:
            if not self.key:
                db = self._connected(time.monotonic() + PATIENCE)
                while not self.key:
                    key = SystemRandom().randrange(1, 1 << 31)
                    made = db.execute(
                        "INSERT INTO turnchart.writers (key, name, lease)"
                        " VALUES (%s, %s, %s * interval '1 s') ON CONFLICT DO NOTHING",
                        (key, self.name, self.lease),
                    )
                    self.key = key if made.rowcount else 0
                if self.lease is None:
                    self._prove(db)
                _sweep(db)
            return self.key

    def _prove(self, db: Connection[Any]) -> None:
        db.execute("SELECT pg_advisory_lock(%s, %s)", (LOCK_CLASS, self.key))

    def _forget_writer(self) -> None:
        if (
            self.key and self._db is not None and self.lease is None
        ):  # a worker's turns are taken over by its row
            with suppress(self.psycopg.Error):
                self._db.execute("DELETE FROM turnchart.writers WHERE key = %s", (self.key,))
        self.key, self.lease = 0, None


_databases: WeakValueDictionary[str, Database] = WeakValueDictionary()


def database(dsn: str) -> Database:
    """Return the connection of this process to an address.

    Raises:
        SessionError: If psycopg is not installed.
    """
    found = _databases.get(dsn)
    if found is None:
        found = _databases[dsn] = Database(dsn)
    return found


def _columns(rows: Sequence[Sequence[Any]], count: int) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in range(count)]


os.register_at_fork(after_in_child=_databases.clear)  # a child must not speak on what its parent opened


def has_table(db: Connection[Any], name: str) -> bool:
    """Return whether a table of ours is there; ``to_regclass`` would remember that it was not."""
    sql = "SELECT FROM pg_tables WHERE schemaname = 'turnchart' AND tablename = %s"
    return db.execute(sql, (name,)).rowcount == 1


def _prepare(db: Connection[Any]) -> None:
    """Make the tables where there are none.

    Raises:
        SessionError: If they are of a newer format, or the database is no UTF-8 one.
        SessionCorrupt: If they do not say of which.
    """
    if not has_table(db, "meta"):
        _create(db)
    found = db.execute(
        "SELECT max(version), current_setting('server_encoding') FROM turnchart.meta"
    ).fetchone()
    version, encoding = found or (None, "")
    if type(version) is not int or version < 1:
        raise SessionCorrupt("the table turnchart.meta of the database does not say which format it has")
    if version > VERSION:
        raise SessionError(
            f"the database was written by a newer Turnchart (format {version}, this one reads up to"
            f" {VERSION}); upgrade Turnchart to open it"
        )
    if encoding != "UTF8":
        raise SessionError(f"the database has the encoding {encoding}; sessions need one with UTF8")


def _create(db: Connection[Any]) -> None:
    with db.transaction():
        db.execute("SELECT pg_advisory_xact_lock(%s, 0)", (LOCK_CLASS,))  # others may be at it, too
        if not has_table(db, "meta"):
            for statement in _SCHEMA:
                db.execute(statement)
            db.execute("INSERT INTO turnchart.meta VALUES (%s)", (VERSION,))


def _sweep(db: Connection[Any]) -> None:
    """Remove the rows of processes that ended long ago without a word."""
    db.execute(
        "DELETE FROM turnchart.writers w WHERE seen < clock_timestamp() - interval '1 day' AND lease IS NULL"
        " AND NOT EXISTS (SELECT FROM pg_locks l WHERE l.locktype = 'advisory' AND l.classid = %s"
        " AND l.objid::bigint = w.key)",
        (LOCK_CLASS,),
    )
