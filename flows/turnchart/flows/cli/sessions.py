"""``turnchart sessions``: what is in a store, and what a session says."""

import json
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from turnchart.machine.entries import Entry

Place = Annotated[
    str | None,
    typer.Option("--store", metavar="PATH", help="A .jsonl file, a folder of them, or a SQLite file."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]

app = typer.Typer(help="Look at recorded sessions.", no_args_is_help=True, rich_markup_mode=None)


@app.command("list")
def list_(store: Place = None, as_json: AsJson = False) -> None:
    """List the sessions of a store, the oldest first."""
    from turnchart.flows.cli.places import shelf
    from turnchart.flows.cli.words import one_line

    place = shelf(store)
    found = place.list()
    if as_json:
        typer.echo(json.dumps([info._asdict() for info in found], indent=2))
        return
    if not found:
        typer.echo(f"no sessions in {place.path}", err=True)
    width = max((len(info.id) for info in found), default=0)
    for info in found:
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(info.updated))
        counts = f"{_some(info.turns, 'turn')}, {_some(info.entries, 'entry', 'entries')}"
        typer.echo(f"{one_line(info.id):<{width}}  {when}  {counts}  {one_line(info.name)}".rstrip())


@app.command()
def show(
    session: Annotated[str, typer.Argument(metavar="SESSION", help="An id, or a file (.jsonl, .db).")],
    store: Place = None,
    as_json: AsJson = False,
) -> None:
    """Show a session: its turns, steps, messages, tools and reasons, with the number of each entry."""
    from turnchart.flows.cli.json_lines import entry_record
    from turnchart.flows.cli.places import find
    from turnchart.flows.cli.words import one_line

    found = find(session, store)
    if as_json:
        record = {"id": found.id, "entries": [entry_record(entry) for entry in found.load()]}
        typer.echo(json.dumps(record, indent=2))
        return
    typer.echo(f"session {one_line(found.id)} ({found.where})")
    for line in tree(found.load()):
        typer.echo(line)
    if found.dropped:
        typer.echo(f"left out: {found.dropped}", err=True)


def tree(entries: Iterable["Entry"]) -> Iterator[str]:
    """Yield a log line by line, indented by turn and step; a new branch says what it follows."""
    from turnchart.flows.cli.words import words

    depth, last = 0, None
    for entry in entries:
        said = words(entry)
        if entry.type in ("turn/start", "turn/end"):
            depth = 0
        elif entry.type == "step/start":
            depth = 1
        if entry.parent != last:
            yield f"{'':>5}  (follows {'nothing' if entry.parent is None else entry.parent})"
        last = entry.seq
        if said is not None:
            yield f"{entry.seq:>5}  {'  ' * depth}{said.label:<10} {said.text}".rstrip()
        if entry.type in ("turn/start", "step/start"):
            depth += 1
        elif entry.type == "step/end":
            depth = 1


def _some(count: int, one: str, more: str = "") -> str:
    return f"{count} {one if count == 1 else more or f'{one}s'}"
