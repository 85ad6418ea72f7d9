import os
import re
import signal
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from errno import EIO, ENOSPC
from typing import Any

import anyio
import pytest
from tests.flows.cli.chat.conftest import terminal

from turnchart.flows.cli.chat.chat import ANSWER, Chat
from turnchart.flows.cli.places import MEMORY
from turnchart.flows.script import ScriptInput
from turnchart.machine.agent import Agent
from turnchart.machine.messages import ToolCall
from turnchart.machine.permissions import Permissions
from turnchart.machine.scripted import Reply, ScriptedModel
from turnchart.machine.states import State
from turnchart.machine.tools import tool

ASKS = Reply(tool_calls=[ToolCall("nod")])
ASK = Permissions(default="ask")
CODES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """The editor runs on asyncio, as the command line does."""
    return "asyncio"


@tool
def nod() -> str:
    """Nod."""
    return "yes"


@tool
async def wait() -> str:
    """Wait for ever."""
    await anyio.sleep_forever()
    return ""


class Watched:
    """A chat that runs, its terminal, and a way to wait for what is in the log."""

    def __init__(self, agent: Agent, at: Any) -> None:
        self.agent = agent
        self.at = at
        self.chat = Chat(agent, MEMORY, at.painter, at.input, at.output)
        self.code: int | None = None
        self._told = anyio.Event()
        agent.on("*", lambda _signal, _abort: self._tell())

    def _tell(self) -> None:
        self._told.set()
        self._told = anyio.Event()

    async def run(self, inputs: tuple[ScriptInput, ...] = ()) -> None:
        self.code = await self.chat.run(inputs)

    async def until(self, true: Callable[[], object]) -> None:
        """Wait until something is true; it is looked at after each signal."""
        while not true():
            await self._told.wait()

    async def until_entry(self, type: str, count: int = 1) -> None:
        await self.until(lambda: sum(entry.type == type for entry in self.agent.session.entries) >= count)

    async def until_running(self) -> None:
        while "/help" not in self.shown:
            await anyio.lowlevel.checkpoint()

    async def until_draft(self, text: str) -> None:
        while self.chat.draft != text:
            await anyio.lowlevel.checkpoint()

    @property
    def said(self) -> list[str]:
        return [each.text for each in self.agent.session.context() if each.role == "user"]

    def outcomes(self, type: str, field: str) -> list[Any]:
        return [entry.data[field] for entry in self.agent.session.entries if entry.type == type]

    @property
    def shown(self) -> str:
        return CODES.sub("", self.at.shown)


@asynccontextmanager
async def chatting(at: Any, *replies: Any, **more: Any) -> AsyncGenerator[Watched]:
    async with Agent(ScriptedModel(list(replies)), tools=[nod, wait], **more) as agent:
        watched = Watched(agent, at)
        async with anyio.create_task_group() as group:
            group.start_soon(watched.run)
            yield watched


async def test_a_line_is_a_turn_and_its_answer_stays_on_the_screen(at: Any) -> None:
    async with chatting(at, "**One**, and\n\n- two") as it:
        at.type("hello\r")
        await it.until_entry("turn/end")
        at.type("\x04")
    assert (it.code, it.said) == (0, ["hello"])
    assert it.shown.index("> hello\r\n") < it.shown.index("One, and\r\n\r\n • two\r\n")


async def test_typing_steers_and_alt_enter_queues(at: Any) -> None:
    async with chatting(at, ASKS, "done", "later") as it:
        held = anyio.Event()

        async def hold() -> None:
            await it.agent.until(State.TOOLING)
            held.set()

        async with anyio.create_task_group() as group:
            group.start_soon(hold)
            await anyio.wait_all_tasks_blocked()
            at.type("go\r")
            await held.wait()
            at.type("quick\rthen this\x1b\r")
            await it.until(lambda: len(it.agent.queued.next_turn) == 1)
            assert [len(items) for items in it.agent.queued] == [1, 1, 0]
        it.agent.go_on()
        await it.until_entry("turn/end", 2)
        at.type("\x04")
    assert it.said == ["go", "quick", "then this"]
    assert it.outcomes("turn/end", "steps") == [2, 1]


