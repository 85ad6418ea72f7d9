"""Durable turns: turns a second, what a step costs beside one of plain DBOS, and how soon chunks are read.

    PYTHONPATH=. python tests/bench/durable.py [--turns 200] [--rounds 5] [--json] [--write]

With --write the section of docs/benchmarks.md is made of it; `python tests/bench` measures it as row
`durable`.
Server, workers and client share this machine, so turns a second are few; what counts is how they compare.

A step of plain DBOS is one request or one tool of the same loop, written by hand as a workflow: nothing but
`DBOS.run_step_async`, whose journal holds the answer and the result. What a step costs is the difference
between a turn with 40 more of them and one with none, from the start of the workflow to its end, so it holds
all that is written on the way; the two kinds take turns.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from tests.machine.postgres_server import binaries, server
from tests.trials.durable import Process, prepare, workers

from turnchart.machine import Agent, ModelRequest, PreparedCall, Reply, ScriptedModel, ToolCall, tool
from turnchart.machine.abort import AbortSignal
from turnchart.machine.durable import DurableAgent, Worker
from turnchart.machine.models import Chunk, Finish, RequestConfig, TextDelta
from turnchart.machine.session import Session

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "benchmarks.md"
PAIRS = 20
"""So many requests with a tool each has the longer turn."""
SESSIONS = 50
STEP, PLAIN = "durable step", "durable step of plain DBOS"
CHUNK = {50: "durable chunk, median", 95: "durable chunk, 95 %"}
MODELS = {0.0: "an instant model", 0.05: "a model of 50 ms"}
Figures = dict[str, dict[str, float]]


def rate_of(many: int, pause: float) -> str:
    """Return the name of a figure: turns a second."""
    return f"turns {many} worker{'s' * (many > 1)}, {MODELS[pause]}"


# -- turns a second ----------------------------------------------------------------------------


async def turns_a_second(dsn: str, count: int) -> float:
    """Ask for turns of 50 sessions with two requests and a tool each, and return how many a second end."""
    agents = [DurableAgent(dsn, f"s{i}") for i in range(SESSIONS)]
    plan = json.dumps([["look"], "end"])
    for each in agents:
        await each.__aenter__()
    began = time.perf_counter()
    asked = [(agents[i % SESSIONS], await agents[i % SESSIONS].follow_up(plan)) for i in range(count)]
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
        running += [Process(dsn, pause=pause, count=SESSIONS, notes=False) for _ in range(many)]
        for each in running:
            each.says("ready")
        asyncio.run(turns_a_second(dsn, SESSIONS))
        return asyncio.run(turns_a_second(dsn, count))


# -- a step ------------------------------------------------------------------------------------


@tool(replay="idempotent")
async def nothing() -> str:
    """Do nothing."""
    return "ok"


def _calls(session: Session) -> Agent:
    pairs = int(session.id.split("-")[1])
    calls = [Reply(tool_calls=[ToolCall("nothing", {}, id=f"c{i}")]) for i in range(pairs)]
    return Agent(ScriptedModel([*calls, "end"]), tools=[nothing], session=session)


class Timed(Worker):
    """A worker that notes how long the turn of each session took it, in ms."""

    took: Mapping[str, float] = {}

    async def _turn(self, session: str, ticket: int) -> dict[str, Any]:
        began = time.perf_counter()
        try:
            return await super()._turn(session, ticket)
        finally:
            self.took = {**self.took, session: (time.perf_counter() - began) * 1000}


async def _request(number: int) -> dict[str, Any]:
    call: dict[str, Any] = {"type": "tool_call", "id": f"c{number}", "name": "nothing", "arguments": {}}
    return {"role": "assistant", "content": [call], "stop_reason": "tool_calls", "usage": {}}


async def _act() -> dict[str, Any]:
    return {"role": "tool_result", "content": [{"type": "text", "text": "ok"}], "is_error": False}


async def steps(dsn: str, rounds: int) -> tuple[list[float], list[float]]:
    """Return what a step takes, in ms: of plain DBOS, and of a turn, in rounds that take turns."""
    from dbos import DBOS

    @DBOS.workflow(name="plain")
    async def plain(pairs: int) -> float:
        began = time.perf_counter()
        for i in range(pairs):
            await DBOS.run_step_async({"name": "request"}, _request, i)
            await DBOS.run_step_async({"name": "tool"}, _act)
        await DBOS.run_step_async({"name": "request"}, _request, pairs)
        return (time.perf_counter() - began) * 1000

    theirs: list[float] = []
    ours: list[float] = []
    async with Timed(dsn, _calls, poll=0.02) as worker:
        for i in range(rounds + 1):
            long, short = await plain(PAIRS), await plain(0)
            theirs.append((long - short) / (2 * PAIRS))
            for pairs in (PAIRS, 0):
                async with DurableAgent(dsn, f"{i}-{pairs}") as agent:
                    assert (await agent.prompt("go")).ok
            while f"{i}-0" not in worker.took:  # noqa: ASYNC110  # it ends just behind its result
                await asyncio.sleep(0.01)
            ours.append((worker.took[f"{i}-{PAIRS}"] - worker.took[f"{i}-0"]) / (2 * PAIRS))
    return theirs[1:], ours[1:]


# -- chunks ------------------------------------------------------------------------------------


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


async def tell(dsn: str) -> None:
    """Work until killed, with a model that tells the time."""

    def make(session: Session) -> Agent:
        return Agent(Telling(), session=session)

    async with Worker(dsn, make, poll=0.02):
        print("ready", flush=True)
        await asyncio.sleep(3600)


async def chunk_latency(dsn: str) -> list[float]:
    """Return how long after a chunk came it was read in another process, in ms."""
    late: list[float] = []

    async def listen(agent: DurableAgent) -> None:
        async for piece in agent.chunks():
            if piece.get("type") == "text_delta":
                late.append((time.time() - float(piece["text"])) * 1000)

    async with DurableAgent(dsn, "stream") as agent:
        listening = asyncio.create_task(listen(agent))
        await agent.prompt("go")
        listening.cancel()
    return sorted(late)


def chunks(dsn: str) -> list[float]:
    """Return what ``chunk_latency`` does, with a worker in a process of its own."""
    command = [sys.executable, __file__, "--tell", dsn]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as telling:
        assert telling.stdout is not None
        try:
            assert telling.stdout.readline() == "ready\n"
            return asyncio.run(chunk_latency(dsn))
        finally:
            telling.kill()


# -- all of it ---------------------------------------------------------------------------------


def figures(turns: int, rounds: int) -> Figures:
    """Measure everything, and return it."""
    found: Figures = {}
    with server() as running:
        rates: dict[str, list[float]] = {}
        for _ in range(max(1, rounds // 2)):
            for pause in MODELS:
                for many in (1, 2):
                    rate = throughput(running.dsn(), many, pause, turns)
                    rates.setdefault(rate_of(many, pause), []).append(rate)
        found |= {name: {"value": statistics.median(each)} for name, each in rates.items()}
        theirs, ours = asyncio.run(steps(running.dsn(), rounds))
        found[PLAIN] = {"value": statistics.median(theirs)}
        found[STEP] = {"value": statistics.median(ours)}
        late = chunks(running.dsn())
        found |= {name: {"value": late[len(late) * share // 100]} for share, name in CHUNK.items()}
    return found


def measure() -> Figures:
    """Measure everything, in a process of its own.

    Raises:
        ValueError: If Postgres or DBOS is not installed.
    """
    if binaries() is None:
        raise ValueError("Postgres is not installed")
    done = subprocess.run(
        [sys.executable, __file__, "--json"],
        capture_output=True,
        text=True,
        timeout=900,
        check=True,
        cwd=ROOT,
    )
    found: Figures = json.loads(done.stdout.strip().rpartition("\n")[2])
    return found


def main() -> None:
    """Measure all, and print it."""
    from tests.bench import page, report

    parser = argparse.ArgumentParser(prog="python tests/bench/durable.py")
    parser.add_argument("--turns", type=int, default=200, help="how many turns each worker rate takes (200)")
    parser.add_argument("--rounds", type=int, default=5, help="how often a step is measured (5)")
    parser.add_argument("--json", action="store_true", help="print the figures as one line of JSON")
    parser.add_argument("--write", action="store_true", help="write the section of docs/benchmarks.md")
    parser.add_argument("--tell", metavar="URL", help=argparse.SUPPRESS)
    given = parser.parse_args()
    logging.getLogger("dbos").setLevel(logging.WARNING)
    if given.tell:
        asyncio.run(tell(given.tell))
    load = os.getloadavg()[1]
    found = figures(given.turns, given.rounds)
    if given.json:
        print(json.dumps(found))
        return
    for name, figure in found.items():
        print(f"{name:<40}{report.number(figure['value']):>10} {report.unit(name)}")
    print(f"{'a step beside one of plain DBOS':<40}{found[STEP]['value'] / found[PLAIN]['value']:>10.2f} x")
    if given.write:
        said = page.durable({name: figure["value"] for name, figure in found.items()}, load)
        PAGE.write_text(page.with_durable(PAGE.read_text("utf-8"), said), "utf-8")


if __name__ == "__main__":
    main()
