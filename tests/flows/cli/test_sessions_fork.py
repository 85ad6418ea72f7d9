import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.flows.cli.recorded import recorded

Cli = Callable[..., Any]


def entries(cli: Cli, id: str, store: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(cli("sessions", "show", id, "--store", store, "--json").out)[
        "entries"
    ]
    return found


def messages(found: list[dict[str, Any]]) -> list[str]:
    said = (entry["data"]["message"] for entry in found if entry["type"].endswith("/message"))
    return ["".join(block.get("text", "") for block in message["content"]) for message in said]


@pytest.mark.parametrize("store", ["some.db", "many/"])
def test_a_whole_session_is_copied(cli: Cli, store: str) -> None:
    session = recorded(store, "mine")
    ended = cli("sessions", "fork", "mine", "--store", store)
    assert (ended.code, ended.err) == (0, "")
    id = ended.out.strip()
    assert id.startswith("mine-")
    copy = entries(cli, id, store)
    assert messages(copy) == messages(entries(cli, "mine", store))
    assert len(entries(cli, "mine", store)) == len(session.entries), "the session stays as it is"
    assert cli("verify", id, "--store", store).code == 0


def test_a_session_is_copied_up_to_a_place(cli: Cli) -> None:
    session = recorded("some.db", "mine")
    second = [entry.seq for entry in session.entries if entry.type == "user/message"][1]
    one = cli("sessions", "fork", "some.db", "--before", str(second), "--id", "one").out.strip()
    assert one == "one"
    assert messages(entries(cli, "one", "some.db")) == ["Be short.", "first", "see", "done"]
    assert cli("sessions", "fork", "mine", "--store", "some.db", "--at", str(second), "--id", "two").code == 0
    assert messages(entries(cli, "two", "some.db"))[-1] == "second"


def test_a_fork_of_a_file_stands_beside_it(cli: Cli) -> None:
    recorded("deep/one.jsonl", "one")
    id = cli("sessions", "fork", "deep/one.jsonl").out.strip()
    assert cli("sessions", "show", f"deep/{id}.jsonl").code == 0
    again = cli("sessions", "fork", "deep/one.jsonl", "--id", id)
    assert (again.code, "give another id with --id" in again.err) == (1, True)


def test_places_that_are_none(cli: Cli) -> None:
    recorded("some.db", "mine")
    for options, said in (
        (("--at", "3", "--before", "3"), "give --at or --before, not both"),
        (("--at", "999"), "there is no entry 999"),
        (("--before", "0"), "goes back to before a `user/message` only"),
        (("--at", "x"), "Invalid value for '--at'"),
    ):
        ended = cli("sessions", "fork", "some.db", *options)
        assert (ended.code, said in ended.err) == (2, True), ended.err
    assert len(cli("sessions", "list", "--store", "some.db").out.splitlines()) == 1


def test_a_turn_that_is_open_is_not_copied(cli: Cli) -> None:
    from turnchart.machine.entries import Frozen
    from turnchart.machine.session import Session

    Session.sqlite("some.db", "mine").append("turn/start", Frozen(turn=1))
    ended = cli("sessions", "fork", "some.db")
    assert (ended.code, "turn 1 of session mine is open: fork it when it is over" in ended.err) == (1, True)
