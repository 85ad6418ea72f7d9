"""Reading the fields of foreign JSON: a wrong one is named by its path. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Never, cast

Path = tuple[str | int, ...]
"""The names and indexes that lead to a value, from the outside in."""


class Malformed(ValueError):
    """A part of foreign JSON is not what it should be.

    Attributes:
        path: Where it stands; a missing field is named by the object that lacks it.
        what: What is wrong, and what would be right.
    """

    def __init__(self, path: Path, what: str) -> None:
        self.path = path
        self.what = what
        super().__init__(what)

    def below(self, *path: str | int) -> Malformed:
        """Return the same error, seen from further out."""
        return Malformed((*path, *self.path), self.what)


def required(raw: Mapping[str, Any], name: str) -> str:
    """Return a field that has to be text.

    Raises:
        Malformed: If it is missing or something else.
    """
    given = raw.get(name)
    return given if isinstance(given, str) else _refuse(raw, name, "text")


def named(raw: Mapping[str, Any], name: str) -> str:
    """Return a field that has to be text with something in it.

    Raises:
        Malformed: If it is missing, empty or something else.
    """
    return required(raw, name) or _refuse(raw, name, "text that is not empty")


def optional(raw: Mapping[str, Any], name: str) -> str:
    """Return a field that is text; an empty one where it is missing or null.

    Raises:
        Malformed: If it is something else.
    """
    return "" if raw.get(name) is None else required(raw, name)


def nullable(raw: Mapping[str, Any], name: str) -> str | None:
    """Return a field that has to be text or null.

    Raises:
        Malformed: If it is missing or something else.
    """
    given = raw.get(name, 0)
    return given if given is None or isinstance(given, str) else _refuse(raw, name, "text or null")


def listed(raw: Mapping[str, Any], name: str) -> Sequence[Any]:
    """Return a field that has to be a list.

    Raises:
        Malformed: If it is missing or something else.
    """
    found = as_list(raw.get(name))
    return _refuse(raw, name, "a list") if found is None else found


def an_object(raw: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return a field that has to be an object.

    Raises:
        Malformed: If it is missing or something else.
    """
    found = as_object(raw.get(name))
    return _refuse(raw, name, "an object") if found is None else found


def as_object(value: object) -> Mapping[str, Any] | None:
    """Return a JSON object as it is; None where it is something else."""
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else None


def as_list(value: object) -> Sequence[Any] | None:
    """Return a JSON list as it is; None where it is something else."""
    return cast("Sequence[Any]", value) if isinstance(value, list | tuple) else None


def _refuse(raw: Mapping[str, Any], name: str, right: str) -> Never:
    if name not in raw:
        raise Malformed((), f"`{name}` is missing; it must be {right}")
    raise Malformed((name,), f"`{name}` is {_shown(raw[name])}; it must be {right}")


def _shown(value: object) -> str:
    if isinstance(value, str):
        return f'"{value[:40]}"'
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    if as_object(value) is not None:
        return "an object"
    return "a list" if as_list(value) is not None else repr(value)[:40]
