"""The rules of .gitignore, on paths as text: nothing here looks at a disk."""

import re
import sys
from collections.abc import Iterable
from typing import NamedTuple

from turnchart.machine.paths import glob_regex

# As the file systems there compare names.
_FLAGS = re.IGNORECASE if sys.platform in ("darwin", "win32") else 0


class _Rule(NamedTuple):
    pattern: re.Pattern[str]
    ignores: bool
    folders_only: bool


class IgnoreRules:
    """The lines of a .gitignore file at the root: the last one that matches decides, ``!`` takes back."""

    __slots__ = ("_rules",)

    def __init__(self, lines: Iterable[str]) -> None:
        self._rules = [rule for rule in map(_rule, lines) if rule]

    def matches(self, path: str, is_folder: bool = False) -> bool:
        """Return whether a path, relative to the root, or a folder that it is in, is ignored."""
        parts = path.split("/")
        return any(
            self._decides("/".join(parts[:count]), is_folder or count < len(parts))
            for count in range(1, len(parts) + 1)
        )

    def _decides(self, path: str, is_folder: bool) -> bool:
        for rule in reversed(self._rules):
            if (is_folder or not rule.folders_only) and rule.pattern.fullmatch(path):
                return rule.ignores
        return False


def _rule(line: str) -> _Rule | None:
    glob = re.sub(r"(?<!\\) +$", "", line.rstrip("\r\n"))
    if not glob or glob.startswith("#"):
        return None
    ignores = not glob.startswith("!")
    glob = glob if ignores else glob[1:]
    folders_only = glob.endswith("/")
    glob = glob.rstrip("/")
    glob = glob.lstrip("/") if "/" in glob else f"**/{glob}"  # a name alone is meant in every folder
    if glob.endswith("/**"):
        glob += "/*"  # all that is in the folder, but not the folder
    parts = [part if part == "**" else re.sub(r"\*\*+", "*", part) for part in glob.split("/")]
    glob = re.sub(r"(?<![^/])(?:\*\*/)+", "**/", "/".join(parts))
    pattern = glob_regex(re.sub(r"\\(.)", _unescaped, glob), across=False)
    within = pattern.pattern.replace("[^", "[^/")  # a set with `!` does not match the slash either
    return _Rule(re.compile(within, pattern.flags | _FLAGS), ignores, folders_only)


def _unescaped(found: re.Match[str]) -> str:
    return f"[{found[1]}]" if found[1] in "*?[" else found[1]
