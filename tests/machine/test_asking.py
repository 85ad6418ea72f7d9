from collections.abc import AsyncIterator

import pytest
from tests.conformance.asking import Route

from turnchart.machine import Agent, UserMessage
from turnchart.machine.abort import AbortSignal
from turnchart.machine.asking import Purpose, answered, closing
from turnchart.machine.clock import SYSTEM_CLOCK
from turnchart.machine.entries import Frozen
from turnchart.machine.errors import ScriptError
from turnchart.machine.models import Chunk, Finish, ModelRequest, RequestConfig, TextDelta
from turnchart.machine.stream import Answer

pytestmark = pytest.mark.anyio
REQUEST = ModelRequest("test", "", [UserMessage("?")], (), Frozen(), None, AbortSignal(), SYSTEM_CLOCK)


async def ask(agent: Agent, route: Route) -> Answer:
    prepared = await route.prepare(RequestConfig("test"), AbortSignal())
    return await answered(agent, prepared, REQUEST, "question")


async def test_an_answer_is_read_to_its_finish() -> None:
    route = Route((TextDelta("yes"), Finish("stop"), TextDelta("more")))
    answer = await ask(Agent(route), route)
    assert answer.message("test", 1.0, "q").text == "yes"


async def test_what_a_model_raises_is_a_failure_where_it_is_one_of_the_wire() -> None:
    for streams in (ConnectionError("reset"), (TextDelta("ye"), ConnectionError("reset"))):
        route = Route(streams)
        answer = await ask(Agent(route), route)
        assert answer.failure is not None
        assert answer.failure.kind in ("connection", "incomplete_stream")
    route = Route(ScriptError("a bug"))
    with pytest.raises(ScriptError, match="a bug"):
        await ask(Agent(route), route)


async def test_who_watches_sees_request_chunks_and_purpose() -> None:
    seen: list[object] = []

    async def watch(
        request: ModelRequest, chunks: AsyncIterator[Chunk], purpose: Purpose
    ) -> AsyncIterator[Chunk]:
        seen.extend((request, purpose))
        async for chunk in chunks:
            seen.append(chunk)
            yield chunk

    route = Route((TextDelta("yes"), Finish("stop")))
    agent = Agent(route)
    agent.watch_aside = watch
    await ask(agent, route)
    assert seen == [REQUEST, "question", TextDelta("yes"), Finish("stop")]


async def test_a_stream_is_closed_and_one_that_cannot_be_is_left_alone() -> None:
    closed: list[str] = []

    async def chunks() -> AsyncIterator[Chunk]:
        try:
            yield Finish("stop")
            yield Finish("stop")
        finally:
            closed.append("closed")

    class Bare:
        def __aiter__(self) -> "Bare":
            return self

        async def __anext__(self) -> Chunk:
            return Finish("stop")

    async with closing(chunks()) as stream:
        async for _ in stream:
            break
    assert closed == ["closed"]
    async with closing(Bare()) as stream:
        async for _ in stream:
            break
