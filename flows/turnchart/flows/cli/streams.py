"""Writing to stdout and stderr: at once, in any encoding, and also when nobody reads on."""

import os
import sys
from contextlib import suppress
from typing import TextIO


def write(stream: TextIO, text: str) -> None:
    """Write text at once. When the reader has gone, this text and all that follows is thrown away."""
    try:
        stream.write(text)
        stream.flush()
    except BrokenPipeError:
        throw_away(stream)


def same_file(one: TextIO, other: TextIO) -> bool:
    """Tell whether two streams lead to one place: a terminal, a pipe or a file."""
    try:
        return os.path.sameopenfile(one.fileno(), other.fileno())
    except (OSError, ValueError):  # one of them is closed, or no file at all
        return one is other


def throw_away(stream: TextIO) -> None:
    """Let a stream lead nowhere, so that what it has buffered does not fail at the exit either."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def forgive() -> None:
    """Let stdout and stderr replace what their encoding lacks."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError):  # tests put other streams there
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]  # as above
