"""Values that no kept text may show, as keys that a program was handed and repeats. Pure."""

import re
from collections.abc import Mapping
from typing import Final

SHORTEST: Final = 6
"""Shorter values are no secrets: they would be found everywhere."""


def without_secrets(text: str, marks: Mapping[str, str]) -> str:
    """Return a text without these values, whole or any line of them; the longest is looked for first.

    Args:
        text: What would be kept.
        marks: What stands in the place of each value.
    """
    found: dict[str, str] = {}
    for value, mark in marks.items():
        for piece in (value, *map(str.strip, value.splitlines())):
            if len(piece) >= SHORTEST:
                found.setdefault(piece, mark)
    if not found:
        return text
    longest_first = sorted(found, key=len, reverse=True)
    return re.sub("|".join(map(re.escape, longest_first)), lambda hit: found[hit[0]], text)
