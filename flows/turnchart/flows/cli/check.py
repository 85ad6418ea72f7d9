"""``turnchart check``: everything that is wrong with a flow, without running it."""

from typing import Annotated, Literal

import typer

from turnchart.flows.cli.options import Plugins


def check(
    flows: Annotated[
        list[str], typer.Argument(metavar="FLOW", help="Files, also test files, or names of shipped flows.")
    ],
    format: Annotated[
        Literal["text", "json", "github", "sarif"], typer.Option(help="How problems are printed.")
    ] = "text",
    strict: Annotated[bool, typer.Option("--strict", help="Let warnings count too.")] = False,
    here: Annotated[
        bool, typer.Option("--here", help="It must run on this machine: what is missing here is an error.")
    ] = False,
    no_env: Annotated[
        bool, typer.Option("--no-env", help="Check without the values of environment variables.")
    ] = False,
    lint: Annotated[
        bool, typer.Option("--lint", help="Say also what can never happen with this flow.")
    ] = False,
    plugins: Plugins = None,
    connect: Annotated[
        bool, typer.Option("--connect", help="Start the MCP servers of the flow, and ask for their tools.")
    ] = False,
    trust: Annotated[
        bool,
        typer.Option(
            "--trust", help="Agree to import the plug-ins of the project, and to what --connect does."
        ),
    ] = False,
) -> None:
    """Say all that is wrong with a flow, with its place and its cure.

    Nothing is started, but with --connect the MCP servers.
    """
    from turnchart.flows.cli.checking import say_problems

    code = say_problems(
        flows, format, strict=strict, here=here, no_env=no_env, lint=lint, plugins=plugins or (),
        connect=connect, trust=trust,
    )  # fmt: skip
    raise typer.Exit(code)
