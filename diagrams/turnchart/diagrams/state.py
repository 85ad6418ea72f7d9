"""The state view: states as boxes, rows as edges, what holds in a state as a note beside it."""

from typing import Literal

from turnchart.diagrams import dot, mermaid
from turnchart.diagrams.fold import SAID, Level, fitting
from turnchart.diagrams.graph import Box, Edge, Graph
from turnchart.diagrams.overlay import Drawable, Overlay, overlay_of
from turnchart.machine.says import names
from turnchart.machine.states import State
from turnchart.machine.table import LIFECYCLE, Row

Format = Literal["mermaid", "dot"]

_WRITERS = {"mermaid": mermaid.write, "dot": dot.write}


def state_diagram(drawn: Drawable = LIFECYCLE, format: Format = "mermaid", detail: bool = False) -> str:
    """Return the state view as text; the same input gives the same bytes.

    Args:
        drawn: A table, an overlay, or anything with ``overlay()``, such as a flow.
        format: ``mermaid`` (stateDiagram-v2) or ``dot``.
        detail: One edge a row with its guard and reasons, and what each state performs. Otherwise the rows
            between the same two states share one edge.

    Raises:
        ValueError: If there is no such format.
    """
    if format not in _WRITERS:
        raise ValueError(f"format {format!r} is unknown; it must be one of: {', '.join(_WRITERS)}")
    overlay = overlay_of(drawn)
    write = _WRITERS[format]
    return fitting(
        lambda level: write(graph(overlay, detail=detail, level=level)),
        lambda text: sum(line.lstrip().startswith(_EDGE_STARTS) for line in text.splitlines()),
    )


_EDGE_STARTS = tuple(f"{state} -" for state in State)


def graph(overlay: Overlay, *, detail: bool = False, level: Level | None = None) -> Graph:
    """Return the state view of an overlay, before it is written in a language."""
    level = level or Level()
    boxes = tuple(_box(state, overlay, detail, level) for state in State)
    rows = [[row] for row in overlay.table.rows]
    if not detail or level.merged:
        pairs: dict[tuple[State, State], list[Row]] = {}
        for row in overlay.table.rows:
            pairs.setdefault((row.source, row.target), []).append(row)
        rows = list(pairs.values())
    edges = tuple(_edge(group, overlay, detail) for group in rows)
    remarks = [SAID] if level.folded else []
    if overlay.record is not None and overlay.record.refused is not None:
        seq = overlay.record.refused
        remarks.append(f"drawn up to entry {seq}, which is illegal: see turnchart verify")
    return Graph(level.short(overlay.title), boxes, edges, remark="; ".join(remarks))


def _box(state: State, overlay: Overlay, detail: bool, level: Level) -> Box:
    record = overlay.record
    lines = [*overlay.notes_at(state), *overlay.hooks_at(state)]
    if record is not None and record.visits.get(state):
        lines.append(f"{often(record.visits[state])}, {record.seconds.get(state, 0.0):.2f} s")
    if detail:
        performed = dict.fromkeys(names(overlay.table.says[state]))
        lines += [f"performs {name}" for name in performed]
    faded = record is not None and not record.visits.get(state) and state is not State.IDLE
    return Box(state, level.cut(tuple(lines)), faded, state in overlay.changed)


def _edge(rows: list[Row], overlay: Overlay, detail: bool) -> Edge:
    labels = [_label(row, detail) for row in rows]
    record = overlay.record
    if record is None:
        return Edge(rows[0].source, rows[0].target, tuple(labels))
    taken = [record.rows.get(row, 0) for row in rows]
    walked = any(taken)
    if walked:
        labels = [f"{label}: {often(times)}" for label, times in zip(labels, taken, strict=True)]
    else:
        labels.append(often(0))
    changes = [overlay.row_notes[row] for row in rows if row in overlay.row_notes]
    return Edge(
        rows[0].source, rows[0].target, (*labels, *changes), not walked, walked, changed=bool(changes)
    )


def often(times: int) -> str:
    """Return a count in words: never, once, 2 times."""
    return f"{times} times" if times > 1 else ("never", "once")[times]


def _label(row: Row, detail: bool) -> str:
    guard = f" if {row.guard}" if row.guard else ""
    reasons = f" ({', '.join(row.reasons)})" if detail and row.reasons else ""
    return f"{row.event.replace('_', ' ')}{guard}{reasons}"
