"""How the commands are told which session is meant: the same argument and options everywhere."""

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from turnchart.flows.cli.places import Shelf
    from turnchart.machine.jsonl import JsonlStore
    from turnchart.machine.sqlite import SqliteStore

SessionName = Annotated[
    str,
    typer.Argument(metavar="SESSION", help="An id, or how one begins, or a file (.jsonl, .db)."),
]
StorePath = Annotated[
    str | None,
    typer.Option("--store", metavar="PATH", help="A .jsonl file, a folder of them, or a SQLite file."),
]
FlowName = Annotated[
    str | None, typer.Option("--flow", metavar="FLOW", help="Where this flow keeps its sessions.")
]
NewId = Annotated[
    str | None, typer.Option("--id", metavar="ID", help="The id of the new session; else one is chosen.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def chosen(store: str | None, flow: str | None) -> "Shelf | None":
    """Return the place that the options name; None where they name none.

    Raises:
        BadParameter: If they name two.
        FlowError: If the flow has errors.
        SessionError: If the flow keeps nothing.
    """
    from turnchart.flows.cli.places import shelf

    if flow is None:
        return None if store is None else shelf(store)
    if store is not None:
        raise typer.BadParameter("give --store or --flow, not both", param_hint="--flow")
    return _of_flow(flow)


def _of_flow(flow: str) -> "Shelf":
    """Return where a flow keeps its sessions; what is wrong elsewhere in it, as in a hook, is no matter."""
    from turnchart.flows.check import examine
    from turnchart.flows.cli.places import declared, usual
    from turnchart.flows.problems import FlowError
    from turnchart.machine.errors import SessionError

    checked = examine(flow)
    spec = checked.parts.file.session if checked.parts else None
    if checked.parts is None or (spec is None and "session" in checked.parts.root.fields):
        raise FlowError(checked.problems)
    if spec is None:
        return usual()
    if spec.store == "memory":
        raise SessionError(f"{flow} keeps no sessions: its `session.store` is memory")
    return declared(spec.store, spec.path, checked.place.root)


def found(session: str, store: str | None, flow: str | None) -> "JsonlStore | SqliteStore":
    """Return the store of the session that a command line names.

    Raises:
        BadParameter: If the options name two places.
        FlowError: If the flow cannot be read.
        SessionError: If there is no such session, or several.
    """
    from turnchart.flows.cli.places import find

    return find(session, chosen(store, flow))
