"""What stands above the line that a person types: what was said goes up, what comes in is drawn below it."""

from collections.abc import Callable, Mapping
from typing import Final, Literal, NamedTuple

from turnchart.flows.cli.chat.painting import Painter, Style
from turnchart.flows.cli.chat.streaming import AnswerStream, Stream, ThoughtStream

Kind = Literal["answer", "thought"]
_STREAMS: Final[Mapping[Kind, Callable[[Painter], Stream]]] = {
    "answer": AnswerStream, "thought": ThoughtStream,
}  # fmt: skip


class Drawn(NamedTuple):
    """What is to be shown.

    Attributes:
        above: Lines that stay, once.
        tail: Lines that the next drawing takes the place of.
    """

    above: list[str]
    tail: list[str]


class _Line(NamedTuple):
    text: str
    style: Style


class Transcript:
    """Takes what is said in order, at no cost; lines are made of it when it is drawn."""

    def __init__(self, painter: Painter) -> None:
        self._painter = painter
        self._parts: list[_Line | Stream] = []
        self._open: Stream | None = None
        self._kind: Kind | None = None
        self._held: list[_Line] = []
        self._note = ""

    def line(self, text: str, style: Style = "") -> None:
        """Add a line. While something streams it waits for the end of a block, so that it breaks none."""
        (self._parts if self._open is None else self._held).append(_Line(text, style))

    def piece(self, kind: Kind, text: str) -> None:
        """Add a piece of an answer or a thought."""
        if kind != self._kind:
            self.end()
            self._kind = kind
        if self._open is None:
            self._open = _STREAMS[kind](self._painter)
            self._parts.append(self._open)
        self._open.feed(text)

    def end(self) -> None:
        """Say that nothing more comes of what streams."""
        self._kind = self._open = None
        self._parts += self._held
        self._held = []

    def note(self, text: str) -> None:
        """Show a line below everything until the next one takes its place; empty for none."""
        self._note = text

    def draw(self, width: int, height: int) -> Drawn:
        """Return what is new, and the end of what comes in.

        Args:
            width: In columns.
            height: The most lines that the tail may have.
        """
        above: list[str] = []
        for part in self._parts:
            if isinstance(part, _Line):
                above += self._line(part, width)
            elif part is not self._open:
                above += part.rest(width)
            elif came := part.settled(width):
                above += [*came, *(line for held in self._held for line in self._line(held, width))]
                self._held = []
        tail = [] if self._open is None else self._open.tail(width)
        self._parts = [] if self._open is None else [self._open]
        for held in self._held:
            tail += self._line(held, width)
        if self._note:
            tail += self._painter.line(self._note, "dim", width)[:2]
        return Drawn(above, tail[-height:])

    def _line(self, line: _Line, width: int) -> list[str]:
        return self._painter.line(line.text, line.style, width) if line.text else [""]
