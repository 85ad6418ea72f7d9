"""An agent that never rests, for tests that kill it: ``python -m tests.trials.busy KIND PATH SEED``.

It says on its standard output what it was promised, a line each: ``stored SEQ`` for an entry, ``sent ID`` and
``gone ID`` for a message that was taken or reported as discarded, ``began ID`` for a call whose body runs.
"""

import os
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from random import Random

import anyio

from turnchart.machine import Agent, Limits, ModelRequest, PreparedCall, Session, ToolContext, tool
from turnchart.machine.abort import AbortSignal
from turnchart.machine.inbox import Item
from turnchart.machine.jsonl import JsonlStore
from turnchart.machine.models import (
    BlockEnd,
    BlockStart,
    Chunk,
    Finish,
    RequestConfig,
    TextDelta,
    ToolCallDelta,
)
from turnchart.machine.sqlite import SqliteStore
from turnchart.machine.stores import Store

KINDS: dict[str, Callable[[Path], Store]] = {
    "jsonl": lambda path: JsonlStore(path, id="busy"),
    "sqlite": lambda path: SqliteStore(path, "busy"),
    "jsonl-fsync": lambda path: JsonlStore(path, id="busy", durability="fsync"),
    "sqlite-fsync": lambda path: SqliteStore(path, "busy", durability="fsync"),
}
MOMENT = 0.002
"""Seconds that an answer, a tool or a pause takes at most."""


def say(what: str, which: object) -> None:
    """Write one line with one write, so that none is torn between two tasks."""
    os.write(1, f"{what} {which}\n".encode())


@tool(execution="parallel")
async def work(n: int, ctx: ToolContext) -> str:
    """Take n moments."""
    say("began", ctx.call_id)
    await anyio.sleep(n * MOMENT)
    return f"{n} moments"


@tool
async def alone(ctx: ToolContext) -> str:
    """Let nobody else work meanwhile."""
    say("began", ctx.call_id)
    return "done"


class Model:
    """Asks for tools again and again, several at once, and now and then says something."""

    id = "busy"

    def __init__(self, random: Random) -> None:
        self._random = random
        self._calls = 0

    async def prepare(self, config: RequestConfig, abort: AbortSignal) -> PreparedCall:
        """Answer by itself."""
        del abort
        return PreparedCall(config, self.stream)

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """Answer something else every time."""
        for _ in range(self._random.randrange(3)):
            yield TextDelta("some words ")
            await anyio.sleep(self._random.uniform(0, MOMENT))
        calls = self._random.choice((0, 0, 1, 3, 6))
        for i in range(calls):
            self._calls += 1
            id = f"c{os.getpid()}.{self._calls}"
            name = "alone" if self._random.random() < 0.2 else "work"
            arguments = f'{{"n":{self._random.randrange(3)}}}' if name == "work" else "{}"
            for chunk in (BlockStart("tool_call", i, id, name), ToolCallDelta(arguments, i), BlockEnd(i)):
                yield chunk
        yield Finish("tool_calls" if calls else "stop")


async def work_on(session: Session, random: Random) -> None:
    """Send, steer, inject and abort for ever."""
    session.watch(lambda entry: say("stored", entry.seq))
    say("ready", os.getpid())
    async with Agent(
        Model(random), tools=[work, alone], session=session, limits=Limits(max_steps=4)
    ) as agent:
        agent.resume()
        while True:
            _send(agent, random)
            if random.random() < 0.1:
                _tell_gone(agent.abort(keep_inbox=random.random() < 0.3))
            if random.random() < 0.1:
                await agent.idle()
                agent.resume()
            await anyio.sleep(random.uniform(0, 4 * MOMENT))


def _send(agent: Agent, random: Random) -> None:
    how = random.choice((agent.follow_up, agent.steer, agent.inject, agent.next_turn))
    for said in how("do something").messages:
        say("sent", said["id"])


def _tell_gone(items: tuple[Item, ...]) -> None:
    for item in items:
        for said in item.messages:
            say("gone", said["id"])


def main() -> None:
    """Run until killed."""
    kind, path, seed = sys.argv[1:]
    anyio.run(work_on, Session(KINDS[kind](Path(path))), Random(seed))


if __name__ == "__main__":
    main()
