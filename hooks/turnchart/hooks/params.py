"""The types of ``with:`` parameters, besides ``str``, ``int``, ``bool``, lists and Literals.

Each says what its value stands for: the trust check lists every ``Command`` and ``Path`` of a flow, the
loader resolves a ``Path`` against the file that wrote it, and ``InRoot`` stays below the root.
"""

import re
from pathlib import PurePosixPath, PureWindowsPath
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias, get_args

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

Meaning = Literal["", "pattern", "glob", "command", "path", "in_root"]


class Means(NamedTuple):
    """What a value stands for; part of the annotation."""

    meaning: Meaning


def meaning_of(annotation: Any) -> Meaning:
    """Return what the values of an annotation stand for, also inside lists and unions; else empty."""
    for part in get_args(annotation):
        found = part.meaning if isinstance(part, Means) else meaning_of(part)
        if found:
            return found
    return ""


def _compiled(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return re.compile(value)
    except re.error as error:
        problem = str(error)
        raise PydanticCustomError(
            "regex", "not a valid regular expression: {problem}", {"problem": problem}
        ) from error


def _below(value: str) -> str:
    for path in (PurePosixPath(value), PureWindowsPath(value)):
        if path.is_absolute() or path.drive or path.root or ".." in path.parts:
            raise PydanticCustomError("in_root", "the path must be relative and stay below the root")
    return value


Pattern: TypeAlias = Annotated[
    re.Pattern[str],
    BeforeValidator(_compiled),
    WithJsonSchema({"type": "string", "format": "regex"}),
    Means("pattern"),
]
"""A regular expression; arrives compiled."""

Glob: TypeAlias = Annotated[str, Field(min_length=1), Means("glob")]
"""A glob, on names of tools or on paths."""

Command: TypeAlias = Annotated[
    list[Annotated[str, Field(min_length=1)]], Field(min_length=1), Means("command")
]
"""A program and its arguments; no shell reads it."""

Path: TypeAlias = Annotated[str, Field(min_length=1), Means("path")]
"""A file to read; in YAML relative to the file that wrote it, when the hook runs relative to the root."""

InRoot: TypeAlias = Annotated[str, Field(min_length=1), AfterValidator(_below), Means("in_root")]
"""A file to write, relative to the root and below it."""