@pytest.mark.parametrize(
    ("typed", "outcome", "ran"),
    [("y\r", "approved", "ok"), ("a\r", "approved_for_session", "ok"), ("n too loud\r", "refused", "denied")],
)
async def test_a_question_is_answered_in_the_line(at: Any, typed: str, outcome: str, ran: str) -> None:
    async with chatting(at, ASKS, "done", permissions=ASK) as it:
        at.type("go\r")
        await it.until_entry("approval/asked")
        assert it.chat.prompt() == ANSWER
        at.type(f"maybe\r{typed}")
        await it.until_entry("turn/end")
        at.type("\x04")
    assert it.outcomes("approval/decided", "outcome") == [outcome]
    assert it.outcomes("tool/result", "outcome") == [ran]
    if outcome == "refused":
        assert "too loud" in it.outcomes("tool/result", "message")[0]["content"][0]["text"]


async def test_the_line_behind_an_answer_steers_however_soon_it_comes(at: Any) -> None:
    async with chatting(at, ASKS, "done", permissions=ASK) as it:
        at.type("go\r")
        await it.until_entry("approval/asked")
        it.chat.said("y", later=False)
        it.chat.said("quickly", later=False)
        await it.until_entry("turn/end")
        at.type("\x04")
    assert it.said == ["go", "quickly"]
    assert it.shown.count("[y]es") == 1


async def test_a_line_that_was_begun_is_no_answer(at: Any) -> None:
    async with chatting(at, ASKS, "done", permissions=ASK) as it:
        held = anyio.Event()

        async def hold() -> None:
            await it.agent.until(State.TOOLING)
            held.set()

        async with anyio.create_task_group() as group:
            group.start_soon(hold)
            await anyio.wait_all_tasks_blocked()
            at.type("go\r")
            await held.wait()
        at.type("y")
        await it.until_draft("y")
        it.agent.go_on()
        await it.until_entry("approval/asked")
        at.type("\r")
        await it.until(lambda: it.agent.queued.next_step)
        assert it.outcomes("approval/decided", "outcome") == []
        at.type("y\r")
        await it.until_entry("turn/end")
        at.type("\x04")
    assert it.said == ["go", "y"]
    assert it.outcomes("approval/decided", "outcome") == ["approved"]


async def test_leaving_refuses_and_cuts_off_but_keeps_what_waits(at: Any) -> None:
    async with chatting(at, ASKS, permissions=ASK) as it:
        at.type("go\r")
        await it.until_entry("approval/asked")
        at.type("and then\x1b\r")
        await it.until(lambda: it.agent.queued.next_turn)
        at.type("\x04")
        await it.until_entry("turn/end")
        assert it.agent.parked
        assert len(it.agent.queued.next_turn) == 1
    assert it.code == 0
    assert it.outcomes("turn/end", "reason") == ["aborted"]
    assert it.outcomes("tool/result", "outcome") == ["aborted"]


async def test_ctrl_c_cuts_off_gives_back_what_waited_and_then_leaves(at: Any) -> None:
    async with chatting(at, Reply(tool_calls=[ToolCall("wait")])) as it:
        at.type("go\r")
        await it.until_entry("tool/call")
        at.type("for later\x1b\r")
        await it.until(lambda: it.agent.queued.next_turn)
        at.type("\x03")
        await it.until_entry("turn/end")
        await it.agent.idle()
        assert it.chat.draft == "for later"
        at.type("\x03")
        at.type("\x03")
        at.type("\x03")
    assert it.code == 130
    assert it.outcomes("turn/end", "cause") == ["user"]
    assert "Ctrl-D leaves, and so does Ctrl-C once more" in it.shown


async def test_only_ctrl_c_twice_in_a_row_leaves(at: Any) -> None:
    async with chatting(at) as it:
        for _ in range(2):
            at.type("\x03begun")
            await it.until_draft("begun")
            at.type("\x03")
            await it.until_draft("")
        assert it.code is None
        at.type("\x03")
        at.type("\x03")
    assert it.code == 130
    assert it.shown.count("Ctrl-C once more") == 3


async def test_a_signal_from_outside_is_ctrl_c(at: Any) -> None:
    async with chatting(at, Reply(tool_calls=[ToolCall("wait")])) as it:
        at.type("go\r")
        await it.until_entry("tool/call")
        os.kill(os.getpid(), signal.SIGINT)
        await it.until_entry("turn/end")
        await it.agent.idle()
        at.type("\x04")
    assert it.outcomes("turn/end", "cause") == ["user"]


@pytest.mark.usefixtures("hangs_up")
@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGHUP])
async def test_who_ends_the_process_ends_the_turn_and_its_tools_first(at: Any, by: signal.Signals) -> None:
    async with chatting(at, Reply(tool_calls=[ToolCall("wait")])) as it:
        at.type("go\r")
        await it.until_entry("tool/call")
        os.kill(os.getpid(), by)
    assert it.code == 128 + by
    assert it.outcomes("turn/end", "reason") == ["aborted"]
    assert it.outcomes("tool/result", "outcome") == ["aborted"]


