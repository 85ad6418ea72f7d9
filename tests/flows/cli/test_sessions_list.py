import json
from collections.abc import Callable
from typing import Any

from tests.flows.cli.recorded import recorded

Cli = Callable[..., Any]


def test_what_a_store_holds(cli: Cli) -> None:
    recorded("some.db", "one")
    recorded("some.db", "two")
    ended = cli("sessions", "list", "--store", "some.db")
    assert (ended.code, ended.err) == (0, "")
    assert [line.split()[0] for line in ended.out.splitlines()] == ["one", "two"]
    assert "2 turns" in ended.out
    assert "a name" in ended.out
    listed = json.loads(cli("sessions", "list", "--json", "--store", "some.db").out)
    assert [(each["id"], each["turns"], each["name"]) for each in listed] == [
        ("one", 2, "a name"),
        ("two", 2, "a name"),
    ]


def test_what_a_flow_keeps(cli: Cli, flow: Callable[..., str]) -> None:
    path = flow("[hi]", "session: {store: jsonl, path: logs}\n")
    recorded("logs/", "one")
    assert cli("sessions", "list", "--flow", path).out.split()[0] == "one"


def test_an_empty_store(cli: Cli) -> None:
    assert cli("sessions", "list") == (0, "", "no sessions in .turnchart/sessions.db\n")
    assert json.loads(cli("sessions", "list", "--json").out) == []
