"""What people type, line by line, without a thread: reading can be cut off at any moment."""

import os
import sys
from typing import TextIO

import anyio

_MOST = 65536


class Lines:
    """The lines of a stream of the process; what the stream itself has buffered is not seen."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stdin if stream is None else stream
        self._kept = b""
        self._over = False

    @property
    def by_hand(self) -> bool:
        """A person types them."""
        return self._stream is not None and not self._stream.closed and self._stream.isatty()  # pyright: ignore[reportUnnecessaryComparison]  # None where stdin is closed

    async def read(self) -> str | None:
        """Return the next line without its end; None when there are no more."""
        while b"\n" not in self._kept and not self._over:
            more = await self._more()
            self._over = not more
            self._kept += more
        if not self._kept:
            return None
        line, _, self._kept = self._kept.partition(b"\n")
        return line.decode(errors="replace").rstrip("\r")

    async def _more(self) -> bytes:
        try:
            fd = self._stream.fileno()
        except (AttributeError, OSError, ValueError):  # closed, or no file at all
            return b""
        try:
            await anyio.wait_readable(fd)
        except OSError:  # a regular file, which is always readable
            await anyio.lowlevel.checkpoint()
        return os.read(fd, _MOST)


def read_all(stream: TextIO | None = None) -> str:
    """Return all that is piped into the process, without a byte order mark; nothing where stdin is closed."""
    stream = sys.stdin if stream is None else stream
    if stream is None or stream.closed:  # pyright: ignore[reportUnnecessaryComparison]  # None where stdin is closed
        return ""
    return stream.read().removeprefix("\ufeff")
