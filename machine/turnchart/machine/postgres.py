"""Many sessions in one Postgres database, for programs on several machines (``turnchart[durable]``).

Every append is a transaction of its own and safe when it returns, as far as the server's
``synchronous_commit`` says. A session has one writer: who becomes it raises the ``epoch`` of the session, and
each append asks for that number in its own transaction. So a writer that was only stopped, while another one
took its session over, can write nothing when it goes on.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Final
from urllib.parse import urlsplit

from turnchart.machine.entries import Entry, decode
from turnchart.machine.errors import SessionCorrupt, SessionError, SessionLocked
from turnchart.machine.postgres_database import Database, database
from turnchart.machine.stores import DAMAGED, Durability, why

_LINES: Final = "SELECT line FROM turnchart.entries WHERE session = %s ORDER BY seq"
_APPEND: Final = """
    WITH mine AS (UPDATE turnchart.sessions SET entries = %s + 1, updated = %s
        WHERE id = %s AND epoch = %s AND entries = %s RETURNING id)
    INSERT INTO turnchart.entries SELECT id, %s, %s, %s, %s FROM mine"""
_HOLDER: Final = """
    SELECT w.key, w.name FROM turnchart.sessions s JOIN turnchart.writers w ON w.key = s.holder
    WHERE s.id = %s"""
_KEEP: Final = """
    WITH mine AS (SELECT id FROM turnchart.sessions WHERE id = %s AND epoch = %s FOR SHARE)
    INSERT INTO turnchart.outcomes SELECT id, %s, %s FROM mine
    ON CONFLICT (session, key) DO UPDATE SET line = excluded.line"""


LONGEST: Final = 1000
"""Bytes that the id of a session takes at most; Postgres finds no row by a longer one."""
NO_ID: Final = (
    "a session is named by its id, a text of 1 to 1000 bytes in UTF-8 without NUL, and {!r:.80} is none"
)


def is_id(id: str) -> bool:
    """Tell whether a session in a database can be called so."""
    try:
        return 0 < len(id.encode()) <= LONGEST and "\0" not in id
    except UnicodeEncodeError:  # half of a surrogate pair
        return False


class PostgresStore:
    """One session of a Postgres database.

    Args:
        dsn: The address of the database, as in ``postgres://user:password@host/name``.
        id: Which session.
        shared: The connection to use; None: that of the process.

    Raises:
        SessionError: If psycopg is not installed, or ``id`` is none.
    """

    durability: Durability = "flush"
    dropped = ""

    def __init__(self, dsn: str, id: str, shared: Database | None = None) -> None:
        if not is_id(id):
            raise SessionError(NO_ID.format(id))
        self.id = id
        self._database: Database = shared or database(dsn)
        self._epoch: int | None = None
        self._next: int | None = None
        self._lost = ""

    @property
    def where(self) -> str:
        """The address of the database, without a password."""
        return shown(self._database.dsn)

    @property
    def database(self) -> Database:
        """The connection that it uses."""
        return self._database

    @property
    def epoch(self) -> int | None:
        """How often the session has got a writer, this one included; None while this is not the writer."""
        return self._epoch

    @property
    def as_writer(self) -> tuple[str, int]:
        """Its id and the number of its writer, as fenced statements ask for them; 0 is nobody's."""
        return self.id, self._epoch or 0

    # -- reading -------------------------------------------------------------------------------

    def load(self) -> Iterable[Entry]:
        """Return the entries, oldest first. Writes nothing and takes no lock.

        Raises:
            SessionCorrupt: If an entry is damaged; the message names it.
            SessionError: If the database cannot be read.
        """
        with self._database.used() as db:
            try:
                lines = db.execute(_LINES, (self.id,)).fetchall()
            except db.psycopg.Error as error:
                raise SessionError(f"{self.where} cannot be read: {_said(error)}") from error
        entries = [self._entry(line, seq) for seq, (line,) in enumerate(lines)]
        if self._epoch is None:
            self._next = len(entries)
        return entries

    def _entry(self, line: str, seq: int) -> Entry:
        try:
            entry = Entry.of(decode(line))
        except DAMAGED as error:
            raise self._corrupt(seq, why(error)) from error
        if entry.seq != seq:
            raise self._corrupt(seq, f"seq {entry.seq} stands where {seq} belongs")
        return entry

    def _corrupt(self, seq: int, what: str) -> SessionCorrupt:
        return SessionCorrupt(
            f"{self.where}: session {self.id}, entry {seq}: {what}. The database was damaged or changed by"
            " hand: restore a copy"
        )

    # -- writing -------------------------------------------------------------------------------

    def lock(self) -> None:
        """Become the one writer of this session; a second call by the writer does nothing.

        Raises:
            SessionLocked: If somebody else writes the session, or has written it since it was loaded here.
            SessionError: If the database cannot be reached.
        """
        if self._epoch is not None:
            return
        self.check()
        self._database.enter()
        try:
            self._claim()
        except BaseException:
            self._database.leave()
            raise

    def _claim(self) -> None:
        db = self._database
        claimed = db.claim(self.id)
        if claimed is None:
            raise SessionLocked(f"session {self.id} ({self.where}) is being written by {self._holder()}")
        self._epoch, entries = claimed
        if self._next not in (None, entries):
            self._give_back()
            self._epoch = None
            raise SessionLocked(
                f"session {self.id} ({self.where}) was written by somebody else since it was opened here;"
                " open it again"
            )
        self._next = entries

    def _holder(self) -> str:
        key, name = self._database.execute(_HOLDER, (self.id,)).fetchone() or (0, "somebody who just left")
        if key == self._database.key:
            return "another object of this process; close that one first"
        return f"{name}; close it there, or wait until it ends"

    def check(self) -> None:
        """Raise where this object was the writer, and may not be it again.

        Raises:
            SessionLocked: Saying who took the session over.
        """
        if self._lost:
            raise SessionLocked(self._lost)

    def abandon(self) -> None:
        """Give the lock up for good: what is appended from now on is refused."""
        self._lost = f"session {self.id} ({self.where}) was left to another writer"
        self.close()

    def append(self, entry: Entry) -> None:
        """Write one entry; takes the lock first if nobody did.

        Raises:
            SessionLocked: If somebody else writes the session, or has taken it over.
            ValueError: If the entry is not the next one.
            psycopg.Error: If it could not be written; then nothing of it is in the database.
        """
        if self._epoch is None:
            self.lock()
        seq = entry.seq
        if seq != self._next:
            raise ValueError(f"entry {seq} cannot follow the {self._next} entries of session {self.id}")
        line, at = entry.line(), float(entry.time)
        row = (seq, at, self.id, self._epoch, seq, seq, entry.type.replace("\0", "\ufffd"), at, line)
        if self._database.execute(_APPEND, row).rowcount != 1 and not self._is_there(seq, line):
            raise self._fenced()
        self._next = seq + 1

    def _fenced(self) -> SessionLocked:
        """Note that somebody else has become the writer, and return what to raise."""
        self._lost = (
            f"session {self.id} ({self.where}) was taken over by {self._holder()}, because this writer"
            " was not heard of in time; nothing was written"
        )
        self._epoch = None
        self._database.leave()
        return SessionLocked(self._lost)

    def _is_there(self, seq: int, line: str) -> bool:
        """Return whether an append was stored whose answer was lost with the connection."""
        sql = """SELECT e.line FROM turnchart.entries e JOIN turnchart.sessions s ON s.id = e.session
            WHERE e.session = %s AND e.seq = %s AND s.epoch = %s"""
        return self._database.execute(sql, (self.id, seq, self._epoch)).fetchone() == (line,)

    # -- what steps came to --------------------------------------------------------------------

    def keep(self, key: str, line: str) -> None:
        """Store what a step came to whose entry cannot be in the log yet; takes the lock if nobody did.

        Raises:
            SessionLocked: If somebody else has taken the session over.
        """
        if self._epoch is None:
            self.lock()
        if self._database.execute(_KEEP, (self.id, self._epoch, key, line)).rowcount != 1:
            raise self._fenced()

    def kept(self) -> dict[str, str]:
        """Return what ``keep`` stored, by key."""
        sql = "SELECT key, line FROM turnchart.outcomes WHERE session = %s"
        with self._database.used() as db:
            return dict(db.execute(sql, (self.id,)).fetchall())

    def forget(self) -> None:
        """Remove what ``keep`` stored, as the writer."""
        self._database.execute(
            "DELETE FROM turnchart.outcomes WHERE session = %s"
            " AND EXISTS (SELECT 1 FROM turnchart.sessions s WHERE s.id = %s AND s.epoch = %s)",
            (self.id, self.id, self._epoch),
        )

    # -- the rest ------------------------------------------------------------------------------

    async def flush(self) -> None:
        """Do nothing: an append is as safe as the server makes it when it returns."""

    def close(self) -> None:
        """Give the lock and the connection up; a second call does nothing, and a later append locks again."""
        if self._epoch is not None:
            with suppress(SessionError, self._database.psycopg.Error):  # who cannot say so is soon found dead
                self._give_back()
            self._epoch = None
            self._database.leave()

    def _give_back(self) -> None:
        sql = "UPDATE turnchart.sessions SET holder = NULL WHERE id = %s AND epoch = %s"
        self._database.execute(sql, (self.id, self._epoch))

    def __del__(self) -> None:
        if getattr(self, "_epoch", None) is not None:
            self.close()


def shown(dsn: str) -> str:
    """Return the address of a database without its password."""
    if "://" not in dsn:
        return dsn if dsn.startswith("sqlite:") else "postgres"
    parts = urlsplit(dsn)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _said(error: Exception) -> str:
    return " ".join(str(error).split())
