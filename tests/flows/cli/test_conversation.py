import io
import os
import signal
from collections.abc import Callable

import anyio
import pytest

from turnchart.flows.cli.approve import at_terminal
from turnchart.flows.cli.conversation import CAUSE, Conversation
from turnchart.flows.cli.lines import Lines
from turnchart.flows.cli.render import Screen
from turnchart.flows.script import ScriptInput
from turnchart.machine.agent import Agent
from turnchart.machine.errors import TurnFailed
from turnchart.machine.messages import Failure, ToolCall
from turnchart.machine.permissions import Permissions
from turnchart.machine.scripted import Reply, ScriptedModel
from turnchart.machine.session import Session
from turnchart.machine.signals import Signal
from turnchart.machine.states import State
from turnchart.machine.tools import tool
from turnchart.machine.turn import Turn

Typed = Callable[[str], io.TextIOWrapper]


@tool
async def wait() -> str:
    """Wait for ever."""
    await anyio.sleep_forever()
    return ""


@tool
def nod() -> str:
    """Nod."""
    return "yes"


def talk(agent: Agent, typed: io.TextIOWrapper | None = None) -> tuple[Conversation, io.StringIO]:
    err = io.StringIO()
    return Conversation(agent, Screen(io.StringIO(), err), Lines(typed or io.StringIO())), err


def came(agent: Agent) -> list[tuple[int, str, str | None]]:
    """Number, reason and cause of every turn in the log."""
    ends = [entry.data for entry in agent.session.entries if entry.type == "turn/end"]
    return [(data["turn"], data["reason"], data.get("cause")) for data in ends]


def said(agent: Agent) -> list[str]:
    return [message.text for message in agent.session.context() if message.role == "user"]


async def test_prompts_are_a_turn_each_until_one_does_not_complete() -> None:
    told: list[Turn | TurnFailed] = []
    async with Agent(ScriptedModel(["one", Failure("quota")])) as agent:
        code = await talk(agent)[0].turns(["a", "b", "c"], (), told.append)
    assert code == 1
    assert [turn.reason for turn in told if isinstance(turn, Turn)] == ["completed", "error"]


async def test_a_completed_turn_is_a_success() -> None:
    async with Agent(ScriptedModel(["one"])) as agent:
        assert await talk(agent)[0].turns(["a"], (), lambda _: None) == 0


async def test_the_inputs_of_a_script_are_played() -> None:
    model = ScriptedModel([Reply(tool_calls=[ToolCall("nod")]), "done"])
    async with Agent(model, tools=[nod]) as agent:
        inputs = [
            ScriptInput(State.TOOLING, "steer", "quick", 1),
            ScriptInput(State.TOOLING, "steer", "never", 7),
        ]
        assert await talk(agent)[0].turns(["go"], inputs, lambda _: None) == 0
        assert said(agent) == ["go", "quick"]


async def test_a_prompt_that_no_turn_took_is_told() -> None:
    session = Session.memory()
    async with Agent(ScriptedModel([Failure("quota")]), session=session) as agent:
        agent.follow_up("first")
        agent.follow_up("second")
        await agent.idle()
        assert agent.parked
    told: list[Turn | TurnFailed] = []
    async with Agent(ScriptedModel([Failure("quota")]), session=session) as agent:
        assert await talk(agent)[0].turns(["third"], (), told.append) == 1
    assert isinstance(told[0], TurnFailed)


async def interrupt(agent: Agent, state: State, by: signal.Signals = signal.SIGINT) -> None:
    """Press Ctrl-C when the agent reaches a state."""
    await agent.until(state)
    agent.go_on()
    await anyio.wait_all_tasks_blocked()
    os.kill(os.getpid(), by)


