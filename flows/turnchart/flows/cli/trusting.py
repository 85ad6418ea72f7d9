"""Loading a flow to run it: what it starts and reaches is shown, and a person agrees to it or not."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from turnchart.flows.agreements import agree, agreements_file
from turnchart.flows.cli.words import one_line
from turnchart.flows.load import Flow, load_flow
from turnchart.flows.secrets import masked
from turnchart.flows.trust import Reach

if TYPE_CHECKING:
    from turnchart.flows.check import Checked


def load_to_run(
    flow: str,
    plugins: Iterable[str] = (),
    *,
    trust: bool = False,
    ask: bool = True,
    params: Mapping[str, str] = MappingProxyType({}),
) -> Flow:
    """Load a flow; at a terminal, ask for what nobody agreed to yet.

    Where nobody can be asked, or the answer is no, the flow comes back untrusted: it refuses to run.

    Args:
        flow: A file, or the name of a shipped flow.
        plugins: Named on the command line.
        trust: Agree for this once, and keep nothing.
        ask: Somebody may be asked.
        params: Values of the params of the flow.

    Raises:
        FlowError: If anything is wrong with it.
        TurnchartError: If the answer cannot be kept.
    """
    named = list(plugins)
    loaded = load_flow(flow, named, trust=trust, params=params)
    while loaded.new_reaches and ask and by_hand() and _agrees(loaded):
        keep(loaded.checked, loaded.reaches)
        loaded = load_flow(flow, named, params=params)  # a plug-in that is known now may start more
    return loaded


def by_hand() -> bool:
    """Tell whether a person can be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def _agrees(flow: Flow) -> bool:
    import typer  # nobody is asked in most runs

    typer.echo("\n".join(question(flow.name, flow.new_reaches, all_of=flow.reaches)), err=True)
    return typer.confirm("Agree, until one of these changes?", default=False, err=True)


def question(name: str, new: Sequence[Reach], all_of: Sequence[Reach]) -> list[str]:
    """Return the list that a person agrees to: what is new, after how much was agreed to before."""
    before = len(all_of) - len(new)
    known = f" ({before} more {'was' if before == 1 else 'were'} agreed to before)" if before else ""
    lines = [f"{one_line(name)} wants to do what nobody agreed to yet{known}:"]
    return [
        *lines, *(f"  {one_line(masked(str(reach)), None)}  ({one_line(reach.where)})" for reach in new),
    ]  # fmt: skip


def keep(checked: "Checked", reaches: Iterable[Reach]) -> None:
    """Note that a person agreed to all of this.

    Raises:
        TurnchartError: If the answer cannot be kept.
    """
    listed = list(reaches)
    own = {reach.digest for reach in listed if reach.kind != "plug-in"}
    if own:
        agree(checked.path, checked.place.root, own)
    if checked.plugins is not None:
        plugins = {reach.digest for reach in listed if reach.kind == "plug-in"}
        agree(checked.plugins.path, checked.plugins.root, plugins)
    print(f"the answer is kept in {agreements_file()}", file=sys.stderr)
