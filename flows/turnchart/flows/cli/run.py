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
    params: Annotated[
        list[str] | None, typer.Option("--param", metavar="NAME=VALUE", help="Say what the flow leaves open.")
    ] = None,
    compact: Annotated[
        bool,
        typer.Option("--compact", help="Make the conversation of --session shorter; PROMPT comes after it."),
    ] = False,
) -> None:
    """Run a flow. The answer goes to stdout; states, tools and questions go to stderr."""
    from turnchart.flows.cli.plan import info_of, params_of, plan_of, shelf_of, without_hooks
    from turnchart.flows.cli.running import Run
    from turnchart.flows.cli.trusting import load_to_run

    given = params_of(params or ())
    loaded = load_to_run(flow, plugins or (), trust=trust, ask=not as_json, params=given)
    loaded = without_hooks(loaded, disabled or ())
    if compact and session is None:
        raise typer.BadParameter("which conversation? name it with --session ID", param_hint="--compact")
    plan = plan_of(loaded, prompt, model, as_json=as_json, compact=compact)
    shelf = shelf_of(loaded, store)
    agent = loaded.agent(session=shelf.open(session, loaded.name), model=model)
    raise typer.Exit(Run(agent, plan, shelf, info_of(loaded), approve, as_json=as_json).whole())
