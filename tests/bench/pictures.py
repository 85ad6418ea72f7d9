"""What it takes to draw and to verify a session of 10,000 entries: the whole command, in seconds."""

import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from random import Random
from statistics import median
from time import perf_counter

import anyio
from tests.bench.environments import ROOT, with_turnchart

from turnchart.machine import Agent, Failure, Reply, RetryPolicy, ScriptedModel, Session, ToolCall, tool
from turnchart.machine.scripted import Scripted
from turnchart.testing import FakeClock

ENTRIES = 10_000
TIMES = 5
COMMANDS: Mapping[str, tuple[str, ...]] = {
    "diagram state": ("diagram", "--view", "state", "--session"),
    "diagram sequence": ("diagram", "--view", "sequence", "--session"),
    "verify log": ("verify",),
}


@tool(inline=True)
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def answer(random: Random) -> Scripted:
    """Return what a model says next: no two turns are alike for long, so that little can be folded."""
    luck = random.random()
    if luck < 0.2:
        return Failure("rate_limit")
    if luck < 0.6:
        return Reply(tool_calls=[ToolCall("add", {"a": 1, "b": 2}) for _ in range(random.randint(1, 5))])
    return "Done."


async def record(path: Path) -> None:
    """Write a session of so many entries."""
    random, session = Random(1), Session.jsonl(path)
    model = ScriptedModel([answer(random) for _ in range(ENTRIES)])
    async with Agent(
        model, tools=[add], session=session, clock=FakeClock(), retry=RetryPolicy(max_attempts=99)
    ) as agent:
        while len(session.entries) < ENTRIES:
            await agent.prompt("hi")
        model.drop()


def measure() -> dict[str, dict[str, float]]:
    """Return the median seconds of each command, all taken in turn."""
    print(f"pictures of {ENTRIES} entries, {TIMES} times each", file=sys.stderr, flush=True)
    taken: dict[str, list[float]] = {name: [] for name in COMMANDS}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "long.jsonl")
        anyio.run(record, path)
        for number in range(TIMES + 1):
            for name, arguments in COMMANDS.items():
                seconds = _run((*arguments, str(path)))
                if number:  # the first one compiles
                    taken[name].append(seconds)
    return {name: {"value": median(times), "best": min(times)} for name, times in taken.items()}


def _run(arguments: tuple[str, ...]) -> float:
    program = "from turnchart.flows.cli import main; main()"
    begun = perf_counter()
    subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=ROOT,
        env=with_turnchart(),
        capture_output=True,
        check=True,
    )
    return perf_counter() - begun
