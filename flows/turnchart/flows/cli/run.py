"""``turnchart run``: one turn of a flow, or a chat."""

from functools import partial
from typing import Annotated, Literal

import typer

_Json = Annotated[
    bool, typer.Option("--json", help="Write one signal a line, the turn last; read answers from stdin.")
]
_Plugins = Annotated[
    list[str] | None, typer.Option("--plugin", metavar="MODULE", help="Import this for its hooks and tools.")
]
_Trust = Annotated[bool, typer.Option("--trust", help="Agree to what the flow starts and reaches.")]
_Compact = Annotated[
    bool, typer.Option("--compact", help="Make the conversation of --session shorter; PROMPT comes after it.")
]
_Traces = Annotated[
    bool, typer.Option("--trace", help="Send spans to OpenTelemetry, which has to be set up.")
]


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
    as_json: _Json = False,
    approve: Annotated[
        Literal["all", "reads", "none"] | None, typer.Option(help="Answer every question beforehand.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(metavar="ID", help="Ask this model instead of the flow's.")
    ] = None,
    plugins: _Plugins = None,
    trust: _Trust = False,
    disabled: Annotated[
        list[str] | None, typer.Option("--disable-hook", metavar="ID", help="Leave this hook out.")
    ] = None,
    params: Annotated[
        list[str] | None, typer.Option("--param", metavar="NAME=VALUE", help="Say what the flow leaves open.")
    ] = None,
    record: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write what the models answer, as a script.")
    ] = None,
    compact: _Compact = False,
    traces: _Traces = False,
) -> None:
    """Run a flow. The answer goes to stdout; states, tools and questions go to stderr."""
    from turnchart.flows.cli.plan import info_of, params_of, plan_of, shelf_of, without_hooks
    from turnchart.flows.cli.recording import made, tape_of
    from turnchart.flows.cli.running import Run
    from turnchart.flows.cli.trusting import load_to_run

    given = params_of(params or ())
    loaded = load_to_run(flow, plugins or (), trust=trust, ask=not as_json, params=given)
    loaded = without_hooks(loaded, disabled or ())
    if compact and session is None:
        raise typer.BadParameter("which conversation? name it with --session ID", param_hint="--compact")
    plan = plan_of(loaded, prompt, model, as_json=as_json, compact=compact)
    shelf = shelf_of(loaded, store)
    tape = tape_of(record)
    again = partial(made, loaded, model, tape, traces=traces)
    agent = again(session=shelf.open(session, loaded.name))
    whole = Run(
        agent, plan, shelf, info_of(loaded), approve, as_json=as_json, again=lambda s: again(session=s)
    )
    try:
        code = whole.whole()
    finally:
        if tape is not None:
            tape.write()
    raise typer.Exit(code)
