"""``turnchart sessions list``: what is in a store."""

import json
import time
from typing import TYPE_CHECKING

import typer

from turnchart.flows.cli.sessions_place import AsJson, FlowName, StorePath, chosen

if TYPE_CHECKING:
    from turnchart.machine.sqlite import SessionInfo


def list_sessions(store: StorePath = None, flow: FlowName = None, as_json: AsJson = False) -> None:
    """List the sessions of a store, the oldest first."""
    from turnchart.flows.cli.places import usual

    place = chosen(store, flow) or usual()
    found = place.list()
    if as_json:
        typer.echo(json.dumps([info._asdict() for info in found], indent=2))
        return
    if not found:
        typer.echo(f"no sessions in {place.path}", err=True)
    width = max((len(info.id) for info in found), default=0)
    for info in found:
        typer.echo(_line(info, width))


def _line(info: "SessionInfo", width: int) -> str:
    from turnchart.flows.cli.words import one_line

    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(info.updated))
    counts = f"{some(info.turns, 'turn')}, {some(info.entries, 'entry', 'entries')}"
    return f"{one_line(info.id):<{width}}  {when}  {counts}  {one_line(info.name)}".rstrip()


def some(count: int, one: str, more: str = "") -> str:
    """Return a number with its noun."""
    return f"{count} {one if count == 1 else more or f'{one}s'}"
