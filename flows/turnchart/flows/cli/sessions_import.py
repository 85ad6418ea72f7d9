"""``turnchart sessions import``: a session file from elsewhere becomes a session of a store."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnchart.flows.cli.sessions_place import FlowName, FlowPlugins, FlowTrust, NewId, StorePath, chosen

if TYPE_CHECKING:
    from turnchart.flows.interchange.reading import Found, Progress
    from turnchart.machine.entries import Entry


def import_session(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="A session file: .jsonl of Turnchart, or of pi (version 3)."),
    ],
    store: StorePath = None,
    flow: FlowName = None,
    plugins: FlowPlugins = None,
    trust: FlowTrust = False,
    id: NewId = None,
) -> None:
    """Make a session of a session file, and print its id. Where anything in it is wrong, none is made."""
    from turnchart.flows.cli.places import fill, usual
    from turnchart.flows.cli.progress import Progress
    from turnchart.flows.cli.words import one_line
    from turnchart.flows.interchange.reading import read_session
    from turnchart.machine.errors import SessionError

    place = chosen(store, flow, plugins or (), trust=trust) or usual()
    with Progress() as progress:
        found = read_session(file, progress.step(f"reading {file.name}"))
        if not found.entries:
            raise SessionError(f"{file} holds no entries, so no session was made of it")
        target = place.new(id or found.id)
        place.prepare()
        fill(target, _counted(found, progress.step("writing")))
    typer.echo(one_line(target.id, None))
    for note in found.notes:
        typer.echo(f"note: {one_line(note, None)}", err=True)


def _counted(found: "Found", progress: "Progress") -> "Iterator[Entry]":
    for entry in found.entries:
        yield entry
        progress(entry.seq + 1, len(found.entries))
