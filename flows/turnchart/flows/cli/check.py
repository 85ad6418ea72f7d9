"""``turnchart check``: everything that is wrong with a flow, without running it."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from turnchart.flows.problems import Problem


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
    plugins: Annotated[
        list[str] | None,
        typer.Option("--plugin", metavar="MODULE", help="Import this for its hooks and tools."),
    ] = None,
    trust: Annotated[
        bool, typer.Option("--trust", help="Agree to import the plug-ins of the project.")
    ] = False,
) -> None:
    """Say everything that is wrong with a flow, with its place and its cure. Nothing is started."""
    from turnchart.flows.cli.lean import without_pydantic_plugins
    from turnchart.flows.problems import as_here, exit_code, in_order, render_all

    env = None if no_env else os.environ
    with without_pydantic_plugins():
        problems = in_order(
            problem
            for flow in flows
            for problem in _problems(flow, plugins or (), env, trust=trust, lint=lint)
        )
    if here:
        problems = as_here(problems)
    if problems or format in ("json", "sarif"):
        typer.echo(render_all(problems, format))
    if format == "text":
        typer.echo(_summary(flows, [problem.level for problem in problems]))
    raise typer.Exit(exit_code(problems, strict=strict))


def _problems(
    name: str, plugins: Sequence[str], env: Mapping[str, str] | None, *, trust: bool, lint: bool
) -> "Sequence[Problem]":
    """Return what is wrong with a flow, or with a test file and the flow that it names."""
    if name.endswith(".test.yaml"):
        from turnchart.flows.testfiles.reading import is_suite

        if is_suite(Path(name)):
            from turnchart.flows.testfiles.finding import problems_of

            return problems_of(name, plugins, env, trust=trust)
    from turnchart.flows.check import check_flow

    return check_flow(name, plugins, env=env, trust=trust, lint=lint)


def _summary(flows: list[str], levels: list[str]) -> str:
    counts = [(level, levels.count(level)) for level in ("error", "warning", "note")]
    found = ", ".join(f"{count} {level}{'s' if count > 1 else ''}" for level, count in counts if count)
    return f"{', '.join(flows)}: {found or 'no problems'}"
