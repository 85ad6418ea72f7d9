"""Words of Markdown that the pages of the reference are made of."""

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; what stands in a cell is Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(_cell(each) for each in line)} |" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def code(text: object) -> str:
    return f"`{text}`"


def codes(names: Iterable[object]) -> str:
    return ", ".join(code(name) for name in names)


def sentence(text: str) -> str:
    """Return text with a capital letter and a full stop."""
    text = text.strip()
    return f"{text[0].upper()}{text[1:]}{'' if text.endswith(('.', '!', '?')) else '.'}"


def page(*parts: str) -> str:
    """Return a page of its paragraphs, tables and headings."""
    return "\n\n".join(part.strip("\n") for part in parts if part.strip()) + "\n"
