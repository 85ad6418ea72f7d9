"""The bottom of the terminal: what comes in, the line that a person types, and the line of the status.

What is written above it goes up like the output of any program, so the terminal scrolls it and keeps it.
Nothing is drawn while something is said: what was said is asked for when the screen is drawn, at most every
``PAUSE`` seconds, so however fast a model streams, that is how often lines are made of it.
"""

from errno import EIO
from time import monotonic
from typing import Final, Protocol

from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples, to_formatted_text
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import ConditionalContainer, Dimension, HSplit, Layout, Window
from prompt_toolkit.layout.controls import BufferControl, FormattedTextControl
from prompt_toolkit.output import Output, create_output
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.styles import Style

from turnchart.flows.cli.chat.transcript import Drawn

PAUSE: Final = 0.03
"""Seconds between two drawings; the first character of an answer never waits longer."""
REFRESH: Final = 0.5
"""Seconds after which the status is drawn again though nothing was said."""
_SHARE: Final = 4
"""What takes long to draw is drawn less often: so much longer is the pause than the drawing."""
_ROWS: Final = 6
"""So many rows are kept free of what comes in, for the lines below it."""


class Talk(Protocol):
    """What the editor tells, and asks when it draws."""

    def said(self, text: str, *, later: bool) -> None:
        """Take what was typed; ``later``: for when the turn is over."""
        ...

    def typing(self, text: str) -> None:
        """Hear what stands in the line now."""
        ...

    def interrupt(self) -> None:
        """Hear Ctrl-C."""
        ...

    def leave(self) -> None:
        """Hear Ctrl-D."""
        ...

    def draw(self, width: int, height: int) -> Drawn:
        """Give what is new, and what comes in."""
        ...

    def status(self, width: int) -> str:
        """Give the line of the status."""
        ...

    def prompt(self) -> str:
        """Give what stands before what is typed."""
        ...


class Editor:
    """The bottom of one terminal.

    Args:
        talk: Whom it works for.
        input: Where keys come from; None: the terminal.
        output: Where it is drawn; None: the terminal.
    """

    def __init__(self, talk: Talk, input: Input | None = None, output: Output | None = None) -> None:
        self._talk = talk
        self._tail: StyleAndTextTuples = []
        self._buffer = Buffer(
            multiline=True, history=InMemoryHistory(), on_text_changed=lambda buffer: talk.typing(buffer.text)
        )
        self._app: Application[None] = Application(
            layout=self._layout(), key_bindings=self._keys(), style=_STYLE, erase_when_done=True,
            min_redraw_interval=PAUSE, refresh_interval=REFRESH, input=input,
            output=_terminal() if output is None else output,
            before_render=lambda _: self._draw(),
        )  # fmt: skip

    async def run(self) -> bool:
        """Take keys until ``close``, or the terminal is gone; return whether it is still there.

        What was said until then stays on the screen.
        """
        try:
            try:
                await self._app.run_async(handle_sigint=False, set_exception_handler=False)
            finally:
                size = self._app.output.get_size()
                last = self._talk.draw(size.columns, size.rows)
                self._write([*last.above, *last.tail])
        except EOFError:  # nothing comes in any more
            return False
        except OSError as error:  # nothing can be written any more
            if error.errno != EIO:
                raise
            return False
        return True

    def close(self) -> None:
        """Stop taking keys."""
        if self._app.is_running and not self._app.is_done:
            self._app.exit()

    def refresh(self) -> None:
        """Draw soon."""
        self._app.invalidate()

    @property
    def text(self) -> str:
        """What is typed so far."""
        return self._buffer.text

    @text.setter
    def text(self, text: str) -> None:
        self._buffer.text = text
        self._buffer.cursor_position = len(text)

    # -- drawing ---------------------------------------------------------------------------------

    def _draw(self) -> None:
        size, begun = self._app.output.get_size(), monotonic()
        drawn = self._talk.draw(size.columns, max(size.rows - _ROWS, 1))
        self._app.min_redraw_interval = max(PAUSE, _SHARE * (monotonic() - begun))
        self._tail = to_formatted_text(ANSI("\n".join(drawn.tail)))
        if drawn.above:
            self._app.renderer.erase()
            self._write(drawn.above)

    def _write(self, lines: list[str]) -> None:
        output = self._app.output
        output.write_raw("".join(f"{line}\r\n" for line in lines))
        output.flush()

    def _layout(self) -> Layout:
        typed = Window(
            BufferControl(self._buffer), height=Dimension(min=1, max=8), wrap_lines=True,
            dont_extend_height=True, get_line_prefix=self._before,
        )  # fmt: skip
        status = Window(FormattedTextControl(self._status), height=1, dont_extend_height=True)
        coming = Window(FormattedTextControl(lambda: self._tail), dont_extend_height=True, wrap_lines=False)
        shown = ConditionalContainer(coming, Condition(lambda: bool(self._tail)))
        return Layout(HSplit([shown, typed, status]), focused_element=typed)

    def _before(self, row: int, wrapped: int) -> StyleAndTextTuples:
        prompt = self._talk.prompt()
        return [("class:prompt", prompt if row == wrapped == 0 else " " * len(prompt))]

    def _status(self) -> StyleAndTextTuples:
        return [("class:status", self._talk.status(self._app.output.get_size().columns - 1))]

    # -- keys ------------------------------------------------------------------------------------

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()
        empty = Condition(lambda: not self._buffer.text)

        @keys.add("enter", eager=True)
        @keys.add("c-j", eager=True)
        def enter(event: KeyPressEvent) -> None:
            self._give(later=False)

        @keys.add("escape", "enter")
        @keys.add("escape", "c-j")
        def alt_enter(event: KeyPressEvent) -> None:
            self._give(later=True)

        @keys.add("c-o")
        def new_line(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        @keys.add("c-c")
        @keys.add("<sigint>")
        def interrupt(event: KeyPressEvent) -> None:
            self._talk.interrupt()

        @keys.add("c-d", filter=empty)
        def leave(event: KeyPressEvent) -> None:
            self._talk.leave()

        @keys.add("c-z")
        def suspend(event: KeyPressEvent) -> None:
            event.app.suspend_to_background()

        @keys.add("c-l")
        def clear(event: KeyPressEvent) -> None:
            event.app.renderer.clear()

        del enter, alt_enter, new_line, interrupt, leave, suspend, clear  # they are bound
        return keys

    def _give(self, *, later: bool) -> None:
        text = self._buffer.text
        if text.strip():
            self._buffer.append_to_history()
        self._buffer.reset()
        self._talk.said(text, later=later)
        self.refresh()


def _terminal() -> Output:
    """Return the terminal; it is never asked where its cursor is, which not every terminal answers."""
    output = create_output()
    if isinstance(output, Vt100_Output):
        output.enable_cpr = False
    return output


_STYLE: Final = Style.from_dict({"prompt": "bold", "status": "reverse"})
