import io

from turnchart.flows.cli.progress import Progress


class Terminal(io.StringIO):
    """A stream that a person looks at."""

    def isatty(self) -> bool:
        return True


class Clock:
    """A clock that is set by hand."""

    time = 0.0

    def __call__(self) -> float:
        return self.time


def test_what_is_quick_shows_nothing() -> None:
    stream, clock = Terminal(), Clock()
    with Progress(stream, clock) as progress:
        tell = progress.step("reading")
        clock.time = 0.4
        tell(1, 2)
    assert stream.getvalue() == ""


def test_what_is_long_is_shown_now_and_then_and_wiped_away() -> None:
    stream, clock = Terminal(), Clock()
    with Progress(stream, clock) as progress:
        for clock.time, done in ((0.5, 5), (0.55, 6), (0.7, 40)):
            progress.step("reading")(done, 100)
        clock.time = 0.9
        progress.step("go")(1, 3)
    assert stream.getvalue().split("\r") == ["", "reading 5 %", "reading 40 %", "go 33 %     ", " " * 7, ""]


def test_where_nobody_looks_on_nothing_is_shown() -> None:
    stream, clock = io.StringIO(), Clock()
    with Progress(stream, clock) as progress:
        clock.time = 9.0
        progress.step("reading")(1, 2)
    assert stream.getvalue() == ""


def test_nothing_of_nothing_is_no_error() -> None:
    stream, clock = Terminal(), Clock()
    with Progress(stream, clock) as progress:
        clock.time = 1.0
        progress.step("reading")(0, 0)
    assert "reading 0 %" in stream.getvalue()
