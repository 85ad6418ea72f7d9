"""``turnchart sessions list``: what is in a store."""

import json
from typing import TYPE_CHECKING

import typer

from turnchart.flows.cli.options import AsJson, FlowName, FlowPlugins, FlowTrust, StorePath
from turnchart.flows.cli.sessions_place import chosen

if TYPE_CHECKING:
    from turnchart.machine.errors import SessionError
    from turnchart.machine.sqlite import SessionInfo


def list_sessions(
    store: StorePath = None,
    flow: FlowName = None,
    plugins: FlowPlugins = None,
    trust: FlowTrust = False,
    as_json: AsJson = False,
) -> None:
    """List the sessions of a store, the oldest first."""
    from turnchart.flows.cli.places import usual
    from turnchart.flows.cli.words import one_line

    place = chosen(store, flow, plugins or (), trust=trust) or usual()
    broken: list[SessionError] = []
    found = place.list(broken.append)
    if as_json:
        typer.echo(json.dumps([info._asdict() for info in found], indent=2))
    else:
        if not found:
            typer.echo(f"no sessions in {place.path}", err=True)
        width = max((len(one_line(info.id)) for info in found), default=0)
        for info in found:
            typer.echo(_line(info, width))
    say_broken(broken)


def say_broken(broken: "list[SessionError]") -> None:
    """Say which files of a folder could not be read; the exit code is that of an error then."""
    from turnchart.flows.cli.words import one_line

    for error in broken:
        typer.echo(f"turnchart: {one_line(str(error), None)}", err=True)
    if broken:
        raise typer.Exit(1)


def _line(info: "SessionInfo", width: int) -> str:
    from turnchart.flows.cli.words import moment, one_line

    when = moment(info.updated, "%Y-%m-%d %H:%M:%S")
    counts = f"{some(info.turns, 'turn')}, {some(info.entries, 'entry', 'entries')}"
    return f"{one_line(info.id):<{width}}  {when}  {counts}  {one_line(info.name)}".rstrip()


def some(count: int, one: str, more: str = "") -> str:
    """Return a number with its noun."""
    return f"{count} {one if count == 1 else more or f'{one}s'}"
