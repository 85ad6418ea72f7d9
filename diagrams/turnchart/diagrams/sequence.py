"""The sequence view, in Mermaid: who tells whom what, in the order of a turn."""

from collections.abc import Iterable, Iterator

from turnchart.diagrams.escape import mermaid as safe
from turnchart.diagrams.fold import LEVELS, SAID, Level, fitting
from turnchart.diagrams.mermaid import heading
from turnchart.diagrams.overlay import Drawable, Overlay, acts_in, overlay_of
from turnchart.diagrams.session_view import session_lines, silent_arrow
from turnchart.diagrams.walk import Mark, Node, walk
from turnchart.machine.says import Arrow, Block, Kind, Note, Part, Silent
from turnchart.machine.says import names as names_of
from turnchart.machine.states import State
from turnchart.machine.table import LIFECYCLE


def sequence_diagram(drawn: Drawable = LIFECYCLE, *, detail: bool = False) -> str:
    """Return the sequence view as Mermaid text; the same input gives the same bytes.

    Args:
        drawn: A table, an overlay (of a recorded session: its entries in their true order), or anything with
            ``overlay()``, such as a flow.
        detail: Draw also the rows and lines that the bare view leaves out.
    """
    overlay = overlay_of(drawn)
    return fitting(
        lambda level: _Pen(overlay, detail, level).text(),
        lambda text: sum(">>" in line for line in text.splitlines()),
    )


def nodes_of(overlay: Overlay, *, detail: bool = False, level: Level = LEVELS[0]) -> tuple[Node, ...]:
    """Return what a sequence is made of: the walk of a table, or the entries of a session in their order."""
    if overlay.record is not None:
        return session_lines(overlay, overlay.record, detail=detail, level=level)
    return walk(overlay.table, detail=detail)


class _Pen:
    def __init__(self, overlay: Overlay, detail: bool, level: Level) -> None:
        self._overlay = overlay
        self._detail = detail
        self._level = level
        does = [*overlay.table.says.values(), *(row.says for row in overlay.table.rows)]
        self._performed = {name for lines in does for name in names_of(lines)}

    def text(self) -> str:
        overlay = self._overlay
        nodes = nodes_of(overlay, detail=self._detail, level=self._level)
        lines = [f"  participant {part.value}" for part in Part]
        if self._level.folded:
            lines.append(f"  Note over {Part.USER.id},{Part.SDK.id}: {safe(SAID)}")
        lines += [f"  {line}" for line in self._lines(nodes)]
        return "\n".join([*heading(self._level.short(overlay.title)), "sequenceDiagram", *lines]) + "\n"

    def _lines(self, nodes: Iterable[Node]) -> Iterator[str]:
        for node in nodes:
            match node:
                case Mark():
                    yield from self._note((Part.DRIVER,), self._noted(node.state))
                case Arrow():
                    yield self._arrow(node)
                    yield from self._chains(node, (node.source, node.target))
                case Silent():
                    yield from self._silent(node)
                case Note():
                    yield f"Note over {_over(node.left, node.right)}: {safe(node.text)}"
                case Block():
                    if any(True for _ in self._lines(node.lines)):
                        yield from self._block(node.kind, [(node.label, node.lines)])
                case _:
                    yield from self._block(node.kind, [(way.label, way.nodes) for way in node.ways])

    def _block(self, kind: str, ways: Iterable[tuple[str, Iterable[Node]]]) -> Iterator[str]:
        for place, (label, nodes) in enumerate(ways):
            yield f"{'else' if place else kind} {safe(label)}"
            yield from (f"  {line}" for line in [*self._lines(nodes)] or [_NOTHING])
        yield "end"

    def _arrow(self, arrow: Arrow) -> str:
        dashed = arrow.dashed or arrow.kind in (Kind.EMIT, Kind.REPLY)
        label = safe(arrow.label.replace("`", ""))
        return f"{arrow.source.id}{'-->>' if dashed else '->>'}{arrow.target.id}: {label}"

    def _silent(self, line: Silent) -> Iterator[str]:
        arrow = silent_arrow(line)
        if self._detail or any(name in self._overlay.hooks for name in line.does):
            yield self._arrow(arrow)
            yield from self._chains(line, (arrow.source, arrow.target))

    def _chains(self, line: Arrow | Silent, over: tuple[Part, ...]) -> Iterator[str]:
        for name in line.does:
            yield from self._note(over, self._overlay.chain(name))

    def _noted(self, state: State) -> tuple[str, ...]:
        """Return what holds in a state, and the chains of the points that no line performs."""
        unplaced = [point for point in self._overlay.points() if point not in self._performed]
        chains = [
            line for point in unplaced if state in acts_in(point) for line in self._overlay.chain(point)
        ]
        lines = (*self._overlay.notes_at(state), *chains)
        return (f"in state {state.shown}", *lines) if lines else ()

    def _note(self, over: tuple[Part, ...], lines: tuple[str, ...]) -> Iterator[str]:
        shown = self._level.cut(lines)
        if shown:
            yield f"Note over {_over(*over)}: {'<br/>'.join(map(safe, shown))}"


_NOTHING = f"Note over {Part.DRIVER.id}: nothing else happens"
"""Mermaid cannot place a block that holds nothing: it puts what follows nowhere."""


def _over(*parts: Part) -> str:
    return ",".join(dict.fromkeys(part.id for part in parts))
