"""Writing to stdout and stderr: at once, in any encoding, and also when nobody reads on."""

import os
import stat
import sys
from contextlib import suppress
from typing import Final, TextIO

_failures: Final[list[OSError]] = []
"""Why something could not be written, as on a full disk, until ``settle`` says so."""


def write(stream: TextIO, text: str) -> None:
    """Write text at once. When the reader has gone, this text and all that follows is thrown away.

    So it is where nothing can be written any more; ``settle`` says so when all is done.
    """
    try:
        stream.write(text)
        stream.flush()
    except BrokenPipeError:
        throw_away(stream)
    except OSError as error:
        _failures.append(error)
        throw_away(stream)


def settle() -> None:
    """Write what stdout has buffered.

    Raises:
        OSError: If that, or something that ``write`` was given before, cannot be written.
    """
    failed = _failures[:1]
    _failures.clear()
    for error in failed:
        raise error
    sys.stdout.flush()


def excuse() -> None:
    """Let what could not be written until now be no failure: the process was told to end anyway."""
    _failures.clear()


def same_file(one: TextIO, other: TextIO) -> bool:
    """Tell whether two streams lead to one place: a terminal, a pipe or a file."""
    try:
        return os.path.sameopenfile(one.fileno(), other.fileno())
    except (OSError, ValueError):  # one of them is closed, or no file at all
        return one is other


def leads_on(stream: TextIO) -> bool:
    """Tell whether what is written may come to a terminal: a stream that is one, or a pipe to anywhere."""
    try:
        mode = os.fstat(stream.fileno()).st_mode
    except (OSError, ValueError):  # as above
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or stream.isatty()


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
