import os
import signal
import sys
from collections.abc import Callable
from io import StringIO, TextIOWrapper
from pathlib import Path

import anyio
import pytest

from turnchart.flows.cli.ending import Ending
from turnchart.flows.cli.places import Shelf
from turnchart.flows.cli.plan import Plan
from turnchart.flows.cli.running import Run, greeting, hints, program, whole_terminal
from turnchart.machine.agent import Agent
from turnchart.machine.entries import Frozen
from turnchart.machine.errors import SessionLocked
from turnchart.machine.messages import Failure
from turnchart.machine.scripted import Reply, ScriptedModel
from turnchart.machine.session import Session
from turnchart.machine.signals import Signal

SHELF = Shelf("sqlite", Path("kept here.db"), "kept here.db")


def test_the_commands_that_show_what_was_recorded() -> None:
    assert list(hints("a b", SHELF)) == [
        "session a b is kept in kept here.db",
        "  read it:   turnchart sessions show 'a b' --store 'kept here.db'",
        "  draw it:   turnchart diagram --session 'a b' --view sequence --store 'kept here.db'",
        "  verify it: turnchart verify 'a b' --store 'kept here.db'",
    ]
    assert list(hints("-x", SHELF))[1:] == [
        "  read it:   turnchart sessions show --store 'kept here.db' -- -x",
        "  draw it:   turnchart diagram --session -x --view sequence --store 'kept here.db'",
        "  verify it: turnchart verify --store 'kept here.db' -- -x",
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


def test_what_goes_on_is_said_once_the_session_is_ours(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shelf = Shelf("folder", tmp_path)
    shelf.prepare()
    first = shelf.open("s", "chat")
    first.attach()
    first.append("turn/start", Frozen(turn=1))
    hooks = {"session_start": [stumble]}
    second = Agent(ScriptedModel(["ok"]), session=shelf.open("s", "chat"), hooks=hooks)
    with pytest.raises(SessionLocked):
        Run(second, Plan(("hello",)), shelf, {"digest": "1"}).whole()
    assert "closed as interrupted" not in capsys.readouterr().err
    first.close()
    third = Agent(ScriptedModel(["ok"]), session=shelf.open("s", "chat"), hooks=hooks)
    assert Run(third, Plan(("hello",)), shelf, {"digest": "1"}).whole() == 0
    told = capsys.readouterr().err.splitlines()
    assert told[1] == "  turn 1 was cut off; it is closed as interrupted"
    assert "session_start stumble" in told[2]
    assert "\n".join(told).count("closed as interrupted") == 1


@pytest.mark.parametrize(
    ("replies", "abort", "told"),
    [
        ([Reply("one", delay=0)], False, True),
        ([Failure("quota")], False, True),
        ([Reply("one")], True, False),
    ],
)
def test_replies_that_nobody_asked_for_are_news_unless_the_turn_was_cut_off(
    replies: list[Reply], abort: bool, told: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    agent = Agent(ScriptedModel([*replies, "left"]), session=Session.memory())
    if abort:
        agent.on("agent/assistant-stream", lambda signal, _: agent.abort())
    Run(agent, Plan(("hello",)), Shelf("memory", tmp_path), {"digest": "1"}).whole()
    assert ("not asked for" in capsys.readouterr().err) is told


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
def test_who_ends_the_run_is_not_told_of_a_script(
    by: signal.Signals, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    agent = Agent(ScriptedModel([Reply("one", delay=60), "left"]), session=Session.memory())
    agent.on("session/event", lambda signal, _: os.kill(os.getpid(), by) if begins(signal) else None)
    assert Run(agent, Plan(("hello",)), Shelf("memory", tmp_path), {"digest": "1"}).whole() == 128 + by
    assert "not asked for" not in capsys.readouterr().err


@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGHUP])
def test_who_ends_the_run_as_its_agent_opens_ends_that_first(
    by: signal.Signals, tmp_path: Path, capsys: pytest.CaptureFixture[str], hangs_up: None
) -> None:
    came: list[str] = []

    async def opening(event: object) -> None:
        os.kill(os.getpid(), by)
        try:
            await anyio.sleep_forever()
        finally:
            came.append("cut off")

    agent = Agent(ScriptedModel(["ok"]), session=Session.memory(), hooks={"session_start": [opening]})
    assert Run(agent, Plan(("hello",)), Shelf("memory", tmp_path), {"digest": "1"}).whole() == 128 + by
    assert came == ["cut off"]
    assert capsys.readouterr().out == ""


def test_who_ends_the_run_as_its_agent_closes_waits_for_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, came = list[Ending](), list[str]()

    def ending() -> Ending:
        made.append(Ending())
        return made[0]

    monkeypatch.setattr("turnchart.flows.cli.running.Ending", ending)

    async def closing(event: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        while not made[0].heard:
            await anyio.lowlevel.checkpoint()
        came.append("closed")

    agent = Agent(ScriptedModel(["ok"]), session=Session.memory(), hooks={"session_end": [closing]})
    ended = Run(agent, Plan(("hello",)), Shelf("memory", tmp_path), {"digest": "1"}).whole()
    assert (ended, came) == (128 + signal.SIGTERM, ["closed"])


def begins(signal: Signal) -> bool:
    """Whether a turn begins."""
    return bool(signal.data["entry"].type == "turn/start")


def stumble(event: object) -> None:
    """Fail, which is told."""
    raise RuntimeError("the hook was there")


@pytest.mark.parametrize(
    ("term", "terminals", "whole"),
    [("xterm", 3, True), ("xterm", 2, False), ("dumb", 3, False), (None, 3, False)],
)
def test_a_terminal_that_can_be_drawn_on(
    term: str | None, terminals: int, whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        stream = StringIO()
        monkeypatch.setattr(stream, "isatty", lambda is_one=number < terminals: is_one)
        monkeypatch.setattr(sys, name, stream)
    monkeypatch.delenv("TERM", raising=False)
    if term is not None:
        monkeypatch.setenv("TERM", term)
    assert whole_terminal() is whole


def test_a_fork_goes_on_in_the_same_run(
    typed: Callable[[str], TextIOWrapper], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shelf = Shelf("folder", tmp_path)
    made: list[Agent] = []

    def again(session: Session) -> Agent:
        made.append(Agent(ScriptedModel(default=Reply("ok")), session=session, name="chat"))
        return made[-1]

    monkeypatch.setattr(sys, "stdin", typed("hello\n"))
    first = Run(again(shelf.open("first", "chat")), Plan(()), shelf, {"digest": "1"}, again=again)
    assert first.whole() == 0
    monkeypatch.setattr(sys, "stdin", typed("/fork\n"))
    second = Run(again(shelf.open("first", "chat")), Plan(()), shelf, {"digest": "1"}, again=again)
    assert second.whole() == 0
    assert len(made) == 3
    assert made[2].session.id in shelf.ids()
    assert [each.text for each in made[2].session.context()] == ["hello", "ok"]