async def test_who_ends_the_process_ends_a_chat_at_rest_and_a_question_too(at: Any) -> None:
    async with chatting(at) as it:
        await it.until_running()
        os.kill(os.getpid(), signal.SIGTERM)
    assert it.code == 128 + signal.SIGTERM
    with terminal() as other:
        async with chatting(other, ASKS, permissions=ASK) as it:
            other.type("go\r")
            await it.until_entry("approval/asked")
            os.kill(os.getpid(), signal.SIGTERM)
    assert it.code == 128 + signal.SIGTERM
    assert it.outcomes("turn/end", "reason") == ["aborted"]


async def test_a_signal_that_is_ignored_stays_ignored(at: Any) -> None:
    """As under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        async with chatting(at, "fine") as it:
            at.type("go\r")
            await it.until_entry("turn/end")
            os.kill(os.getpid(), signal.SIGHUP)
            at.type("\x04")
    finally:
        signal.signal(signal.SIGHUP, before)
    assert it.code == 0


async def test_a_terminal_that_is_gone_ends_the_chat(at: Any) -> None:
    async with chatting(at, Reply(tool_calls=[ToolCall("wait")])) as it:
        at.type("go\r")
        await it.until_entry("tool/call")
        at.input.close()
    assert it.code == 129
    assert it.outcomes("turn/end", "reason") == ["aborted"]


@pytest.mark.parametrize(("errno", "code"), [(EIO, 129), (ENOSPC, None)])
async def test_a_terminal_that_takes_nothing_any_more_ends_the_chat(
    at: Any, monkeypatch: pytest.MonkeyPatch, errno: int, code: int | None
) -> None:
    async with Agent(ScriptedModel([])) as agent:
        chat = Chat(agent, MEMORY, at.painter, at.input, at.output)

        def fail() -> None:
            raise OSError(errno, "no terminal")

        ended: list[int | None] = []

        async def run() -> None:
            try:
                ended.append(await chat.run())
            except* OSError:
                ended.append(None)

        async with anyio.create_task_group() as group:
            group.start_soon(run)
            while "/help" not in at.shown:
                await anyio.lowlevel.checkpoint()
            monkeypatch.setattr(at.output, "flush", fail)
            at.type("\x04")
    assert ended == [code]


async def test_commands_and_words_with_two_slashes(at: Any) -> None:
    async with chatting(at, "fine") as it:
        at.type("/state\r/nope\r//state\r")
        await it.until_entry("turn/end")
        assert it.said == ["/state"]
        at.type("/fork\r")
    assert "there is no /nope" in it.shown
    assert it.chat.next is not None


async def test_what_was_said_comes_back_to_be_changed(at: Any) -> None:
    async with chatting(at, "fine", "better") as it:
        at.type("hello\r")
        await it.until_entry("turn/end")
        await it.agent.idle()
        seq = next(entry.seq for entry in it.agent.session.entries if entry.type == "user/message")
        at.type(f"/tree {seq}\r")
        await it.until_draft("hello")
        at.type(" again\r")
        await it.until_entry("turn/end", 2)
        at.type("/quit\r")
    assert it.said == ["hello again"]


async def test_the_inputs_of_a_script_are_played(at: Any) -> None:
    model = ScriptedModel([ASKS, "done"])
    async with Agent(model, tools=[nod]) as agent:
        it = Watched(agent, at)
        async with anyio.create_task_group() as group:
            group.start_soon(it.run, (ScriptInput(State.TOOLING, "steer", "quick", 1),))
            at.type("go\r")
            await it.until_entry("turn/end")
            at.type("\x04")
    assert it.said == ["go", "quick"]


async def test_nothing_that_a_model_or_tool_says_commands_the_terminal(at: Any) -> None:
    evil = "\x1b]0;owned\x07\x1b[2J\x9b31m"

    @tool
    def echo(text: str) -> str:
        """Echo."""
        return f"{text}{evil}"

    replies: list[Any] = [
        Reply(f"{evil} hi", thinking=evil, tool_calls=[ToolCall("echo", {"text": evil})]),
        evil,
    ]
    async with Agent(ScriptedModel(replies), tools=[echo], permissions=ASK) as agent:
        it = Watched(agent, at)
        async with anyio.create_task_group() as group:
            group.start_soon(it.run)
            at.type("go\r")
            await it.until_entry("approval/asked")
            at.type("y\r")
            await it.until_entry("turn/end")
            at.type("\x04")
    for bad in ("\x1b]0;", "\x1b[2J", "\x07", "\x9b"):
        assert bad not in at.shown
