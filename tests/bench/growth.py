"""What a turn takes as its session grows.

    python -m tests.bench.growth

Each figure is the median of some turns that say "ok", in microseconds.
"""

import asyncio
import gc
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from tests.bench.environments import ROOT, with_turnchart
from tests.bench.peers.turnchart import Model
from tests.bench.stores import history

from turnchart.machine import Agent, Session

PROMPTS, PART = 2_000, 100
"""So many prompts get one session, and so many of the first and the last are compared."""
LENGTHS = (100, 100_000)
"""So many entries are on the branch before a turn."""
TURNS = 60


async def turns(session: Session, count: int) -> list[float]:
    """Return the seconds of each of so many turns."""
    taken: list[float] = []
    async with Agent(Model(), session=session) as agent:
        for _ in range(count):
            begun = perf_counter()
            await agent.prompt("hi")
            taken.append(perf_counter() - begun)
    return taken


def branch(length: int) -> float:
    """Return the seconds of a turn on a branch of so many entries."""
    session = Session.memory()
    session.copy(history(length))
    gc.collect()
    gc.freeze()
    return median(asyncio.run(turns(session, TURNS))[TURNS // 3 :])


def prompts(name: str, session: Session) -> dict[str, float]:
    """Return the seconds of a turn among the first and among the last of many."""
    gc.collect()
    gc.freeze()
    taken = asyncio.run(turns(session, PROMPTS + PART))[PART:]  # what comes first warms up
    return {f"p first {name}": median(taken[:PART]), f"p last {name}": median(taken[-PART:])}


def figures() -> dict[str, dict[str, float]]:
    """Measure everything."""
    found = {f"t{length}": branch(length) for length in reversed(LENGTHS)}
    with tempfile.TemporaryDirectory() as folder:
        found |= prompts("memory", Session.memory())
        found |= prompts("jsonl", Session.jsonl(Path(folder, "s.jsonl")))
        found |= prompts("sqlite", Session.sqlite(Path(folder, "s.db")))
    return {name: {"value": seconds * 1_000_000} for name, seconds in found.items()}


def measure() -> Mapping[str, Mapping[str, float]]:
    """Return the figures, taken in a process of their own."""
    print(f"growth, {PROMPTS} prompts in one session", file=sys.stderr, flush=True)
    command = [sys.executable, "-m", "tests.bench.growth"]
    done = subprocess.run(command, cwd=ROOT, env=with_turnchart(), capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main(_arguments: Sequence[str]) -> None:
    """Measure, and print JSON."""
    print(json.dumps(figures()))


if __name__ == "__main__":
    main(sys.argv[1:])
