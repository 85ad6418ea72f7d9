"""What the source says of a class or a function: fields, signatures and docstrings, as they are written.

It is read from the text and not from the running program, so that it is the same on every Python.
"""

import ast
import inspect
import re
import sys
from collections.abc import Collection
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

Function = ast.FunctionDef | ast.AsyncFunctionDef
Def = ast.ClassDef | Function


class Field(NamedTuple):
    """A field of a class: its type and default as they are written, and what the docstring says of it."""

    name: str
    type: str
    default: str | None
    told: str


@cache
def _tree(path: str) -> ast.Module:
    return ast.parse(Path(path).read_text("utf-8"))


def module_of(thing: object) -> ModuleType:
    """Return the module in which something is written."""
    return sys.modules[str(getattr(thing, "__module__", ""))]


def node_of(thing: object) -> Def | None:
    """Return where a class or a function is written; None for a value."""
    name = str(getattr(thing, "__name__", ""))
    if not (isinstance(thing, type) or inspect.isroutine(thing)):
        return None
    found = [
        node
        for node in _tree(str(module_of(thing).__file__)).body
        if isinstance(node, Def) and node.name == name
    ]
    return found[-1] if found else None


def classes_of(kind: type, besides: Collection[str] = ()) -> list[ast.ClassDef]:
    """Return a class and those of ours that it is made from, the nearest first, but for some by name."""
    ours = [each for each in kind.__mro__ if each.__module__.startswith("turnchart.")]
    nodes = [node_of(each) for each in ours if each is kind or each.__name__ not in besides]
    return [node for node in nodes if isinstance(node, ast.ClassDef)]


def methods_of(kind: type, besides: Collection[str] = ()) -> list[Function]:
    """Return the public methods, inherited ones last; of overloads the one that is described.

    Args:
        kind: The class.
        besides: Names of classes whose methods are described elsewhere.
    """
    found: dict[str, Function] = {}
    for node in classes_of(kind, besides):
        own = {
            each.name: each
            for each in node.body
            if isinstance(each, Function) and not each.name.startswith("_")
            if not any(_last_name(mark) == "setter" for mark in each.decorator_list)
        }
        found = {**found, **{name: each for name, each in own.items() if name not in found}}
    return list(found.values())


def maker_of(kind: type) -> Function | None:
    """Return the nearest ``__init__`` or, without one, ``__new__`` that is written out.

    One that takes whatever it is given by name takes the fields of the class.
    """
    made = {
        each.name: each
        for node in reversed(classes_of(kind))
        for each in node.body
        if isinstance(each, ast.FunctionDef) and not (each.args.kwarg and len(each.args.args) == 1)
    }
    return made.get("__init__") or made.get("__new__")


def _last_name(node: ast.expr) -> str:
    return ast.unparse(node).rpartition(".")[2]


def marks_of(node: Def) -> set[str]:
    """Return the names of the decorators."""
    return {_last_name(each.func if isinstance(each, ast.Call) else each) for each in node.decorator_list}


def fields_of(kind: type) -> list[Field]:
    """Return the public fields of a class and of those that it is made from, the oldest first."""
    found: dict[str, Field] = {}
    for each in reversed(kind.__mro__):
        node = node_of(each) if each.__module__.startswith("turnchart.") else None
        if isinstance(node, ast.ClassDef):
            found.update({field.name: field for field in _own_fields(node, each)})
    return list(found.values())


def _own_fields(node: ast.ClassDef, kind: type) -> list[Field]:
    told = sections_of(doc_of(kind))[1].get("Attributes", {})
    found: list[Field] = []
    for index, each in enumerate(node.body):
        if not (isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)):
            continue
        name, type_ = each.target.id, as_written(each.annotation)
        if name.startswith("_") or type_.startswith("ClassVar"):
            continue
        default = ast.unparse(each.value) if each.value else None
        after = node.body[index + 1] if index + 1 < len(node.body) else None
        beside = ""
        if (
            isinstance(after, ast.Expr)
            and isinstance(after.value, ast.Constant)
            and isinstance(after.value.value, str)
        ):
            beside = " ".join(after.value.value.split())
        found.append(Field(name, type_, default, told.get(name, beside)))
    return found


def as_written(node: ast.expr) -> str:
    """Return an annotation, without the quotation marks of what is loaded later."""
    text = ast.unparse(node)
    return text if "Literal" in text else re.sub(r"'([\w.\[\], |]+)'", r"\1", text)


def doc_of(thing: object) -> str:
    """Return the docstring that is written there, not one that Python made or a parent has."""
    node = node_of(thing)
    return (ast.get_docstring(node) or "") if node else ""


def text_of(thing: object) -> str:
    """Return the docstring without its lists, as one paragraph a paragraph."""
    return sections_of(doc_of(thing))[0]


_SECTION = re.compile(r"^(Args|Attributes|Raises|Returns|Yields):$", re.MULTILINE)
_ITEM = re.compile(r"^    (\*{0,2}[\w.]+):\s*(.*)$")


def sections_of(doc: str) -> tuple[str, dict[str, dict[str, str]]]:
    """Split a docstring into its text and its lists: ``{"Args": {"name": "what it is"}}``."""
    parts = _SECTION.split(doc)
    lists: dict[str, dict[str, str]] = {}
    after: list[str] = []
    for name, text in zip(parts[1::2], parts[2::2], strict=True):
        inside, rest = _indented(text)
        lists[name] = _items(inside)
        after.append(rest)
    return "\n\n".join(each.strip() for each in (parts[0], *after) if each.strip()), lists


def _indented(text: str) -> tuple[list[str], str]:
    lines = text.strip("\n").split("\n")
    end = next((at for at, line in enumerate(lines) if line and not line.startswith(" ")), len(lines))
    return lines[:end], "\n".join(lines[end:])


def _items(lines: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    name = ""
    for line in lines:
        item = _ITEM.match(line)
        if item:
            name = item[1]
            found[name] = item[2]
        elif line.strip():
            found[name] = f"{found.get(name, '')} {line.strip()}".strip()
    return found
