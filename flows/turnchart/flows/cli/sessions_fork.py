"""``turnchart sessions fork``: a new session that begins as another one did."""

from typing import TYPE_CHECKING, Annotated

import typer

from turnchart.flows.cli.options import FlowName, FlowPlugins, FlowTrust, NewId, SessionName, StorePath
from turnchart.flows.cli.sessions_place import chosen

if TYPE_CHECKING:
    from turnchart.flows.cli.places import Shelf
    from turnchart.machine.session import Session
    from turnchart.machine.stores import Store


def fork(
    session: SessionName,
    store: StorePath = None,
    flow: FlowName = None,
    plugins: FlowPlugins = None,
    trust: FlowTrust = False,
    at: Annotated[
        int | None, typer.Option(metavar="N", help="Up to entry N, as `show` numbers them; else all of it.")
    ] = None,
    before: Annotated[
        int | None, typer.Option(metavar="N", help="Up to before the user message N, to say it differently.")
    ] = None,
    id: NewId = None,
) -> None:
    """Copy a session into a new one of the same store, and print its id. The session stays as it is."""
    if at is not None and before is not None:
        raise typer.BadParameter("give --at or --before, not both", param_hint="--before")
    from turnchart.flows.cli.places import fill, find
    from turnchart.flows.cli.words import one_line

    chosen_place = chosen(store, flow, plugins or (), trust=trust)
    kept = find(session, chosen_place)
    of_plugin = chosen_place is not None and chosen_place.kind == "registered"
    place = chosen_place if chosen_place is not None and of_plugin else beside(kept)
    target = place.new(id or place.new_id(kept.id))
    fill(target, _forked(kept, at, before).entries)
    typer.echo(one_line(target.id, None))


def _forked(kept: "Store", at: int | None, before: int | None) -> "Session":
    from turnchart.machine.errors import SessionError
    from turnchart.machine.session import Session

    origin, into = Session(kept), Session.memory()
    if origin.brackets.turn_open:
        raise SessionError(
            f"turn {origin.brackets.turn} of session {origin.id} is open: fork it when it is over. Where its"
            " program was killed, the next `turnchart run` with this session closes it"
        )
    try:
        if before is not None:
            return origin.fork(before, position="before", into=into)
        return origin.fork(at, into=into)
    except (IndexError, ValueError) as error:
        raise typer.BadParameter(str(error), param_hint="--at" if before is None else "--before") from error


def beside(kept: "Store") -> "Shelf":
    """Return the place in which a session is kept: its SQLite file, or the folder of its file."""
    from turnchart.flows.cli.places import Shelf
    from turnchart.machine.sqlite import SqliteStore

    if isinstance(kept, SqliteStore):
        return Shelf("sqlite", kept.path, str(kept.path))
    from pathlib import Path

    folder = Path(kept.where).parent
    return Shelf("folder", folder, f"{folder}/")
