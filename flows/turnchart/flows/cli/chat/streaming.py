"""Markdown and thoughts while they come in: what is complete goes up for good, the rest is drawn again."""

import re
from typing import Final, Protocol

from markdown_it import MarkdownIt
from markdown_it.token import Token

from turnchart.flows.cli.chat.painting import Painter

LONG: Final = 24
"""Of a block of code or a list with more lines, only the end is drawn again."""
_LINE_END: Final = re.compile(r"\r\n|\r(?!\Z)")


class Stream(Protocol):
    """Something that comes in piece by piece."""

    def feed(self, text: str) -> None:
        """Take the next piece."""
        ...

    def settled(self, width: int) -> list[str]:
        """Take out the lines that nothing can change any more."""
        ...

    def tail(self, width: int) -> list[str]:
        """Return the lines that may still change."""
        ...

    def rest(self, width: int) -> list[str]:
        """Take out everything: no more comes."""
        ...


class AnswerStream:
    """An answer in Markdown: a block is complete when the next one begins, code also line by line."""

    def __init__(self, painter: Painter) -> None:
        self._painter = painter
        self._parser = MarkdownIt().enable(["strikethrough", "table"])
        self._text = ""
        self._joins = True
        """What comes next belongs to what went up last: no blank line stands between them."""

    def feed(self, text: str) -> None:
        """Take the next piece."""
        self._text += text

    def settled(self, width: int) -> list[str]:
        """Take out the blocks that are complete."""
        if "\r" in self._text:
            self._text = _LINE_END.sub("\n", self._text)
        tokens = self._parser.parse(self._text)
        blocks = [token for token in tokens if _is_block(token)]
        if not blocks:
            return []
        lines = [f"{line}\n" for line in self._text.split("\n")]  # as the parser counts them
        lines[-1] = lines[-1][:-1]
        made: list[str] = []
        last = blocks[-1]
        start, end = last.map or (0, 0)
        if len(blocks) > 1:
            made += self._drawn("".join(lines[:start]), width)
            self._joins = False
            lines = lines[start:]
            self._text = "".join(lines)
        if end - start > LONG:
            made += self._cut(last, lines, [at - start for at in _items(tokens) if at >= start], width)
        return made

    def _cut(self, block: Token, lines: list[str], items: list[int], width: int) -> list[str]:
        """Take out the beginning of a long block of code, or of a long list."""
        keep = len(lines) - LONG // 2
        if block.type == "fence":
            done, self._text = [*lines[:keep], f"{block.markup}\n"], "".join([lines[0], *lines[keep:]])
        else:
            at = max((at for at in items if at <= keep), default=0)
            if not at:
                return []
            done, self._text = lines[:at], "".join(lines[at:])
        made = self._drawn("".join(done), width)
        self._joins = True
        return made

    def tail(self, width: int) -> list[str]:
        """Return the block that is not complete."""
        return self._drawn(self._text, width)

    def rest(self, width: int) -> list[str]:
        """Take out everything."""
        made = self.settled(width)
        made += self._drawn(self._text, width)
        self._text, self._joins = "", True
        return made

    def _drawn(self, text: str, width: int) -> list[str]:
        if not text.strip():
            return []
        lines = self._painter.markdown(text, width)
        while lines and not lines[0]:
            del lines[0]
        while lines and not lines[-1]:
            del lines[-1]
        return lines if self._joins or not lines else ["", *lines]


class ThoughtStream:
    """A thought: complete line by line."""

    def __init__(self, painter: Painter) -> None:
        self._painter = painter
        self._text = ""

    def feed(self, text: str) -> None:
        """Take the next piece."""
        self._text += text

    def settled(self, width: int) -> list[str]:
        """Take out the lines that are complete."""
        whole, is_there, self._text = self._text.rpartition("\n")
        return self._painter.thought(whole, width) if is_there else []

    def tail(self, width: int) -> list[str]:
        """Return the line that is not complete."""
        return self._painter.thought(self._text, width) if self._text else []

    def rest(self, width: int) -> list[str]:
        """Take out everything."""
        made = self.settled(width) + self.tail(width)
        self._text = ""
        return made


def _items(tokens: list[Token]) -> list[int]:
    """Return the lines at which the items of outer lists begin."""
    return [
        token.map[0] for token in tokens if token.type == "list_item_open" and token.level == 1 and token.map
    ]


def _is_block(token: Token) -> bool:
    return token.level == 0 and token.nesting >= 0 and token.map is not None
