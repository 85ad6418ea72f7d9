import re

import pytest
from rich.cells import cell_len

from turnchart.flows.cli.chat.painting import Painter

ANSI = re.compile(r"\x1b\[[0-9;]*m")


def bare(lines: list[str]) -> list[str]:
    return [ANSI.sub("", line).rstrip() for line in lines]


PAGE = """\
# A title

Some **bold** text with `code` and a [link](https://example.org/a).

1. one
2. two

| a | b |
|---|---|
| 1 | 2 |

```python
print("hi")
```
"""


@pytest.mark.parametrize("width", [20, 40, 80])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    for line in bare(Painter(colours=True).markdown(PAGE + "word " * 50 + "日本語" * 30, width)):
        assert cell_len(line) <= width


def test_markdown_is_drawn() -> None:
    lines = bare(Painter(colours=True).markdown(PAGE, 80))
    assert lines[0] == "A title"
    assert "Some bold text with code and a link (https://example.org/a)." in lines
    assert " 1 one" in lines
    assert any('print("hi")' in line for line in lines)


@pytest.mark.parametrize("width", [20, 40])
@pytest.mark.parametrize(
    "cell",
    [
        "x" * 60,
        "這是一個很長的中文句子用來測試終端上是否會把字切掉",
        "/a/long/path/of/some/file.py",
    ],
)
def test_nothing_in_a_table_is_cut_off(width: int, cell: str) -> None:
    for table in (f"| a | {cell} |\n|---|---|\n| b | c |", f"| a | b |\n|---|---|\n| c | {cell} |"):
        lines = bare(Painter(colours=True).markdown(table, width))
        assert all(cell_len(line) <= width for line in lines)
        shown = "".join("".join(lines).split())
        assert all(shown.count(char) >= cell.count(char) for char in cell), lines


def test_without_colours_there_are_none() -> None:
    painter = Painter(colours=False)
    drawn = "".join(painter.markdown(PAGE, 80) + painter.line("bad", "bad", 80) + painter.thought("hm", 80))
    for code in ANSI.findall(drawn):
        assert {int(part or 0) for part in code[2:-1].split(";")} <= {0, 1, 2, 3, 4, 9}, code


def test_no_color_is_heeded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    assert Painter().line("bad", "bad", 80) == ["bad"]
    monkeypatch.delenv("NO_COLOR")
    assert Painter().line("bad", "bad", 80) == ["\x1b[31mbad\x1b[0m"]


@pytest.mark.parametrize(
    "evil",
    [
        "\x1b]0;owned\x07", "\x1b[2J", "\x9b31m", "\x08\x08", "\u202egpj.exe", "&#x1b;[2J", "&#x202e;",
        "```\n\x1b[2J\n```", "[a](<\x1b]8;;x\x07>)", "| \x1b[2J |\n|---|\n| \x9d |",
    ],
)  # fmt: skip
def test_nothing_commands_the_terminal(evil: str) -> None:
    painter = Painter(colours=False)
    lines = [*painter.markdown(f"a {evil} b", 60), *painter.thought(evil, 60), *painter.line(evil, "ask", 60)]
    shown = ANSI.sub("", "".join(lines))
    assert not set(shown) & set("\x1b\x07\x08\x9b\x9d\u202e")


def test_a_thought_is_told_apart_without_colours() -> None:
    assert bare(Painter(colours=False).thought("one two three", 12)) == ["│ one two", "│ three"]
