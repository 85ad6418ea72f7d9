import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnchart.flows.cli.chat.painting import Painter
from turnchart.flows.cli.chat.streaming import LONG, AnswerStream, Stream, ThoughtStream

ANSI = re.compile(r"\x1b\[[0-9;]*m")
PAINTER = Painter(colours=False)
PAGE = """\
# A title

Some **bold** text
over two lines.

- one
- two

  more of two
- three

> quoted

```python
def f():

    return 1
```

Title
-----

| a | b |
|---|---|
| 1 | 2 |

The end.
"""


def bare(lines: list[str]) -> list[str]:
    return [ANSI.sub("", line).rstrip() for line in lines]


def streamed(text: str, size: int, stream: Stream) -> list[str]:
    """Feed a text in pieces, drawing after each, and return every line that went up."""
    lines: list[str] = []
    for at in range(0, len(text), size):
        stream.feed(text[at : at + size])
        lines += stream.settled(40)
        stream.tail(40)
    return bare(lines + stream.rest(40))


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_however_it_comes_in_it_looks_the_same_in_the_end(size: int) -> None:
    whole = bare(PAINTER.markdown(PAGE, 40))
    came = streamed(PAGE, size, AnswerStream(PAINTER))
    assert [line for line in came if line] == [line for line in whole if line]


def test_a_block_goes_up_when_the_next_one_begins() -> None:
    stream = AnswerStream(PAINTER)
    stream.feed("one *two*")
    assert (stream.settled(40), bare(stream.tail(40))) == ([], ["one two"])
    stream.feed("\n\nthr")
    assert (bare(stream.settled(40)), bare(stream.tail(40))) == (["one two"], ["", "thr"])
    assert (bare(stream.rest(40)), stream.tail(40)) == (["", "thr"], [])


def test_long_code_goes_up_before_its_end() -> None:
    code = [f"line {number}" for number in range(3 * LONG)]
    stream = AnswerStream(PAINTER)
    stream.feed("```\n" + "\n".join(code) + "\n")
    up = bare(stream.settled(40))
    assert len(up) > 2 * LONG
    assert len(stream.tail(40)) <= LONG
    stream.feed("```\n")
    came = [line.strip() for line in up + bare(stream.rest(40)) if line.strip()]
    assert came == code


@pytest.mark.parametrize("mark", ["- ", "{}. "])
def test_a_long_list_goes_up_item_by_item(mark: str) -> None:
    stream = AnswerStream(PAINTER)
    items = [f"item {number}" for number in range(3 * LONG)]
    text = "".join(f"{mark.format(number)}{item}\n   more\n" for number, item in enumerate(items))
    stream.feed(text)
    up = bare(stream.settled(40))
    assert len(up) > 2 * LONG
    assert len(stream.tail(40)) <= LONG
    came = " ".join(up + bare(stream.rest(40)))
    assert re.findall(r"item \d+", came) == items
    if mark != "- ":
        assert re.findall(r"(\d+) item (\d+)", came) == [(str(n), str(n)) for n in range(3 * LONG)]


def test_one_long_item_stays_whole() -> None:
    stream = AnswerStream(PAINTER)
    stream.feed("- one\n" + "  more\n" * 3 * LONG)
    assert stream.settled(40) == []
    assert "one more" in " ".join(bare(stream.rest(40)))


def test_a_thought_goes_up_line_by_line() -> None:
    stream = ThoughtStream(PAINTER)
    stream.feed("one\ntw")
    assert (bare(stream.settled(40)), bare(stream.tail(40))) == (["│ one"], ["│ tw"])
    stream.feed("o")
    assert (bare(stream.rest(40)), stream.tail(40)) == (["│ two"], [])


@settings(max_examples=60)
@given(
    st.lists(
        st.sampled_from(
            [
                "word ",
                "\n",
                "\n\n",
                "- ",
                "# ",
                "```\n",
                "> ",
                "|",
                "    ",
                "*",
                "1. ",
                "\r\n",
                "\r",
                "\x0b",
                "\u2028",
                "\x85",
                "\x0c",
            ]
        )
    )
)
def test_no_word_is_lost_or_said_twice(parts: list[str]) -> None:
    text = "".join(f"w{number} " if part == "word " else part for number, part in enumerate(parts))
    said = re.findall(r"w\d+", text)
    assert re.findall(r"w\d+", " ".join(streamed(text, 3, AnswerStream(PAINTER)))) == said
