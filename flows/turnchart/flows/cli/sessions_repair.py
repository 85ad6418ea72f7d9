"""``turnchart sessions repair``: a copy of what can be saved of a damaged session."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnchart.flows.cli.options import FlowName, FlowPlugins, FlowTrust, SessionName, StorePath
from turnchart.flows.cli.sessions_place import chosen

if TYPE_CHECKING:
    from turnchart.flows.cli.places import Shelf
    from turnchart.machine.jsonl import JsonlStore
    from turnchart.machine.repairing import Salvage
    from turnchart.machine.sqlite import SqliteStore


def repair(
    session: SessionName,
    store: StorePath = None,
    flow: FlowName = None,
    plugins: FlowPlugins = None,
    trust: FlowTrust = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Where the copy goes: a .jsonl or a SQLite file."
        ),
    ] = None,
) -> None:
    """Write a copy of what can be saved of a damaged session. What is left out is said.

    The damaged file itself is never changed. The copy stands beside it, as NAME.repaired.jsonl or .db.
    """
    from turnchart.flows.cli.words import one_line
    from turnchart.machine.repairing import write_copy

    path, found = salvaged(session, chosen(store, flow, plugins or (), trust=trust), flow)
    named = f"session {one_line(found.id)} ({one_line(str(path), None)})"
    typer.echo(f"{named}: {len(found.entries)} entries can be saved")
    for problem in found.problems:
        typer.echo(f"- {one_line(problem, None)}")
    if not found.problems:
        typer.echo("nothing is wrong with it, so no copy was written")
        return
    target = _target(output or path.with_name(f"{path.stem}.repaired{path.suffix}"), found.id)
    write_copy(found, target)
    typer.echo(f"written to {one_line(target.where, None)}")


def salvaged(session: str, place: "Shelf | None", flow: str | None) -> "tuple[Path, Salvage]":
    """Return the file of a session, and what can be saved of it.

    Raises:
        SessionError: If there is no such session, or nothing of it can be saved.
    """
    from turnchart.flows.cli.places import find, shelf
    from turnchart.machine.errors import SessionError
    from turnchart.machine.jsonl import JsonlStore
    from turnchart.machine.repairing import salvage_jsonl, salvage_sqlite

    if place is None and session.endswith(".jsonl") and Path(session).is_file():
        place = shelf(session)
    if place is not None and place.kind == "file":  # its header may be what is damaged
        return place.path, salvage_jsonl(place.path)
    if place is not None and place.kind == "registered":
        raise SessionError(f"only files can be repaired, and the sessions of {flow} are kept in {place.path}")
    one = find(session, place)
    path = Path(one.where)
    return path, salvage_jsonl(path) if isinstance(one, JsonlStore) else salvage_sqlite(path, one.id)


def _target(path: Path, id: str) -> "JsonlStore | SqliteStore":
    from turnchart.machine.errors import SessionError

    if path.is_dir():
        raise SessionError(f"{path} is a folder; give the name of a file")
    if path.suffix == ".jsonl":
        from turnchart.machine.jsonl import JsonlStore

        return JsonlStore(path, id=id)
    from turnchart.machine.sqlite import SqliteStore

    return SqliteStore(path, id)
