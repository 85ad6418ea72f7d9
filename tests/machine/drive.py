"""Scripted runs for the tests of the driver: every one of them is held against the declarations."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio

from turnchart.machine import (
    Agent,
    Limits,
    Reply,
    ScriptedModel,
    Session,
    ToolCall,
    ToolContext,
    Turn,
    tool,
)
from turnchart.machine.scripted import Scripted
from turnchart.testing import FakeClock, record

Act = Callable[[Agent, FakeClock], Awaitable[object]]


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(execution="parallel")
async def slow(n: int, ctx: ToolContext) -> int:
    """Take 3 - n seconds."""
    await ctx.clock.sleep(3 - n)
    return n


def calls(*asked: tuple[str, dict[str, Any]]) -> Reply:
    """Return an answer that asks for these tools."""
    return Reply(tool_calls=[ToolCall(name, arguments) for name, arguments in asked])


ADD = calls(("add", {"a": 1, "b": 2}))
"""An answer that asks for one sum."""


def slows(*numbers: int) -> Reply:
    """Return an answer that asks for the slow tool so often."""
    return calls(*(("slow", {"n": n}) for n in numbers))


def always(answer: object) -> Callable[[Any], Any]:
    """Return a hook that answers this whatever it gets."""
    return lambda payload: answer


@asynccontextmanager
async def scripted(
    replies: Sequence[Scripted], *, clock: FakeClock | None = None, **settings: Any
) -> AsyncGenerator[Agent]:
    """Give an agent that plays a script; at the end its trace and its log must be legal walks."""
    settings.setdefault("tools", [add, slow])
    settings.setdefault("limits", Limits(parallel_tools=2))
    settings.setdefault("prompt", "Be brief.")
    async with Agent(ScriptedModel(replies), clock=clock or FakeClock(), seed=1, **settings) as agent:
        recording = record(agent)
        yield agent
        await agent.idle()
        recording.check()


async def run(
    replies: Sequence[Scripted], *prompts: str, act: Act | None = None, **settings: Any
) -> tuple[Agent, list[Turn]]:
    """Prompt a scripted agent, ``act`` beside it, and return it with its turns."""
    turns: list[Turn] = []
    clock = FakeClock()

    async def prompt(text: str) -> None:
        turns.append(await agent.prompt(text))

    async with scripted(replies, clock=clock, **settings) as agent:
        for text in prompts or ("x",):
            async with anyio.create_task_group() as group:
                group.start_soon(prompt, text)
                if act is not None:
                    await act(agent, clock)
    return agent, turns


def types(session: Session) -> list[str]:
    """Return the types of all entries."""
    return [entry.type for entry in session.entries]


def texts(session: Session, kind: str) -> list[str]:
    """Return the text of every message of one entry type."""
    return [entry.data["message"].text for entry in session.entries if entry.type == kind]


def drop(agent: Agent) -> None:
    """Forget what is left of the script of an agent whose turns were cut off."""
    assert isinstance(agent.model, ScriptedModel)
    agent.model.drop()


def results(session: Session) -> list[tuple[str, str]]:
    """Return outcome and text of every result."""
    return [
        (e.data["outcome"], e.data["message"].text) for e in session.entries if e.type == "tool/result"
    ]  # fmt: skip
