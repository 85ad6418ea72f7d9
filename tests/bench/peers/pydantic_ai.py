"""pydantic-ai. One agent; a longer conversation is given to it with each run."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import import_module
from typing import Any

from .measure import CHUNKS, DELAY, LENGTHS, Bench, Row, history, main

# What is installed where the types are checked may be another version.
agents: Any = import_module("pydantic_ai")
models: Any = import_module("pydantic_ai.models")
messages: Any = import_module("pydantic_ai.messages")
usage: Any = import_module("pydantic_ai.usage")


@dataclass
class Stream(models.StreamedResponse):  # type: ignore[misc]  # its base is unknown here
    begun: datetime = field(default_factory=lambda: datetime.now(UTC))

    async def _get_event_iterator(self) -> AsyncIterator[Any]:
        for _ in range(CHUNKS):
            for event in self._parts_manager.handle_text_delta(vendor_part_id="text", content="tok "):
                yield event

    @property
    def model_name(self) -> str:
        return "bench"

    @property
    def provider_name(self) -> str:
        return "bench"

    @property
    def provider_url(self) -> None:
        return None

    @property
    def timestamp(self) -> datetime:
        return self.begun

    async def close_stream(self) -> None:
        """There is nothing to close."""


class Model(models.Model):  # type: ignore[misc]  # its base is unknown here
    def __init__(self, calls: int = 0, delay: float = 0) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType]  # its base is unknown here
        self.calls = calls
        self.delay = delay

    @property
    def model_name(self) -> str:
        return "bench"

    @property
    def system(self) -> str:
        return "bench"

    @property
    def provider(self) -> None:
        return None

    async def request(self, said: Any, settings: Any, parameters: Any) -> Any:
        self.prepare_request(settings, parameters)
        if self.delay:
            await asyncio.sleep(self.delay)
        parts: list[Any] = [messages.TextPart("ok")]
        if self.calls and not isinstance(said[-1].parts[-1], messages.ToolReturnPart):
            parts = [messages.ToolCallPart("add", '{"a":1,"b":2}', f"c{i}") for i in range(self.calls)]
        spent = usage.RequestUsage(input_tokens=1, output_tokens=1)
        return messages.ModelResponse(parts=parts, usage=spent, model_name="bench")

    @asynccontextmanager
    async def request_stream(
        self, said: Any, settings: Any, parameters: Any, run_context: Any = None
    ) -> AsyncGenerator[Any]:
        del said, run_context
        _, prepared = self.prepare_request(settings, parameters)
        yield Stream(model_request_parameters=prepared)


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def agent(calls: int = 0, delay: float = 0) -> Any:
    return agents.Agent(Model(calls, delay), instructions="be brief", tools=[add])


async def run(used: Any) -> Any:
    return await used.run("hi")


async def tools(bench: Bench, name: str, calls: int) -> None:
    used = agent(calls)
    said = (await run(used)).all_messages()
    parts = [part for each in said for part in each.parts]
    assert sum(isinstance(part, messages.ToolReturnPart) for part in parts) == calls
    await bench.again(name, lambda: run(used))


async def streamed(bench: Bench) -> None:
    used = agent()

    async def turn() -> None:
        count = 0
        async with used.run_stream("hi") as reply:
            async for _ in reply.stream_text(delta=True, debounce_by=None):
                count += 1
        assert count >= CHUNKS - 1  # it may give the first two as one

    await bench.again("d", turn, per=CHUNKS)


def before(length: int) -> list[Any]:
    return [
        messages.ModelRequest(parts=[messages.UserPromptPart(text)])
        if role == "user"
        else messages.ModelResponse(parts=[messages.TextPart(text)])
        for role, text in history(length)
    ]


async def long(bench: Bench, length: int) -> None:
    used, said = agent(), before(length)
    await bench.again(f"e{length}", lambda: used.run("hi", message_history=said))


async def e(bench: Bench) -> None:
    for length in LENGTHS:
        await long(bench, length)


async def memory(bench: Bench) -> None:
    async def idle() -> Any:
        return agent()

    async def conversation() -> Any:
        return (await run(used)).all_messages()

    used = agent()
    await bench.size("g agent", idle)
    await bench.size("g conversation", conversation)


async def many(bench: Bench) -> None:
    await bench.together("h", lambda: nullcontext(agent(delay=DELAY)), run)


ROWS: dict[str, Row] = {
    "a": lambda bench: tools(bench, "a", 0),
    "b": lambda bench: tools(bench, "b", 1),
    "c": lambda bench: tools(bench, "c", 10),
    "d": streamed,
    "e": e,
    "f": lambda _: run(agent()),
    "g": memory,
    "h": many,
}

if __name__ == "__main__":
    main(["pydantic-ai-slim", "pydantic"], ROWS)