async def test_an_interrupt_cuts_the_turn_off() -> None:
    model = ScriptedModel([Reply(tool_calls=[ToolCall("wait")])])
    async with Agent(model, tools=[wait]) as agent, anyio.create_task_group() as group:
        group.start_soon(interrupt, agent, State.TOOLING)
        await anyio.lowlevel.checkpoint()
        assert await talk(agent)[0].turns(["go", "and on"], (), lambda _: None) == 130
        assert came(agent) == [(1, "aborted", CAUSE)]


@pytest.mark.usefixtures("hangs_up")
@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGHUP])
async def test_who_ends_the_process_ends_the_turn_and_its_tools_first(by: signal.Signals) -> None:
    model = ScriptedModel([Reply(tool_calls=[ToolCall("wait")])])
    async with Agent(model, tools=[wait]) as agent, anyio.create_task_group() as group:
        group.start_soon(interrupt, agent, State.TOOLING, by)
        await anyio.lowlevel.checkpoint()
        assert await talk(agent)[0].turns(["go", "and on"], (), lambda _: None) == 128 + by
        assert [reason for _, reason, _ in came(agent)] == ["aborted"]


async def test_a_signal_that_is_ignored_stays_ignored() -> None:
    """As under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        async with Agent(ScriptedModel(["one"])) as agent, anyio.create_task_group() as group:
            group.start_soon(interrupt, agent, State.REQUESTING, signal.SIGHUP)
            await anyio.lowlevel.checkpoint()
            assert await talk(agent)[0].turns(["go"], (), lambda _: None) == 0
    finally:
        signal.signal(signal.SIGHUP, before)


async def test_who_ends_the_process_ends_a_chat_too() -> None:
    reading, writing = os.pipe()

    async def end() -> None:
        await anyio.wait_all_tasks_blocked()
        os.kill(os.getpid(), signal.SIGTERM)

    with os.fdopen(reading, encoding="utf-8") as stream:
        async with Agent(ScriptedModel([])) as agent, anyio.create_task_group() as group:
            group.start_soon(end)
            assert await talk(agent, stream)[0].chat(()) == 128 + signal.SIGTERM
    os.close(writing)


async def test_a_chat_is_a_turn_a_line(typed: Typed) -> None:
    async with Agent(ScriptedModel(["one"])) as agent:
        conversation, err = talk(agent, typed("a\n"))
        assert await conversation.chat(()) == 0
        assert (said(agent), came(agent)) == (["a"], [(1, "completed", None)])
    assert err.getvalue().startswith("Ctrl-C cuts off a turn, Ctrl-D leaves, /help says more.\n> ")


async def test_a_line_typed_while_it_works_steers(typed: Typed) -> None:
    model = ScriptedModel([Reply(tool_calls=[ToolCall("nod")]), "done"])
    async with Agent(model, tools=[nod]) as agent:
        await talk(agent, typed("a\n\nb\n"))[0].chat(())
        assert came(agent) == [(1, "completed", None)]
        assert sorted(said(agent)) == ["a", "b"]


def is_question(signal: Signal) -> bool:
    return bool(signal.data["entry"].type == "approval/asked")


async def test_in_a_chat_a_line_answers_the_question_that_is_open() -> None:
    reading, writing = os.pipe()
    model = ScriptedModel([Reply(tool_calls=[ToolCall("nod")]), "done"])
    with os.fdopen(reading, encoding="utf-8") as stream:
        async with Agent(model, tools=[nod], permissions=Permissions()) as agent:
            conversation, _ = talk(agent, stream)
            asked = anyio.Event()
            agent.on("session/event", lambda signal, _: asked.set() if is_question(signal) else None)
            agent.approver = at_terminal(Screen(io.StringIO(), io.StringIO()), conversation.answer)

            async def person() -> None:
                os.write(writing, b"go\n")
                await asked.wait()
                os.write(writing, b"yes\n")
                await anyio.wait_all_tasks_blocked()
                os.close(writing)

            async with anyio.create_task_group() as group:
                group.start_soon(person)
                assert await conversation.chat(()) == 0
            decided = [
                entry.data["outcome"] for entry in agent.session.entries if entry.type == "approval/decided"
            ]
            assert (decided, said(agent)) == (["approved"], ["go"])


@pytest.mark.parametrize("late", [False, True], ids=["while it waits", "before it is asked"])
async def test_a_question_that_nobody_can_answer_any_more_is_a_no(late: bool) -> None:
    reading, writing = os.pipe()
    model = ScriptedModel([Reply(tool_calls=[ToolCall("nod")]), "done"])
    with os.fdopen(reading, encoding="utf-8") as stream:
        async with Agent(model, tools=[nod], permissions=Permissions()) as agent:
            conversation, _ = talk(agent, stream)
            agent.approver = at_terminal(Screen(io.StringIO(), io.StringIO()), conversation.answer)

            async def person() -> None:
                os.write(writing, b"go\n")
                await agent.until(State.TOOLING)
                if not late:
                    agent.go_on()
                    await anyio.wait_all_tasks_blocked()
                os.close(writing)
                await anyio.sleep(0.05)
                agent.go_on()

            async with anyio.create_task_group() as group:
                group.start_soon(person)
                assert await conversation.chat(()) == 0
            results = [
                entry.data["outcome"] for entry in agent.session.entries if entry.type == "tool/result"
            ]
            assert results == ["denied"]


async def test_in_a_chat_an_interrupt_ends_a_turn_and_two_end_the_chat() -> None:
    reading, writing = os.pipe()
    model = ScriptedModel([Reply(tool_calls=[ToolCall("wait")])])
    with os.fdopen(reading, encoding="utf-8") as stream:
        async with Agent(model, tools=[wait]) as agent, anyio.create_task_group() as group:
            conversation, err = talk(agent, stream)

            async def person() -> None:
                os.write(writing, b"go\n")
                await interrupt(agent, State.TOOLING)
                await agent.idle()
                for _ in range(2):
                    await anyio.wait_all_tasks_blocked()
                    os.kill(os.getpid(), signal.SIGINT)

            group.start_soon(person)
            assert await conversation.chat(()) == 130
            assert came(agent) == [(1, "aborted", CAUSE)]
            assert "Ctrl-D leaves, and so does Ctrl-C once more" in err.getvalue()
    os.close(writing)


async def test_in_a_chat_of_lines_there_are_commands_too(typed: Typed) -> None:
    async with Agent(ScriptedModel(["one", "two"])) as agent:
        conversation, err = talk(agent, typed("/state\n/follow-up a\n//b\n/nope\n"))
        assert await conversation.chat(()) == 0
        assert sorted(said(agent)) == ["/b", "a"]
    assert "idle (takes wake, maintain)\n" in err.getvalue()
    assert "there is no /nope" in err.getvalue()


async def test_a_chat_of_lines_gives_back_what_was_said(typed: Typed) -> None:
    session = Session.memory()
    async with Agent(ScriptedModel(["one"]), session=session) as agent:
        await agent.prompt("hello")
    seq = next(entry.seq for entry in session.entries if entry.type == "user/message")
    async with Agent(ScriptedModel([]), session=session) as agent:
        conversation, err = talk(agent, typed(f"/tree {seq}\n/quit\nnever\n"))
        assert await conversation.chat(()) == 0
        assert said(agent) == []
    assert "to be said in another way: hello\n" in err.getvalue()


async def test_a_chat_of_lines_ends_with_a_fork(typed: Typed) -> None:
    session = Session.memory()
    async with Agent(ScriptedModel(["one"]), session=session) as agent:
        await agent.prompt("hello")
    async with Agent(ScriptedModel([]), session=session) as agent:
        conversation, _ = talk(agent, typed("/fork\nnever\n"))
        assert await conversation.chat(()) == 0
        assert conversation.next is not None
        assert [each.text for each in conversation.next.context()] == ["hello", "one"]
