"""``turnchart sessions search``: where something was said."""

import json
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from turnchart.flows.cli.options import AsJson, FlowName, FlowPlugins, FlowTrust, StorePath
from turnchart.flows.cli.sessions_place import chosen

if TYPE_CHECKING:
    from turnchart.machine.errors import SessionError
    from turnchart.machine.searching import Hit


def search(
    text: Annotated[
        list[str],
        typer.Argument(metavar="TEXT", help="Words; 'some words' in \"double quotes\" stand together."),
    ],
    store: StorePath = None,
    flow: FlowName = None,
    plugins: FlowPlugins = None,
    trust: FlowTrust = False,
    limit: Annotated[int, typer.Option(min=1, help="So many at most.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Find the messages that contain all these words, the best first. A word that ends in * begins so."""
    from turnchart.flows.cli.places import usual
    from turnchart.flows.cli.sessions_list import say_broken
    from turnchart.machine.searching import search_sqlite, search_stores

    place = chosen(store, flow, plugins or (), trust=trust) or usual()
    asked = " ".join(text)
    broken: list[SessionError] = []
    try:
        if place.kind == "sqlite":
            found = search_sqlite(place.path, asked, limit=limit)
        else:
            found = search_stores(place.stores(broken.append), asked, broken.append, limit=limit)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="TEXT") from error
    if as_json:
        typer.echo(json.dumps([hit._asdict() for hit in found], indent=2))
    for hit in () if as_json else found:
        typer.echo(shown(hit, bold=sys.stdout.isatty()))
    say_broken(broken)
    if not found and not as_json:
        typer.echo(f"nothing found in {place.path}", err=True)
        raise typer.Exit(1)


def shown(hit: "Hit", *, bold: bool = False) -> str:
    """Return a line about one message; ``bold`` shows the words that were asked for so."""
    from turnchart.flows.cli.words import moment, one_line, plain

    when = moment(hit.time, "%Y-%m-%d %H:%M")
    said, at = "", 0
    for begin, end in hit.marks:
        word = plain(hit.text[begin:end])
        said += plain(hit.text[at:begin]) + (typer.style(word, bold=True) if bold else word)
        at = end
    said += plain(hit.text[at:])
    kind = hit.type.removesuffix("/message").replace("tool/result", "result")
    return f"{one_line(hit.session)} {hit.seq}  {when}  {kind}: {said}"
