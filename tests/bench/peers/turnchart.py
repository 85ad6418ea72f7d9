"""Turnchart, with its log on: in memory, as JSON lines, and for information in SQLite.

An agent is made, and entered, for every turn, untimed; ``a same`` prompts one agent again and again.
"""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from functools import partial
from itertools import count
from pathlib import Path
from time import perf_counter
from typing import Self

from turnchart.machine import Agent, Session, Turn, tool
from turnchart.machine.abort import AbortSignal
from turnchart.machine.entries import Frozen
from turnchart.machine.messages import AssistantMessage, UserMessage
from turnchart.machine.models import (
    BlockEnd,
    BlockStart,
    Chunk,
    Finish,
    ModelRequest,
    PreparedCall,
    RequestConfig,
    TextDelta,
    ToolCallDelta,
)

from .measure import AGENTS, CHUNKS, DELAY, LENGTHS, Bench, Row, history, main

PROMPTS = 50
"""So many prompts a session of row e gets, so that it stays as long as it is said to be."""

TEXT: tuple[Chunk, ...] = (TextDelta("ok"), Finish("stop"))
STREAM: tuple[Chunk, ...] = (*[TextDelta("tok ")] * CHUNKS, Finish("stop"))


def asking(calls: int) -> tuple[Chunk, ...]:
    """Return the chunks of an answer that asks for so many calls."""
    parts: list[Chunk] = []
    for i in range(calls):
        parts += BlockStart("tool_call", i, f"c{i}", "add"), ToolCallDelta('{"a":1,"b":2}', i), BlockEnd(i)
    return (*parts, Finish("tool_calls"))


class Model:
    """Streams chunks that were made once; after tool results it says ok."""

    id = "bench"

    def __init__(self, chunks: tuple[Chunk, ...] = TEXT, delay: float = 0) -> None:
        self.chunks = chunks
        self.delay = delay

    async def prepare(self, config: RequestConfig, abort: AbortSignal) -> PreparedCall:
        del abort
        return PreparedCall(config, self.stream)

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        if self.delay:
            await asyncio.sleep(self.delay)
        for chunk in TEXT if request.messages[-1]["role"] == "tool_result" else self.chunks:
            yield chunk


@tool(execution="parallel")
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


