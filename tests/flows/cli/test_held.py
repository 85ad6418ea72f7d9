import io
from contextlib import suppress
from typing import Any

import pytest

from turnchart.flows.cli.render import Render, Screen
from turnchart.machine.agent import Agent
from turnchart.machine.config import Limits, RetryPolicy
from turnchart.machine.entries import Entry
from turnchart.machine.errors import SessionError, SessionReadOnly
from turnchart.machine.messages import Failure, ToolCall
from turnchart.machine.models import Finish
from turnchart.machine.points import Continue, TurnStopping
from turnchart.machine.scripted import Reply, ScriptedModel
from turnchart.machine.session import Session
from turnchart.machine.stores import MemoryStore
from turnchart.machine.tools import tool
from turnchart.testing import FakeClock

BROKEN = Reply(chunks=["Half\nan ", "ans", Finish("error", Failure("connection"))])


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@tool
def look(at: str) -> str:
    """Look at something."""
    return f"saw {at}"


async def told(
    *replies: Reply | Failure | str, out: io.StringIO | None = None, judged: bool = False, **settings: Any
) -> list[str]:
    """Return what is on stdout and what is on stderr; both in one where ``out`` is given."""
    shown = io.StringIO() if out is None else out
    err = shown if out is not None else io.StringIO()
    screen = Screen(shown, err)
    model = ScriptedModel(replies)
    async with Agent(model, tools=[look], retry=RetryPolicy(base_delay=0), **settings) as agent:
        agent.on("*", Render(agent, screen, judged=judged))
        with suppress(SessionReadOnly):
            await agent.prompt("go")
    screen.close()
    return [shown.getvalue()] if err is shown else [shown.getvalue(), err.getvalue()]


# -- in a pipe --


async def test_what_an_attempt_said_before_it_failed_is_no_answer() -> None:
    out, err = await told(BROKEN, Reply(chunks=["The ", "answer"]))
    assert out == "The answer\n"
    assert err.splitlines()[:6] == [
        "idle > claiming > pre-step > requesting",
        "  cut off:",
        "    Half",
        "    an ans",
        "retrying",
        "  request failed: connection",
    ]


async def test_every_message_of_the_turn_is_answered_when_it_is_whole() -> None:
    call = Reply("Let me see.\n", tool_calls=[ToolCall("look", {"at": "a"})])
    out, err = await told(call, BROKEN, "done")
    assert out == "Let me see.\ndone\n"
    assert "not the last answer" not in err


async def test_in_one_file_the_answer_stands_between_the_states_as_on_a_terminal() -> None:
    [both] = await told("The answer", out=io.StringIO())
    assert both.splitlines() == [
        "idle > claiming > pre-step > requesting",
        "The answer",
        "stopping > idle",
        "  turn 1 completed after 1 step",
    ]


async def test_of_a_turn_that_only_failed_there_is_no_answer() -> None:
    out, err = await told(Reply(chunks=["Half", Finish("error", Failure("auth"))]))
    assert (out, "  cut off:\n    Half\n" in err) == ("", True)


async def test_what_was_said_before_the_turn_was_cut_off_is_in_the_log_and_answered() -> None:
    out, err, clock = io.StringIO(), io.StringIO(), FakeClock()
    screen = Screen(out, err)
    model = ScriptedModel([Reply(chunks=["Half", 60.0, " an answer"])])
    async with Agent(model, clock=clock) as agent:
        agent.on("*", Render(agent, screen))
        agent.follow_up("go")
        await clock.sleep(1)
        assert out.getvalue() == ""
        agent.abort("user")
        await agent.idle()
    screen.close()
    assert out.getvalue() == "Half\n"


class Full(MemoryStore):
    """A disk that takes no answer."""

    def append(self, entry: Entry) -> None:
        if entry.type == "assistant/message":
            raise SessionError("the disk is full")
        super().append(entry)


async def test_what_the_log_could_not_take_is_shown_all_the_same() -> None:
    out, err = await told("The answer", session=Session(Full()))
    assert out == ""
    assert "  cut off:\n    The answer\n" in err


async def test_on_a_terminal_it_comes_as_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    [both] = await told(BROKEN, "The answer", out=Terminal())
    assert "cut off" not in both
    assert both.index("Half\nan ans\n") < both.index("retrying") < both.index("The answer")


# -- an answer that is held against a schema --


def no_words(payload: TurnStopping) -> Continue | None:
    return None if payload.text.startswith("{") else Continue("JSON, please")


async def judged(*replies: Reply | Failure | str, **settings: Any) -> list[str]:
    return await told(*replies, judged=True, hooks={"turn_stopping": [no_words]}, **settings)


async def test_only_the_accepted_answer_is_on_stdout() -> None:
    call = Reply("Let me see.", tool_calls=[ToolCall("look", {"at": "a"})])
    out, err = await judged(call, "It is\nthree.", Reply("four", finish="max_tokens"), '{"n": 3}')
    assert out == '{"n": 3}\n'
    assert "  said before the call:\n    Let me see.\n" in err
    assert "  not accepted:\n    It is\n    three.\n" in err
    assert "  not accepted:\n    four\n" in err


async def test_an_answer_that_was_never_accepted_is_on_stderr() -> None:
    out, err = await judged("one", "two", limits=Limits(max_continues=1))
    assert out == ""
    assert "  not accepted:\n    one\n" in err
    assert "  not accepted:\n    two\n" in err
    assert err.endswith("  turn 1 max_continues after 2 steps\n")


async def test_what_a_stream_said_before_it_broke_is_no_answer() -> None:
    broken = Reply(chunks=['{"n"', Finish("error", Failure("connection"))])
    out, err = await judged(broken, '{"n": 1}')
    assert out == '{"n": 1}\n'
    assert '  cut off:\n    {"n"\n' in err
