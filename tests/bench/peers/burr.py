"""burr: an explicit state machine, user -> llm -> (tools -> llm)*.

It knows nothing of models, so model and tool are those of the floor. An application ends with its turn, so
each turn gets a new one, made untimed.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import nullcontext
from importlib import import_module
from typing import Any

from .bare import Model, Said, add
from .measure import CHUNKS, DELAY, LENGTHS, Bench, Row, history, main

# Not installed where the types are checked.
core: Any = import_module("burr.core")
streaming: Any = import_module("burr.core.action")


async def user(state: Any, prompt: str) -> Any:
    return state.append(messages={"role": "user", "content": prompt})


async def tools(state: Any) -> Any:
    async def call(asked: Said) -> Said:
        value = await add(**json.loads(asked["arguments"]))
        return {"role": "tool", "tool_call_id": asked["id"], "content": str(value)}

    asked = state["messages"][-1]["tool_calls"]
    return state.extend(messages=await asyncio.gather(*[call(each) for each in asked]))


async def done(state: Any) -> Any:
    return state


USER = core.action(reads=["messages"], writes=["messages"])(user)
TOOLS = core.action(reads=["messages"], writes=["messages"])(tools)
DONE = core.action(reads=[], writes=[])(done)


def asking(model: Model) -> Any:
    async def llm(state: Any) -> Any:
        answer = await model.request(state["messages"])
        return state.append(messages=answer).update(calls=len(answer.get("tool_calls", ())))

    return core.action(reads=["messages"], writes=["messages", "calls"])(llm)


async def llm_stream(state: Any) -> AsyncIterator[tuple[Said, Any]]:
    parts: list[str] = []
    async for part in Model().stream(state["messages"]):
        parts.append(part)
        yield {"part": part}, None
    yield {"part": ""}, state.append(messages={"role": "assistant", "content": "".join(parts)})


LLM_STREAM = streaming.streaming_action(reads=["messages"], writes=["messages"])(llm_stream)


def application(llm: Any, before: Sequence[Said] = ()) -> Any:
    return (
        core.ApplicationBuilder()
        .with_actions(user=USER, llm=llm, tools=TOOLS, done=DONE)
        .with_transitions(
            ("user", "llm"),
            ("llm", "tools", core.expr("calls>0")),
            ("llm", "done", core.default),
            ("tools", "llm"),
            ("done", "user"),
        )
        .with_state(messages=list(before), calls=0)
        .with_entrypoint("user")
        .build()
    )


def streaming_application() -> Any:
    return (
        core.ApplicationBuilder()
        .with_actions(user=USER, llm=LLM_STREAM)
        .with_transitions(("user", "llm"), ("llm", "user"))
        .with_state(messages=[])
        .with_entrypoint("user")
        .build()
    )


async def turn(app: Any) -> Any:
    return await app.arun(halt_after=["done"], inputs={"prompt": "hi"})


async def turns(bench: Bench, name: str, calls: int, before: Sequence[Said] = ()) -> None:
    llm = asking(Model(calls))

    async def make() -> Any:
        return application(llm, before)

    _, _, state = await turn(await make())
    assert len(state["messages"]) == len(before) + (3 + calls if calls else 2)
    await bench.time(name, make, turn)


async def streamed(bench: Bench) -> None:
    async def make() -> Any:
        return streaming_application()

    async def stream(app: Any) -> None:
        count = 0
        _, parts = await app.astream_result(halt_after=["llm"], inputs={"prompt": "hi"})
        async for _ in parts:
            count += 1
        assert count >= CHUNKS

    await bench.time("d", make, stream, per=CHUNKS)


async def e(bench: Bench) -> None:
    for length in LENGTHS:
        before: list[Said] = [{"role": role, "content": text} for role, text in history(length)]
        await turns(bench, f"e{length}", 0, before)


async def memory(bench: Bench) -> None:
    llm = asking(Model())

    async def idle() -> Any:
        return application(llm)

    async def conversation() -> Any:
        app = application(llm)
        await turn(app)
        return app

    await bench.size("g agent", idle)
    await bench.size("g conversation", conversation)


async def many(bench: Bench) -> None:
    llm = asking(Model(delay=DELAY))
    await bench.together("h", lambda: nullcontext(application(llm)), turn)


ROWS: dict[str, Row] = {
    "a": lambda bench: turns(bench, "a", 0),
    "b": lambda bench: turns(bench, "b", 1),
    "c": lambda bench: turns(bench, "c", 10),
    "d": streamed,
    "e": e,
    "f": lambda _: turn(application(asking(Model()))),
    "g": memory,
    "h": many,
}

if __name__ == "__main__":
    main(["apache-burr"], ROWS)