class Stores:
    """New sessions of each kind, in a folder of their own. Their files are there before a turn is timed."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        self._names = map(str, count())
        self._open: Session | None = None

    def memory(self) -> Session:
        return Session.memory()

    def jsonl(self) -> Session:
        return _begun(Session.jsonl(self._folder / f"{next(self._names)}.jsonl"))

    def sqlite(self) -> Session:
        path = self._folder / "sessions.sqlite"
        if self._open is None:  # as in a program with many sessions: the last to close tidies the file up
            self._open = _begun(Session.sqlite(path, "open"))
        return _begun(Session.sqlite(path, next(self._names)))


def _begun(session: Session) -> Session:
    session.set_name("bench")
    return session


class Fresh:
    """Makes and enters an agent for every turn, and leaves the one before."""

    def __init__(self, model: Model, session: Callable[[], Session]) -> None:
        self._model = model
        self._session = session
        self._left = AsyncExitStack()

    async def __call__(self) -> Agent:
        await self._left.aclose()
        return await self._left.enter_async_context(Agent(self._model, tools=[add], session=self._session()))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self._left.aclose()


async def turn(agent: Agent) -> Turn:
    return await agent.prompt("hi")


async def turns(
    bench: Bench, name: str, model: Model, *, steps: int, per: int = 1, sqlite: bool = True
) -> None:
    """Time a turn with a new agent over each kind of store."""
    with tempfile.TemporaryDirectory() as folder:
        stores = Stores(folder)
        kinds = {name: stores.memory, f"{name} jsonl": stores.jsonl}
        if sqlite:
            kinds[f"{name} sqlite"] = stores.sqlite
        for kind, session in kinds.items():
            async with Fresh(model, session) as fresh:
                done = await turn(await fresh())
                assert (done.reason, done.steps) == ("completed", steps)
                await bench.time(kind, fresh, turn, per=per)


async def text(bench: Bench) -> None:
    await turns(bench, "a", Model(), steps=1)
    with tempfile.TemporaryDirectory() as folder:
        stores = Stores(folder)
        for name, session in {"a same": stores.memory(), "a same jsonl": stores.jsonl()}.items():
            async with Agent(Model(), tools=[add], session=session) as agent:
                await bench.time(name, partial(_same, agent), turn)


async def _same(agent: Agent) -> Agent:
    return agent


async def one_call(bench: Bench) -> None:
    await turns(bench, "b", Model(asking(1)), steps=2)


async def ten_calls(bench: Bench) -> None:
    await turns(bench, "c", Model(asking(10)), steps=2)


async def streamed(bench: Bench) -> None:
    await turns(bench, "d", Model(STREAM), steps=1, per=CHUNKS, sqlite=False)


# -- a session that grew -----------------------------------------------------------------------


def grown(length: int) -> Session:
    """Return a session that grew to so many messages, two a turn."""
    session = Session.memory()
    said = [text for _, text in history(length)]
    for turn, (asked, answered) in enumerate(zip(said[::2], said[1::2], strict=True), 1):
        session.append("turn/start", Frozen(turn=turn))
        session.append("step/start", Frozen(turn=turn, step=1))
        session.append("user/message", Frozen(turn=turn, step=1, message=UserMessage(asked)))
        message = AssistantMessage(answered, model="bench")
        session.append("assistant/message", Frozen(turn=turn, step=1, message=message, stream=()), attempt=1)
        session.append("step/end", Frozen(turn=turn, step=1))
        session.append("turn/end", Frozen(turn=turn, reason="completed", steps=1))
    assert len(session.context()) == length
    return session


class Grown:
    """Gives an agent whose session grew; a new one after some prompts."""

    def __init__(self, fresh: Fresh) -> None:
        self._fresh = fresh
        self._prompts = count()
        self._agent: Agent | None = None

    async def __call__(self) -> Agent:
        if self._agent is None or next(self._prompts) % PROMPTS == 0:
            self._agent = await self._fresh()
            await turn(self._agent)  # its first turn also writes the header
        return self._agent


async def long(bench: Bench) -> None:
    for length in LENGTHS:
        async with Fresh(Model(), partial(grown, length)) as fresh:
            await bench.time(f"e{length}", Grown(fresh), turn)


# -- memory, and many at once ------------------------------------------------------------------


async def memory(bench: Bench) -> None:
    model, entered = Model(), list[Agent]()

    async def idle() -> Agent:
        entered.append(await Agent(model, tools=[add]).__aenter__())
        return entered[-1]

    async def conversation() -> Agent:
        agent = await idle()
        await turn(agent)
        return agent

    await bench.size("g agent", idle)
    await bench.size("g conversation", conversation)
    for agent in reversed(entered):
        await agent.__aexit__(None, None, None)


async def whole(agent: Agent) -> None:
    async with agent:
        await turn(agent)


async def many(bench: Bench) -> None:
    def agent() -> Agent:
        return Agent(Model(delay=DELAY), tools=[add])

    await bench.together("h", agent, turn)
    agents = [agent() for _ in range(AGENTS)]
    begun = perf_counter()
    await asyncio.gather(*[whole(each) for each in agents])
    bench.figures["h entered and left too"] = {"value": perf_counter() - begun}


ROWS: dict[str, Row] = {
    "a": text,
    "b": one_call,
    "c": ten_calls,
    "d": streamed,
    "e": long,
    "f": lambda _: whole(Agent(Model(), tools=[add])),
    "g": memory,
    "h": many,
}

if __name__ == "__main__":
    main([], ROWS)
