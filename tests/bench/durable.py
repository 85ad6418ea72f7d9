"""Durable turns: turns a second, what a step costs beside one of plain DBOS, and how soon chunks are read.

    PYTHONPATH=. python tests/bench/durable.py [TURNS]

Server, workers and client share this machine, so the figures are low; what counts is how they compare.
"""

import asyncio
import json
import statistics
import sys
import time
from collections.abc import AsyncIterator
from typing import Any

from dbos import DBOS
from tests.machine.postgres_server import server
from tests.trials.durable import Process, prepare, workers

from turnchart.machine import Agent, ModelRequest, PreparedCall, Reply, ScriptedModel, ToolCall, tool
from turnchart.machine.abort import AbortSignal
from turnchart.machine.durable import DurableAgent, Worker
from turnchart.machine.durable.journal import alchemy_url, serializer
from turnchart.machine.models import Chunk, Finish, RequestConfig, TextDelta
from turnchart.machine.session import Session

STEPS = 20


async def turns_a_second(dsn: str, count: int) -> float:
    """Ask for turns of 50 sessions with two requests and a tool each, and return how many a second end."""
    agents = [DurableAgent(dsn, f"s{i}") for i in range(50)]
    plan = json.dumps([["look"], "end"])
    for each in agents:
        await each.__aenter__()
    began = time.perf_counter()
    asked = [(agents[i % 50], await agents[i % 50].follow_up(plan)) for i in range(count)]
    for agent, wish in asked:
        assert (await agent.result(wish)).ok
    took = time.perf_counter() - began
    for each in agents:
        await each.__aexit__(None, None, None)
    return count / took


def throughput(dsn: str, many: int, pause: float, count: int) -> float:
    """Return the turns a second of so many workers, whose model takes a pause."""
    prepare(dsn)
    with workers() as running:
        running += [Process(dsn, pause=pause, count=50) for _ in range(many)]
        for each in running:
            each.says("ready")
        asyncio.run(turns_a_second(dsn, 20))
        return asyncio.run(turns_a_second(dsn, count))


@tool(replay="idempotent")
async def nothing() -> str:
    """Do nothing."""
    return "ok"


def _calls(session: Session) -> Agent:
    calls = [Reply(tool_calls=[ToolCall("nothing", {}, id=f"c{i}")]) for i in range(STEPS // 2)]
    return Agent(ScriptedModel([*calls, "end"]), tools=[nothing], session=session)


async def step_of_ours(dsn: str) -> list[float]:
    """Return what a step takes, in ms, with all that a turn does between."""
    took: list[float] = []
    async with Worker(dsn, _calls, poll=0.02), DurableAgent(dsn, "warm") as warm:
        await warm.prompt("go")
        for i in range(8):
            async with DurableAgent(dsn, f"steps{i}") as agent:
                began = time.perf_counter()
                await agent.prompt("go")
                session = await agent.session()
                begin = next(e.time for e in session.entries if e.type == "turn/start")
                took.append((session.entries[-1].time - begin) * 1000 / (STEPS + 1))
                assert time.perf_counter() > began
    return took


async def step_of_dbos(dsn: str) -> list[float]:
    """Return what a step of plain DBOS takes, in ms; its result is as large as what we journal."""
    DBOS(config={"name": "plain", "system_database_url": alchemy_url(dsn), "serializer": serializer()})

    async def body() -> dict[str, Any]:
        return {"step": "request", "key": "1.1.0", "seq": 8, "usage": {}, "calls": ["c1"]}

    @DBOS.workflow(name="plain")
    async def plain() -> float:
        began = time.perf_counter()
        for _ in range(STEPS + 1):
            await DBOS.run_step_async({"name": "step"}, body)
        return (time.perf_counter() - began) * 1000 / (STEPS + 1)

    DBOS.launch()
    await plain()
    took = [await plain() for _ in range(8)]
    await asyncio.to_thread(DBOS.destroy, destroy_registry=True)
    return took


class Telling:
    """Says a hundred times what time it is."""

    id = "clock"

    async def prepare(self, config: RequestConfig, abort: AbortSignal) -> PreparedCall:
        """Answer by itself."""
        del abort
        return PreparedCall(config, self.stream)

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """Say it."""
        del request
        for _ in range(100):
            await asyncio.sleep(0.01)
            yield TextDelta(f"{time.time()} ")
        yield Finish("stop")


async def chunk_latency(dsn: str) -> list[float]:
    """Return how long after a chunk came it was read over the database, in ms."""
    late: list[float] = []

    async def listen(agent: DurableAgent) -> None:
        async for piece in agent.chunks():
            if piece.get("type") == "text_delta":
                late.append((time.time() - float(piece["text"])) * 1000)

    def make(session: Session) -> Agent:
        return Agent(Telling(), session=session)

    async with Worker(dsn, make, poll=0.02), DurableAgent(dsn, "stream") as agent:
        listening = asyncio.create_task(listen(agent))
        await agent.prompt("go")
        listening.cancel()
    return late


def row(name: str, value: str) -> None:
    """Print one line."""
    print(f"{name:<58}{value:>16}", flush=True)


def main() -> None:
    """Measure all, and print it."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    with server() as running:
        for pause, model in ((0.0, "an instant model"), (0.05, "a model of 50 ms")):
            for many in (1, 2):
                rate = throughput(running.dsn(), many, pause, count)
                row(f"turns a second, {many} worker{'s' * (many > 1)}, {model}", f"{rate:.0f}")
        plain = statistics.median(asyncio.run(step_of_dbos(running.dsn())))
        ours = statistics.median(asyncio.run(step_of_ours(running.dsn())))
        row("a step of plain DBOS", f"{plain:.2f} ms")
        row("a step of a turn", f"{ours:.2f} ms, {ours / plain:.2f} x")
        late = sorted(asyncio.run(chunk_latency(running.dsn())))
        row("from a chunk to its reader, median", f"{late[len(late) // 2]:.1f} ms")
        row("from a chunk to its reader, 95 of 100", f"{late[len(late) * 95 // 100]:.1f} ms")


if __name__ == "__main__":
    main()
