"""What can be saved of a damaged session: reads it leniently, and writes a copy that is a legal log.

The damaged file itself is never changed.
"""

import re
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from turnchart.machine.entries import Entry, Frozen, decode
from turnchart.machine.errors import SessionCorrupt, SessionError
from turnchart.machine.jsonl import JsonlStore, header_id
from turnchart.machine.session import Session
from turnchart.machine.sqlite import SqliteStore, look
from turnchart.machine.stores import DAMAGED, why
from turnchart.machine.verify import Judge

MOST_MISSING = 1000
"""So many entries in a row may be missing; behind a larger gap nothing is trusted."""
LOST = "lost"
"""The kind of the ``custom`` entries that stand where an entry was lost."""

_INSIDE = 20
"""So many things that look like the beginning of an entry may stand inside one."""
_BEGINS = re.compile(r'\{"seq":\d')


class Damage(NamedTuple):
    """What was no entry, and where it stood."""

    where: str
    what: str


Piece = Entry | Damage


class Salvage(NamedTuple):
    """What a copy of a damaged session can hold.

    Attributes:
        id: The id of the session.
        entries: A log that can be opened and that ``verify`` accepts. Where an entry in its middle was lost
            and the rest is legal without it, a ``custom`` entry of the kind ``lost`` has its place.
        problems: What is wrong with the session, and what the copy does not hold, in words; empty where it is
            whole.
    """

    id: str
    entries: tuple[Entry, ...]
    problems: tuple[str, ...]


def salvage_jsonl(path: Path) -> Salvage:
    """Return what can be saved of a JSON-lines file; it is only read.

    Raises:
        SessionCorrupt: If nothing in it is an entry.
        SessionError: If it cannot be read, or is of a newer format.
    """
    try:
        with path.open("rb") as file:
            lines = list(file)
    except OSError as error:
        raise SessionError(f"{path} cannot be read: {error.strerror}") from error
    head: list[Piece] = []
    id, first = path.stem, 1
    try:
        header = header_id(path, lines[0] if lines else b"")
    except SessionCorrupt:
        header = ""
        head.append(Damage(f"{path}:1", "there is no header, so the session is named as the file"))
    if header or (lines and not _BEGINS.search(lines[0].decode(errors="replace"))):
        id, first = header or id, 2
        del lines[0]
    found = _salvage(id, chain(head, _pieces_of_lines(path, lines, first)))
    if not found.entries:
        raise SessionCorrupt(f"{path}: nothing in it is an entry of a session; restore a copy of it")
    return found


def _pieces_of_lines(path: Path, lines: Iterable[bytes], first: int) -> Iterator[Piece]:
    for number, line in enumerate(lines, first):
        try:
            piece: Piece = Entry.of(decode(line.decode()))
        except DAMAGED as error:
            yield from _inside(f"{path}:{number}", line, why(error))
        else:
            yield piece


def _inside(where: str, line: bytes, what: str) -> Iterator[Piece]:
    """Yield the whole entries that stand in a damaged line, and what stands around them."""
    text = line.decode("utf-8", "surrogateescape")
    begins = [found.start() for found in _BEGINS.finditer(text)]
    ends = [*begins[1:], len(text)]
    at, i, kept, said = 0, 0, 0, False
    while i < len(begins):
        found = next(
            (
                (entry, j)
                for j in range(i, len(ends))[:_INSIDE]
                if (entry := _entry(text[begins[i] : ends[j]]))
            ),
            None,
        )
        if found is not None:
            if begins[i] > at:
                said = True
                yield Damage(where, f"{_bytes(text[at : begins[i]])} left out before a whole entry")
            yield found[0]
            i, kept = found[1], kept + 1
            at = ends[i]
        i += 1
    if text in ("\n", "\r\n"):
        yield Damage(where, "an empty line")
    elif text[at:].strip("\0\r\n ") or not at:
        yield Damage(where, f"{_bytes(text[at:])} left out: {what}")
    elif not said:
        yield Damage(where, f"{kept} whole entries on one line" if kept > 1 else "an entry among NUL bytes")


def _bytes(text: str) -> str:
    count = len(text.removesuffix("\n").encode("utf-8", "surrogateescape"))
    return f"{count} byte{'' if count == 1 else 's'}"


def _entry(text: str) -> Entry | None:
    try:
        text.encode()  # refuses what was no UTF-8
        return Entry.of(decode(text.strip("\0\r\n ")))
    except DAMAGED:
        return None


def salvage_sqlite(path: Path, id: str) -> Salvage:
    """Return what can be saved of one session of a SQLite file; it is only read.

    Raises:
        SessionCorrupt: If nothing of the session can be read.
        SessionError: If the file cannot be read, or is of a newer format.
    """
    with closing(look(path)) as db:
        found = _salvage(id, _pieces_of_rows(db, path, id))
    if not found.entries:
        said = "; ".join(found.problems) or "it has no entries"
        raise SessionCorrupt(f"{path}: nothing of session {id} can be read ({said}); restore a copy of it")
    return found


