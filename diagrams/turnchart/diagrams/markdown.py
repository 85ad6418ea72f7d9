"""Both views as Markdown: the picture, and a table that says the same to whoever cannot see it."""

from collections.abc import Iterable, Iterator

from turnchart.diagrams.escape import markdown as safe
from turnchart.diagrams.overlay import Drawable, Overlay, Record, overlay_of
from turnchart.diagrams.sequence import nodes_of, sequence_diagram
from turnchart.diagrams.session_view import silent_arrow
from turnchart.diagrams.state import often, state_diagram
from turnchart.diagrams.walk import Fork, Mark, Node
from turnchart.machine.says import Arrow, Block, Note, Silent
from turnchart.machine.states import State
from turnchart.machine.table import LIFECYCLE, Row

INDENT = "\N{NO-BREAK SPACE}" * 3


def state_table(drawn: Drawable = LIFECYCLE, *, detail: bool = False) -> str:
    """Return the state view as Markdown: the picture, every row as a line of a table, and what holds where.

    A recorded session gets a column that says how often each row was taken.

    Args:
        drawn: A table, an overlay, or anything with ``overlay()``, such as a flow.
        detail: Say also what each row performs.
    """
    overlay = overlay_of(drawn)
    return _page(
        overlay.title or "The lifecycle",
        state_diagram(overlay, detail=detail),
        [*_table(_heads(overlay, detail), (_row(row, overlay, detail) for row in overlay.table.rows))],
        [*_held(overlay)],
    )


def sequence_table(drawn: Drawable = LIFECYCLE, *, detail: bool = False) -> str:
    """Return the sequence view as Markdown: the picture, and its arrows in order as lines of a table.

    Args:
        drawn: As for ``state_table``.
        detail: Tell also what the bare view leaves out.
    """
    overlay = overlay_of(drawn)
    lines = _told(nodes_of(overlay, detail=detail), overlay, detail, 0)
    return _page(
        overlay.title or "One turn",
        sequence_diagram(overlay, detail=detail),
        [*_table(("from", "to", "what"), lines)],
    )


def _page(title: str, picture: str, *parts: list[str]) -> str:
    blocks = [[f"# {safe(title)}"], ["```mermaid", *picture.splitlines(), "```"], *filter(None, parts)]
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(heads)} |"
    yield "|" + "---|" * len(heads)
    for row in rows:
        yield f"| {' | '.join(row)} |"


def _heads(overlay: Overlay, detail: bool) -> tuple[str, ...]:
    more = ("performs",) if detail else ()
    return ("from", "event", "if", "to", "ends the turn as", *more, *(("taken",) if overlay.record else ()))


def _row(row: Row, overlay: Overlay, detail: bool) -> tuple[str, ...]:
    cells = [
        row.source.shown, row.event.replace("_", " "), row.guard or "", row.target.shown,
        ", ".join(row.reasons),
    ]  # fmt: skip
    if detail:
        cells.append(", ".join(row.does))
    if overlay.record is not None:
        cells.append(often(overlay.record.rows.get(row, 0)))
    return tuple(safe(cell) if cell else "" for cell in cells)


def _held(overlay: Overlay) -> Iterator[str]:
    """Yield what holds in each state, and how long a recorded session was there."""
    for state in State:
        lines = [*overlay.notes_at(state), *overlay.hooks_at(state), *_stay(state, overlay.record)]
        if lines:
            yield f"- **{safe(state.shown)}**"
            yield from (f"    - {safe(line)}" for line in lines)


def _stay(state: State, record: Record | None) -> Iterator[str]:
    if record is not None and record.visits.get(state):
        yield f"entered {often(record.visits[state])}, {record.seconds.get(state, 0.0):.2f} s"


def _told(nodes: Iterable[Node], overlay: Overlay, detail: bool, depth: int) -> Iterator[tuple[str, ...]]:
    for node in nodes:
        match node:
            case Mark():
                for line in (*overlay.notes_at(node.state), *overlay.hooks_at(node.state)):
                    yield _line("", "", f"in {node.state.shown}: {line}", depth)
            case Arrow():
                yield _line(node.source.id, node.target.id, node.label.replace("`", ""), depth)
            case Silent():
                arrow = silent_arrow(node)
                if detail or any(name in overlay.hooks for name in node.does):
                    yield _line(arrow.source.id, arrow.target.id, arrow.label.replace("`", ""), depth)
            case Note():
                yield _line("", "", node.text, depth)
            case Block():
                inside = [*_told(node.lines, overlay, detail, depth + 1)]
                if inside:
                    yield from (_line("", "", f"{node.kind}: {node.label}", depth), *inside)
            case Fork():
                for place, way in enumerate(node.ways):
                    yield _line("", "", f"{'else' if place else node.kind}: {way.label}", depth)
                    yield from _told(way.nodes, overlay, detail, depth + 1)


def _line(source: str, target: str, what: str, depth: int) -> tuple[str, ...]:
    return source, target, INDENT * depth + safe(what)
