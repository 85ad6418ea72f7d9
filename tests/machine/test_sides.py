import pytest

from turnchart.machine.sides import FOLDED, Pair, align, side_by_side


def laid(expected: str, actual: str) -> list[tuple[int | None, int | None, bool]]:
    """Lay words beside each other; a dot is three dots."""
    wanted = [None if word == "." else word for word in expected.split()]
    pairs = align(wanted, actual.split(), str.__eq__)
    return [(pair.expected, pair.actual, pair.fits) for pair in pairs]


@pytest.mark.parametrize(
    ("expected", "actual", "pairs"),
    [
        ("", "", []),
        ("a b", "a b", [(0, 0, True), (1, 1, True)]),
        ("a b", "a c", [(0, 0, True), (1, 1, False)]),
        ("a b", "b", [(0, None, False), (1, 0, True)]),
        ("b", "a b", [(None, 0, False), (0, 1, True)]),
        (".", "", [(0, None, True)]),
        ("a . c", "a c", [(0, 0, True), (1, None, True), (2, 1, True)]),
        ("a . c", "a x y c", [(0, 0, True), (1, 1, True), (1, 2, True), (2, 3, True)]),
        ("a . c", "a x y d", [(0, 0, True), (1, 1, True), (1, 2, True), (2, 3, False)]),
    ],
)
def test_two_sequences_are_laid_beside_each_other(
    expected: str, actual: str, pairs: list[tuple[int | None, int | None, bool]]
) -> None:
    assert laid(expected, actual) == pairs


def test_what_does_not_fit_is_marked() -> None:
    expected, actual = ["idle", "tooling", None], ["idle", "stopping", "claiming"]
    lines = side_by_side(align(expected, actual, str.__eq__), expected, actual)
    assert lines == ["  expected  actual", "  idle      idle", "> tooling   stopping", "  ...       claiming"]


def test_a_long_stretch_that_dots_stand_for_is_folded() -> None:
    actual = [f"s{i}" for i in range(FOLDED + 10)]
    lines = side_by_side(align([None], actual, str.__eq__), [None], actual)
    assert [line.split()[-1] for line in lines[1:]] == ["s0", "s1", "more)", "s14", "s15"]
    assert lines[3].strip() == "(12 more)"


def test_a_long_line_is_cut() -> None:
    [_, line] = side_by_side([Pair(0, 0, True)], ["x" * 200], ["y\nz"])
    assert line.split() == ["x" * 71 + "…", "y", "z"]
