import json
from collections.abc import Callable
from typing import Any

import pytest

from turnchart.flows.cli.sessions import tree
from turnchart.machine.agent import Agent
from turnchart.machine.messages import ToolCall
from turnchart.machine.scripted import Reply, ScriptedModel
from turnchart.machine.session import Session
from turnchart.machine.tools import tool

Cli = Callable[..., Any]


@tool
def nod() -> str:
    """Nod."""
    return "yes"


async def recorded(session: Session) -> None:
    session.set_name("a name")
    model = ScriptedModel([Reply("see", tool_calls=[ToolCall("nod")]), "done", "again"])
    async with Agent(model, prompt="Be short.", tools=[nod], session=session) as agent:
        await agent.prompt("first")
        await agent.prompt("second")


async def test_what_a_store_holds(cli: Cli) -> None:
    await recorded(Session.sqlite("some.db", "one"))
    await recorded(Session.sqlite("some.db", "two"))
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


def test_an_empty_store(cli: Cli) -> None:
    assert cli("sessions", "list") == (0, "", "no sessions in .turnchart/sessions.db\n")
    assert json.loads(cli("sessions", "list", "--json").out) == []


@pytest.mark.parametrize("store", ["some.db", "many/", "one.jsonl"])
async def test_a_session_is_shown_turn_by_turn(cli: Cli, store: str) -> None:
    from turnchart.flows.cli.places import shelf

    session = shelf(store).open("mine", "x")
    await recorded(session)
    ended = cli("sessions", "show", "mine", "--store", store)
    assert (ended.code, ended.err) == (0, "")
    shown = [line.split(None, 1)[1] for line in ended.out.splitlines()[1:]]
    assert [" ".join(line.split()) for line in shown] == [
        "session name a name", "inbox next-turn: first", "turn 1", "step 1", "system Be short.", "user first",
        "assistant see [nod]", "call nod {}", "result nod ok: yes", "step 2", "assistant done",
        "end completed after 2 steps", "inbox next-turn: second", "turn 2", "step 1", "user second",
        "assistant again", "end completed after 1 step",
    ]  # fmt: skip
    raw = json.loads(cli("sessions", "show", "mine", "--json", "--store", store).out)
    assert raw["id"] == "mine"
    assert [entry["seq"] for entry in raw["entries"]] == list(range(len(session.entries)))


async def test_a_branch_says_what_it_follows() -> None:
    session = Session.memory()
    await recorded(session)
    session.navigate(2)
    session.append_label(2, "here")
    session.navigate(None)
    lines = list(tree(session.entries))
    end = len(session.entries) - 3
    assert [line.split() for line in lines[-4:]] == [
        [str(end), "leaf", '{"target":', "2}"],
        ["(follows", "2)"],
        [str(end + 1), "label", '{"target":', "2,", '"text":', '"here"}'],
        [str(end + 2), "leaf", '{"target":', "null}"],
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


def test_what_can_be_read_of_a_damaged_file_is_shown(cli: Cli) -> None:
    session = Session.jsonl("bad.jsonl")
    session.set_name("x")
    session.close()
    with open("bad.jsonl", "ab") as file:
        file.write(b'nonsense\n{"seq":2}\n')
    ended = cli("sessions", "show", "bad.jsonl")
    assert (ended.code, "session    name x" in ended.out) == (1, True)
    assert "bad.jsonl:3: no valid JSON" in ended.err


def test_wrong_usage(cli: Cli) -> None:
    assert cli("sessions").code == 2
    assert cli("sessions", "show").code == 2
    assert cli("sessions", "show", "nobody").code == 1
