"""``turnchart show``: a flow as it counts, with its parents, and the chains of its hooks."""

from typing import Annotated

import typer

from turnchart.flows.cli.options import FlowFile, Plugins


def show(
    flow: FlowFile,
    as_resolved: Annotated[
        bool, typer.Option("--resolved", help="The file merged with its parents; each line says its origin.")
    ] = False,
    as_hooks: Annotated[
        bool, typer.Option("--hooks", help="The chains of hooks, in the order in which they run.")
    ] = False,
    plugins: Plugins = None,
) -> None:
    """Show a flow as it counts. Variables stay unexpanded, and nothing is started."""
    from turnchart.flows.chains import chains
    from turnchart.flows.check import check_flow, examine
    from turnchart.flows.cli.words import plain
    from turnchart.flows.problems import FlowError, exit_code, render_all
    from turnchart.flows.resolved import resolved

    if as_resolved and as_hooks:
        raise typer.BadParameter("take one of --resolved and --hooks", param_hint="--hooks")
    problems = check_flow(flow, plugins or (), env=None)
    checked = examine(flow, plugins or (), None, unexpanded=True)
    if checked.parts is None:
        raise FlowError(problems)
    text = "\n".join([*chains(checked), ""]) if as_hooks else resolved(checked.parts.root)
    typer.echo(plain(text), nl=False)
    if problems:
        typer.echo(plain(render_all(problems)), err=True)
    raise typer.Exit(exit_code(problems))
