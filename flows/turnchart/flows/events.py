"""From the parser's events to nodes. Everything that YAML could do and a flow must not is refused here."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import yaml
from yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    CollectionStartEvent,
    DocumentStartEvent,
    Event,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
)
from yaml.reader import Reader

from turnchart.flows.problems import Problem, quoted
from turnchart.flows.source import (
    AnyNode,
    ListNode,
    MapNode,
    Mark,
    NotFinite,
    Scalar,
    Source,
    Style,
    split_lines,
    value_of,
)
from turnchart.flows.syntax import alias_unknown, tag_name, to_problem

MAX_NODES: Final = 20_000
"""Values in a file, those behind aliases counted each time."""
MAX_DEPTH: Final = 100

_STRANGE: Any = Reader.NON_PRINTABLE
_PARSER: Any = getattr(yaml, "CLoader", yaml.Loader)
_STYLES: dict[str | None, Style] = {"'": "single", '"': "double", "|": "block", ">": "block"}
_OF_NUMBERS: Final = frozenset("0123456789+-.")
"""What the text of a number begins with."""


def build(text: str, source: Source) -> tuple[AnyNode | None, list[Problem]]:
    """Return the root of the document, None if there is none or it cannot be read, and what is wrong."""
    strange = _STRANGE.search(text) or re.search("\ufeff", text)
    if strange:
        return None, [_character(source, text, strange)]
    builder = _Builder(source)
    try:
        for event in _events(text):
            builder.take(event)
    except yaml.MarkedYAMLError as error:
        return None, [to_problem(error, source)]
    except _TooMuch as stop:
        return None, [stop.problem]
    return builder.root, builder.problems


def _character(source: Source, text: str, found: re.Match[str]) -> Problem:
    lines = split_lines(text[: found.start()])
    at = Mark(len(lines), len(lines[-1]) + 1)
    message = f"character U+{ord(found[0]):04X} is not allowed in YAML"
    return source.problem(
        "yaml-character", message, at, help='write it in double quotes, as "\\x..", or delete it'
    )


def _events(text: str) -> Iterator[Event]:
    yield from yaml.parse(text, Loader=_PARSER)  # pyright: ignore[reportUnknownMemberType]  # the stubs are loose


class _TooMuch(Exception):
    """Reading on would take too long, or make no sense."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        super().__init__(problem.message)


@dataclass(slots=True, eq=False)
class _Open:
    """A list or a map whose end has not come yet."""

    start: CollectionStartEvent
    is_map: bool
    items: list[AnyNode] = field(default_factory=list["AnyNode"])
    fields: dict[str, tuple[Scalar, AnyNode]] = field(default_factory=dict[str, "tuple[Scalar, AnyNode]"])
    key: AnyNode | None = None
    broken: bool = False
    size: int = 1
    height: int = 1


class _Anchored(NamedTuple):
    """The node of an anchor; None while it is open."""

    node: AnyNode | None = None
    size: int = 0
    height: int = 0


