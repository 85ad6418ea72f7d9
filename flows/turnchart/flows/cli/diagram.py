"""``turnchart diagram``: pictures of the lifecycle, of a flow, and of a recorded session."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal, NamedTuple

import typer

from turnchart.flows.cli.options import FlowName, FlowTrust, Output, Plugins, StorePath

if TYPE_CHECKING:
    from turnchart.diagrams import Drawable

View = Literal["state", "sequence"]
Format = Literal["mermaid", "dot", "svg", "png", "md", "html"]
_SHOWN: Final = 20
"""So many lines of a difference are shown."""


def diagram(
    flow: Annotated[
        str | None,
        typer.Argument(metavar="FLOW", help="A file, or a shipped flow; without one, the bare lifecycle."),
    ] = None,
    session: Annotated[
        str | None, typer.Option(metavar="S", help="Draw a recorded session: an id, or a file (.jsonl, .db).")
    ] = None,
    view: Annotated[View, typer.Option(help="Which view.")] = "state",
    format: Annotated[Format, typer.Option(help="Sequence views are mermaid, md or html.")] = "mermaid",
    output: Output = None,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; fail if FILE is not what would be written.")
    ] = False,
    diff: Annotated[
        str | None,
        typer.Option(
            metavar="OTHER", help="Mark what changed since OTHER: a flow, a git revision, or a session."
        ),
    ] = None,
    detail: Annotated[
        bool, typer.Option("--detail", help="Draw what the plain view leaves out, too.")
    ] = False,
    plugins: Plugins = None,
    store: StorePath = None,
    of_flow: FlowName = None,
    trust: FlowTrust = False,
) -> None:
    """Draw the lifecycle, a flow, or what a session did. A flow is drawn with its hooks and settings."""
    _fit(view, format, flow, session, of_flow)
    if check and output is None:
        raise typer.BadParameter("it compares with a file; name that with -o", param_hint="--check")
    if diff is not None and flow is None and session is None:
        raise typer.BadParameter("say what is to be compared: a flow or --session", param_hint="--diff")
    place = _Place(store, of_flow, trust)
    drawn = _drawn(flow, plugins or (), session, place)
    if diff is not None:
        from turnchart.diagrams import difference

        drawn = difference(_other(diff, flow, plugins or (), place), drawn)
    made = draw(drawn, view, format, detail)
    if output is None:
        _print(made)
    elif check:
        raise typer.Exit(_compare(output, made))
    else:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_bytes(made)


def _fit(view: View, format: Format, flow: str | None, session: str | None, of_flow: str | None) -> None:
    """See that options go together.

    Raises:
        BadParameter: If they do not.
    """
    if view == "sequence" and format not in ("mermaid", "md", "html"):
        raise typer.BadParameter(
            f"there is no {format} of a sequence view; take --format mermaid, md or html",
            param_hint="--format",
        )
    if flow is not None and session is not None:
        raise typer.BadParameter("draw a flow or a session, not both", param_hint="--session")
    if of_flow is not None and session is None:
        raise typer.BadParameter(
            "it says where a session is kept; name that with --session", param_hint="--flow"
        )


class _Place(NamedTuple):
    """Where sessions are looked up."""

    store: str | None
    flow: str | None
    trust: bool


def _drawn(flow: str | None, plugins: Sequence[str], session: str | None, place: _Place) -> "Drawable":
    """Return what is to be drawn."""
    if session is not None:
        from turnchart.diagrams import session_overlay
        from turnchart.flows.cli.sessions_place import found

        kept = found(session, place.store, place.flow, plugins, trust=place.trust)
        return session_overlay(kept.load(), f"session {kept.id}")
    if flow is not None:
        from turnchart.flows.load import flow_to_show

        return flow_to_show(flow, plugins)
    from turnchart.machine import LIFECYCLE

    return LIFECYCLE


def _other(name: str, flow: str | None, plugins: Sequence[str], place: _Place) -> "Drawable":
    """Return what is compared with: another session, another flow, or the flow as it was in a revision."""
    if flow is None:
        return _drawn(None, plugins, name, place)
    from turnchart.diagrams.overlay import overlay_of
    from turnchart.flows.cli.revisions import at_revision, is_revision
    from turnchart.flows.load import flow_to_show

    file = Path(flow)
    if not Path(name).exists() and file.is_file() and is_revision(name, file):
        with at_revision(file, name) as old:
            before = overlay_of(flow_to_show(old, plugins))
        return replace(before, title=f"{before.title} ({name})")
    return flow_to_show(name, plugins)


def draw(drawn: "Drawable", view: View, format: Format, detail: bool) -> bytes:
    """Return a picture: one view in one format."""
    from turnchart.diagrams import (
        html_page,
        image,
        sequence_diagram,
        sequence_table,
        state_diagram,
        state_table,
    )

    if format == "html":
        return html_page(drawn, view=view, detail=detail).encode()
    if format == "md":
        return (state_table if view == "state" else sequence_table)(drawn, detail=detail).encode()
    if view == "sequence":
        return sequence_diagram(drawn, detail=detail).encode()
    if format == "mermaid" or format == "dot":
        return state_diagram(drawn, format, detail).encode()
    return image(state_diagram(drawn, "dot", detail), format)


def _print(made: bytes) -> None:
    sys.stdout.flush()
    sys.stdout.buffer.write(made)
    sys.stdout.buffer.flush()


def _compare(output: Path, made: bytes) -> int:
    """Return 1, and say where, if a file is not what would be written."""
    from difflib import unified_diff

    there = output.read_bytes() if output.is_file() else None
    if there == made:
        return 0
    if there is None:
        typer.echo(f"{output} is not there", err=True)
        return 1
    typer.echo(f"{output} is stale", err=True)
    old, new = (text.decode("utf-8", "replace").splitlines() for text in (there, made))
    difference = list(unified_diff(old, new, str(output), "now", lineterm=""))
    for line in difference[:_SHOWN]:
        typer.echo(line, err=True)
    if len(difference) > _SHOWN:
        typer.echo(f"... {len(difference) - _SHOWN} more lines", err=True)
    return 1
