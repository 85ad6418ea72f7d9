"""``turnchart run``: one turn of a flow, or a chat."""

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
_Verbose = Annotated[
    bool,
    typer.Option(
        "--verbose", "-v", help="Tell also of every hook, what programs wrote to stderr, tokens and times."
    ),
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
