"""``turnchart sessions show``: what a session says, as a tree, and why."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

from turnchart.flows.cli.options import AsJson, FlowName, FlowPlugins, FlowTrust, SessionName, StorePath
from turnchart.flows.cli.sessions_place import found

if TYPE_CHECKING:
    from turnchart.machine.entries import Entry
    from turnchart.machine.errors import SessionCorrupt
    from turnchart.machine.stores import Store


def show(
    session: SessionName,
    store: StorePath = None,
    flow: FlowName = None,
    plugins: FlowPlugins = None,
    trust: FlowTrust = False,
    because: Annotated[
        bool, typer.Option("--why", help="Say why each turn ended, and which hooks and people decided.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show a session as a tree. It has turns, steps, messages, tools, branches and labels.

    It goes on at the entry that is marked `<- here`. The numbers are those of the entries; `fork` takes them.
    """
    from turnchart.flows.cli.json_lines import entry_record
    from turnchart.flows.cli.sessions_tree import tree
    from turnchart.flows.cli.sessions_why import why
    from turnchart.flows.cli.streams import forgive

    forgive()
    kept = found(session, store, flow, plugins or (), trust=trust)
    entries, wrong = _readable(kept)
    if as_json:
        record = {"id": kept.id, "entries": [entry_record(entry) for entry in entries]}
        typer.echo(json.dumps(record, indent=2))
    else:
        typer.echo(_title(kept, entries))
        for line in why(entries) if because else tree(entries):
            typer.echo(line)
    if kept.dropped:
        typer.echo(f"left out: {kept.dropped}", err=True)
    if wrong is not None:
        raise wrong


def _readable(kept: "Store") -> "tuple[list[Entry], SessionCorrupt | None]":
    """Return the entries of a log up to the first damaged one, and what is wrong with that."""
    from turnchart.machine.errors import SessionCorrupt
    from turnchart.machine.session import Session
    from turnchart.machine.stores import MemoryStore

    class Unread(MemoryStore):  # is called like the one that is read, and holds nothing
        where = kept.where
        path = getattr(kept, "path", None)

    session = Session(Unread(kept.id))
    try:
        for entry in kept.load():
            session.copy((entry,))  # what came before a damaged one stays
    except SessionCorrupt as error:
        return session.entries, error
    return session.entries, None


def _title(kept: "Store", entries: "list[Entry]") -> str:
    from turnchart.flows.cli.words import one_line

    names = [entry.data["name"] for entry in entries if entry.type == "session_info" and "name" in entry.data]
    named = f' "{one_line(str(names[-1]))}"' if names and names[-1] else ""
    return f"session {one_line(kept.id)}{named} ({one_line(kept.where, None)})"
