"""Many sessions in one SQLite file, through the standard library.

    meta(version)
    sessions(id, created)
    entries(session, seq, type, time, line)     line: the entry as in a JSON-lines file

Every append is a transaction of its own in WAL mode, so several processes can write different sessions of
one file. One session has one writer: a lock file ``<file>.<id>.lock`` stands beside the file meanwhile.

SQLite's own locks are lost when any other code of the process opens and closes the file, so nothing here
reads the file but through SQLite.
"""

import os
import shlex
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from functools import partial
from hashlib import sha256
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Any, NamedTuple
from urllib.parse import quote
from uuid import uuid4

from turnchart.machine.disk import Disk
from turnchart.machine.entries import Entry, decode
from turnchart.machine.errors import SessionCorrupt, SessionError, SessionLocked
from turnchart.machine.locks import WriterLock
from turnchart.machine.stores import DAMAGED, Durability, cure, strangers_touch, usable_id, why

VERSION = 1
"""The format that this program writes, and the newest that it reads."""
PATIENCE = 20.0
"""How long an append waits for the writers of other sessions of the file, in seconds."""

_SCHEMA = (
    "CREATE TABLE meta (version INTEGER NOT NULL)",
    f"INSERT INTO meta VALUES ({VERSION})",
    "CREATE TABLE sessions (id TEXT PRIMARY KEY, created REAL NOT NULL) WITHOUT ROWID",
    """CREATE TABLE entries (session TEXT, seq INTEGER, type TEXT NOT NULL, time REAL NOT NULL,
        line TEXT NOT NULL, PRIMARY KEY (session, seq)) WITHOUT ROWID""",
    # What `list_sessions` asks for, so that it need not look at every entry.
    "CREATE INDEX marks ON entries (type, session, seq) WHERE type = 'turn/start' OR type = 'session_info'",
)
_TABLES = frozenset(("meta", "sessions", "entries"))
_BROKEN = sqlite3.DatabaseError, UnicodeDecodeError  # what SQLite says may hold bytes of a damaged file
_SMALLEST = 512
"""Bytes of the smallest SQLite file; SQLite takes what is smaller for an empty one, and overwrites it."""
_INSERT = "INSERT INTO entries VALUES (?, ?, ?, ?, ?)"
_LINES = "SELECT CAST(COALESCE(line, '') AS BLOB) FROM entries WHERE session = ? ORDER BY seq"
"""As bytes: what is no UTF-8 is found line by line."""
_SESSIONS = """
    SELECT id, created,
        coalesce(
            (SELECT CAST(time AS REAL) FROM entries WHERE session = id ORDER BY seq DESC LIMIT 1), created),
        coalesce((SELECT max(seq) + 1 FROM entries WHERE session = id), 0),
        (SELECT line FROM entries INDEXED BY marks WHERE type = 'session_info' AND session = id
            AND CASE WHEN typeof(line) = 'text' AND json_valid(line) THEN json_type(line, '$.data.name') END
            IS NOT NULL ORDER BY seq DESC LIMIT 1),
        (SELECT count(*) FROM entries INDEXED BY marks WHERE type = 'turn/start' AND session = id)
    FROM sessions ORDER BY created, id
"""


class SessionInfo(NamedTuple):
    """What a list of sessions tells of one.

    Attributes:
        id: Its id.
        created: When it got its first entry, in Unix seconds.
        updated: When it got its last one.
        entries: How many it has.
        name: What ``set_name`` called it; empty where nothing did.
        turns: How many turns it has.
    """

    id: str
    created: float
    updated: float
    entries: int
    name: str
    turns: int


def list_sessions(path: str | os.PathLike[str]) -> list[SessionInfo]:
    """Return what a file holds, the oldest session first, without reading all of it.

    Raises:
        SessionCorrupt: If the file is no store of ours.
        SessionError: If it cannot be read, or is of a newer format.
    """
    rows = _rows(Path(os.path.realpath(path)), _SESSIONS)
    return [
        SessionInfo(id, created, updated, entries, _name(line), turns)
        for id, created, updated, entries, line, turns in rows
    ]


def session_ids(path: str | os.PathLike[str]) -> list[str]:
    """Return the ids of the sessions in a file, the oldest first; errors are those of ``list_sessions``."""
    found = _rows(Path(os.path.realpath(path)), "SELECT id FROM sessions ORDER BY created, id")
    return [id for (id,) in found]


