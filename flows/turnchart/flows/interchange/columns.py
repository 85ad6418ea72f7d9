"""Where a value stands in one line of JSON."""

from collections.abc import Iterator, Sequence
from json import JSONDecoder
from typing import Any

_read = JSONDecoder().raw_decode


def column_of(text: str, path: Sequence[str | int]) -> int:
    """Return the column, from 1, at which the value begins that a path of names and indexes leads to.

    Where the path leads nowhere, it is the column of the innermost value that it reaches.

    Args:
        text: A line that is valid JSON.
        path: From the outside in.
    """
    at = _skip(text, 0)
    for step in path:
        found = dict(_members(text, at))
        if step not in found:
            break
        at = found[step]
    return at + 1


def _members(text: str, at: int) -> Iterator[tuple[str | int, int]]:
    """Yield the names, or the indexes, of the value at a place, each with where its value begins."""
    kind, at, index = text[at], _skip(text, at + 1), 0
    if kind not in "{[":
        return
    while text[at] not in "}]":
        name: str | int = index
        if kind == "{":
            name, at = _name(text, at)
        yield name, at
        at = _skip(text, _after(text, at))
        if text[at] == ",":
            at = _skip(text, at + 1)
        index += 1


def _name(text: str, at: int) -> tuple[str, int]:
    found: tuple[str, int] = _read(text, at)
    return found[0], _skip(text, _skip(text, found[1]) + 1)


def _after(text: str, at: int) -> int:
    found: tuple[Any, int] = _read(text, at)
    return found[1]


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at
