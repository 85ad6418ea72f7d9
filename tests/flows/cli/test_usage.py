from collections.abc import Callable
from typing import Any

import pytest

from turnchart.flows.cli.main import COMMANDS

Cli = Callable[..., Any]


@pytest.mark.parametrize(
    ("arguments", "usage"),
    [
        (("run",), "turnchart run [OPTIONS] FLOW [PROMPT]"),
        (("check",), "turnchart check [OPTIONS] FLOW"),  # before Typer 0.29 without dots
        (("hook", "test"), "turnchart hook test [OPTIONS] POINT FLOW"),
        (("sessions", "fork"), "turnchart sessions fork [OPTIONS] SESSION"),
    ],
)
def test_usage_names_the_arguments_as_the_help_does(cli: Cli, arguments: tuple[str, ...], usage: str) -> None:
    wrong = cli(*arguments)
    first = {said.splitlines()[0].removesuffix("...") for said in (wrong.err, cli(*arguments, "--help").out)}
    assert (wrong.code, first) == (2, {f"Usage: {usage}"})


@pytest.mark.parametrize("command", COMMANDS)
def test_no_usage_has_braces(cli: Cli, command: str) -> None:
    assert "{" not in cli(command, "--help").out.splitlines()[0]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("run", "demo", "x", "--approve", "maybe"), "'maybe' is not one of 'all', 'reads', 'none'."),
        (("check", "demo", "--format", "xml"), "'xml' is not one of"),
        (("sessions", "export", "x", "--format", "xml"), "'xml' is not one of"),
    ],
)
def test_a_value_that_is_none_of_those_that_there_are(
    cli: Cli, arguments: tuple[str, ...], says: str
) -> None:
    ended = cli(*arguments)
    assert (ended.code, ended.err.splitlines()[-1].partition(": ")[2].partition(": ")[2][: len(says)]) == (
        2,
        says,
    )
