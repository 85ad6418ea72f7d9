"""Reading a session file as a whole: one of ours, or one of pi. Nothing is written."""

from collections.abc import Callable, Iterator
from json import JSONDecodeError, JSONDecoder
from pathlib import Path
from typing import Any, Never

from turnchart.flows.interchange.columns import column_of
from turnchart.machine.entries import Entry, freeze
from turnchart.machine.errors import SessionCorrupt, SessionError
from turnchart.machine.interchange.fields import Malformed, as_object
from turnchart.machine.interchange.pi_reading import NO_HEADER, Reading
from turnchart.machine.records import record

Progress = Callable[[int, int], object]
"""Hears how much is done, and of how much."""
_OURS = b'{"turnchart":'
_ROOM = 10
"""An entry may nest what it keeps of a line so much deeper than the line did."""


@record
class Found:
    """A session that was read from a file.

    Attributes:
        id: Its id there.
        format: ``jsonl`` for a log of ours, ``pi`` for a session file of pi.
        entries: The whole log.
        notes: What the file names and does not hold, or what was left out of it, in words.
    """

    id: str
    format: str
    entries: tuple[Entry, ...]
    notes: tuple[str, ...]


def read_session(path: Path, progress: Progress = lambda done, of: None) -> Found:
    """Read a session file.

    Args:
        path: The file.
        progress: Hears after every line how much is read, and of how much.

    Raises:
        SessionError: If it cannot be read, or is no session; what is wrong with a line is said as
            ``file:line:column: ...``.
    """
    try:
        if path.exists() and not (path.is_file() or path.is_dir()):  # it could be read but once
            raise SessionError(f"{path} cannot be read: it is no file; write what comes out of it to one")
        with path.open("rb") as file:
            ours = file.read(len(_OURS)) == _OURS
        found = _ours(path, progress) if ours else _pi(path, progress)
    except OSError as error:
        raise SessionError(f"{path} cannot be read: {error.strerror}") from error
    _check(path, found)
    return found


def _check(path: Path, found: Found) -> None:
    """Find out now whether a session made of this could be opened."""
    from turnchart.machine.session import Session

    try:
        Session.memory(found.id).copy(found.entries)
    except SessionCorrupt as error:
        raise SessionError(f"{path}: {error}") from error


def _ours(path: Path, progress: Progress) -> Found:
    from turnchart.machine.jsonl import JsonlStore

    with path.open("rb") as file:
        lines = sum(1 for _ in file)
    store = JsonlStore(path)
    entries: list[Entry] = []
    for entry in store.load():
        entries.append(entry)
        progress(len(entries), lines)
    return Found(store.id, "jsonl", tuple(entries), (store.dropped,) if store.dropped else ())


# -- pi --------------------------------------------------------------------------------------------


def _pi(path: Path, progress: Progress) -> Found:
    reading = Reading()
    entries: list[Entry] = []
    notes: list[str] = []
    done, size = 0, path.stat().st_size
    for number, line, last in _numbered(path):
        done += len(line)
        where = f"{path}:{number}"
        try:
            entries += _entries(reading, line, where)
        except _Torn as torn:
            if not last or not entries:
                raise SessionError(str(torn)) from torn
            notes.append(f"a half-written last line ({where}, {len(line)} bytes) is left out")
        progress(done, size)
    if not entries:
        raise SessionError(f"{path}:1:1: {NO_HEADER}, and the file is empty")
    return Found(reading.id, "pi", tuple(entries), (*reading.notes, *notes))


class _Torn(Exception):
    """A line is no JSON: at the end of a file it is half-written."""


def _numbered(path: Path) -> Iterator[tuple[int, bytes, bool]]:
    """Yield the lines that are not blank with their numbers, and whether the file ends in the midst of it."""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                yield number, line, not line.endswith(b"\n")


def _entries(reading: Reading, line: bytes, where: str) -> list[Entry]:
    text = _text(line, where)
    raw = as_object(_json(text, where))
    if raw is None:
        raise SessionError(f"{where}:1: a line must be a JSON object")
    try:
        return list(reading.take(raw))
    except Malformed as error:
        raise SessionError(f"{where}:{column_of(text, error.path)}: {error.what}") from error


def _text(line: bytes, where: str) -> str:
    try:
        return line.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError as error:
        column = len(line[: error.start].decode()) + 1
        raise _Torn(f"{where}:{column}: byte 0x{line[error.start]:02x} is no UTF-8") from error


def _json(text: str, where: str) -> Any:
    try:
        return freeze(_decode(text), depth=_ROOM)
    except JSONDecodeError as error:
        raise _Torn(f"{where}:{error.pos + 1}: no valid JSON: {error.msg}") from error
    except (ValueError, RecursionError) as error:
        raise SessionError(f"{where}:1: this JSON cannot be taken: {error}") from error


def _no_json(name: str) -> Never:
    raise ValueError(f"{name} is no JSON")


_decode = JSONDecoder(parse_constant=_no_json).decode
