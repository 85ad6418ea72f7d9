"""The floor: a loop written by hand over messages that are plain dicts, with arguments as JSON text."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import nullcontext
from typing import Any

from .measure import CHUNKS, DELAY, LENGTHS, Bench, Row, history, main

Said = dict[str, Any]


class Model:
    """Answers at once; first it asks for so many tool calls, where ``calls`` says so."""

    def __init__(self, calls: int = 0, delay: float = 0) -> None:
        self.calls = calls
        self.delay = delay

    async def request(self, messages: Sequence[Said]) -> Said:
        if self.delay:
            await asyncio.sleep(self.delay)
        if self.calls and messages[-1]["role"] != "tool":
            asked = [{"id": f"c{i}", "name": "add", "arguments": '{"a":1,"b":2}'} for i in range(self.calls)]
            return {"role": "assistant", "tool_calls": asked}
        return {"role": "assistant", "content": "ok"}

    async def stream(self, messages: Sequence[Said]) -> AsyncIterator[str]:
        del messages
        for _ in range(CHUNKS):
            yield "tok "


async def add(a: int, b: int) -> int:
    return a + b


class Agent:
    """The loop: ask, run what is asked for, ask again."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.tools = {"add": add}

    async def run(self, prompt: str, before: Sequence[Said] = ()) -> list[Said]:
        messages: list[Said] = [*before, {"role": "user", "content": prompt}]
        while True:
            answer = await self.model.request(messages)
            messages.append(answer)
            if "tool_calls" not in answer:
                return messages
            messages.extend(await asyncio.gather(*[self.call(each) for each in answer["tool_calls"]]))

    async def call(self, asked: Said) -> Said:
        value = await self.tools[asked["name"]](**json.loads(asked["arguments"]))
        return {"role": "tool", "tool_call_id": asked["id"], "content": str(value)}

    async def stream(self, prompt: str) -> AsyncIterator[str]:
        parts: list[str] = []
        async for part in self.model.stream([{"role": "user", "content": prompt}]):
            parts.append(part)
            yield part


async def tools(bench: Bench, name: str, calls: int) -> None:
    agent = Agent(Model(calls))
    assert len(await agent.run("hi")) == (3 + calls if calls else 2)
    await bench.again(name, lambda: agent.run("hi"))


async def streamed(bench: Bench) -> None:
    agent = Agent(Model())

    async def turn() -> None:
        count = 0
        async for _ in agent.stream("hi"):
            count += 1
        assert count == CHUNKS

    await bench.again("d", turn, per=CHUNKS)


async def long(bench: Bench, length: int) -> None:
    agent = Agent(Model())
    before: list[Said] = [{"role": role, "content": text} for role, text in history(length)]
    await bench.again(f"e{length}", lambda: agent.run("hi", before))


async def e(bench: Bench) -> None:
    for length in LENGTHS:
        await long(bench, length)


async def memory(bench: Bench) -> None:
    async def idle() -> Agent:
        return Agent(Model())

    agent = Agent(Model())
    await bench.size("g agent", idle)
    await bench.size("g conversation", lambda: agent.run("hi"))


async def many(bench: Bench) -> None:
    await bench.together("h", lambda: nullcontext(Agent(Model(delay=DELAY))), lambda agent: agent.run("hi"))


ROWS: dict[str, Row] = {
    "a": lambda bench: tools(bench, "a", 0),
    "b": lambda bench: tools(bench, "b", 1),
    "c": lambda bench: tools(bench, "c", 10),
    "d": streamed,
    "e": e,
    "f": lambda _: Agent(Model()).run("hi"),
    "g": memory,
    "h": many,
}

if __name__ == "__main__":
    main([], ROWS)
