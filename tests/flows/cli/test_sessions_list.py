import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.flows.cli.recorded import recorded

from turnchart.flows.cli.places import shelf
from turnchart.machine.entries import Frozen
from turnchart.machine.messages import UserMessage
from turnchart.machine.session import Session

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


@pytest.fixture
def folder(cli: Cli) -> Path:
    """A folder with one session, and with much that is none."""
    recorded("many/", "fine")
    many = Path("many")
    whole = (many / "fine.jsonl").read_text()
    (many / "foreign.jsonl").write_text('{"other":"program"}\n')
    (many / "newer.jsonl").write_text('{"turnchart":99,"session":"newer"}\n')
    (many / "damaged.jsonl").write_text(f"{whole}nonsense\n\n")
    (many / "folder.jsonl").mkdir()
    (many / "nowhere.jsonl").symlink_to("nobody")
    (many / "loop.jsonl").symlink_to("loop.jsonl")
    os.mkfifo(many / "pipe.jsonl")
    return many


def test_what_is_no_session_keeps_nobody_from_those_that_are(cli: Cli, folder: Path) -> None:
    listed = cli("sessions", "list", "--store", "many/")
    assert (listed.code, [line.split()[0] for line in listed.out.splitlines()]) == (1, ["fine"])
    assert len(json.loads(cli("sessions", "list", "--json", "--store", "many/").out)) == 1
    searched = cli("sessions", "search", "first", "--store", "many/")
    assert (searched.code, len(searched.out.splitlines())) == (1, 2), "also what comes before the damage"
    for ended in (listed, searched):
        said = ended.err.splitlines()
        assert [line.partition(".jsonl")[0].rpartition("/")[2] for line in said] == [
            "damaged",
            "foreign",
            "newer",
        ]
    assert cli("sessions", "show", "fine", "--store", "many/").code == 0


def test_a_file_that_was_renamed_is_listed_by_its_name_and_found_by_both(cli: Cli) -> None:
    recorded("many/", "one")
    recorded("many/", "two")
    Path("many/two.jsonl").rename("many/zwei.jsonl")
    listed = cli("sessions", "list", "--store", "many/").out
    assert [line.split()[0] for line in listed.splitlines()] == ["one", "zwei"]
    for name in ("two", "zwei"):
        assert cli("sessions", "show", name, "--store", "many/").out.startswith("session two")
    assert shelf("many/").open("two", "x").store.where.endswith("zwei.jsonl"), "it goes on where it is"
    assert "there is a session 'two'" in cli("sessions", "fork", "one", "--id", "two", "--store", "many/").err
    copy = Path("many/zwei.jsonl").read_text()
    Path("many/drei.jsonl").write_text(copy)
    said = cli("sessions", "show", "two", "--store", "many/").err
    assert "several files of many hold a session 'two'; name one: drei, zwei" in said


def test_times_that_no_calendar_has(cli: Cli) -> None:
    session = Session.jsonl("many/far.jsonl")
    session.append("user/message", Frozen(message=UserMessage("hello")), time=1e300)
    session.close()
    assert "  ?  0 turns, 1 entry" in cli("sessions", "list", "--store", "many/").out
    assert "  ?  user: hello" in cli("sessions", "search", "hello", "--store", "many/").out


def test_a_long_id_does_not_push_the_others_out_of_sight(cli: Cli) -> None:
    recorded("some.db", "x" * 400)
    recorded("some.db", "two")
    assert max(map(len, cli("sessions", "list", "--store", "some.db").out.splitlines())) < 260
