"""agno. One agent without storage; a longer conversation is given to it with each run."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import nullcontext
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from .measure import CHUNKS, DELAY, LENGTHS, Bench, Row, history, main

# Not installed where the types are checked.
agents: Any = import_module("agno.agent")
models: Any = import_module("agno.models.base")
messages: Any = import_module("agno.models.message")
responses: Any = import_module("agno.models.response")


@dataclass
class Model(models.Model):  # type: ignore[misc]  # its base is unknown here
    id: str = "bench"
    name: str = "bench"
    provider: str = "bench"
    calls: int = 0
    delay: float = 0

    def answer(self, said: list[Any]) -> Any:
        if self.calls and said[-1].role != "tool":
            function = {"name": "add", "arguments": '{"a":1,"b":2}'}
            asked = [{"id": f"c{i}", "type": "function", "function": function} for i in range(self.calls)]
            return responses.ModelResponse(role="assistant", content="", tool_calls=asked)
        return responses.ModelResponse(role="assistant", content="ok")

    def invoke(self, messages: list[Any], **_more: Any) -> Any:
        return self.answer(messages)

    async def ainvoke(self, messages: list[Any], **_more: Any) -> Any:
        if self.delay:
            await asyncio.sleep(self.delay)
        return self.answer(messages)

    def invoke_stream(self, messages: list[Any], **_more: Any) -> Any:
        yield self.answer(messages)

    async def ainvoke_stream(self, messages: list[Any], **_more: Any) -> AsyncIterator[Any]:
        del messages
        for _ in range(CHUNKS):
            yield responses.ModelResponse(role="assistant", content="tok ")

    def _parse_provider_response(self, response: Any, **_more: Any) -> Any:
        return response

    def _parse_provider_response_delta(self, response: Any) -> Any:
        return response


async def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a (int): a
        b (int): b
    """
    return a + b


def agent(calls: int = 0, delay: float = 0) -> Any:
    model = Model(calls=calls, delay=delay)
    return agents.Agent(model=model, tools=[add], instructions="be brief", telemetry=False)


async def tools(bench: Bench, name: str, calls: int) -> None:
    used = agent(calls)
    said = (await used.arun("hi")).messages
    assert sum(message.role == "tool" for message in said) == calls
    await bench.again(name, lambda: used.arun("hi"))


async def streamed(bench: Bench) -> None:
    used = agent()

    async def turn() -> None:
        count = 0
        async for _ in used.arun("hi", stream=True):
            count += 1
        assert count >= CHUNKS

    await bench.again("d", turn, per=CHUNKS)


async def long(bench: Bench, length: int) -> None:
    used = agent()
    before = [messages.Message(role=role, content=text) for role, text in history(length)]
    await bench.again(f"e{length}", lambda: used.arun([*before, messages.Message(role="user", content="hi")]))


async def e(bench: Bench) -> None:
    for length in LENGTHS:
        await long(bench, length)


async def memory(bench: Bench) -> None:
    async def idle() -> Any:
        return agent()

    async def conversation() -> Any:
        return (await used.arun("hi")).messages

    used = agent()
    await bench.size("g agent", idle)
    await bench.size("g conversation", conversation)


async def many(bench: Bench) -> None:
    await bench.together("h", lambda: nullcontext(agent(delay=DELAY)), lambda used: used.arun("hi"))


ROWS: dict[str, Row] = {
    "a": lambda bench: tools(bench, "a", 0),
    "b": lambda bench: tools(bench, "b", 1),
    "c": lambda bench: tools(bench, "c", 10),
    "d": streamed,
    "e": e,
    "f": lambda _: agent().arun("hi"),
    "g": memory,
    "h": many,
}

if __name__ == "__main__":
    main(["agno", "pydantic"], ROWS)
