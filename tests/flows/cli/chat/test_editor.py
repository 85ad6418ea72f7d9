from typing import Any

import anyio
import pytest

from turnchart.flows.cli.chat.editor import Editor
from turnchart.flows.cli.chat.transcript import Drawn


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """The editor runs on asyncio, as the command line does."""
    return "asyncio"


class Log:
    """Writes down what the editor tells."""

    def __init__(self) -> None:
        self.told: list[Any] = []
        self.typed: list[str] = []
        self.drawn = Drawn([], [])
        self.changed = anyio.Event()

    def tell(self, what: Any) -> None:
        self.told.append(what)
        self.changed.set()
        self.changed = anyio.Event()

    def said(self, text: str, *, later: bool) -> None:
        self.tell((text, later))

    def typing(self, text: str) -> None:
        self.typed.append(text)

    def interrupt(self) -> None:
        self.tell("interrupt")

    def leave(self) -> None:
        self.tell("leave")

    def draw(self, width: int, height: int) -> Drawn:
        drawn, self.drawn = self.drawn, Drawn([], self.drawn.tail)
        return drawn

    def status(self, width: int) -> str:
        return f"{width} columns"

    def prompt(self) -> str:
        return "> "

    async def until(self, count: int) -> list[Any]:
        while len(self.told) < count:
            await self.changed.wait()
        return self.told


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ("hello\r", [("hello", False)]),
        ("hello\n", [("hello", False)]),
        ("later\x1b\r", [("later", True)]),
        ("two\x0flines\r", [("two\nlines", False)]),
        ("\x1b[200~pasted\nlines\x1b[201~\r", [("pasted\nlines", False)]),
        ("\r", [("", False)]),
        ("x\x7f\x04", ["leave"]),
        ("ab\x03", ["interrupt"]),
        ("grüße 日本\r", [("grüße 日本", False)]),
    ],
)
async def test_keys(at: Any, keys: str, told: list[Any]) -> None:
    log = Log()
    editor = Editor(log, at.input, at.output)
    async with anyio.create_task_group() as group:
        group.start_soon(editor.run)
        at.type(keys)
        assert await log.until(len(told)) == told
        editor.close()


async def test_what_is_said_goes_up_and_what_comes_in_is_drawn_below(at: Any) -> None:
    log = Log()
    log.drawn = Drawn(["above"], ["coming in"])
    editor = Editor(log, at.input, at.output)
    async with anyio.create_task_group() as group:
        group.start_soon(editor.run)
        at.type("x\r")
        await log.until(1)
        log.drawn = Drawn(["the last"], [])
        editor.close()
        editor.close()
    shown = at.shown
    assert shown.count("the last\r\n") == 1
    assert shown.index("above\r\n") < shown.index("coming in") < shown.index("59 columns")
    assert "\x1b[6n" not in shown


async def test_the_draft_can_be_changed(at: Any) -> None:
    log = Log()
    editor = Editor(log, at.input, at.output)
    editor.text = "half"
    async with anyio.create_task_group() as group:
        group.start_soon(editor.run)
        at.type(" done\r")
        assert await log.until(1) == [("half done", False)]
        assert editor.text == ""
        editor.close()
    assert log.typed[0] == "half"


async def test_what_was_typed_before_comes_back(at: Any) -> None:
    log = Log()
    editor = Editor(log, at.input, at.output)
    async with anyio.create_task_group() as group:
        group.start_soon(editor.run)
        at.type("one\r")
        await log.until(1)
        while editor.text != "one":
            at.type("\x1b[A")
            await anyio.wait_all_tasks_blocked()
        editor.close()
