"""langchain: an agent of create_agent, which is a graph of langgraph, without a checkpointer.

A longer conversation is given to it with each run.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import nullcontext
from importlib import import_module
from typing import Any

from .measure import CHUNKS, DELAY, LENGTHS, Bench, Row, history, main

# Not installed where the types are checked.
agents: Any = import_module("langchain.agents")
models: Any = import_module("langchain_core.language_models.chat_models")
messages: Any = import_module("langchain_core.messages")
outputs: Any = import_module("langchain_core.outputs")
lc_tools: Any = import_module("langchain_core.tools")


class Model(models.BaseChatModel):  # type: ignore[misc]  # its base is unknown here
    calls: int = 0
    delay: float = 0

    @property
    def _llm_type(self) -> str:
        return "bench"

    def bind_tools(self, _tools: Any, **_more: Any) -> Any:
        return self

    def answer(self, said: list[Any]) -> Any:
        asked: list[Any] = []
        if self.calls and not isinstance(said[-1], messages.ToolMessage):
            asked = [{"name": "add", "args": {"a": 1, "b": 2}, "id": f"c{i}"} for i in range(self.calls)]
        message = messages.AIMessage(content="" if asked else "ok", tool_calls=asked)
        return outputs.ChatResult(generations=[outputs.ChatGeneration(message=message)])

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **_more: Any) -> Any:
        return self.answer(messages)

    async def _agenerate(self, messages: Any, stop: Any = None, run_manager: Any = None, **_more: Any) -> Any:
        if self.delay:
            await asyncio.sleep(self.delay)
        return self.answer(messages)


class Streaming(Model):
    async def _astream(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **_more: Any
    ) -> AsyncIterator[Any]:
        for _ in range(CHUNKS):
            yield chunk("tok ")


def chunk(text: str) -> Any:
    return outputs.ChatGenerationChunk(message=messages.AIMessageChunk(content=text))


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


ADD = lc_tools.tool(add)


def agent(model: Any) -> Any:
    return agents.create_agent(model, tools=[ADD], system_prompt="be brief")


def said(text: str = "hi") -> Any:
    return messages.HumanMessage(text)


async def run(used: Any) -> Any:
    return (await used.ainvoke({"messages": [said()]}))["messages"]


async def tools(bench: Bench, name: str, calls: int) -> None:
    used = agent(Model(calls=calls))
    assert len(await run(used)) == (3 + calls if calls else 2)
    await bench.again(name, lambda: run(used))


async def streamed(bench: Bench) -> None:
    used = agent(Streaming())

    async def turn() -> None:
        count = 0
        async for _ in used.astream({"messages": [said()]}, stream_mode="messages"):
            count += 1
        assert count >= CHUNKS

    await bench.again("d", turn, per=CHUNKS)


async def long(bench: Bench, length: int) -> None:
    used = agent(Model())
    kinds = {"user": messages.HumanMessage, "assistant": messages.AIMessage}
    before = [kinds[role](text, id=f"m{i}") for i, (role, text) in enumerate(history(length))]
    await bench.again(f"e{length}", lambda: used.ainvoke({"messages": [*before, said()]}))


async def e(bench: Bench) -> None:
    for length in LENGTHS:
        await long(bench, length)


async def memory(bench: Bench) -> None:
    async def idle() -> Any:
        return agent(Model())

    async def conversation() -> Any:
        return await run(used)

    used = agent(Model())
    await bench.size("g agent", idle)
    await bench.size("g conversation", conversation)


async def many(bench: Bench) -> None:
    await bench.together("h", lambda: nullcontext(agent(Model(delay=DELAY))), run)


ROWS: dict[str, Row] = {
    "a": lambda bench: tools(bench, "a", 0),
    "b": lambda bench: tools(bench, "b", 1),
    "c": lambda bench: tools(bench, "c", 10),
    "d": streamed,
    "e": e,
    "f": lambda _: run(agent(Model())),
    "g": memory,
    "h": many,
}

if __name__ == "__main__":
    main(["langchain", "langgraph", "langchain-core"], ROWS)
