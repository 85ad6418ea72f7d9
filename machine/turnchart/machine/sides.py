"""Two sequences side by side: what was expected and what came, with what fits in one line."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, TypeVar

E = TypeVar("E")
A = TypeVar("A")

FOLDED: Final = 6
"""So many lines that ``...`` stands for are shown; of more, only the ends."""
_WIDEST: Final = 72
_MISFIT, _ALONE = 2, 3
"""What it costs that two lines differ, and that a line has none beside it."""


class Pair(NamedTuple):
    """One line: places in the two sequences, None where there is nothing beside the other.

    Attributes:
        fits: What stands there is what was expected.
    """

    expected: int | None
    actual: int | None
    fits: bool


def align(expected: Sequence[E | None], actual: Sequence[A], same: Callable[[E, A], bool]) -> list[Pair]:
    """Lay two sequences beside each other with as few misfits as can be.

    Args:
        expected: None in it stands for any part of the other, also for nothing.
        actual: What came.
        same: Whether something that came is what was expected.
    """
    rows, columns = len(expected), len(actual)
    cost = [[0] * (columns + 1) for _ in range(rows + 1)]
    fits = [[each is not None and same(each, other) for other in actual] for each in expected]
    for i in range(rows, -1, -1):
        for j in range(columns, -1, -1):
            if i < rows or j < columns:
                cost[i][j] = min(step for step, _, _ in _steps(expected, fits, cost, i, j))
    pairs: list[Pair] = []
    i = j = 0
    while i < rows or j < columns:
        best = min(_steps(expected, fits, cost, i, j), key=lambda step: step[0])
        _, to, pair = best
        pairs.append(pair)
        i, j = to
    return _tidy(pairs, expected)


def _steps(
    expected: Sequence[object], fits: Sequence[Sequence[bool]], cost: Sequence[Sequence[int]], i: int, j: int
) -> Iterator[tuple[int, tuple[int, int], Pair]]:
    """Yield the ways on from a place, each with its whole cost; of equals the first is taken."""
    rows, columns = len(expected), len(cost[0]) - 1
    if i < rows and expected[i] is None:
        if j < columns:
            yield cost[i][j + 1], (i, j + 1), Pair(i, j, True)
        yield cost[i + 1][j], (i + 1, j), Pair(i, None, True)
    elif i < rows and j < columns:
        wrong = not fits[i][j]
        yield cost[i + 1][j + 1] + wrong * _MISFIT, (i + 1, j + 1), Pair(i, j, not wrong)
    if i < rows and expected[i] is not None:
        yield cost[i + 1][j] + _ALONE, (i + 1, j), Pair(i, None, False)
    if j < columns:
        yield cost[i][j + 1] + _ALONE, (i, j + 1), Pair(None, j, False)


def _tidy(pairs: Sequence[Pair], expected: Sequence[object]) -> list[Pair]:
    """Leave the line out that ends an ``...`` which has lines already."""
    return [
        pair
        for before, pair in zip([None, *pairs], pairs, strict=False)
        if not (
            pair.actual is None
            and pair.expected is not None
            and expected[pair.expected] is None
            and before is not None
            and before.expected == pair.expected
        )
    ]


def side_by_side(pairs: Sequence[Pair], expected: Sequence[str | None], actual: Sequence[str]) -> list[str]:
    """Return the lines of a table with two columns; a line that does not fit begins with ``>``."""
    rows = [("expected", "actual", True)]
    for shown in _folded(pairs, expected):
        if isinstance(shown, int):
            rows.append(("", f"({shown} more)", True))
            continue
        left = "" if shown.expected is None else expected[shown.expected] or "..."
        rows.append((left, "" if shown.actual is None else actual[shown.actual], shown.fits))
    cut = [(_short(left), _short(right), fits) for left, right, fits in rows]
    width = max(len(left) for left, _, _ in cut)
    return [f"{' ' if fits else '>'} {left:<{width}}  {right}".rstrip() for left, right, fits in cut]


def _folded(pairs: Sequence[Pair], expected: Sequence[object]) -> Iterator[Pair | int]:
    """Yield the lines; where an ``...`` stands for many, a number in place of those in the middle."""
    at = 0
    while at < len(pairs):
        end = at
        first = pairs[at].expected
        if first is not None and expected[first] is None:
            while end + 1 < len(pairs) and pairs[end + 1].expected == first:
                end += 1
        length = end - at + 1
        if length > FOLDED:
            yield from pairs[at : at + 2]
            yield length - 4
            yield from pairs[end - 1 : end + 1]
        else:
            yield from pairs[at : end + 1]
        at = end + 1


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _WIDEST else f"{line[: _WIDEST - 1]}…"
