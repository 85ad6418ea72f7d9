"""How far something long has come: one line on a terminal that is written over, and gone at the end."""

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self, TextIO

from turnchart.flows.cli.streams import write

PATIENCE: Final = 0.5
"""Seconds before anything is shown; what is quick shows nothing."""
PAUSE: Final = 0.1
"""Seconds between two showings."""


class Progress:
    """Shows what it is told, where a person looks on.

    Args:
        stream: Where it is shown, if that is a terminal; None: stderr.
        now: The time in seconds.
    """

    def __init__(self, stream: TextIO | None = None, now: Callable[[], float] = time.monotonic) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._watched = self._stream.isatty()
        self._now = now
        self._next = now() + PATIENCE
        self._width = 0

    def step(self, what: str) -> Callable[[int, int], None]:
        """Return what is told how much of a step is done, and of how much."""
        return lambda done, of: self._tell(what, done, of)

    def _tell(self, what: str, done: int, of: int) -> None:
        if not self._watched or self._now() < self._next:
            return
        self._next = self._now() + PAUSE
        text = f"{what} {100 * done // max(of, 1)} %"
        write(self._stream, f"\r{text:<{self._width}}")
        self._width = len(text)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._width:
            write(self._stream, f"\r{'':<{self._width}}\r")
