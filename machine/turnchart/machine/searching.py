"""Full-text search over the messages of recorded sessions, with SQLite's FTS5.

A SQLite file keeps its index beside its entries. Appending does not touch it: a search first takes in what is
new since the last one. What cannot be written, and JSON-lines files, are indexed in memory for that search.
"""

import os
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from turnchart.machine.entries import decode
from turnchart.machine.errors import SessionError
from turnchart.machine.sqlite import PATIENCE, look
from turnchart.machine.stores import DAMAGED, Store

BATCH = 2_000
"""So many entries are indexed in one transaction, so that no writer waits long."""
SEARCHED = (
    "user/message", "assistant/message", "tool/result", "custom_message", "compaction", "branch_summary",
)  # fmt: skip
"""The types of the entries that are searched: what people, models and tools said, and summaries of it."""

_SCHEMA = (
    """CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5(text, session UNINDEXED, seq UNINDEXED,
        type UNINDEXED, time UNINDEXED, tokenize = 'unicode61 remove_diacritics 2')""",
    "CREATE TABLE IF NOT EXISTS indexed (session TEXT PRIMARY KEY, upto INTEGER NOT NULL) WITHOUT ROWID",
)
_FORGET = """CREATE TRIGGER IF NOT EXISTS forget AFTER DELETE ON sessions BEGIN
    DELETE FROM words WHERE session = old.id; DELETE FROM indexed WHERE session = old.id; END"""
_NEW = f"""SELECT session, seq, type, time, CAST(COALESCE(line, '') AS BLOB) FROM entries
    WHERE session = ? AND seq >= ? AND seq < ? AND type IN ({", ".join("?" * len(SEARCHED))}) ORDER BY seq"""
_FIND = """SELECT session, seq, type, time, snippet(words, 0, ?, ?, ' ... ', 16) FROM words
    WHERE words MATCH ? ORDER BY rank, time DESC, seq LIMIT ?"""
_OPEN, _CLOSE = "\x01", "\x02"
_PART = re.compile(r'"([^"]*)"(\*?)|(\S+)')

Row = tuple[str, int, str, float, str]


class Hit(NamedTuple):
    """A message that was found.

    Attributes:
        session: The id of its session.
        seq: The number of its entry.
        type: The type of that entry.
        time: When it was written, in Unix seconds.
        text: The part of it that was found, on one line.
        marks: Where the words that were asked for stand in ``text``: begin and end of each.
    """

    session: str
    seq: int
    type: str
    time: float
    text: str
    marks: tuple[tuple[int, int], ...]


def search_sqlite(path: Path, text: str, *, limit: int = 20) -> list[Hit]:
    """Return the messages of a SQLite file that contain all these words, the best first.

    Args:
        path: The file. Its index is brought up to date first, where it can be written.
        text: Words; several in double quotes stand together, and one that ends in ``*`` begins so.
        limit: So many at most.

    Raises:
        ValueError: If there is no word in the text.
        SessionError: If the file cannot be read, or this Python's SQLite has no FTS5.
    """
    asked = query(text)
    path = Path(os.path.realpath(path))
    if not path.exists():
        return []
    with closing(look(path)) as db:  # says what is wrong with a file that is no store
        sessions = [id for (id,) in db.execute("SELECT id FROM sessions")]
        try:
            return _in_file(path, sessions, asked, limit)
        except sqlite3.DatabaseError:
            # It cannot be written, or its index is damaged; the entries know it all.
            rows = (row for id in sessions for row in _rows(db, id, 0, None))
            return _in_memory(path, rows, asked, limit)


def search_stores(
    stores: Iterable[Store],
    text: str,
    broken: Callable[[SessionError], object] | None = None,
    *,
    limit: int = 20,
) -> list[Hit]:
    """Return what ``search_sqlite`` does of any stores, which are read as a whole.

    Args:
        stores: The stores.
        text: As there.
        broken: Hears of each one that cannot be read to its end; what came before is searched. None: it
            is raised.
        limit: So many at most.

    Raises:
        ValueError: If there is no word in the text.
        SessionError: If one cannot be read, or this Python's SQLite has no FTS5.
    """
    asked = query(text)
    rows = (row for store in stores for row in _rows_of(store, broken))
    return _in_memory("memory", rows, asked, limit)


def _rows_of(store: Store, broken: Callable[[SessionError], object] | None) -> Iterator[Row]:
    try:
        for entry in store.load():
            if entry.type in SEARCHED and (said := _said(entry.type, entry.data)):
                yield store.id, entry.seq, entry.type, entry.time, said
    except SessionError as error:
        if broken is None:
            raise
        broken(error)


