from collections.abc import Callable
from typing import Any

import pytest

from turnchart.flows.cli.sessions import COMMANDS

Cli = Callable[..., Any]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_says_what_it_does(cli: Cli, command: str) -> None:
    ended = cli("sessions", command, "--help")
    assert ended.code == 0
    assert "--store" in ended.out
    assert "--flow" in ended.out
    assert command in cli("sessions", "--help").out


def test_wrong_usage(cli: Cli) -> None:
    assert cli("sessions").code == 2
    assert cli("sessions", "show").code == 2
    assert cli("sessions", "show", "nobody").code == 1
