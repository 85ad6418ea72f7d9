"""Text as every other program takes it: without halves of surrogate pairs. Pure.

JSON can spell one, a stream that was cut in the middle of a character holds one, and so do the names of files
that are no UTF-8. No such text can be written as UTF-8.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

UNKNOWN: Final = "\N{REPLACEMENT CHARACTER}"
"""Stands where there was half a character."""


def whole(text: str) -> str:
    """Return a text whose halves are joined where two stand together, and replaced where one stands alone."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def whole_json(value: Any) -> Any:
    """Return JSON whose texts and names are ``whole``; what has to change nothing is returned as it is."""
    if isinstance(value, str):
        return whole(value)
    if isinstance(value, Mapping):
        fields = cast("Mapping[str, Any]", value)
        changed = {whole(name): whole_json(each) for name, each in fields.items()}
        same = _same(fields.values(), changed.values()) and changed.keys() == fields.keys()
        return fields if same else changed
    if isinstance(value, list | tuple):
        items = cast("Sequence[Any]", value)
        found = [whole_json(each) for each in items]
        return items if _same(items, found) else found
    return value


def _same(before: Any, after: Any) -> bool:
    return all(old is new for old, new in zip(before, after, strict=False))


class Halves:
    """Joins what streams piece by piece: half of a pair at the end of a piece waits for the next one."""

    __slots__ = ("_half",)

    def __init__(self) -> None:
        self._half = ""

    def take(self, piece: str) -> str:
        """Return what of the text so far is new and whole."""
        if self._half:
            piece, self._half = self._half + piece, ""
        elif piece.isascii():
            return piece
        if piece and "\ud800" <= piece[-1] <= "\udbff":
            piece, self._half = piece[:-1], piece[-1]
        return whole(piece)

    def rest(self) -> str:
        """Return what is left at the end."""
        half, self._half = self._half, ""
        return whole(half)
