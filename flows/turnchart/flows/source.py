"""Reading YAML: text becomes a tree of nodes that know where they stand. Nothing is built or imported.

Every value stays text until it is asked for; ``value_of`` reads it by the core rules of YAML 1.2, so ``on``,
``off``, ``yes`` and ``no`` are text. Keys are always text. What is wrong becomes a Problem, no exception.
"""

import math
import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from turnchart.flows.problems import Level, Problem, quoted
from turnchart.flows.secrets import masked

MAX_BYTES: Final = 1024 * 1024
"""Larger files are refused unread."""

Style = Literal["plain", "single", "double", "block"]


@dataclass(slots=True, eq=False, repr=False)
class Source:
    """One file. ``name`` is how the user named it, ``path`` where it is."""

    name: str
    path: Path
    lines: tuple[str, ...]

    def problem(
        self,
        code: str,
        message: str,
        at: "Node | Mark",
        *,
        help: str = "",
        level: Level = "error",
    ) -> Problem:
        """Return a problem that points into this file. Nothing of it shows a secret."""
        text = self.lines[at.line - 1] if 0 < at.line <= len(self.lines) else ""
        return Problem(
            code, masked(message), self.name, at.line, at.column, at.length, masked(help), level, masked(text)
        )


class Mark(NamedTuple):
    """A place in a file: line and column from 1, and how many characters."""

    line: int
    column: int
    length: int = 1


@dataclass(slots=True, eq=False, repr=False)
class Node:
    """A value with its place. Compared by identity; an alias is the node of its anchor."""

    source: Source
    line: int
    column: int
    length: int

    def problem(self, code: str, message: str, *, help: str = "", level: Level = "error") -> Problem:
        """Return a problem with this node."""
        return self.source.problem(code, message, self, help=help, level=level)


@dataclass(slots=True, eq=False, repr=False)
class Scalar(Node):
    """A single value, as its text."""

    text: str
    style: Style = "plain"
    broken: bool = False
    """It was reported already and stands for nothing; what follows from it is not reported."""


@dataclass(slots=True, eq=False, repr=False)
class ListNode(Node):
    """A list."""

    items: tuple["AnyNode", ...]


@dataclass(slots=True, eq=False, repr=False)
class MapNode(Node):
    """A map: per key its own node and its value, in the order of the file."""

    fields: Mapping[str, tuple[Scalar, "AnyNode"]] = field(
        default_factory=dict[str, "tuple[Scalar, AnyNode]"]
    )

    def get(self, key: str) -> "AnyNode | None":
        """Return the value of a key."""
        found = self.fields.get(key)
        return found[1] if found else None


AnyNode: TypeAlias = Scalar | ListNode | MapNode


class Document(NamedTuple):
    """What was read: ``root`` is None where nothing can be said about the content."""

    source: Source
    root: AnyNode | None
    problems: tuple[Problem, ...] = ()


def read_file(path: str | os.PathLike[str], name: str | None = None, *, empty_help: str = "") -> Document:
    """Read one YAML file.

    Args:
        path: Where it is.
        name: How messages name it; the path as given where None.
        empty_help: What to write into an empty file.
    """
    shown = name if name is not None else os.fspath(path)
    source = Source(shown, Path(path), ())
    data = _bytes(source)
    if isinstance(data, Problem):
        return Document(source, None, (data,))
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        return Document(source, None, (_not_utf8(source, data, error),))
    return read_text(text, shown, path, empty_help=empty_help)


def read_text(text: str, name: str, path: str | os.PathLike[str] = "", *, empty_help: str = "") -> Document:
    """Read YAML from text; ``name`` and ``path`` say which file it is."""
    from turnchart.flows.events import build  # the parser is loaded when there is something to parse

    text = text.removeprefix("\ufeff")
    source = Source(name, Path(path), split_lines(text))
    root, problems = build(text, source)
    if root is None and not problems:
        at = Mark(1, 1)
        problems = [source.problem("yaml-empty", "the file is empty", at, help=empty_help)]
    return Document(source, root, tuple(problems))


