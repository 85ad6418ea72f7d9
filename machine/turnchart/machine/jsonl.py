"""One session in one file: a header line, then one line of JSON an entry, one write an append.

    {"turnchart":1,"session":"demo","created":1790000000.0}
    {"seq":0,"parent":null,"type":"turn/start","time":1790000000.0,"data":{"turn":1}}

Beside the file ``demo.jsonl`` stand ``demo.jsonl.lock`` while it has a writer, and ``demo.jsonl.torn`` with
what writers that were killed left half-written.
"""

import os
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from shlex import quote
from typing import Any, BinaryIO, NamedTuple

from turnchart.machine.disk import Disk
from turnchart.machine.entries import Entry, decode, encode
from turnchart.machine.errors import SessionCorrupt, SessionError, SessionLocked
from turnchart.machine.locks import WriterLock
from turnchart.machine.stores import DAMAGED, Durability, cure, strangers_touch, usable_id, why

VERSION = 1
"""The format that this program writes, and the newest that it reads."""

_HEADER = b'{"turnchart":'


class _End(NamedTuple):
    """Where the whole lines of a file end: their bytes, their entries, and the half line behind them."""

    size: int
    entries: int
    torn: bytes


class JsonlStore:
    """A session as a file of JSON lines.

    Args:
        path: The file. The first append makes it; its folder is made with the first lock.
        id: The id of a new session; without it, the name of the file without its ending.
        durability: See ``Durability``.

    Raises:
        SessionCorrupt: If the file is no session.
        SessionError: If the file cannot be read, is of a newer format, or holds another session than ``id``,
            or if the id is no text that UTF-8 can hold.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, id: str | None = None, durability: Durability = "flush"
    ) -> None:
        self.path = Path(os.path.realpath(path))
        self.durability: Durability = durability
        self.dropped = ""
        self.id = usable_id(self._stored_id() or id or self.path.stem)
        if id is not None and id != self.id:
            raise SessionError(f"{self.path} holds the session {self.id!r}, not {id!r}")
        self._lock = WriterLock(self._beside(".lock"), f"session {self.id} ({self.path})")
        self._end: _End | None = None
        self._fd: int | None = None
        self._disk: Disk | None = None

    @property
    def where(self) -> str:
        """The path of the file."""
        return str(self.path)

    def _beside(self, ending: str) -> Path:
        return self.path.with_name(self.path.name + ending)

    # -- reading -------------------------------------------------------------------------------

    def _open(self) -> BinaryIO | None:
        try:
            if self.path.exists() and not (self.path.is_file() or self.path.is_dir()):  # a pipe would block
                raise SessionError(f"{self.path} cannot be read: it is no file")
            return self.path.open("rb")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise SessionError(f"{self.path} cannot be read: {error.strerror}") from error

    def _stored_id(self) -> str:
        file = self._open()
        if file is None:
            return ""
        with file:
            return header_id(self.path, file.readline())

    def load(self) -> Iterator[Entry]:
        """Yield the entries, oldest first. Writes nothing and takes no lock.

        Raises:
            SessionCorrupt: If a line is damaged; the message names it. A half line at the very end is not:
                it is left out, and ``dropped`` says so.
        """
        file = self._open()
        if file is None:
            self._note_end(_End(0, 0, b""))
            return
        with file:
            header = file.readline()
            if not header_id(self.path, header):
                self._note_end(_End(0, 0, header))
                return
            size, seq, torn = len(header), 0, b""
            for line in file:
                entry = self._entry(line, seq, file)
                if entry is None:
                    torn = line
                    break
                size += len(line)
                seq += 1
                yield entry
        self._note_end(_End(size, seq, torn))

    def _entry(self, line: bytes, seq: int, file: BinaryIO) -> Entry | None:
        """Return the entry of a line, or None where it is torn."""
        if not line.endswith(b"\n"):
            return None
        try:
            raw = decode(line.decode())
        except (ValueError, RecursionError) as error:
            if file.read(1) or _holds_entry(line):
                raise self._corrupt(seq, why(error)) from error
            return None
        try:
            entry = Entry.of(raw)
        except DAMAGED as error:
            raise self._corrupt(seq, why(error)) from error
        if entry.seq != seq:
            raise self._corrupt(seq, f"seq {entry.seq} stands where {seq} belongs")
        return entry

    def _corrupt(self, seq: int, what: str) -> SessionCorrupt:
        return SessionCorrupt(f"{self.path}:{seq + 2}: {what}. {cure(quote(str(self.path)))}")

    def _note_end(self, end: _End) -> None:
        if self._lock.held and self._end:
            return  # the writer knows better than a reader that it outran
        self._end, self.dropped = end, ""
        if end.torn:
            line = end.entries + 2 if end.size else 1
            self.dropped = f"a half-written last line ({self.path}:{line}, {len(end.torn)} bytes)"

    # -- writing -------------------------------------------------------------------------------

    def lock(self) -> None:
        """Become the one writer of this file; a second call by the writer does nothing.

        A torn last line moves from the file into ``<file>.torn``.

        Raises:
            SessionLocked: If somebody else writes the file, or has written it since it was loaded here.
            SessionError: If the file cannot be locked, read or written.
        """
        if self._lock.held:
            return
        self._lock.acquire()
        try:
            end = self._unchanged()
            if end.size or end.torn:
                self._create()
            self._set_aside(end)
        except BaseException:
            self._let_go()
            raise

    def _unchanged(self) -> _End:
        if self._end is None:
            deque(self.load(), maxlen=0)
        assert self._end is not None, "a load that ran to its end notes it"
        size = self.path.stat().st_size if self.path.exists() else 0
        if size != self._end.size + len(self._end.torn):
            raise SessionLocked(
                f"session {self.id} ({self.path}) was written by somebody else since it was opened here;"
                " open it again"
            )
        return self._end

    def _set_aside(self, end: _End) -> None:
        if end.torn:
            with self._beside(".torn").open("ab") as aside:
                aside.write(end.torn.removesuffix(b"\n") + b"\n")
                aside.flush()
                os.fsync(aside.fileno())
            os.truncate(self.path, end.size)
            self._end = end._replace(torn=b"")
            self.dropped += f", kept in {self._beside('.torn').name}"

    def append(self, entry: Entry) -> None:
        """Write one entry with one write; takes the lock first if nobody did.

        Raises:
            SessionLocked: If somebody else writes the file.
            ValueError: If the entry is not the next one.
            OSError: If it could not be written; nothing of it stays in the file.
        """
        if not self._lock.held:
            self.lock()
        end = self._end
        assert end is not None, "who holds the lock knows where the file ends"
        if entry.seq != end.entries:
            raise ValueError(f"entry {entry.seq} cannot follow the {end.entries} entries of {self.path}")
        line = f"{entry.line()}\n".encode()
        if not end.size:
            line = header_line(self.id, entry.time) + line
        fd = self._create() if self._fd is None else self._fd
        if entry.type == "turn/start":
            self._check_untouched(fd, end)
        try:
            written = os.write(fd, line)
            if written != len(line):
                written += os.write(fd, line[written:])  # says why, where the disk is full
            if written != len(line):
                raise OSError(f"only {written} of {len(line)} bytes could be written to {self.path}")
        except BaseException:
            self._undo(fd, end)
            raise
        self._end = _End(end.size + len(line), end.entries + 1, b"")

    def _check_untouched(self, fd: int, end: _End) -> None:
        """Find out, once a turn, that what is written would be lost or would stand behind a stranger's.

        Raises:
            OSError: If somebody deleted, replaced or changed the file.
        """
        found = os.fstat(fd)
        if not found.st_nlink or found.st_size != end.size:
            raise OSError(strangers_touch(self.path))

    def _create(self) -> int:
        try:
            fd = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise SessionError(
                f"{self.path} cannot be written: {error.strerror}; let this user write it, or work on a copy"
            ) from error
        try:
            self._lock.guard(self.path)
        except BaseException:
            os.close(fd)
            raise
        self._fd, self._disk = fd, Disk(fd, self.path.parent)
        return fd

    def _undo(self, fd: int, end: _End) -> None:
        """Take back what a failed write left; where that fails too, the next lock finds a torn line."""
        try:
            os.ftruncate(fd, end.size)
        except OSError:
            self._end = None
            self.close()

    # -- whole sessions ------------------------------------------------------------------------

    def create(self, entries: Iterable[Entry]) -> None:
        """Write a new session as a whole: where this fails, or the process is killed, there is none.

        Raises:
            SessionLocked: If somebody else writes the file.
            SessionError: If the file is there already, or cannot be written.
        """
        self._lock.acquire()
        part = self._beside(f".{os.getpid()}.part")
        try:
            if self.path.exists() and self.path.stat().st_size:
                raise SessionError(f"{self.path} is there already; choose another place")
            count = 0
            with part.open("wb") as file:
                for entry in entries:
                    count += 1
                    if not entry.seq:
                        file.write(header_line(self.id, entry.time))
                    file.write(f"{entry.line()}\n".encode())
                file.flush()
                os.fsync(file.fileno())
                size = file.tell()
            part.replace(self.path)
            self._end = _End(size, count, b"")
        except OSError as error:
            raise SessionError(f"{self.path} cannot be written: {error.strerror}") from error
        finally:
            part.unlink(missing_ok=True)
            self._lock.release()

    def delete(self) -> None:
        """Delete the session, with what was set aside of it; a damaged one too.

        Raises:
            SessionLocked: If somebody else writes the file.
            SessionError: If it cannot be deleted.
        """
        self._lock.acquire()
        try:
            self.path.unlink(missing_ok=True)
            self._beside(".torn").unlink(missing_ok=True)
        except OSError as error:
            raise SessionError(f"{self.path} cannot be deleted: {error.strerror}") from error
        finally:
            self._let_go()

    # -- safety --------------------------------------------------------------------------------

    async def flush(self) -> None:
        """Wait for the disk, where ``durability`` is ``fsync``; calls at the same time share one wait.

        Raises:
            OSError: If the disk refuses; what was appended may be lost.
        """
        if self.durability == "fsync" and self._disk is not None and self._end is not None:
            await self._disk.reach(self._end.size)

    def close(self) -> None:
        """Give the lock and the file up; a second call does nothing, and a later append locks again."""
        try:
            if self.durability == "fsync" and self._disk is not None and self._end is not None:
                self._disk.sync(self._end.size)
        finally:
            self._let_go()

    def _let_go(self) -> None:
        disk, self._disk, self._fd = self._disk, None, None
        if disk is not None:
            disk.close()
        self._lock.release()

    def __del__(self) -> None:
        if getattr(self, "_fd", None) is not None:
            self.close()


def header_line(id: str, created: float) -> bytes:
    """Return the first line of the file of a session."""
    return f"{encode({'turnchart': VERSION, 'session': id, 'created': float(created)})}\n".encode()


def header_id(path: Path, line: bytes) -> str:
    """Return the id that a header line names; an empty one where the line is torn.

    Raises:
        SessionCorrupt: If it is no header.
        SessionError: If it is one of a newer format.
    """
    if not line.endswith(b"\n") and (line.startswith(_HEADER) or _HEADER.startswith(line)):
        return ""
    try:
        header: Any = decode(line.decode())
        version, id = header["turnchart"], header["session"]
    except DAMAGED:
        version = id = None
    if type(version) is not int or version < 1 or type(id) is not str or not id:
        raise SessionCorrupt(
            f"{path}:1: this is no Turnchart session: the first line of one is its header,"
            ' {"turnchart":1,"session":...}. If it was one, `turnchart sessions repair'
            f" {quote(str(path))}` writes a copy of what can be saved"
        )
    if version > VERSION:
        raise SessionError(
            f"{path} was written by a newer Turnchart (format {version}, this one reads up to"
            f" {VERSION}); upgrade Turnchart to open it"
        )
    return id


def _holds_entry(line: bytes) -> bool:
    """Return whether a whole entry stands behind the half of another on the same line."""
    at = line.find(b'{"seq":', 1)
    while at > 0:
        try:
            Entry.of(decode(line[at:].decode()))
        except DAMAGED:
            at = line.find(b'{"seq":', at + 1)
        else:
            return True
    return False
