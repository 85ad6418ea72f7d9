import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.flows.cli.recorded import recorded

from turnchart.machine.session import Session

Cli = Callable[..., Any]


@pytest.mark.parametrize("store", ["some.db", "many/", "one.jsonl"])
def test_a_session_is_shown_turn_by_turn(cli: Cli, store: str) -> None:
    session = recorded(store, "mine")
    ended = cli("sessions", "show", "mi", "--store", store)
    assert (ended.code, ended.err) == (0, "")
    title, *lines = ended.out.splitlines()
    assert title.startswith('session mine "a name" (')
    assert [" ".join(line.split()[1:]) for line in lines] == [
        "session name a name", "inbox next-turn: first", "turn 1", "step 1", "system Be short.", "user first",
        "assistant see [nod]", "call nod {}", "result nod ok: yes", "step 2", "assistant done",
        "end completed after 2 steps", "inbox next-turn: second", "turn 2", "step 1", "user second",
        "assistant again", "end completed after 1 step <- here",
    ]  # fmt: skip
    raw = json.loads(cli("sessions", "show", "mine", "--json", "--store", store).out)
    assert raw["id"] == "mine"
    assert [entry["seq"] for entry in raw["entries"]] == list(range(len(session.entries)))


def test_why_its_turns_ended(cli: Cli) -> None:
    recorded("some.db", "mine")
    lines = cli("sessions", "show", "some.db", "--why").out.splitlines()
    assert [line.partition(":")[0] for line in lines[1:]] == [
        "turn 1 ended as completed after 2 steps",
        "turn 2 ended as completed after 1 step",
    ]


def test_a_torn_tail_is_reported(cli: Cli) -> None:
    session = Session.jsonl("torn.jsonl")
    session.set_name("x")
    session.close()
    with open("torn.jsonl", "ab") as file:
        file.write(b'{"seq":1')
    ended = cli("sessions", "show", "torn.jsonl")
    assert (ended.code, "session    name x" in ended.out) == (0, True)
    assert ended.err.startswith("left out: a half-written last line")


@pytest.mark.parametrize("as_json", [False, True])
def test_what_can_be_read_of_a_damaged_file_is_shown(cli: Cli, as_json: bool) -> None:
    session = Session.jsonl("bad.jsonl")
    session.set_name("x")
    session.close()
    with open("bad.jsonl", "ab") as file:
        file.write(b'nonsense\n{"seq":2}\n')
    ended = cli("sessions", "show", "bad.jsonl", *(["--json"] if as_json else []))
    assert ended.code == 1
    assert '"name": "x"' in ended.out if as_json else "session    name x" in ended.out
    assert "bad.jsonl:3: no valid JSON" in ended.err
