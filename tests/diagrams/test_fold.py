from turnchart.diagrams.fold import LEVELS, MAX_CHARS, MAX_EDGES, Level, fitting, shortened


def test_the_first_level_leaves_nothing_out() -> None:
    lines = tuple(f"line {i}" for i in range(500))
    assert LEVELS[0].cut(lines) == lines
    assert not LEVELS[0].folded
    assert all(level.folded for level in LEVELS[1:])


def test_a_cut_says_how_much_is_missing() -> None:
    level = Level(lines=2, width=5)
    assert level.cut(("short", "longer line", "c", "d")) == (
        "short",
        "long\N{HORIZONTAL ELLIPSIS}",
        "and 2 more",
    )
    assert level.cut(("a",)) == ("a",)
    assert LEVELS[-1].cut(("a",)) == ("and 1 more",)


def test_a_line_is_folded_before_it_is_cut() -> None:
    assert shortened("a\n\nb", 3) == "a b"


def test_the_first_level_that_fits_is_taken() -> None:
    asked: list[Level] = []

    def draw(level: Level) -> str:
        asked.append(level)
        return "x" * min(level.width * 100, MAX_CHARS + 1)

    assert len(fitting(draw, lambda _text: 0)) == 16_000
    assert asked == list(LEVELS[:2])


def test_edges_count_too() -> None:
    assert fitting(lambda level: str(level.edges), lambda text: int(text) + 100) == "300"
    assert MAX_EDGES >= 400


def test_the_last_level_is_taken_as_it_is() -> None:
    assert fitting(lambda level: str(level.edges), lambda _text: MAX_EDGES + 1) == str(LEVELS[-1].edges)