def _bytes(source: Source) -> bytes | Problem:
    """Return the content, or why there is none. Only regular files are opened: a pipe would block."""
    try:
        status = os.stat(source.path)
        if not stat.S_ISREG(status.st_mode):
            what = "a folder" if stat.S_ISDIR(status.st_mode) else "no regular file"
            return Problem("file-missing", f"{quoted(source.name)} is {what}", source.name)
        if status.st_size <= MAX_BYTES:
            with open(source.path, "rb") as file:
                data = file.read(MAX_BYTES + 1)
            if len(data) <= MAX_BYTES:
                return data
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else "not a path"
        return Problem("file-missing", f"cannot read {quoted(source.name)}: {why}", source.name)
    return Problem(
        "file-size", "the file is larger than 1 MiB", source.name, help="long texts go into prompt files"
    )


def _not_utf8(source: Source, data: bytes, error: UnicodeDecodeError) -> Problem:
    before = data[: error.start].decode("utf-8", "replace")
    rest = data[error.start :].split(b"\n", 1)[0][:200].decode("utf-8", "replace")
    lines = split_lines(before)
    placed = Source(source.name, source.path, (*lines[:-1], lines[-1] + rest))
    utf16 = data.startswith((b"\xff\xfe", b"\xfe\xff"))
    help = "it looks like UTF-16: save it as UTF-8" if utf16 else "save the file as UTF-8"
    message = f"byte 0x{data[error.start]:02x} is not UTF-8"
    return placed.problem("yaml-encoding", message, Mark(len(lines), len(lines[-1]) + 1), help=help)


_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")


def split_lines(text: str) -> tuple[str, ...]:
    """Split text where YAML 1.1 parsers see a new line; at least one line comes out."""
    return tuple(_BREAK.split(text))


# -- values ---------------------------------------------------------------------------------------

_NULL = frozenset(("", "~", "null", "Null", "NULL"))
_BOOL = {word: word.lower() == "true" for word in ("true", "True", "TRUE", "false", "False", "FALSE")}
_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_ENDLESS = frozenset(sign + word for sign in ("", "+", "-") for word in (".inf", ".Inf", ".INF")) | frozenset(
    (".nan", ".NaN", ".NAN")
)
_DIGITS = 300
"""Longer numbers are refused: nothing here is counted in them."""


class NotFinite(ValueError):
    """A number that JSON cannot hold."""


def value_of(text: str) -> str | int | float | bool | None:
    """Return what a plain scalar means by the core schema of YAML 1.2.

    Raises:
        NotFinite: If it is a number that JSON cannot hold.
    """
    if text in _NULL:
        return None
    if text in _BOOL:
        return _BOOL[text]
    if text in _ENDLESS:
        raise NotFinite(text)
    if _INT.fullmatch(text):
        if len(text) > _DIGITS:
            raise NotFinite(text)
        base = {"0o": 8, "0x": 16}.get(text[:2], 10)
        return int(text[2:] if base != 10 else text, base)
    if _FLOAT.fullmatch(text):
        number = float(text)
        if not math.isfinite(number):
            raise NotFinite(text)
        return number
    return text


def scalars(node: AnyNode) -> Iterator[Scalar]:
    """Walk over every value below a node, keys left out."""
    if isinstance(node, Scalar):
        yield node
    else:
        below = node.items if isinstance(node, ListNode) else [value for _, value in node.fields.values()]
        for child in below:
            yield from scalars(child)


def as_written(node: AnyNode) -> Any:
    """Return the content as plain data, references to variables unexpanded: what digests are made of."""
    if isinstance(node, MapNode):
        return {key: as_written(value) for key, (_, value) in node.fields.items()}
    if isinstance(node, ListNode):
        return [as_written(item) for item in node.items]
    return value_of(node.text) if node.style == "plain" and not node.broken else node.text
