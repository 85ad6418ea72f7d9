"""openai-agents, with its tracing off. One agent without a session; a longer conversation is its input."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import nullcontext
from importlib import import_module
from typing import Any

from .measure import CHUNKS, DELAY, LENGTHS, Bench, Row, history, main

# Not installed where the types are checked.
agents: Any = import_module("agents")
interface: Any = import_module("agents.models.interface")
responses: Any = import_module("openai.types.responses")


def message(text: str) -> Any:
    part = responses.ResponseOutputText(text=text, type="output_text", annotations=[], logprobs=[])
    return responses.ResponseOutputMessage(
        id="m", type="message", role="assistant", status="completed", content=[part]
    )


def call(number: int) -> Any:
    return responses.ResponseFunctionToolCall(
        id=f"f{number}", call_id=f"c{number}", type="function_call", name="add", arguments='{"a":1,"b":2}'
    )


class Model(interface.Model):  # type: ignore[misc]  # its base is unknown here
    def __init__(self, calls: int = 0, delay: float = 0) -> None:
        self.calls = calls
        self.delay = delay

    async def get_response(self, *_more: Any, input: Any, **_named: Any) -> Any:
        if self.delay:
            await asyncio.sleep(self.delay)
        answered = not isinstance(input, str) and input[-1].get("type") == "function_call_output"
        output = [message("ok")]
        if self.calls and not answered:
            output = [call(i) for i in range(self.calls)]
        return agents.ModelResponse(output=output, usage=agents.Usage(), response_id=None)

    async def stream_response(self, *_given: Any, **_named: Any) -> AsyncIterator[Any]:
        for i in range(CHUNKS):
            yield responses.ResponseTextDeltaEvent(
                type="response.output_text.delta",
                delta="tok ",
                item_id="m",
                content_index=0,
                output_index=0,
                sequence_number=i,
                logprobs=[],
            )
        whole = responses.Response(
            id="r",
            created_at=0,
            model="bench",
            object="response",
            output=[message("tok " * CHUNKS)],
            tool_choice="none",
            tools=[],
            top_p=None,
            parallel_tool_calls=False,
        )
        yield responses.ResponseCompletedEvent(
            type="response.completed", sequence_number=CHUNKS, response=whole
        )


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


ADD = agents.function_tool(add)


def agent(calls: int = 0, delay: float = 0) -> Any:
    return agents.Agent(name="bench", instructions="be brief", model=Model(calls, delay), tools=[ADD])


async def run(used: Any, given: Any = "hi") -> Any:
    return await agents.Runner.run(used, given)


async def tools(bench: Bench, name: str, calls: int) -> None:
    used = agent(calls)
    said = (await run(used)).to_input_list()
    assert sum(each.get("type") == "function_call_output" for each in said) == calls
    await bench.again(name, lambda: run(used))


async def streamed(bench: Bench) -> None:
    used = agent()

    async def turn() -> None:
        count = 0
        async for _ in agents.Runner.run_streamed(used, "hi").stream_events():
            count += 1
        assert count >= CHUNKS

    await bench.again("d", turn, per=CHUNKS)


async def long(bench: Bench, length: int) -> None:
    used = agent()
    before = [{"role": role, "content": text} for role, text in history(length)]
    await bench.again(f"e{length}", lambda: run(used, [*before, {"role": "user", "content": "hi"}]))


async def e(bench: Bench) -> None:
    for length in LENGTHS:
        await long(bench, length)


async def memory(bench: Bench) -> None:
    async def idle() -> Any:
        return agent()

    async def conversation() -> Any:
        return (await run(used)).to_input_list()

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
    agents.set_tracing_disabled(True)
    main(["openai-agents", "openai", "pydantic"], ROWS)
