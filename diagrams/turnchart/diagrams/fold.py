"""Keep a text export below what viewers take: less and less detail, until it fits."""

from collections.abc import Callable
from typing import NamedTuple

from turnchart.diagrams.escape import one_line

MAX_CHARS = 45_000
"""Mermaid draws nothing above 50,000 characters."""
MAX_EDGES = 450
"""Mermaid draws nothing above 500 edges."""


class Level(NamedTuple):
    """How much of the detail is shown.

    Attributes:
        lines: How many lines a note may have.
        width: How many characters a line may have.
        edges: How many arrows a session may have; the rest is told as a number.
        merged: Rows between the same two states share one edge.
    """

    lines: int = 10_000
    width: int = 10_000
    edges: int = MAX_EDGES - 10
    merged: bool = False

    @property
    def folded(self) -> bool:
        """Something may be left out."""
        return self.merged

    def cut(self, notes: tuple[str, ...]) -> tuple[str, ...]:
        """Return as many lines as fit, each as long as fits, and how many are missing."""
        shown = [self.short(line) for line in notes[: self.lines]]
        missing = len(notes) - len(shown)
        return (*shown, f"and {missing} more") if missing else tuple(shown)

    def short(self, text: str) -> str:
        """Return a line as long as fits."""
        return shortened(text, self.width)


LEVELS = (
    Level(),
    Level(40, 160, 400, merged=True),
    Level(12, 100, 300, merged=True),
    Level(4, 80, 150, merged=True),
    Level(1, 60, 60, merged=True),
    Level(0, 40, 20, merged=True),
)

SAID = f"folded to stay below {MAX_CHARS:,} characters and {MAX_EDGES} edges"
"""What a picture says where something was left out."""


def fitting(draw: Callable[[Level], str], edges: Callable[[str], int]) -> str:
    """Return the picture at the first level at which it fits; the last level is taken as it is."""
    text = ""
    for level in LEVELS:
        text = draw(level)
        if len(text) <= MAX_CHARS and edges(text) <= MAX_EDGES:
            break
    return text


def shortened(text: str, width: int) -> str:
    """Return text on one line of at most so many characters."""
    line = one_line(text)
    return line if len(line) <= width else line[: width - 1] + "\N{HORIZONTAL ELLIPSIS}"
