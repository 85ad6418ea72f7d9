import sys
from pathlib import Path

import pytest

from turnchart.flows.cli.places import Shelf
from turnchart.flows.cli.running import greeting, hints, program
from turnchart.machine.agent import Agent
from turnchart.machine.messages import Failure
from turnchart.machine.scripted import ScriptedModel
from turnchart.machine.session import Session

SHELF = Shelf("sqlite", Path("kept here.db"), "kept here.db")


def test_the_commands_that_show_what_was_recorded() -> None:
    assert list(hints("a b", SHELF)) == [
        "session a b is kept in kept here.db",
        "  read it:   turnchart sessions show 'a b' --store 'kept here.db'",
        "  draw it:   turnchart diagram --session 'a b' --view sequence --store 'kept here.db'",
        "  verify it: turnchart verify 'a b' --store 'kept here.db'",
    ]
    assert list(hints("a", Shelf("memory", Path()))) == []


def test_the_commands_name_the_program_as_it_can_be_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    called = tmp_path / "bin" / "turnchart"
    called.parent.mkdir()
    called.touch(mode=0o755)
    monkeypatch.setattr(sys, "argv", [str(called)])
    monkeypatch.setenv("PATH", "/nowhere")
    assert program() == str(called)
    monkeypatch.setenv("PATH", str(called.parent))
    assert program() == "turnchart"
    monkeypatch.setattr(sys, "argv", ["-c"])
    assert program() == "turnchart"


async def test_what_is_to_be_known_of_a_session_that_goes_on(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    async with Agent(ScriptedModel([Failure("quota")]), session=Session.jsonl(log)) as agent:
        assert list(greeting(agent, SHELF)) == []
        agent.follow_up("one")
        agent.follow_up("two")
        agent.follow_up("three")
        await agent.idle()
    again = Agent(ScriptedModel(), session=Session.jsonl(log))
    assert list(greeting(again, SHELF)) == [
        "session log goes on in kept here.db",
        "  2 messages wait and will be taken first",
    ]
