"""One page of HTML: the chart beside the sequence, and for a session a player that steps through its entries.

The page holds everything it needs, the renderer of Mermaid too, so that it works from a file and offline; a
content security policy keeps it from asking anybody for anything.
"""

import json
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any, Literal

from turnchart.diagrams.escape import html as safe
from turnchart.diagrams.escape import one_line
from turnchart.diagrams.overlay import Drawable, Overlay, Record, overlay_of
from turnchart.diagrams.sequence import sequence_diagram
from turnchart.diagrams.session_view import arrow_of, label_of
from turnchart.diagrams.state import often, state_diagram
from turnchart.machine.entries import Entry
from turnchart.machine.errors import TurnchartError
from turnchart.machine.says import Part
from turnchart.machine.states import State
from turnchart.machine.table import LIFECYCLE

MAX_TEXT = 4_000
"""A longer text of an entry is cut in the page; its log has it whole."""
MAX_ITEMS = 200
"""A longer list of an entry is cut in the page."""

_ASSETS = files("turnchart.diagrams") / "assets"
_RENDERER = "mermaid.min.js"


class PageError(TurnchartError):
    """A page could not be made; the message says what is missing."""


def html_page(
    drawn: Drawable = LIFECYCLE,
    *,
    view: Literal["state", "sequence"] = "state",
    detail: bool = False,
    renderer: str | None = None,
    live: str = "",
) -> str:
    """Return the page; the same input gives the same bytes.

    Args:
        drawn: A table, an overlay (of a recorded session: the page gets its player), or anything with
            ``overlay()``, such as a flow.
        view: Which picture is shown first where there is not room for both.
        detail: Draw what the plain views leave out, too.
        renderer: The JavaScript of Mermaid; None for the one that comes with Turnchart.
        live: Where the page asks for the entries that come later, relative to itself; empty: it asks nobody.

    Raises:
        PageError: If this installation has no renderer.
    """
    overlay = overlay_of(drawn)
    data = page_data(overlay, view=view, detail=detail) | {"live": live}
    parts = {
        "title": safe(one_line(overlay.title) or "The lifecycle"),
        "connect": "'self'" if live else "'none'",
        "style": _asset("page.css"),
        "data": json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c"),
        "renderer": _script(renderer if renderer is not None else _bundled()),
        "script": _script(_asset("page.js")),
    }
    pieces = re.split(r"@@(\w+)@@", _asset("page.html"))
    return "".join(parts[piece] if place % 2 else piece for place, piece in enumerate(pieces))


def page_data(
    overlay: Overlay, *, view: Literal["state", "sequence"] = "state", detail: bool = False
) -> dict[str, Any]:
    """Return what the page shows, as JSON."""
    record = overlay.record
    return {
        "title": one_line(overlay.title) or "The lifecycle",
        "view": view,
        "state": state_diagram(overlay, detail=detail),
        "sequence": "" if record is not None else sequence_diagram(overlay, detail=detail),
        "states": [{"id": state.value, "shown": state.shown} for state in State],
        "rows": rows_data(overlay),
        "held": _held(overlay),
        "parts": [part.id for part in Part],
        "entries": entries_data(overlay, record) if record is not None else None,
        "refused": record.refused if record is not None else None,
    }


def entries_data(overlay: Overlay, record: Record, start: int = 0) -> list[dict[str, Any]]:
    """Return the entries of a session from ``start`` on, each with its arrow and the state that wrote it."""
    state = State.IDLE
    made: list[dict[str, Any]] = []
    for entry in record.entries:
        took = record.took.get(entry.seq)
        state = took.state if took is not None else state
        if entry.seq < start:
            continue
        arrow = arrow_of(entry, overlay, record, label_of(entry))
        made.append(
            {
                "seq": entry.seq, "parent": entry.parent, "type": entry.type, "time": entry.time,
                "state": state.value, "from": arrow.source.id, "to": arrow.target.id,
                "label": one_line(arrow.label), "dashed": arrow.dashed,
                "data": _shortened(_without_stream(entry)),
            }
        )  # fmt: skip
    return made


def rows_data(overlay: Overlay) -> list[list[str]]:
    """Return the rows of the table: from, event, guard, to, reasons, how often it was taken."""
    record = overlay.record
    return [
        [
            row.source.shown, row.event.replace("_", " "), row.guard or "", row.target.shown,
            ", ".join(row.reasons), often(record.rows.get(row, 0)) if record is not None else "",
        ]
        for row in overlay.table.rows
    ]  # fmt: skip


def _held(overlay: Overlay) -> list[dict[str, Any]]:
    lines = {state: [*overlay.notes_at(state), *overlay.hooks_at(state)] for state in State}
    return [
        {"state": state.shown, "lines": list(map(one_line, told))} for state, told in lines.items() if told
    ]


def _without_stream(entry: Entry) -> Mapping[str, Any]:
    data = entry.data
    if "stream" not in data:
        return data
    chunks = sum(len(item["parts"]) if "parts" in item else 1 for item in data["stream"])
    return {**data, "stream": f"{chunks} chunks"}


def _shortened(value: Any) -> Any:
    if isinstance(value, str):
        cut = len(value) - MAX_TEXT
        return value if cut <= 0 else f"{value[:MAX_TEXT]} ({cut} more characters)"
    if isinstance(value, Mapping):
        return {key: _shortened(item) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType]  # JSON
    if isinstance(value, Sequence):
        shown = [_shortened(item) for item in value[:MAX_ITEMS]]  # pyright: ignore[reportUnknownVariableType]  # JSON
        cut = len(value) - MAX_ITEMS  # pyright: ignore[reportUnknownArgumentType]  # JSON
        return [*shown, f"({cut} more items)"] if cut > 0 else shown
    return value


def _script(text: str) -> str:
    """Return JavaScript that cannot end the element that holds it."""
    return text.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _asset(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")


def _bundled() -> str:
    try:
        return _asset(_RENDERER)
    except FileNotFoundError:
        raise PageError(
            f"html needs the renderer of Mermaid, and there is no {_ASSETS / _RENDERER}: run `make page`"
            " in the checkout that this runs from or was built from (it needs npm; a wheel built after it"
            " brings the renderer along), or take the formats mermaid, md or svg"
        ) from None
