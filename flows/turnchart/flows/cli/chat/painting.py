"""Lines for a terminal: Markdown, thoughts and plain text with colours, and nothing that commands it."""

import io
from collections.abc import Iterable
from typing import ClassVar, Final, Literal

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.markdown import Heading, Markdown, MarkdownElement, TableElement
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from turnchart.flows.cli.words import plain

Style = Literal["", "user", "tool", "good", "bad", "slow", "dim", "ask", "state"]
STYLES: Final[dict[Style, str]] = {
    "user": "bold", "tool": "cyan", "good": "green", "bad": "red", "slow": "yellow", "dim": "dim",
    "ask": "bold", "state": "cyan",
}  # fmt: skip
THOUGHT: Final = "│ "
"""Stands before each line of a thought, so that it is told apart without colours too."""
_LEAST: Final = 10


class Painter:
    """Makes lines of text.

    Args:
        colours: None: as the terminal and NO_COLOR say.
    """

    def __init__(self, *, colours: bool | None = None) -> None:
        no_color = None if colours is None else not colours
        system: Literal["auto", "standard"] = "standard" if colours else "auto"
        self._console = Console(
            file=io.StringIO(), force_terminal=True, color_system=system, no_color=no_color, highlight=False,
            emoji=False, legacy_windows=False, width=80,
        )  # fmt: skip

    def markdown(self, text: str, width: int) -> list[str]:
        """Return Markdown as lines no wider than ``width`` columns. Links show where they lead."""
        return self._lines(_Markdown(plain(text), code_theme="ansi_dark", hyperlinks=False), width)

    def thought(self, text: str, width: int) -> list[str]:
        """Return a thought as lines."""
        lines = self._lines(Text(plain(text), style="dim italic"), width - len(THOUGHT))
        return [self.styled(THOUGHT, "dim") + line for line in lines]

    def line(self, text: str, style: Style, width: int) -> list[str]:
        """Return text as lines in one style."""
        return self._lines(Text(plain(text), style=STYLES.get(style, "")), width)

    def styled(self, text: str, style: Style) -> str:
        """Return text in one style, as it is."""
        return "".join(self._lines(Text(plain(text), style=STYLES.get(style, ""), no_wrap=True), 10_000))

    def _lines(self, what: RenderableType, width: int) -> list[str]:
        options = self._console.options.update(width=max(width, _LEAST))
        lines = self._console.render_lines(what, options, pad=False)
        return [self._ansi(line) for line in lines]

    def _ansi(self, segments: Iterable[Segment]) -> str:
        if self._console.no_color:
            segments = Segment.remove_color(segments)
        system = self._console._color_system  # pyright: ignore[reportPrivateUsage]  # has no public name
        made: list[str] = []
        for text, style, control in segments:
            if control:
                continue
            shown = plain(text)  # once more: Markdown makes characters of entities
            made.append(style.render(shown, color_system=system) if style else shown)
        return "".join(made).rstrip()


class _Heading(Heading):
    """A heading on the left; its level is told by its underline, its weight and its colour."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        text = self.text
        text.justify = "left"
        text.stylize({"h1": "bold underline", "h2": "bold"}.get(self.tag, "bold dim"))
        yield text


class _Table(TableElement):
    """A table that breaks what is too wide for a column, and cuts nothing off."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for made in super().__rich_console__(console, options):
            if isinstance(made, Table):
                for column in made.columns:
                    column.overflow = "fold"
            yield made


class _Markdown(Markdown):
    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements, "heading_open": _Heading, "table_open": _Table,
    }  # fmt: skip
