"""Subjects: the one argument of a call that a permission's pattern is compared with.

Three kinds are compared in three ways: text as it stands, a path as what it really names, a shell command by
the commands that it would run. Deny and ask look at every form that a subject has, allow only at the one that
is certain.
"""

import os
import posixpath
import re
from collections.abc import Iterable, Mapping
from fnmatch import translate
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from turnchart.machine.paths import glob_regex
from turnchart.machine.shell_reader import Command, read_command, single_blanks

if TYPE_CHECKING:
    from turnchart.machine.tools import Tool


class Subject:
    """What a call is about. This one is no subject: no pattern allows, and nothing is known of it.

    Attributes:
        obstacle: Why no pattern may allow it, whatever it says; empty for nothing.
        doubt: What makes it uncertain that deny and ask patterns saw all of it; empty for nothing.
    """

    obstacle: str = ""
    doubt: str = ""

    def held_by(self, pattern: str) -> bool:
        """Whether a rule that denies or asks is about it."""
        return any(_regex(pattern).match(form) for form in self._forms())

    def allowed_by(self, patterns: Mapping[str, str]) -> tuple[str, ...]:
        """Return those rules (by pattern) that together allow it; nothing where they do not."""
        return ()

    def _forms(self) -> Iterable[str]:
        return ()


NO_SUBJECT = Subject()


class TextSubject(Subject):
    """Compared as it stands."""

    def __init__(self, text: str) -> None:
        self._text = text

    def allowed_by(self, patterns: Mapping[str, str]) -> tuple[str, ...]:
        """Return the first rule that allows it."""
        return tuple(rule for pattern, rule in patterns.items() if _regex(pattern).match(self._text))[:1]

    def _forms(self) -> Iterable[str]:
        return (self._text,)


class PathSubject(Subject):
    """Compared as what the path names, links and ``..`` resolved; relative patterns start at the root.

    Outside of the root only an absolute pattern allows. Deny and ask also know links by name.
    """

    _NOWHERE: ClassVar[str] = "/\0"

    def __init__(self, text: str, root: Path | str) -> None:
        base = os.path.realpath(root)
        given = posixpath.normpath(posixpath.join(base, text))
        try:
            self._real = os.path.realpath(os.path.join(base, os.path.expanduser(text)))
        except ValueError:  # no path of this system
            self._real = self._NOWHERE
        below = posixpath.relpath(self._real, base)
        self._below = None if below == ".." or below.startswith("../") else below
        self._known = (given, posixpath.relpath(given, base), self._real, below)

    def held_by(self, pattern: str) -> bool:
        """Whether a rule that denies or asks is about it."""
        return any(_path_regex(os.path.expanduser(pattern)).fullmatch(form) for form in self._known)

    def allowed_by(self, patterns: Mapping[str, str]) -> tuple[str, ...]:
        """Return the first rule that allows it."""
        return tuple(rule for pattern, rule in patterns.items() if self._allows(pattern))[:1]

    def _allows(self, pattern: str) -> bool:
        form = self._real if pattern.startswith(("/", "~")) else self._below
        if form is None or form == self._NOWHERE:
            return False
        return _path_regex(os.path.expanduser(pattern)).fullmatch(form) is not None


class ShellSubject(Subject):
    """Compared command by command: one that matches is enough to deny or ask, all must match to allow."""

    def __init__(self, text: str) -> None:
        self._command: Command = read_command(text)
        self.obstacle = self._command.obstacle
        self.doubt = self._command.doubt

    def held_by(self, pattern: str) -> bool:
        """Whether a rule that denies or asks is about it."""
        return super().held_by(single_blanks(pattern))

    def allowed_by(self, patterns: Mapping[str, str]) -> tuple[str, ...]:
        """Return the rules that together allow every command in it."""
        if self.obstacle:
            return ()
        regexes = {_regex(single_blanks(pattern)): rule for pattern, rule in patterns.items()}
        used: dict[str, None] = {}
        for part in self._command.parts:
            matching = (rule for regex, rule in regexes.items() if regex.match(part.text))
            rule = next(matching, None)
            if rule is None:
                return ()
            used[rule] = None
        return tuple(used)

    def _forms(self) -> Iterable[str]:
        yield self._command.whole
        for part in self._command.parts:
            yield from part.forms()


def subject_of_call(tool: "Tool", args: Mapping[str, Any], root: Path | str) -> Subject:
    """Return what a call is about."""
    text = tool.subject_of(args)
    if text is None:
        return NO_SUBJECT
    match tool.subject_kind:
        case "text":
            return TextSubject(text)
        case "path":
            return PathSubject(text, root)
        case "shell":
            return ShellSubject(text)


@lru_cache(maxsize=512)
def _regex(pattern: str) -> re.Pattern[str]:
    """Return the pattern of a glob over text; a trailing `` *`` also matches nothing."""
    whole = translate(pattern)
    return re.compile(f"{whole}|{translate(pattern[:-2])}" if pattern.endswith(" *") else whole)


@lru_cache(maxsize=512)
def _path_regex(pattern: str) -> re.Pattern[str]:
    """Return the pattern of a glob over paths; a folder with a trailing ``/`` is all that is in it."""
    whole = f"{pattern}**" if pattern.endswith("/") else pattern
    return glob_regex(posixpath.normpath(whole), across=True)
