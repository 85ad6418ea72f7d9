"""``turnchart sessions delete``: a session is no more."""

import sys
from typing import Annotated

import typer

from turnchart.flows.cli.sessions_place import FlowName, SessionName, StorePath, found


def delete(
    session: SessionName,
    store: StorePath = None,
    flow: FlowName = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete a session for ever, after asking. One that somebody is writing is left alone."""
    from turnchart.flows.cli.words import one_line

    kept = found(session, store, flow)
    named = f"session {one_line(kept.id)} ({one_line(kept.where, None)})"
    if not yes:
        if not sys.stdin.isatty():
            raise typer.BadParameter("nobody can be asked here; give --yes", param_hint="--yes")
        typer.confirm(f"Delete {named}?", abort=True, err=True)
    kept.delete()
    typer.echo(f"deleted {named}")
