"""The lock that makes one object of one process the writer of a session."""

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from weakref import WeakSet

from turnchart.machine.errors import SessionError, SessionLocked


class WriterLock:
    """An exclusive ``flock`` on a file beside the log; the file says who holds it.

    The kernel gives the lock up when the process ends, however it ends, so a dead writer never blocks. The
    file is removed with the lock; what a killed writer left is taken over by the next one.

    Attributes:
        held: This object is the writer.
    """

    def __init__(self, path: Path, what: str) -> None:
        self._path = path
        self._what = what
        self._fd: int | None = None
        self._log: int | None = None

    @property
    def held(self) -> bool:
        """This object is the writer."""
        return self._fd is not None

    def acquire(self) -> None:
        """Become the writer; make the folder of the lock where there is none.

        Raises:
            SessionLocked: If somebody else is the writer.
            SessionError: If the lock cannot be made there.
        """
        while self._fd is None:
            try:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            except OSError as error:
                raise SessionError(f"{self._what} cannot be locked for writing: {error}") from error
            try:
                self._take(fd)
            finally:
                if self._fd is None:
                    os.close(fd)

    def _take(self, fd: int) -> None:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SessionLocked(f"{self._what} is being written by {_holder(fd)}") from None
        except OSError as error:
            raise SessionError(f"{self._what} cannot be locked for writing: {error}") from error
        # The last writer may have removed the file after it was opened here: then this lock guards nothing.
        if _is_file(fd, self._path):
            with suppress(OSError):  # a full disk keeps the name of the holder, not the lock
                os.ftruncate(fd, 0)
                os.pwrite(fd, f"{os.getpid()} {os.uname().nodename}\n".encode(), 0)
            self._fd = fd
            _held.add(self)

    def guard(self, log: Path) -> None:
        """Lock the log itself too, once it is there: under another name it has another file beside it.

        Raises:
            SessionLocked: If somebody else is the writer, under another name.
            SessionError: If it cannot be locked.
        """
        if self._log is not None:
            return
        try:
            fd = os.open(log, os.O_WRONLY | os.O_CLOEXEC)
        except OSError as error:
            raise SessionError(f"{self._what} cannot be locked for writing: {error}") from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._log = fd
        except BlockingIOError:
            raise SessionLocked(
                f"{self._what} is being written under another name of its file (a hard link), or its file was"
                " locked by another program; close it there, or work on a copy"
            ) from None
        except OSError as error:
            raise SessionError(f"{self._what} cannot be locked for writing: {error}") from error
        finally:
            if self._log is None:
                os.close(fd)

    def release(self) -> None:
        """Give the lock up; a second call does nothing."""
        if self._fd is not None:
            with suppress(OSError):
                self._path.unlink()  # while it is held, so that it is nobody else's
            for fd in (self._fd, self._log):
                if fd is not None:
                    fcntl.flock(fd, fcntl.LOCK_UN)  # also for a child that is just being started
            self._drop()

    def _drop(self) -> None:
        for fd in (self._fd, self._log):
            if fd is not None:
                os.close(fd)
        self._fd = self._log = None

    def __del__(self) -> None:
        self.release()


def _is_file(fd: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except FileNotFoundError:
        return False


def _holder(fd: int) -> str:
    pid, _, host = os.pread(fd, 300, 0).decode(errors="replace").strip().partition(" ")
    if not pid:
        return "another process; close it there, or wait until it ends"
    if pid == str(os.getpid()) and host == os.uname().nodename:
        return "another object of this process; close that one first"
    return f"process {pid} on {host}; close it there, or wait until it ends"


_held: WeakSet[WriterLock] = WeakSet()


def _forget() -> None:
    """Let a forked child not be a writer, and not keep the lock of a parent that dies before it."""
    for lock in tuple(_held):
        lock._drop()  # pyright: ignore[reportPrivateUsage]  # a part of the class, outside for the registry


os.register_at_fork(after_in_child=_forget)
