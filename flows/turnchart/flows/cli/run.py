"""``turnchart run``: one turn of a flow, or a chat."""

from typing import Annotated, Literal

import typer


def run(
    flow: Annotated[str, typer.Argument(metavar="FLOW", help="A file, or the name of a shipped flow.")],
    prompt: Annotated[
        str | None,
        typer.Argument(
            metavar="PROMPT", help="What to say; - or a pipe reads stdin. On a terminal without one: a chat."
        ),
    ] = None,
    session: Annotated[
        str | None, typer.Option(metavar="ID", help="Go on with this session, or begin it; else a new one.")
    ] = None,
    store: Annotated[
        str | None, typer.Option(metavar="PATH", help="A .jsonl file, a folder of them, or a SQLite file.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Write one signal a line, the turn last; read answers from stdin.")
    ] = False,
    approve: Annotated[
        Literal["all", "reads", "none"] | None, typer.Option(help="Answer every question beforehand.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(metavar="ID", help="Ask this model instead of the flow's.")
    ] = None,
    plugins: Annotated[
        list[str] | None,
        typer.Option("--plugin", metavar="MODULE", help="Import this for its hooks and tools."),
    ] = None,
    trust: Annotated[
        bool, typer.Option("--trust", help="Agree to what the flow starts and reaches.")
    ] = False,
    disabled: Annotated[
        list[str] | None, typer.Option("--disable-hook", metavar="ID", help="Leave this hook out.")
    ] = None,
) -> None:
    """Run a flow. The answer goes to stdout; states, tools and questions go to stderr."""
    from turnchart.flows import load_flow
    from turnchart.flows.cli.plan import info_of, plan_of, shelf_of, without_hooks
    from turnchart.flows.cli.running import Run

    loaded = without_hooks(load_flow(flow, plugins or (), trust=trust), disabled or ())
    plan = plan_of(loaded, prompt, model, as_json=as_json)
    shelf = shelf_of(loaded, store)
    agent = loaded.agent(session=shelf.open(session, loaded.name), model=model)
    raise typer.Exit(Run(agent, plan, shelf, info_of(loaded), approve, as_json=as_json).whole())