def _pieces_of_rows(db: sqlite3.Connection, path: Path, id: str) -> Iterator[Piece]:
    """Yield row by row, so that a page that is damaged costs only what stands on it."""
    seq, missing = 0, 0
    last = _last(db, id)
    unsure: list[Damage] = []  # may be beyond the end
    while missing <= MOST_MISSING and (last is None or seq <= last):
        where = f"{path}: session {id}, entry {seq}"
        try:
            rows = db.execute(
                "SELECT CAST(COALESCE(line, '') AS BLOB) FROM entries WHERE session = ? AND seq = ?",
                (id, seq),
            ).fetchall()
            missing = 0 if rows else missing + 1
            if rows:
                yield from unsure
                unsure.clear()
            yield from [Entry.of(decode(line.decode())) for (line,) in rows]
        except sqlite3.DatabaseError as error:
            missing += 1
            damage = Damage(where, f"left out: {error}")
            if last is None:
                unsure.append(damage)
            else:
                yield damage
        except DAMAGED as error:
            yield Damage(where, f"left out: {why(error)}")
        seq += 1
    if unsure:
        yield Damage(unsure[0].where, f"{unsure[0].what}; nothing after it can be read")


def _last(db: sqlite3.Connection, id: str) -> int | None:
    """Return the number of the last entry; None where the file is too damaged to say."""
    try:
        [(last,)] = db.execute("SELECT max(seq) FROM entries WHERE session = ?", (id,)).fetchall()
    except sqlite3.DatabaseError:
        return None
    return -1 if last is None else int(last)


# -- what goes together ------------------------------------------------------------------------


def _salvage(id: str, pieces: Iterable[Piece]) -> Salvage:
    growing = _Growing(id)
    problems: list[str] = []
    pieces = iter(pieces)
    for piece in pieces:
        if isinstance(piece, Damage):
            problems.append(f"{piece.where}: {piece.what}")
        elif piece.seq < len(growing.kept):
            again = "the same" if piece == growing.kept[piece.seq] else "another one with its number"
            problems.append(f"entry {piece.seq} `{piece.type}` left out: {again} stands before it")
        else:
            wrong = growing.take(piece)
            if wrong is not None:
                problems.append(_rest(piece, wrong, pieces))
                break
    missing = [
        f"entry {seq} is missing: an entry `custom` of the kind `{LOST}` has its place"
        for seq in growing.missing
    ]
    return Salvage(id, tuple(growing.kept), (*missing, *problems))


class _Growing:
    """A log that grows by what can follow.

    Attributes:
        kept: Its entries.
        missing: The numbers of those that only stand in for what was lost.
    """

    def __init__(self, id: str) -> None:
        self.kept: list[Entry] = []
        self.missing: list[int] = []
        self._session = Session.memory(id)
        self._judge: Judge | None = Judge()

    def take(self, entry: Entry) -> str | None:
        """Take an entry, and stand-ins for those missing before it, or return why it cannot follow."""
        first = len(self.kept)
        if entry.seq - first > MOST_MISSING:
            return f"{entry.seq - first} entries are missing before it"
        gap = range(first, entry.seq)
        taken = [
            Entry(seq, self._session.leaf if seq == first else seq - 1, "custom", entry.time, _LOST)
            for seq in gap
        ]
        for each in (*taken, entry):
            refused = self._judge.take(each) if self._judge is not None else None
            if refused is not None and (gap or self.missing):
                return refused.message
            if refused is not None:
                self._judge = None  # no damage made it so: it was recorded like that, and opens all the same
            try:
                self._session.copy((each,))
            except SessionCorrupt as error:
                return str(error)
        self.kept += (*taken, entry)
        self.missing += gap
        return None


_LOST = Frozen(kind=LOST, data=None)


def _rest(entry: Entry, wrong: str, pieces: Iterable[Piece]) -> str:
    last, count = entry.seq, 1
    for piece in pieces:
        if isinstance(piece, Entry):
            last, count = max(last, piece.seq), count + 1
    if count == 1:
        return f"entry {entry.seq} `{entry.type}` left out, for it cannot follow: {wrong}"
    return f"entries {entry.seq} to {last} ({count}) left out, for they cannot follow: {wrong}"


def write_copy(found: Salvage, target: JsonlStore | SqliteStore) -> None:
    """Write what was saved into a store that has nothing of this session yet: all of it, or nothing.

    Raises:
        SessionError: If it has; nothing is changed then.
    """
    target.create(found.entries)