def _name(line: str | None) -> str:
    """Return the name that a line gives; a damaged one gives none."""
    try:
        return str(decode(line)["data"]["name"] or "") if line else ""
    except DAMAGED:
        return ""


class SqliteStore:
    """One session of a SQLite file.

    Args:
        path: The file. The first append makes it; its folder is made with the first lock.
        id: Which session. None: the only one of the file, or a new one where it has none.
        durability: See ``Durability``.

    Raises:
        SessionError: If ``id`` is None and the file has several sessions, if the file cannot be read, or if
            the id is no text that UTF-8 can hold.
        SessionCorrupt: If ``id`` is None and the file is no store of ours.
    """

    def __init__(
        self, path: str | os.PathLike[str], id: str | None = None, *, durability: Durability = "flush"
    ) -> None:
        self.path = Path(os.path.realpath(path))
        self.durability: Durability = durability
        self.dropped = ""
        self.id = usable_id(id or self._only_id())
        self._lock = WriterLock(self._lock_path(), f"session {self.id} ({self.path})")
        self._db: sqlite3.Connection | None = None
        self._disk: Disk | None = None
        self._next: int | None = None
        self._inode: tuple[int, int] | None = None
        """Which file is open: once a turn somebody looks whether it still stands there."""

    @property
    def where(self) -> str:
        """The path of the file."""
        return str(self.path)

    def _only_id(self) -> str:
        ids = [id for (id,) in _rows(self.path, "SELECT id FROM sessions ORDER BY created, id")]
        if len(ids) > 1:
            more = f" and {len(ids) - 20} more" if len(ids) > 20 else ""
            raise SessionError(
                f"{self.path} holds {len(ids)} sessions; name one of them: {', '.join(ids[:20])}{more}"
            )
        return ids[0] if ids else str(uuid4())

    def _lock_path(self) -> Path:
        name = quote(self.id, safe=" ")
        if len(name) > 100:  # a file name has its limits
            name = sha256(self.id.encode()).hexdigest()
        return self.path.with_name(f"{self.path.name}.{name}.lock")

    # -- reading -------------------------------------------------------------------------------

    def load(self) -> Iterator[Entry]:
        """Yield the entries, oldest first. Writes nothing and takes no lock.

        Raises:
            SessionCorrupt: If the file is no store of ours, or an entry is damaged; the message names it.
            SessionError: If the file cannot be read, or is of a newer format.
        """
        lines = _rows(self.path, _LINES, self.id)
        for seq, (line,) in enumerate(lines):
            yield self._entry(line, seq)
        if not self._lock.held:
            self._next = len(lines)

    def _entry(self, line: bytes, seq: int) -> Entry:
        try:
            entry = Entry.of(decode(line.decode()))
        except DAMAGED as error:
            raise self._corrupt(seq, why(error)) from error
        if entry.seq != seq:
            raise self._corrupt(seq, f"seq {entry.seq} stands where {seq} belongs")
        return entry

    def _corrupt(self, seq: int, what: str) -> SessionCorrupt:
        return SessionCorrupt(
            f"{self.path}: session {self.id}, entry {seq}: {what}."
            f" {cure(f'{shlex.quote(self.id)} --store {shlex.quote(str(self.path))}')}"
        )

    # -- writing -------------------------------------------------------------------------------

    def lock(self) -> None:
        """Become the one writer of this session; a second call by the writer does nothing.

        Raises:
            SessionLocked: If somebody else writes the session, or has written it since it was loaded here.
            SessionError: If the session cannot be locked or read.
        """
        if self._lock.held:
            return
        self._disconnect()  # a forked child must not use what its parent had opened
        self._lock.acquire()
        try:
            self._next = self._unchanged()
        except BaseException:
            self._lock.release()
            raise

    def _unchanged(self) -> int:
        found = _rows(self.path, "SELECT max(seq) + 1 FROM entries WHERE session = ?", self.id)
        entries: int = found[0][0] or 0 if found else 0
        if self._next not in (None, entries):
            raise SessionLocked(
                f"session {self.id} ({self.path}) was written by somebody else since it was opened here;"
                " open it again"
            )
        return entries

    def append(self, entry: Entry) -> None:
        """Write one entry; takes the lock first if nobody did.

        Raises:
            SessionLocked: If somebody else writes the session.
            ValueError: If the entry is not the next one.
            sqlite3.Error: If it could not be written; then nothing of it is in the file.
        """
        if not self._lock.held:
            self.lock()
        if entry.seq != self._next:
            raise ValueError(f"entry {entry.seq} cannot follow the {self._next} entries of session {self.id}")
        if self._db is None:
            self._db = self._connect()
        elif entry.type == "turn/start" and _inode(self.path) != self._inode:
            raise OSError(strangers_touch(self.path))
        row = (self.id, entry.seq, entry.type, float(entry.time), entry.line())
        if entry.seq:
            self._db.execute(_INSERT, row)
        else:
            with self._db:  # commits, or rolls back
                self._db.execute("BEGIN IMMEDIATE")
                self._db.execute("INSERT INTO sessions VALUES (?, ?)", (self.id, row[3]))
                self._db.execute(_INSERT, row)
        self._next = entry.seq + 1

    def _connect(self) -> sqlite3.Connection:
        deadline = time.monotonic() + PATIENCE
        while True:
            # One thread at a time writes, but not always the one that opened the session.
            db = sqlite3.connect(self.path, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
            try:
                self._prepare(db)
            except sqlite3.OperationalError as error:
                db.close()
                # SQLite does not wait by itself while another process turns the new file into a WAL one.
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise type(error)(_in_words(error)) from error
                time.sleep(0.01)
            except UnicodeDecodeError as error:
                db.close()
                raise _unreadable(self.path, error) from error
            except BaseException:
                db.close()
                raise
            else:
                self._inode = _inode(self.path)
                return db

    def _prepare(self, db: sqlite3.Connection) -> None:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")  # `flush` waits for the disk, an append does not
        with db:
            db.execute("BEGIN IMMEDIATE")
            if not _is_store(db, self.path):
                for statement in _SCHEMA:
                    db.execute(statement)

    # -- whole sessions ------------------------------------------------------------------------

    def create(self, entries: Iterable[Entry]) -> None:
        """Write a new session as a whole: where this fails, or the process is killed, there is none.

        Raises:
            SessionLocked: If somebody else writes the session.
            SessionError: If there is a session with this id already, or the file cannot be written.
        """
        self.lock()
        try:
            if self._next:
                raise SessionError(f"{self.path} holds a session {self.id!r} already; choose another id")
            self._db = db = self._connect()
            with db:  # commits, or rolls back
                db.execute("BEGIN IMMEDIATE")
                for entry in entries:
                    at = float(entry.time)
                    if not entry.seq:
                        db.execute("INSERT INTO sessions VALUES (?, ?)", (self.id, at))
                    db.execute(_INSERT, (self.id, entry.seq, entry.type, at, entry.line()))
        except sqlite3.Error as error:
            raise SessionError(f"{self.path} cannot be written: {error}") from error
        finally:
            self._next = None
            self.close()

    def delete(self) -> None:
        """Delete the session from the file; a damaged one too.

        Raises:
            SessionLocked: If somebody else writes the session.
            SessionError: If it cannot be deleted.
        """
        self.lock()
        try:
            self._db = db = self._connect()
            with db:
                db.execute("BEGIN IMMEDIATE")
                for table, column in (("entries", "session"), ("sessions", "id")):
                    db.execute(f"DELETE FROM {table} WHERE {column} = ?", (self.id,))
        except sqlite3.Error as error:
            raise SessionError(f"session {self.id} ({self.path}) cannot be deleted: {error}") from error
        finally:
            self._next = None
            self.close()

    # -- safety --------------------------------------------------------------------------------

    async def flush(self) -> None:
        """Wait for the disk, where ``durability`` is ``fsync``; calls at the same time share one wait.

        Raises:
            OSError: If the disk refuses; what was appended may be lost.
        """
        if self.durability == "fsync" and self._db is not None and self._next is not None:
            await self._changes().reach(self._next)

    def _changes(self) -> Disk:
        """Return the log of changes. What is in it no more, SQLite has put into the file, and waited."""
        if self._disk is None:
            # SQLite holds no lock on this file, so closing it again takes none away.
            self._disk = Disk(os.open(f"{self.path}-wal", os.O_RDWR | os.O_CLOEXEC), self.path.parent)
        return self._disk

    def close(self) -> None:
        """Give the lock and the file up; a second call does nothing, and a later append locks again."""
        try:
            if self.durability == "fsync" and self._db is not None and self._next is not None:
                self._changes().sync(self._next)
        finally:
            self._disconnect()
            self._lock.release()

    def _disconnect(self) -> None:
        db, self._db = self._db, None
        disk, self._disk = self._disk, None
        if disk is not None:
            disk.close()
        if db is not None:
            db.close()

    def __del__(self) -> None:
        if getattr(self, "_db", None) is not None:
            self.close()


# -- looking without a trace -------------------------------------------------------------------


class _Stamp(NamedTuple):
    """What shows that a file changed while it was read, and whether it has a log of changes beside it."""

    size: int
    time: int
    wal: bool


def _holds_something(path: Path) -> bool:
    try:
        return path.stat().st_size > 0
    except FileNotFoundError:
        return False


def _inode(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _stamp(path: Path) -> _Stamp | None:
    try:
        found = path.stat()
        if not (S_ISREG(found.st_mode) or S_ISDIR(found.st_mode)):  # a pipe would block
            raise SessionError(f"{path} cannot be read: it is no file")
        return _Stamp(found.st_size, found.st_mtime_ns, _holds_something(Path(f"{path}-wal")))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SessionError(f"{path} cannot be read: {error.strerror}") from error


def _rows(path: Path, sql: str, *args: Any) -> list[Any]:
    """Return what a query finds in a store; nothing where there is no store yet. Creates no file.

    A reader of a WAL file leaves files behind even when it opens it read-only. So a file that nobody has
    open is read as one that cannot change, and read again if it changed after all.
    """
    while True:
        before = _stamp(path)
        if before is None:
            return []
        try:
            with closing(_reader(path, before)) as db:
                rows = db.execute(sql, args).fetchall() if _is_store(db, path) else []
        except _BROKEN as error:
            if _stamp(path) == before:
                raise _unreadable(path, error) from error
        else:
            if before.wal or _stamp(path) == before:
                return rows


def _reader(path: Path, found: _Stamp) -> sqlite3.Connection:
    if 0 < found.size < _SMALLEST:
        raise _no_sqlite(path, "it is too small")
    how = "mode=ro" if found.wal else "immutable=1"
    db = sqlite3.connect(f"{path.as_uri()}?{how}", uri=True, timeout=PATIENCE)
    db.text_factory = partial(str, encoding="utf-8", errors="replace")  # bad text hides nothing else
    return db


def look(path: Path) -> sqlite3.Connection:
    """Open a store that nobody writes, to read what no session would take.

    Raises:
        SessionCorrupt: If the file is no store of ours.
        SessionError: If there is none, it cannot be read, or is of a newer format.
    """
    path = Path(os.path.realpath(path))
    found = _stamp(path)
    if found is None:
        raise SessionError(f"there is no file {path}")
    db = _reader(path, found)
    try:
        if not _is_store(db, path):
            raise _no_sqlite(path, "it is empty")
    except _BROKEN as error:
        db.close()
        raise _unreadable(path, error) from error
    except BaseException:
        db.close()
        raise
    return db


def _is_store(db: sqlite3.Connection, path: Path) -> bool:
    """Return whether a database is a store of ours, False where it is empty.

    Raises:
        SessionCorrupt: If it is neither.
        SessionError: If it is of a newer format.
    """
    tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not tables:
        return False
    if not tables >= _TABLES:
        raise SessionCorrupt(f"{path} is a SQLite file of another program: it has no tables of Turnchart")
    [(version,)] = db.execute("SELECT max(version) FROM meta")
    if type(version) is not int or version < 1:
        raise SessionCorrupt(f"{path} does not say which format it has: `meta` was changed; restore a copy")
    if version > VERSION:
        raise SessionError(
            f"{path} was written by a newer Turnchart (format {version}, this one reads up to {VERSION});"
            " upgrade Turnchart to open it"
        )
    return True


def _unreadable(path: Path, error: sqlite3.DatabaseError | UnicodeDecodeError) -> SessionError:
    if isinstance(error, UnicodeDecodeError):
        return _no_sqlite(path, error.object.decode(errors="replace"))
    if isinstance(error, sqlite3.OperationalError):
        return SessionError(f"{path} cannot be read: {_in_words(error)}")
    return _no_sqlite(path, error)


def _in_words(error: sqlite3.OperationalError) -> str:
    """Return what SQLite says; it calls a disk without room for what it reads by with an I/O error."""
    full = error.sqlite_errorcode == sqlite3.SQLITE_IOERR_SHMSIZE
    return f"{error}: the disk is full" if full else str(error)


def _no_sqlite(path: Path, because: object) -> SessionCorrupt:
    return SessionCorrupt(f"{path} is no SQLite file, or a damaged one ({because}); restore a copy of it")
