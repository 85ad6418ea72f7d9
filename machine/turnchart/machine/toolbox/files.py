"""Built-in tools that read files below a root: ``read_file`` and ``list_files``."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, TextIO

from pydantic import Field

from turnchart.machine.paths import glob_regex, inside, resolved
from turnchart.machine.tools import Tool, ToolFailed, tool

from ._known import LIST_FILES, MAX_CHARS, MAX_ENTRIES, READ_FILE, Folders, naming

_PROBE = 8_192
"""So many bytes are looked at to tell text from other data."""
_UNOPENED = frozenset((".git",))
"""Folders that are listed, but not gone into unless the path names them: nobody wants what is in them."""


def read_file_tool(root: Path | str, *, max_chars: int = MAX_CHARS, outside: Folders = ()) -> Tool:
    """Make the tool ``read_file`` for one root, and the folders ``outside`` of it."""
    opened = resolved(root, outside)

    def read_file(
        path: str, offset: Annotated[int, Field(ge=1)] = 1, limit: Annotated[int, Field(ge=1)] | None = None
    ) -> str:
        """Read a text file.

        Args:
            path: The file, relative to the project.
            offset: The first line to show; lines count from 1.
            limit: How many lines to show; all by default.
        """
        file = inside(root, path, opened)
        if file.is_dir():
            raise ToolFailed(f"`{path}` is a folder; list_files shows what is in it", "IsADirectory")
        if file.exists() and not file.is_file():
            raise ToolFailed(f"`{path}` is no regular file", "NotAFile")
        with _opened(file, path) as lines:
            return _window(lines, path, offset, limit, max_chars)

    return naming(tool(read_file, **READ_FILE), opened)


def _opened(file: Path, path: str) -> TextIO:
    try:
        with file.open("rb") as probe:
            if b"\0" in probe.read(_PROBE):
                raise ToolFailed(f"`{path}` is no text file: it has NUL bytes", "BinaryFile")
        return file.open(encoding="utf-8-sig", errors="replace", newline="\n")
    except FileNotFoundError:
        raise ToolFailed(f"there is no file `{path}`", "NotFound") from None
    except OSError as error:
        raise ToolFailed(f"`{path}` cannot be read: {error.strerror}", type(error).__name__) from None


def _window(lines: TextIO, path: str, offset: int, limit: int | None, most: int) -> str:
    """Return so many lines from the offset on, and a note where something is left out."""
    for number in range(1, offset):
        if not _skip(lines):
            raise ToolFailed(f"`{path}` has {number - 1} lines, so there is no line {offset}", "NoSuchLine")
    shown: list[str] = []
    room, number = most, offset
    while limit is None or number < offset + limit:
        line = lines.readline(room + 1)
        if len(line) > room:
            return "".join(shown) + _cut(line[:room], number, bool(shown), most)
        if not line:
            return "".join(shown) or f"[`{path}` is empty from line {offset} on]"
        shown.append(line)
        room -= len(line)
        number += 1
    more = f"\n[more follows: go on with offset={number}]" if lines.read(1) else ""
    return "".join(shown) + more


def _skip(lines: TextIO) -> bool:
    """Pass over one line; false at the end of the file."""
    piece = lines.readline(_PROBE)
    found = bool(piece)
    while piece and not piece.endswith("\n"):
        piece = lines.readline(_PROBE)
    return found


def _cut(rest: str, number: int, earlier: bool, most: int) -> str:
    if earlier:
        return f"[cut after {most:,} characters: go on with offset={number}]"
    return f"{rest}\n[line {number} is longer than {most:,} characters; the rest of it is not shown]"


def list_files_tool(root: Path | str, *, max_entries: int = MAX_ENTRIES, outside: Folders = ()) -> Tool:
    """Make the tool ``list_files`` for one root, and the folders ``outside`` of it."""
    opened = resolved(root, outside)

    def list_files(path: str = ".", pattern: str = "*") -> str:
        """List files and folders, sorted, one a line; folders end with a slash.

        Args:
            path: The folder, relative to the project.
            pattern: A glob over the paths below it; `**` goes into folders, as in `**/*.py`.
        """
        folder = inside(root, path, opened)
        if not folder.is_dir():
            raise ToolFailed(f"there is no folder `{path}`", "NotFound")
        found: list[str] = []
        for name in _matching(folder, pattern):
            if len(found) == max_entries:
                found.append(f"[more than {max_entries:,} names: give a narrower pattern]")
                break
            found.append(name)
        return "\n".join(found) or f"[nothing in `{path}` matches `{pattern}`]"

    return naming(tool(list_files, **LIST_FILES), opened)


def _matching(folder: Path, pattern: str) -> Iterator[str]:
    regex = glob_regex(pattern.removeprefix("./"), across=False)
    deepest = None if "**" in pattern else pattern.count("/")
    for name in _walk(str(folder), "", 0, deepest):
        if regex.fullmatch(name.removesuffix("/")):
            yield name


def _walk(folder: str, prefix: str, depth: int, deepest: int | None) -> Iterator[str]:
    """Yield the paths below a folder in sorted order. Links are named, never followed."""
    try:
        with os.scandir(folder) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except OSError:  # it is gone, or not ours to read
        return
    for entry in entries:
        name = prefix + entry.name
        if not entry.is_dir(follow_symlinks=False):
            yield name
            continue
        yield f"{name}/"
        if entry.name not in _UNOPENED and (deepest is None or depth < deepest):
            yield from _walk(entry.path, f"{name}/", depth + 1, deepest)
