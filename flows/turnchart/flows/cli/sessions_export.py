"""``turnchart sessions export``: a session as a file, for another machine or another program."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from turnchart.flows.cli.options import FlowName, FlowPlugins, FlowTrust, Output, SessionName, StorePath
from turnchart.flows.cli.sessions_place import found

if TYPE_CHECKING:
    from turnchart.machine.stores import Store


def export_session(
    session: SessionName,
    store: StorePath = None,
    flow: FlowName = None,
    plugins: FlowPlugins = None,
    trust: FlowTrust = False,
    format: Annotated[
        Literal["jsonl", "pi"],
        typer.Option(help="The log as it is, or a session file of pi (version 3): messages and changes."),
    ] = "jsonl",
    output: Output = None,
) -> None:
    """Write a session as lines of JSON. It is only read; a session that somebody writes can be exported."""
    kept = found(session, store, flow, plugins or (), trust=trust)
    lines = _pi(kept) if format == "pi" else _own(kept)
    if output is None:
        from turnchart.flows.cli.words import escaped

        for line in lines:
            sys.stdout.buffer.write(escaped(line.decode()).encode())
        sys.stdout.buffer.flush()
    else:
        _write(output, lines)
    if kept.dropped:
        typer.echo(f"left out: {kept.dropped}", err=True)


def _own(kept: "Store") -> Iterator[bytes]:
    from turnchart.machine.jsonl import header_line

    for entry in kept.load():
        if not entry.seq:
            yield header_line(kept.id, entry.time)
        yield f"{entry.line()}\n".encode()


def _pi(kept: "Store") -> Iterator[bytes]:
    from turnchart.machine.entries import encode
    from turnchart.machine.interchange.pi_writing import lines
    from turnchart.machine.session import Session

    session = Session(kept)
    for line in lines(session.entries, session.leaf, session.id, os.getcwd()):
        yield f"{encode(line)}\n".encode("utf-8", "backslashreplace")


def _write(path: Path, lines: Iterator[bytes]) -> None:
    """Write a new file: a whole one, or none.

    Raises:
        SessionError: If there is one, or it cannot be written.
    """
    from turnchart.machine.errors import SessionError

    if not path.name:
        raise SessionError(f"{path} is no file; give the name of one")
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with part.open("xb") as file:
                file.writelines(lines)
            os.link(part, path)  # unlike a rename, it takes the place of nothing
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        if path.exists():
            raise SessionError(f"{path} is there already; choose another file, or delete it") from error
        raise SessionError(f"{path} cannot be written: {error.strerror}") from error