def query(text: str) -> str:
    """Return what FTS5 is asked for these words.

    Raises:
        ValueError: If there is none.
    """
    parts = [
        (phrase or word.rstrip("*"), star or word.endswith("*")) for phrase, star, word in _PART.findall(text)
    ]
    found = [
        '"' + part.replace('"', '""') + '"' + ("*" if begins else "")
        for part, begins in parts
        if any(each.isalnum() for each in part)
    ]
    if not found:
        raise ValueError(f"there is no word to search for in {text!r}")
    return " ".join(found)


# -- the index ---------------------------------------------------------------------------------


def _in_file(path: Path, sessions: Iterable[str], asked: str, limit: int) -> list[Hit]:
    uri = f"{path.as_uri()}?mode=rw"
    with closing(sqlite3.connect(uri, uri=True, timeout=PATIENCE, isolation_level=None)) as db:
        with db:
            db.execute("BEGIN IMMEDIATE")
            for statement in (*_SCHEMA, _FORGET):
                db.execute(statement)
        for id in sessions:
            _take_in(db, id)
        return _found(db, asked, limit)


def _take_in(db: sqlite3.Connection, id: str) -> None:
    """Index what a session got since it was indexed last."""
    while True:
        [(upto, entries)] = db.execute(
            "SELECT coalesce((SELECT upto FROM indexed WHERE session = :id), 0),"
            " coalesce((SELECT max(seq) + 1 FROM entries WHERE session = :id), 0)",
            {"id": id},
        )
        if upto >= entries:
            return
        with db:
            db.execute("BEGIN IMMEDIATE")
            [(again,)] = db.execute("SELECT coalesce((SELECT upto FROM indexed WHERE session = ?), 0)", (id,))
            if again == upto:  # else another search has done it meanwhile
                end = min(entries, upto + BATCH)
                _insert(db, _rows(db, id, upto, end))
                db.execute("INSERT OR REPLACE INTO indexed VALUES (?, ?)", (id, end))


def _insert(db: sqlite3.Connection, rows: Iterable[Row]) -> None:
    db.executemany("INSERT INTO words (session, seq, type, time, text) VALUES (?, ?, ?, ?, ?)", rows)


def _in_memory(where: object, rows: Iterable[Row], asked: str, limit: int) -> list[Hit]:
    try:
        with closing(sqlite3.connect(":memory:")) as db:
            for statement in _SCHEMA:
                db.execute(statement)
            _insert(db, rows)
            return _found(db, asked, limit)
    except sqlite3.DatabaseError as error:
        if "fts5" in str(error):
            raise SessionError(
                "this Python's SQLite has no full-text search (FTS5); use a Python whose SQLite has it"
            ) from error
        raise SessionError(f"{where} cannot be searched: {error}") from error


def _rows(db: sqlite3.Connection, id: str, first: int, end: int | None) -> Iterator[Row]:
    """Yield what is to be indexed of a session; a damaged line says nothing that could be found."""
    last = 2**62 if end is None else end
    for session, seq, type, time, line in db.execute(_NEW, (id, first, last, *SEARCHED)).fetchall():
        try:
            said = _said(type, decode(line.decode())["data"])
        except DAMAGED:
            continue
        if said:
            yield session, seq, type, time, said


def _said(type: str, data: Any) -> str:
    """Return the text of an entry; empty where it has none, or is no message."""
    try:
        if type in ("compaction", "branch_summary"):
            said = str(data["summary"])
        else:
            said = "\n".join(part["text"] for part in data["message"]["content"] if part["type"] == "text")
    except DAMAGED:
        return ""
    return said.replace(_OPEN, " ").replace(_CLOSE, " ").encode("utf-8", "replace").decode()


def _found(db: sqlite3.Connection, asked: str, limit: int) -> list[Hit]:
    rows = db.execute(_FIND, (_OPEN, _CLOSE, asked, limit)).fetchall()
    return [Hit(session, seq, type, time, *_marked(text)) for session, seq, type, time, text in rows]


def _marked(text: str) -> tuple[str, tuple[tuple[int, int], ...]]:
    plain, marks = "", list[tuple[int, int]]()
    for i, part in enumerate(re.split(f"[{_OPEN}{_CLOSE}]", " ".join(text.split()))):
        if i % 2:
            marks.append((len(plain), len(plain) + len(part)))
        plain += part
    return plain, tuple(marks)
