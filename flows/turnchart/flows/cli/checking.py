"""What ``turnchart check`` does. It needs no parser of options, so a check without any does not load one."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from turnchart.flows.cli.lean import without_pydantic_plugins
from turnchart.flows.cli.words import escaped, plain
from turnchart.flows.problems import as_here, exit_code, in_order, render_all

if TYPE_CHECKING:
    from turnchart.flows.problems import Format, Problem


def say_problems(
    flows: Sequence[str],
    format: "Format" = "text",
    *,
    strict: bool = False,
    here: bool = False,
    no_env: bool = False,
    lint: bool = False,
    plugins: Sequence[str] = (),
    connect: bool = False,
    trust: bool = False,
) -> int:
    """Print everything that is wrong with flows and test files, and return the exit code.

    Args:
        flows: Files, or names of shipped flows.
        format: How problems are printed.
        strict: Warnings count too.
        here: What this machine lacks is an error.
        no_env: Check without the values of environment variables.
        lint: Say also what can never happen.
        plugins: Modules to import for their hooks and tools.
        connect: Start the MCP servers, and ask for their tools.
        trust: Somebody agrees to the plug-ins of the project, and to what ``connect`` does.
    """
    env = None if no_env else os.environ
    with without_pydantic_plugins():
        problems = in_order(
            problem for flow in flows for problem in _problems(flow, plugins, env, trust=trust, lint=lint)
        )
    if connect:
        problems = in_order(
            problem for flow in flows for problem in _connected(flow, plugins, problems, trust=trust)
        )
    if here:
        problems = as_here(problems)
    if problems or format in ("json", "sarif"):
        text = render_all(problems, format)
        print(escaped(text) if format in ("json", "sarif") else plain(text))
    if format == "text":
        print(plain(_summary(flows, [problem.level for problem in problems])))
    return exit_code(problems, strict=strict)


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


def _connected(
    name: str, plugins: Sequence[str], known: "Sequence[Problem]", *, trust: bool
) -> "Sequence[Problem]":
    """Return the known problems with what the MCP servers of a flow say; of one with errors none is asked."""
    from turnchart.flows.problems import exit_code

    if name.endswith(".test.yaml") or exit_code(known):
        return known
    from turnchart.flows.check import examine
    from turnchart.flows.connecting import connect

    checked = examine(name, plugins, trust=trust)
    checked.problems = list(known)
    return connect(checked, trust=trust)


def _summary(flows: Sequence[str], levels: Sequence[str]) -> str:
    counts = [(level, levels.count(level)) for level in ("error", "warning", "note")]
    found = ", ".join(f"{count} {level}{'s' if count > 1 else ''}" for level, count in counts if count)
    return f"{', '.join(flows)}: {found or 'no problems'}"
