"""How the commands find the session that is meant, by the options that they share."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import typer

if TYPE_CHECKING:
    from turnchart.flows.check import Checked
    from turnchart.flows.cli.places import Shelf
    from turnchart.machine.stores import Store


def chosen(
    store: str | None, flow: str | None, plugins: Sequence[str] = (), *, trust: bool = False
) -> "Shelf | None":
    """Return the place that the options name; None where they name none.

    Raises:
        BadParameter: If they name two.
        FlowError: If the flow has errors.
        SessionError: If the flow keeps nothing.
        NotTrusted: If it keeps them in a store of a plug-in, and nobody agreed to that.
    """
    from turnchart.flows.cli.places import shelf

    if flow is None:
        return None if store is None else shelf(store)
    if store is not None:
        raise typer.BadParameter("give --store or --flow, not both", param_hint="--flow")
    return _of_flow(flow, plugins, trust=trust)


def _of_flow(flow: str, plugins: Sequence[str], *, trust: bool) -> "Shelf":
    """Return where a flow keeps its sessions; what is wrong elsewhere in it, as in a hook, is no matter."""
    from turnchart.flows.check import examine
    from turnchart.flows.cli.places import declared, usual
    from turnchart.flows.problems import FlowError
    from turnchart.machine.errors import SessionError
    from turnchart.machine.stores import BUILTIN_STORES

    checked = examine(flow, plugins, trust=trust)
    spec = checked.parts.file.session if checked.parts else None
    if checked.parts is None or (spec is None and "session" in checked.parts.root.fields):
        raise FlowError(checked.problems)
    if checked.store is not None:
        return _registered(flow, checked, plugins, trust=trust)
    if spec is None:
        return usual()
    if spec.store == "memory":
        raise SessionError(f"{flow} keeps no sessions: its `session.store` is memory")
    if spec.store not in BUILTIN_STORES:
        raise FlowError([each for each in checked.problems if each.code in _OF_STORE] or checked.problems)
    return declared(spec.store, spec.path, checked.place.root)


def _registered(flow: str, checked: "Checked", plugins: Sequence[str], *, trust: bool) -> "Shelf":
    """Return the place of a store that a plug-in registers, once somebody agreed to reach it."""
    from turnchart.flows.cli.registered import Registered
    from turnchart.flows.problems import NotTrusted
    from turnchart.flows.trust import not_agreed, of_store

    if not (trust or checked.shipped):
        own = of_store(checked)
        new = [reach for reach in not_agreed(checked) if reach.digest in own]
        if new:
            raise NotTrusted([reach.problem() for reach in new])
    assert checked.store is not None, "a registered store was found"
    return Registered.of(checked.store, flow, plugins)


_OF_STORE: Final = ("unknown-store", "plugin", "plugin-not-trusted")
"""What keeps a store from being found."""


def found(
    session: str, store: str | None, flow: str | None, plugins: Sequence[str] = (), *, trust: bool = False
) -> "Store":
    """Return the store of the session that a command line names.

    Raises:
        BadParameter: If the options name two places.
        FlowError: If the flow cannot be read.
        SessionError: If there is no such session, or several.
    """
    from turnchart.flows.cli.places import find

    return find(session, chosen(store, flow, plugins, trust=trust))
