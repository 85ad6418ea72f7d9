"""What every peer measures with. It knows the standard library only, whatever the environment holds."""

import asyncio
import gc
import json
import logging
import sys
import tracemalloc
import warnings
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager
from importlib.metadata import version
from statistics import median
from time import perf_counter, process_time
from typing import Any, TypeVar

CHUNKS = 1_000
"""So many chunks has the streamed answer of row d."""
LENGTHS = (100, 10_000)
"""So many messages are in the conversation before row e."""
AGENTS = 1_000
"""So many agents work at once in row h."""
DELAY = 0.05
"""So many seconds the model takes in row h."""

WARM_UP = 20
LEAST, MOST = 15, 100_000
"""So many samples are taken at least, whatever time they need, and so many at most."""
CROWDS = 3
"""So often the agents of row h are set to work."""
KEPT_BEFORE, KEPT = 100, 200
"""So many objects are made before the memory of the others is looked at, and so many are looked at."""

T = TypeVar("T")


class Bench:
    """Takes the figures of one peer.

    Attributes:
        seconds: How long one figure is sampled.
        figures: What was found, by name: ``value`` and what else is worth knowing.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.figures: dict[str, dict[str, float]] = {}

    async def time(
        self,
        name: str,
        make: Callable[[], Awaitable[T]],
        turn: Callable[[T], Awaitable[object]],
        *,
        per: int = 1,
        most: int = MOST,
    ) -> None:
        """Note the median time of a turn in microseconds. ``make`` makes what it works on, untimed."""
        end = perf_counter() + self.seconds
        for _ in range(WARM_UP):
            await turn(await make())
            if perf_counter() > end:
                break
        gc.collect()
        wall: list[float] = []
        cpu: list[float] = []
        end = perf_counter() + self.seconds
        while len(wall) < LEAST or (len(wall) < most and perf_counter() < end):
            made = await make()
            cpu_begun = process_time()
            begun = perf_counter()
            await turn(made)
            wall.append(perf_counter() - begun)
            cpu.append(process_time() - cpu_begun)
        micro = 1_000_000 / per
        self.figures[name] = {
            "value": median(wall) * micro,
            "best": min(wall) * micro,
            "cpu": median(cpu) * micro,
            "samples": len(wall),
        }

    async def again(self, name: str, turn: Callable[[], Awaitable[object]], *, per: int = 1) -> None:
        """Note the median time of a turn that needs nothing made anew."""
        await self.time(name, _nothing, lambda _: turn(), per=per)

    async def size(self, name: str, make: Callable[[], Awaitable[object]]) -> None:
        """Note what one such object takes in the memory of Python, in KiB."""
        kept = [await make() for _ in range(KEPT_BEFORE)]
        await asyncio.sleep(0.01)  # what is still on its way ends
        gc.collect()
        tracemalloc.start()
        before, _ = tracemalloc.get_traced_memory()
        kept += [await make() for _ in range(KEPT)]
        await asyncio.sleep(0.01)
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        self.figures[name] = {"value": (after - before) / (len(kept) - KEPT_BEFORE) / 1024}

    async def together(
        self,
        name: str,
        enter: Callable[[], AbstractAsyncContextManager[T]],
        turn: Callable[[T], Awaitable[object]],
    ) -> None:
        """Note the seconds that many agents need for a turn each, at once; they are made before, untimed."""
        self.figures[name] = {"value": median([await _together(enter, turn) for _ in range(CROWDS)])}


async def _together(
    enter: Callable[[], AbstractAsyncContextManager[T]], turn: Callable[[T], Awaitable[object]]
) -> float:
    ready: list[T] = []
    ends: list[float] = []
    all_ready, go, over = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def one() -> None:
        async with enter() as agent:
            ready.append(agent)
            if len(ready) == AGENTS:
                all_ready.set()
            await go.wait()
            await turn(agent)
            ends.append(perf_counter())
            if len(ends) == AGENTS:
                over.set()
            await over.wait()

    async with asyncio.TaskGroup() as tasks:
        for _ in range(AGENTS):
            tasks.create_task(one())
        await all_ready.wait()
        gc.collect()
        begun = perf_counter()
        go.set()
    return ends[-1] - begun


async def _nothing() -> None:
    """Make nothing."""


Row = Callable[[Bench], Coroutine[Any, Any, object]]


def history(length: int) -> list[tuple[str, str]]:
    """Return a conversation as roles and texts."""
    return [("assistant" if i % 2 else "user", f"message number {i} {'x' * 80}") for i in range(length)]


def main(packages: list[str], rows: Mapping[str, Row]) -> None:
    """Measure the row that the command line names, and print what was found as a line of JSON."""
    warnings.filterwarnings("ignore")
    logging.disable(logging.ERROR)
    row, seconds = sys.argv[1:]
    bench = Bench(float(seconds))
    asyncio.run(rows[row](bench))
    versions = {name: version(name) for name in packages}
    print(json.dumps({"versions": versions, "figures": bench.figures}))
