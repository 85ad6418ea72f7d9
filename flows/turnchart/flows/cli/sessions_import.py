"""``turnchart sessions import``: a session file from elsewhere becomes a session of a store."""

import os
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnchart.flows.cli.options import FlowName, FlowPlugins, FlowTrust, NewId, StorePath
from turnchart.flows.cli.sessions_place import chosen

if TYPE_CHECKING:
    from turnchart.flows.interchange.reading import Found, Progress
    from turnchart.machine.entries import Entry


def import_session(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="A session file, .jsonl of Turnchart or of pi (version 3); - reads stdin."
        ),
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
    with Progress() as progress, _at_hand(file) as path:
        found = read_session(path, progress.step(f"reading {path.name}"))
        if not found.entries:
            raise SessionError(f"{path} holds no entries, so no session was made of it")
        target = place.new(id or found.id)
        place.prepare()
        fill(target, _counted(found, progress.step("writing")))
    typer.echo(one_line(target.id, None))
    for note in found.notes:
        said = note if path == file else note.replace(str(path), path.name)
        typer.echo(f"note: {one_line(said, None)}", err=True)


@contextmanager
def _at_hand(file: Path) -> Generator[Path]:
    """Give a file that can be read more than once: what comes through stdin is put into one for that."""
    if str(file) != "-":
        yield file
        return
    from tempfile import TemporaryDirectory

    from turnchart.machine.errors import SessionError

    with TemporaryDirectory() as folder:
        path = Path(os.path.realpath(folder), "stdin")
        path.write_bytes(sys.stdin.buffer.read())
        try:
            yield path
        except SessionError as error:
            raise SessionError(str(error).replace(str(path), path.name)) from error


def _counted(found: "Found", progress: "Progress") -> "Iterator[Entry]":
    for entry in found.entries:
        yield entry
        progress(entry.seq + 1, len(found.entries))
