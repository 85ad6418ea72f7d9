"""Which effects are steps, and that the row of an effect is taken inside its step."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from anyio.lowlevel import checkpoint

from turnchart.machine import Agent, Failure, Reply, RetryPolicy, ScriptedModel, ToolCall, tool
from turnchart.machine.durable.stepping import Stepping
from turnchart.machine.entries import Frozen
from turnchart.machine.models import Chunk, Finish, TextDelta, UsageReport
from turnchart.machine.points import ToolOutcome
from turnchart.machine.scripted import Scripted
from turnchart.machine.stream import Answer
from turnchart.testing import FakeClock

T = TypeVar("T")


class Noted(Stepping):
    """Notes each step, and what the log had when it was over."""

    def __init__(self) -> None:
        super().__init__()
        self.agent: Agent | None = None
        self.steps: list[tuple[str, str, str]] = []

    async def run(self, name: str, key: str, fn: Callable[[], Awaitable[T]]) -> T:
        came = await fn()
        assert self.agent is not None
        self.steps.append((name, key, self.agent.session.entries[-1].type))
        return came

    def kept(self, call_id: str) -> ToolOutcome | None:
        del call_id
        return None

    def known(self, key: str) -> Frozen | None:
        del key
        return None

    def keep(self, key: str, value: Frozen) -> None:
        del key, value


@tool(replay="idempotent")
async def look() -> str:
    """Look."""
    return "seen"


async def test_requests_retries_and_tools_are_steps() -> None:
    script: list[Scripted] = [Failure("overloaded"), Reply(tool_calls=[ToolCall("look", {}, id="c1")]), "end"]
    steps = Noted()
    agent = Agent(ScriptedModel(script), tools=[look], clock=FakeClock(), retry=RetryPolicy(base_delay=1))
    agent.steps, steps.agent = steps, agent
    async with agent:
        assert (await agent.prompt("go")).text == "end"
    assert steps.steps == [
        ("request", "1.1.0", "assistant/attempt"),
        ("retry", "1.1.1", "llm/retry-started"),
        ("request", "1.1.1", "assistant/message"),
        ("tool", "c1", "tool/call"),
        ("request", "1.2.0", "step/end"),
    ]


class Remembers(Noted):
    """Steps whose outcomes are known to the next process."""

    def __init__(self, before: dict[str, Frozen] | None = None) -> None:
        super().__init__()
        self.before = before or {}
        self.stored: dict[str, Frozen] = {}

    async def run(self, name: str, key: str, fn: Callable[[], Awaitable[T]]) -> T:
        came = await fn()
        if isinstance(came, Frozen):
            self.stored[key] = came
        return came

    def known(self, key: str) -> Frozen | None:
        return self.before.pop(key, None)


def answers(*chunks: Chunk) -> Callable[[], Awaitable[Answer]]:
    async def ask() -> Answer:
        answer = Answer()
        for chunk in chunks:
            answer.add(chunk, 1.0)
        return answer

    return ask


async def test_a_summary_is_asked_for_once() -> None:
    agent, steps = Agent(ScriptedModel(), clock=FakeClock()), Remembers()
    usage = UsageReport({"input": 5, "output": 2})
    first = await steps.answer(agent, "model sum up", answers(TextDelta("short"), usage, Finish("stop")))
    assert (first.message("m", 1.0, "s").text, first.usage) == ("short", usage.usage)
    again = Remembers(steps.stored)
    known = await again.answer(agent, "model sum up", answers(TextDelta("another"), Finish("stop")))
    assert (known.message("m", 1.0, "s").text, known.usage, known.failure) == ("short", usage.usage, None)
    other = await again.answer(agent, "model sum up that", answers(TextDelta("another"), Finish("stop")))
    assert (other.message("m", 1.0, "s").text, other.usage) == ("another", None)


async def test_a_summary_that_failed_is_asked_for_again() -> None:
    agent, steps = Agent(ScriptedModel(), clock=FakeClock()), Remembers()
    failed = await steps.answer(agent, "model sum up", answers(Finish("error", Failure("overloaded"))))
    assert failed.failure is not None
    assert (failed.failure.kind, steps.stored) == ("overloaded", {})


async def test_a_turn_that_is_cut_off_in_a_step_is_closed_by_the_driver() -> None:
    steps = Noted()
    agent = Agent(ScriptedModel([Reply("late", delay=60)]))
    agent.steps, steps.agent = steps, agent
    async with agent:
        agent.follow_up("go")
        while agent.session.entries[-1].type != "request/context":
            await checkpoint()
        agent.abort("enough")
        await agent.idle()
        assert agent.session.entries[-1].data["reason"] == "aborted"
    assert steps.steps == []
