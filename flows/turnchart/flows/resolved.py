"""A flow with its parents as one file, in which every line says where it comes from.

References to variables stay as they are written, and what looks like a secret is masked.
"""

import re
from collections.abc import Iterator
from typing import Final

from turnchart.flows.secrets import masked
from turnchart.flows.source import AnyNode, ListNode, MapNode, Scalar

_KEY: Final = re.compile(r"[A-Za-z_][\w.-]*")
_FIRST: Final = ("version", "name", "description")
_COLUMN: Final = 56
"""Where the comments begin, if the line is not longer."""
_ESCAPES: Final = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t"}


def resolved(root: MapNode) -> str:
    """Return a merged tree as YAML that means the same, with ``# file:line`` behind every line.

    What is left out: ``extends``, which is done, and the keys ``x-*``, which mean nothing.
    """
    kept = {key: pair for key, pair in root.fields.items() if key != "extends" and not key.startswith("x-")}
    fields = {key: kept[key] for key in sorted(kept, key=lambda key: key not in _FIRST)}
    top = MapNode(root.source, root.line, root.column, root.length, fields)
    return "".join(f"{line}\n" for line in _map(top, ""))


def _map(node: MapNode, indent: str) -> Iterator[str]:
    for name, value in node.fields.values():
        yield from _entry(f"{indent}{_key(name.text)}:", value, name, indent)


def _list(node: ListNode, indent: str) -> Iterator[str]:
    for item in node.items:
        if isinstance(item, MapNode) and item.fields:
            lines = _map(item, f"{indent}  ")
            yield f"{indent}- {next(lines).lstrip()}"
            yield from lines
        else:
            yield from _entry(f"{indent}-", item, item, indent)


def _entry(start: str, value: AnyNode, at: AnyNode, indent: str) -> Iterator[str]:
    """Yield the lines of a value behind its key or its dash."""
    inner = f"{indent}  "
    if isinstance(value, Scalar):
        text = masked(value.text)
        if value.style == "block" and _fits_block(text):
            yield _with_origin(f"{start} |{_chomping(text)}", value)
            yield from (f"{inner}{line}" if line else "" for line in text.removesuffix("\n").split("\n"))
        else:
            yield _with_origin(f"{start} {_scalar(text, value.style)}".rstrip(), value)
    elif isinstance(value, MapNode):
        yield _with_origin(start if value.fields else f"{start} {{}}", at)
        yield from _map(value, inner)
    else:
        yield _with_origin(start if value.items else f"{start} []", at)
        yield from _list(value, inner)


def _with_origin(line: str, node: AnyNode) -> str:
    return f"{line:<{_COLUMN}}  # {masked(node.source.name)}:{node.line}"


def _fits_block(text: str) -> bool:
    """Tell whether text reads the same as a literal block."""
    return bool(text.strip()) and text[0] not in " \n" and _printable(text.replace("\n", ""))


def _chomping(text: str) -> str:
    if not text.endswith("\n"):
        return "-"
    return "+" if text.endswith("\n\n") else ""


def _scalar(text: str, style: str) -> str:
    if style == "plain" and _printable(text):
        return text
    if style == "single" and _printable(text):
        return "'" + text.replace("'", "''") + "'"
    # In double quotes references count, which in single quotes they do not.
    return _double(text.replace("${", "$${") if style == "single" else text)


def _key(text: str) -> str:
    return text if _KEY.fullmatch(text) else _double(text)


def _printable(text: str) -> bool:
    return text.isprintable()


def _double(text: str) -> str:
    return '"' + "".join(_escaped(char) for char in text) + '"'


def _escaped(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    if char.isprintable():
        return char
    return f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}"
