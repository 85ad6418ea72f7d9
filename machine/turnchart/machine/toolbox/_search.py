"""The program behind ``search_files``; it imports nothing of ours.

It runs in a process of its own, so that a pattern that takes for ever can be stopped.

``argv[1]``: a JSON object with ``folder``, ``name`` (how messages call the folder), ``pattern``, ``files`` (a
regular expression for the paths below the folder), ``ignore_case``, ``literal``, ``most`` and ``width``.
"""

import json
import os
import re
import sys
from collections.abc import Iterator

PROBE = 8_192
BAD_PATTERN = 3
"""The exit code for a pattern that means nothing; what is wrong with it stands on stdout."""


def main() -> None:
    """Write a line a match."""
    asked = json.loads(sys.argv[1])
    pattern = re.escape(asked["pattern"]) if asked["literal"] else asked["pattern"]
    try:
        matches = re.compile(pattern, re.IGNORECASE if asked["ignore_case"] else 0)
    except (re.error, OverflowError, RecursionError) as error:
        print(error)
        sys.exit(BAD_PATTERN)
    wanted = re.compile(asked["files"], re.DOTALL)
    left = asked["most"]
    start = len(asked["name"]) + 1 if asked["name"] else 0
    for path, name in _files(asked["folder"], asked["name"]):
        if not wanted.fullmatch(name[start:] or os.path.basename(name)):
            continue
        for number, line in _lines(path):
            if matches.search(line):
                if not left:
                    print(f"[more than {asked['most']:,} matches: give a narrower pattern or path]")
                    return
                left -= 1
                print(f"{name}:{number}: {_cut(line, asked['width'])}")


def _files(folder: str, name: str) -> Iterator[tuple[str, str]]:
    """Yield the files below a folder in sorted order, with their names; the folder may be a file itself."""
    if os.path.isfile(folder):
        yield folder, name
        return
    try:
        with os.scandir(folder) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        below = f"{name}/{entry.name}" if name else entry.name
        if entry.is_dir(follow_symlinks=False):
            if entry.name != ".git":
                yield from _files(entry.path, below)
        elif entry.is_file(follow_symlinks=False):
            yield entry.path, below


def _lines(path: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a text file; of another file, and of one that is not ours to read, nothing."""
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
        with open(handle, "rb") as file:
            if b"\0" in file.peek(PROBE)[:PROBE]:
                return
            for number, line in enumerate(file, 1):
                yield number, line.decode("utf-8", "replace").rstrip("\r\n")
    except OSError:
        return


def _cut(line: str, width: int) -> str:
    return line if len(line) <= width else f"{line[:width]} [...]"


if __name__ == "__main__":
    main()
