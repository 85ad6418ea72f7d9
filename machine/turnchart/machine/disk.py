"""Waiting for the disk, once for all who wait at the same time."""

import os
from pathlib import Path
from threading import Lock

from anyio import Event, to_thread

sync_data = getattr(os, "fdatasync", os.fsync)  # macOS has only fsync


class Disk:
    """An open file, and how much of it a power cut can no longer take.

    How much is counted by marks that only grow: bytes, or entries.

    Args:
        fd: The open file; ``close`` closes it.
        folder: Where it stands. It is made safe first, for the file may be new and is lost with its name.
    """

    __slots__ = ("_asked", "_fd", "_folder", "_safe", "_syncing", "_waiting")

    def __init__(self, fd: int, folder: Path) -> None:
        self._fd: int | None = fd
        self._folder = folder
        self._asked = 0
        self._safe = -1
        self._syncing = Lock()
        self._waiting: Event | None = None
        """Set when the wait that runs now is over; None where nobody waits."""

    async def reach(self, mark: int) -> None:
        """Wait until what was written up to this mark is safe.

        Raises:
            OSError: If the disk refuses; what was written may be lost.
        """
        self._asked = max(self._asked, mark)
        while self._safe < mark and self._fd is not None:
            if self._waiting is not None:
                await self._waiting.wait()
                continue
            done = self._waiting = Event()
            try:
                await to_thread.run_sync(self.sync, self._asked)
            finally:
                self._waiting = None
                done.set()

    def sync(self, mark: int) -> None:
        """Do what ``reach`` does, in this thread. A closed file is as safe as it will be."""
        with self._syncing:
            if self._fd is None or self._safe >= mark:
                return
            if self._safe < 0:
                sync_folder(self._folder)
            reached = max(mark, self._asked)  # also what others have come to wait for meanwhile
            sync_data(self._fd)
            self._safe = reached

    def close(self) -> None:
        """Close the file, when nobody waits for it any more; a second call does nothing."""
        with self._syncing:
            if self._fd is not None:
                os.close(self._fd)
                self._fd = None


def sync_folder(folder: Path) -> None:
    """Make the names of the files of a folder safe."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
