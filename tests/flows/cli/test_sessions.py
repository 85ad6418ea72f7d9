import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest
from tests.flows.cli.recorded import recorded

from turnchart.flows.cli.sessions import COMMANDS
from turnchart.machine.entries import Frozen
from turnchart.machine.session import Session

Cli = Callable[..., Any]
HOOK = Frozen(turn=2, step=1, point="pre_tool", id="h", where="", decision="deny", reason="no", seconds=0.1)


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


WEIRD: tuple[Any, ...] = (
    None,
    True,
    -1,
    1e300,
    10**30,
    "",
    "x",
    [],
    [1],
    {},
    {"a": 1},
    {"role": "user"},
    "\x1b[31m",
)


def changed(value: Any, random: Random) -> Any:
    """Return JSON in which one value somewhere is another one."""
    if not isinstance(value, dict | list) or not value or random.random() < 0.2:
        return random.choice(WEIRD)
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        name = random.choice([*fields])
        return {**fields, name: changed(fields[name], random)}
    items: list[Any] = [*value]
    at = random.randrange(len(items))
    return [*items[:at], changed(items[at], random), *items[at + 1 :]]


@pytest.mark.parametrize("seed", range(6))
def test_a_file_that_was_changed_by_hand_gets_a_message_from_every_command(cli: Cli, seed: int) -> None:
    """What it says is right or wrong in itself; nothing here ends in a traceback."""
    random = Random(seed)
    session = recorded("some.jsonl", "mine")
    session.append_label(3, "here")
    session.navigate(4, summary="what was left")
    session.append("hook/result", HOOK)
    session.append("approval/decided", Frozen(turn=2, step=1, call_id="c", outcome="approved"))
    session.append("llm/retry", Frozen(turn=2, step=1, retry=1, after=1.0, kind="timeout", by="policy"))
    session.close()
    path = Path("some.jsonl")
    header, *lines = path.read_text().splitlines()
    for _ in range(8):
        at = random.randrange(len(lines))
        rows = [*lines[:at], json.dumps(changed(json.loads(lines[at]), random)), *lines[at + 1 :]]
        path.write_text("\n".join([header, *rows, ""]))
        for command in (
            ("sessions", "show"), ("sessions", "show", "--why"), ("sessions", "export", "--format", "pi"),
            ("sessions", "fork"), ("sessions", "list", "--store"), ("sessions", "search", "x", "--store"),
            ("sessions", "repair", "-o", "fixed.jsonl"), ("verify",), ("diagram", "--session"),
        ):  # fmt: skip
            ended = cli(*command, "some.jsonl")
            assert ended.code in (0, 1), command
            assert ended.out or ended.err, command
        if Path("fixed.jsonl").exists():
            assert Session.jsonl("fixed.jsonl").entries, "what was repaired can be opened"
            Path("fixed.jsonl").unlink()
