"""``turnchart run``: one turn of a flow, or a chat."""

from typing import Annotated, Literal

import typer

from turnchart.flows.cli.options import FlowFile, Params, Plugins, RunStore, Trust

_Json = Annotated[
    bool, typer.Option("--json", help="Write one signal a line, the turn last; read answers from stdin.")
]
_Compact = Annotated[
    bool, typer.Option("--compact", help="Make the conversation of --session shorter; PROMPT comes after it.")
]
_Traces = Annotated[
    bool, typer.Option("--trace", help="Send spans to OpenTelemetry, which has to be set up.")
]
_Verbose = Annotated[
    bool,
    typer.Option(
        "--verbose", "-v", help="Tell also of every hook, what programs wrote to stderr, tokens and times."
    ),
]


def run(
    flow: FlowFile,
    prompt: Annotated[
        str | None,
        typer.Argument(
            metavar="PROMPT", help="What to say; - or a pipe reads stdin. On a terminal without one: a chat."
        ),
    ] = None,
    session: Annotated[
        str | None, typer.Option(metavar="ID", help="Go on with this session, or begin it; else a new one.")
    ] = None,
    store: RunStore = None,
    as_json: _Json = False,
    approve: Annotated[
        Literal["all", "reads", "none"] | None, typer.Option(help="Answer every question beforehand.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(metavar="ID", help="Ask this model instead of the flow's.")
    ] = None,
    plugins: Plugins = None,
    trust: Trust = False,
    disabled: Annotated[
        list[str] | None, typer.Option("--disable-hook", metavar="ID", help="Leave this hook out.")
    ] = None,
    params: Params = None,
    record: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write what the models answer, as a script.")
    ] = None,
    compact: _Compact = False,
    traces: _Traces = False,
    verbose: _Verbose = False,
) -> None:
    """Run a flow. The answer goes to stdout; states, tools and questions go to stderr."""
    from turnchart.flows.cli.starting import start

    code = start(
        flow,
        prompt,
        session=session,
        store=store,
        as_json=as_json,
        approve=approve,
        model=model,
        plugins=plugins or (),
        trust=trust,
        disabled=disabled or (),
        params=params or (),
        record=record,
        compact=compact,
        traces=traces,
        verbose=verbose,
    )
    raise typer.Exit(code)