class _Builder:
    def __init__(self, source: Source) -> None:
        self.root: AnyNode | None = None
        self.problems: list[Problem] = []
        self._source = source
        self._open: list[_Open] = []
        self._anchors: dict[str, _Anchored] = {}
        self._count = 0
        self._documents = 0

    def take(self, event: Event) -> None:
        """Take one event of the parser."""
        if isinstance(event, ScalarEvent):  # most are
            self._scalar(event)
        elif isinstance(event, CollectionEndEvent):
            self._end(event)
        elif isinstance(event, CollectionStartEvent):
            self._start(event)
        elif isinstance(event, AliasEvent):
            self._alias(event)
        elif isinstance(event, DocumentStartEvent):
            self._document(event)

    # -- events --

    def _document(self, event: DocumentStartEvent) -> None:
        self._documents += 1
        if self._documents > 1:
            help = "one file holds one document: delete the line ---, or make two files"
            raise _TooMuch(
                self._problem("yaml-documents", "a second document begins here", _mark(event), help)
            )

    def _alias(self, event: AliasEvent) -> None:
        name = event.anchor or ""
        found = self._anchors.get(name)
        if found is not None and found.node is not None:
            self._grow(event, found.size, found.height)
            self._put(found.node, found.size, found.height)
            return
        mark = _mark(event)
        if found is None:
            self.problems.append(alias_unknown(name, self._anchors, self._source, mark))
        else:
            message = f"alias *{name} stands inside the value that it names"
            self.problems.append(self._problem("yaml-cycle", message, mark, "a value cannot contain itself"))
        self._put(self._broken(mark), 1, 0)

    def _scalar(self, event: ScalarEvent) -> None:
        self._grow(event, 1, 0)
        style = _STYLES.get(event.style, "plain")
        place = self._fitted(event, event)
        node = Scalar(self._source, *place, event.value, style)
        if style == "plain" and event.value[:1] in _OF_NUMBERS:
            node = self._finite(node)
        if event.tag is not None:
            node = self._tagged(event.tag, Mark(*place))
        if event.anchor:
            self._anchors[event.anchor] = _Anchored(node, 1, 0)
        self._put(node, 1, 0)

    def _start(self, event: CollectionStartEvent) -> None:
        self._grow(event, 1, 1)
        if event.anchor:
            self._anchors[event.anchor] = _Anchored()
        self._open.append(_Open(event, isinstance(event, MappingStartEvent)))

    def _end(self, event: CollectionEndEvent) -> None:
        done = self._open.pop()
        start = done.start
        place = self._fitted(start, event) if start.flow_style or start.tag else self._first(done)
        node: AnyNode
        if done.is_map:
            node = MapNode(self._source, *place, done.fields)
        else:
            node = ListNode(self._source, *place, tuple(done.items))
        if done.broken:
            node = self._broken(Mark(*place))
        elif start.tag is not None:
            node = self._tagged(start.tag, Mark(*place))
        if start.anchor:
            self._anchors[start.anchor] = _Anchored(node, done.size, done.height)
        self._put(node, done.size, done.height)

    # -- nodes --

    def _put(self, node: AnyNode, size: int, height: int) -> None:
        if not self._open:
            self.root = node
            return
        top = self._open[-1]
        top.size += size
        if height >= top.height:
            top.height = height + 1
        if not top.is_map:
            top.items.append(node)
        elif top.key is None:
            top.key = node
        else:
            key, top.key = top.key, None
            self._pair(top, key, node)

    def _pair(self, top: _Open, key: AnyNode, value: AnyNode) -> None:
        if not isinstance(key, Scalar):
            top.broken = True
            help = "put text that begins with { or [ in quotes"
            self.problems.append(key.problem("yaml-key", "a key must be text", help=help))
        elif key.broken:
            pass
        elif key.text == "<<" and key.style == "plain":
            help = "a parent file is named by extends; an alias may stand for a whole value"
            self.problems.append(
                key.problem("yaml-merge-key", "merge keys (<<) are not supported", help=help)
            )
        elif not key.text and key.style == "plain":
            self.problems.append(
                key.problem("yaml-key", "a key is empty", help="write the name before the colon")
            )
        elif key.text in top.fields:
            self.problems.append(_twice(key, top.fields[key.text][0]))
        else:
            top.fields[key.text] = (key, value)

    def _finite(self, node: Scalar) -> Scalar:
        try:
            value_of(node.text)
        except NotFinite:
            message = f"{quoted(node.text)} is a number that JSON cannot hold"
            self.problems.append(node.problem("yaml-number", message, help="put it in quotes if it is text"))
            return self._broken(Mark(node.line, node.column, node.length))
        return node

    def _tagged(self, tag: str, mark: Mark) -> Scalar:
        help = "agent files are data: no YAML tag may build an object"
        self.problems.append(self._problem("yaml-tag", f"tag {tag_name(tag)} is not allowed", mark, help))
        return self._broken(mark)

    def _broken(self, mark: Mark) -> Scalar:
        return Scalar(self._source, mark.line, mark.column, mark.length, "", "plain", broken=True)

    # -- caps and places --

    def _grow(self, event: NodeEvent, size: int, height: int) -> None:
        self._count += size
        if self._count > MAX_NODES:
            message = f"more than {MAX_NODES:,} values in one file, counted with every alias expanded"
            raise _TooMuch(
                self._problem("yaml-nodes", message, _mark(event), "split the file, or use fewer aliases")
            )
        if len(self._open) + height > MAX_DEPTH:
            message = f"nested deeper than {MAX_DEPTH} levels"
            raise _TooMuch(self._problem("yaml-depth", message, _mark(event), ""))

    def _problem(self, code: str, message: str, mark: Mark, help: str) -> Problem:
        return self._source.problem(code, message, mark, help=help)

    def _fitted(self, start: Event, end: Event) -> tuple[int, int, int]:
        """Return line, column and length of a value, as far as it stands on its first line."""
        first: Any = start.start_mark
        last: Any = end.end_mark
        line: int = first.line
        column: int = first.column
        until: int = last.column if line == last.line else len(self._source.lines[line].rstrip())
        return line + 1, column + 1, max(1, until - column)

    def _first(self, done: _Open) -> tuple[int, int, int]:
        """Return line, column and length of a block: its first key, or the dash of its first item."""
        begin = _begin(done.start)
        first = next(iter(done.fields.values()), None)
        return begin.line, begin.column, first[0].length if first and first[0].line == begin.line else 1


def _begin(event: Event) -> Mark:
    mark: Any = event.start_mark
    return Mark(mark.line + 1, mark.column + 1)


def _end(event: Event) -> Mark:
    mark: Any = event.end_mark
    return Mark(mark.line + 1, mark.column + 1)


def _mark(event: Event) -> Mark:
    start, end = _begin(event), _end(event)
    return Mark(start.line, start.column, max(1, end.column - start.column) if start.line == end.line else 1)


def _twice(key: Scalar, first: Scalar) -> Problem:
    message = f'key "{key.text}" is given twice'
    help = f"first given on line {first.line}; YAML would silently keep only the last"
    return key.problem("yaml-duplicate-key", message, help=help)
