"""``turnchart sessions delete``: a session is no more."""

import sys
from collections.abc import Callable
from typing import Annotated

import typer

from turnchart.flows.cli.options import FlowName, FlowPlugins, FlowTrust, SessionName, StorePath
from turnchart.flows.cli.sessions_place import found


def delete(
    session: SessionName,
    store: StorePath = None,
    flow: FlowName = None,
    plugins: FlowPlugins = None,
    trust: FlowTrust = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete a session for ever, after asking. One that somebody is writing is left alone."""
    from turnchart.flows.cli.words import one_line

    kept = found(session, store, flow, plugins or (), trust=trust)
    named = f"session {one_line(kept.id)} ({one_line(kept.where, None)})"
    if not yes:
        if not sys.stdin.isatty():
            raise typer.BadParameter("nobody can be asked here; give --yes", param_hint="--yes")
        typer.confirm(f"Delete {named}?", abort=True, err=True)
    delete: Callable[[], None] | None = getattr(kept, "delete", None)
    if delete is None:
        from turnchart.machine.errors import SessionError

        raise SessionError(f"{named} is in a store that deletes nothing: its class has no method delete()")
    delete()
    typer.echo(f"deleted {named}")
