"""Built-in tools that change files below a root: ``write_file`` and ``edit_file``."""

import os
import stat
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

from turnchart.machine.entries import Frozen
from turnchart.machine.messages import Text
from turnchart.machine.paths import inside, resolved
from turnchart.machine.points import ToolOutcome
from turnchart.machine.tools import Tool, ToolFailed, tool

from ._known import EDIT_FILE, MAX_EDITED, WRITE_FILE, Folders, naming

LISTED = 5
"""So many lines are named where a text stands more than once."""
_numbers = count(1)


def write_file_tool(root: Path | str, *, outside: Folders = ()) -> Tool:
    """Make the tool ``write_file`` for one root, and the folders ``outside`` of it."""
    opened = resolved(root, outside)

    def write_file(path: str, content: str) -> ToolOutcome:
        """Write a text file; what was in it is gone. Folders that are missing are made.

        Args:
            path: The file, relative to the project.
            content: All that the file shall hold.
        """
        file = _target(root, path, opened)
        with _told(path):
            created = not file.exists()
            file.parent.mkdir(parents=True, exist_ok=True)
            _replace(file, content.encode())
        count = len(content.splitlines())
        done = "Created" if created else "Replaced"
        lines = "1 line" if count == 1 else f"{count:,} lines"
        return _outcome(f"{done} `{path}`: {lines}.", path=path, created=created)

    return naming(tool(write_file, **WRITE_FILE), opened)


def edit_file_tool(root: Path | str, *, outside: Folders = ()) -> Tool:
    """Make the tool ``edit_file`` for one root, and the folders ``outside`` of it."""
    opened = resolved(root, outside)

    def edit_file(path: str, old_text: str, new_text: str) -> ToolOutcome:
        """Replace a piece of a text file. It must stand in the file exactly once, as it is given.

        Args:
            path: The file, relative to the project.
            old_text: What is replaced, white space as in the file, and enough of it to be the only one.
            new_text: What stands there afterwards; empty to delete it.
        """
        file = _target(root, path, opened)
        if not old_text:
            raise ToolFailed("old_text is empty; write_file writes a whole file", "Empty")
        if old_text == new_text:
            raise ToolFailed("old_text and new_text are the same, so nothing would change", "Unchanged")
        with _told(path):
            text = _text(file, path)
        old, new = _as_in(text, old_text, new_text)
        at = _only(text, old, path)
        with _told(path):
            _replace(file, (text[:at] + new + text[at + len(old) :]).encode())
        line = text.count("\n", 0, at) + 1
        return _outcome(f"Edited `{path}` at line {line}.", path=path, line=line)

    return naming(tool(edit_file, **EDIT_FILE), opened)


def _target(root: Path | str, path: str, opened: Iterable[Path]) -> Path:
    """Return the file that a path names, links and ``..`` followed."""
    file = inside(root, path, opened)
    if file.is_dir() or path.endswith(("/", os.sep)):
        raise ToolFailed(f"`{path}` is a folder", "IsADirectory")
    if file.exists() and not file.is_file():
        raise ToolFailed(f"`{path}` is no regular file", "NotAFile")
    return file


@contextmanager
def _told(path: str) -> Generator[None]:
    """Say what the system refuses in words for the model."""
    try:
        yield
    except FileNotFoundError:
        raise ToolFailed(f"there is no file `{path}`", "NotFound") from None
    except (FileExistsError, NotADirectoryError):
        raise ToolFailed(f"a folder in `{path}` is no folder but a file", "NotADirectory") from None
    except UnicodeEncodeError:
        raise ToolFailed("the text holds half a character, which no file can hold", "BadText") from None
    except OSError as error:
        raise ToolFailed(f"`{path}` cannot be used: {error.strerror}", type(error).__name__) from None


def _text(file: Path, path: str) -> str:
    """Return the text of a file just as it is: what is not edited must not change."""
    if file.stat().st_size > MAX_EDITED:
        raise ToolFailed(f"`{path}` is larger than {MAX_EDITED:,} bytes", "TooLarge")
    try:
        return file.read_bytes().decode()
    except UnicodeDecodeError:
        raise ToolFailed(f"`{path}` is no UTF-8 text", "BinaryFile") from None


def _as_in(text: str, old: str, new: str) -> tuple[str, str]:
    """Return both with the line ends of the file, where only these differ."""
    if old in text or "\r\n" not in text:
        return old, new
    mended = [each.replace("\r\n", "\n").replace("\n", "\r\n") for each in (old, new)]
    return (mended[0], mended[1]) if mended[0] in text else (old, new)


def _only(text: str, old: str, path: str) -> int:
    """Return where a piece stands, if that is one place."""
    found: list[int] = []
    at = text.find(old)
    while at >= 0:
        found.append(at)
        at = text.find(old, at + 1)
    if len(found) == 1:
        return found[0]
    if not found:
        near = " (it does, with other white space)" if _loosely(old) in _loosely(text) else ""
        raise ToolFailed(
            f"old_text does not stand in `{path}` as it is given{near}; read the file again", "NoMatch"
        )
    lines = ", ".join(str(text.count("\n", 0, place) + 1) for place in found[:LISTED])
    more = ", ..." if len(found) > LISTED else ""
    raise ToolFailed(
        f"old_text stands in `{path}` {len(found)} times (lines {lines}{more}); give more of the text around",
        "ManyMatches",
    )


def _loosely(text: str) -> str:
    return " ".join(text.split())


def _replace(file: Path, data: bytes) -> None:
    """Put other content in the place of a file, all at once: who reads it sees the old or the new one."""
    beside = file.with_name(f".{os.getpid()}.{next(_numbers)}.tmp")
    try:
        with beside.open("xb") as out:
            if file.exists():
                os.chmod(beside, stat.S_IMODE(file.stat().st_mode))
            out.write(data)
        os.replace(beside, file)
    except BaseException:
        with suppress(OSError):
            beside.unlink()
        raise


def _outcome(text: str, **details: Any) -> ToolOutcome:
    return ToolOutcome((Text(text),), Frozen(details))
