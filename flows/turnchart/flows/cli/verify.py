"""``turnchart verify``: whether a recorded session is a walk of the chart."""

from typing import TYPE_CHECKING

import typer

from turnchart.flows.cli.sessions_place import FlowName, SessionName, StorePath, found

if TYPE_CHECKING:
    from turnchart.machine.stores import Store


def verify(session: SessionName, store: StorePath = None, flow: FlowName = None) -> None:
    """Judge the log of a session by the chart; name the first entry that is illegal. Only reads."""
    from turnchart.flows.cli.words import plain

    ok, text = judged(found(session, store, flow))
    typer.echo(plain(text), err=not ok)
    raise typer.Exit(0 if ok else 1)


def judged(store: "Store") -> tuple[bool, str]:
    """Return whether a log is legal, and a text about it."""
    from turnchart.machine.errors import SessionCorrupt
    from turnchart.machine.verify import Judge

    judge = Judge()
    try:
        for entry in store.load():
            refused = judge.take(entry)
            if refused is not None:
                return False, f"session {store.id}: illegal: {refused.message}"
    except SessionCorrupt as error:
        legal = judge.verdict()
        said = f"after {legal.entries} legal entries, in state {legal.state}: {error}"
        return False, f"session {store.id}: illegal: {said}"
    said = f"session {store.id}: {judge.verdict().message}"
    return True, f"{said}; left out: {store.dropped}" if store.dropped else said
