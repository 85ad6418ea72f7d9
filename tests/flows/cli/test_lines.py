import io
import os
import tempfile
from collections.abc import Callable

import anyio
import pytest

from turnchart.flows.cli.lines import Lines, read_all

Typed = Callable[[str], io.TextIOWrapper]


async def every(lines: Lines) -> list[str]:
    found: list[str] = []
    while (line := await lines.read()) is not None:
        found.append(line)
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", []), ("one\ntwo\r\n", ["one", "two"]), ("\n\nlast", ["", "", "last"]), ("é\n", ["é"])],
)
async def test_the_lines_of_a_pipe(typed: Typed, text: str, expected: list[str]) -> None:
    assert await every(Lines(typed(text))) == expected


async def test_the_lines_of_a_file_and_of_nothing() -> None:
    with tempfile.TemporaryFile("w+", encoding="utf-8") as file:
        file.write("a\nb")
        file.seek(0)
        assert await every(Lines(file)) == ["a", "b"]
    with open(os.devnull, encoding="utf-8") as nothing:  # noqa: ASYNC230  # nothing blocks here
        assert await every(Lines(nothing)) == []


async def test_what_is_no_file_has_no_lines() -> None:
    stream = io.StringIO("text\n")
    assert await every(Lines(stream)) == []
    stream.close()
    assert await every(Lines(stream)) == []
    assert not Lines(stream).by_hand


async def test_waiting_for_a_line_can_be_cut_off() -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading, encoding="utf-8") as stream:
        lines = Lines(stream)
        with anyio.move_on_after(0.01) as scope:
            await lines.read()
        assert scope.cancelled_caught
        os.write(writing, b"late\n")
        assert await lines.read() == "late"
        os.close(writing)


def test_what_is_piped_in_is_read_whole(typed: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_all(typed("a\nb")) == "a\nb"
    assert read_all(typed("\ufeffa\ufeff\nb")) == "a\ufeff\nb", (
        "without the mark that some editors begin with"
    )
    monkeypatch.setattr("sys.stdin", None)
    assert read_all() == ""
    assert not Lines().by_hand
