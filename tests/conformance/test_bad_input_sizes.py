"""Bad input in bulk: ten megabytes of text, ten thousand messages or calls; all of it in linear time."""

from collections.abc import Callable, Mapping

import anyio
import pytest
from tests.conformance.toolkit import Seen, all_of, results, strict, timed
from tests.machine.drive import add, scripted

from turnchart.machine import (
    Agent,
    Limits,
    Queues,
    Reply,
    ScriptedModel,
    Signal,
    State,
    ToolCall,
    UserMessage,
)
from turnchart.machine.abort import AbortSignal
from turnchart.machine.verify import verify
from turnchart.testing import FakeClock

MUCH = 10_000_000


async def test_ten_megabytes_pass_every_door() -> None:
    text = "x" * MUCH
    seen: Seen = []
    call = Reply(tool_calls=[ToolCall("a", {}), ToolCall("add", text)])
    async with scripted(
        [text, call, "ok"], session=strict(), tools=[timed("a", 0, seen, outcome=text), add]
    ) as agent:
        assert len((await agent.prompt(text)).text) == MUCH
        agent.steer(text)
        await agent.idle()
    (kept, short) = results(agent.session)
    assert len(kept[1]) == MUCH
    assert len(short[1]) < 1000
    assert short[1].endswith("(10,000,000 characters)")


async def test_ten_megabytes_in_small_chunks_take_linear_time() -> None:
    async with scripted([Reply(chunks=["x" * 100] * 20_000)], session=strict()) as agent:
        assert len((await agent.prompt("x")).text) == 2_000_000


Way = Callable[[Agent, int], object]


def by_follow_up(agent: Agent, count: int) -> None:
    for i in range(count):
        agent.follow_up(f"m{i}")


def by_steer(agent: Agent, count: int) -> None:
    for i in range(count):
        agent.steer(f"m{i}")


def by_inject(agent: Agent, count: int) -> None:
    for i in range(count):
        agent.inject(f"m{i}")


def by_rider(agent: Agent, count: int) -> None:
    for i in range(count):
        agent.next_turn(f"m{i}")
    agent.follow_up("go")


def by_list(agent: Agent, count: int) -> None:
    agent.follow_up([UserMessage(f"m{i}") for i in range(count)])


def discarded(agent: Agent, count: int) -> None:
    by_follow_up(agent, count)
    by_inject(agent, count)
    assert len(agent.abort()) == 2 * count


ALL_AT_ONCE = Queues(follow_up="all")
QUEUES: Mapping[str, tuple[Way, Queues]] = {
    "one turn for all": (by_follow_up, ALL_AT_ONCE),
    "a turn for each": (by_follow_up, Queues()),
    "steering": (by_steer, Queues()),
    "steering one by one": (by_steer, Queues(steering="one-at-a-time")),
    "injected": (by_inject, Queues()),
    "riders": (by_rider, ALL_AT_ONCE),
    "one list": (by_list, Queues()),
    "discarded": (discarded, Queues()),
}
DEARER = ("a turn for each", "steering one by one")
"""A turn or a step for each message, so that half of them will do."""


async def queued(way: Way, queues: Queues, count: int) -> None:
    """Queue so many messages beside a running turn, and see where each of them went."""
    told = 0

    def hear(_signal: Signal, _: AbortSignal) -> None:
        nonlocal told
        told += 1

    model = ScriptedModel(default="ok")
    async with Agent(model, clock=FakeClock(), queues=queues, limits=Limits(max_steps=None)) as agent:
        agent.on("agent/inbox/inserted", hear)
        agent.follow_up("first")
        await agent.until(State.STOPPING)
        way(agent, count)
        agent.go_on()
        await agent.idle()
        assert not agent.queued
        assert told > count
        verdict = verify(agent.session.entries)
        assert verdict.ok, verdict.message
        if way is not discarded:
            assert len(all_of(agent.session, "user/message")) > count


@pytest.mark.parametrize("name", QUEUES)
def test_ten_thousand_queued_messages_take_linear_time(name: str) -> None:
    way, queues = QUEUES[name]
    count = 5_000 if name in DEARER else 10_000
    anyio.run(queued, way, queues, count)  # quadratic, it would be stopped by the time limit of every test


async def called(count: int) -> None:
    """Answer with so many calls."""
    model = ScriptedModel([Reply(tool_calls=[ToolCall("add", {"a": 1, "b": 2})] * count), "ok"])
    async with Agent(model, clock=FakeClock(), tools=[add]) as agent:
        assert (await agent.prompt("x")).ok


def test_ten_thousand_calls_in_one_answer_take_linear_time() -> None:
    anyio.run(called, 10_000)  # as above
