"""Text of people, models and files, made safe for the languages of pictures."""

import re
import unicodedata
from html import escape

_PLAIN = frozenset(" -_.,()/*'+=!?")
"""What needs no escape in any place where these pictures put text, beside letters and digits."""
_END_NOTE = re.compile(r"\be(?=nd note\b)", re.IGNORECASE)
_MARKS = re.compile(r"([\\`*_\[\]|#~!>$])")
_EMPHASIS = re.compile(r"\*|(?<![^\W_])_|_(?![^\W_])")
"""An underscore between letters means nothing."""
_ENTITY = re.compile(r"#(\d+);")


def one_line(text: str) -> str:
    """Return text on one line: white space folded, control and direction characters taken away."""
    kept = (_visible(character) for character in text)
    return " ".join("".join(kept).split())


def mermaid(text: str) -> str:
    """Return text for a label or a note: one line, every special character as an entity ``#NN;``.

    Text that is empty becomes a no-break space, because an empty label is no legal Mermaid everywhere.
    """
    line = one_line(text) or "\N{NO-BREAK SPACE}"
    escaped = "".join(
        character if character.isalnum() or character in _PLAIN else f"#{ord(character)};"
        for character in line
    )
    return _END_NOTE.sub(lambda found: f"#{ord(found[0])};", escaped)


def mermaid_markdown(text: str) -> str:
    """Return text for a label that Mermaid reads as Markdown, too: what would make it bold is an entity."""
    return _EMPHASIS.sub(lambda found: f"#{ord(found[0])};", mermaid(text))


def unescaped(text: str) -> str:
    """Undo the entities of ``mermaid`` and ``mermaid_markdown``."""
    return _ENTITY.sub(lambda found: chr(int(found[1])), text)


def markdown(text: str) -> str:
    """Return text for Markdown, in a cell of a table too: one line, what could mean something escaped."""
    line = one_line(text).replace("&", "&amp;").replace("<", "&lt;")
    return _MARKS.sub(r"\\\1", line)


def html(text: str) -> str:
    """Return text for an element of a page."""
    return escape(text, quote=True)


def dot(text: str) -> str:
    """Return text for a quoted DOT string, one line, without the quotes."""
    line = one_line(text).replace("&", "&amp;")
    return line.replace("\\", "\\\\").replace('"', '\\"')


def _visible(character: str) -> str:
    kind = unicodedata.category(character)
    if kind == "Cs":
        return "\N{REPLACEMENT CHARACTER}"
    if kind == "Cf":
        return ""
    return " " if kind in ("Cc", "Zl", "Zp") else character
