"""What a turn costs in counts, beside the budget in budget.json; times are noisy, and these are not.

    make budget [ARGS=--write]

Each row is a turn of peers/turnchart.py:

| row | work |
|---|---|
| a, b, c | no tool call, one, ten; a new agent, its session in memory |
| d | an answer of 1,000 chunks |
| a jsonl | row a, its session in a JSONL file |

| count | of a turn |
|---|---|
| calls | functions and coroutines of Python that are entered or gone on with |
| builtin calls | functions written in C that are called from Python |
| blocks kept | blocks of memory that it leaves behind: what its entries take |
| bytes at most | memory that it takes beyond what was taken before it, at its worst moment |
| entries | entries that it appends |

The counts depend on the minor version of Python, so that each has a budget of its own; on a version without
one nothing is judged. With --write the budget of this version is written anew.
"""

import argparse
import asyncio
import gc
import json
import sys
import tracemalloc
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from statistics import median_low
from tempfile import TemporaryDirectory
from types import FrameType
from typing import TypeAlias

from tests.bench.peers.turnchart import STREAM, Model, add, asking, turn
from tests.bench.report import table

from turnchart.machine import Agent, Session

FILE = Path(__file__).with_name("budget.json")
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
WARM_UP, TIMES = 3, 5
"""So many turns come first, and so many are looked at."""
TURNS = 20
"""So many turns of one session share what they leave behind."""
TOLERANCE: Mapping[str, float] = {
    "calls": 0.02,
    "builtin calls": 0.02,
    "blocks kept": 0.05,
    "bytes at most": 0.05,
    "entries": 0,
}
"""How much more than its budget each count may be: other releases of what we stand on may add a few."""
ROWS: Mapping[str, Callable[[], Model]] = {
    "a": Model,
    "b": lambda: Model(asking(1)),
    "c": lambda: Model(asking(10)),
    "d": lambda: Model(STREAM),
    "a jsonl": Model,
}

Counts: TypeAlias = dict[str, int]
RENEW = (
    "Either make it cheaper again, or, where it is worth its price, write the budget anew with"
    " `make budget ARGS=--write`, and say in the commit what it buys."
)


# -- counting ----------------------------------------------------------------------------------


@contextmanager
def calls(counts: Counts) -> Generator[None]:
    """Count the calls of this thread."""
    python = builtin = 0

    def note(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal python, builtin
        if event == "call":
            python += 1
        elif event == "c_call":
            builtin += 1

    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)
    counts |= {"calls": python, "builtin calls": builtin}


async def one_turn(model: Model, session: Session) -> Counts:
    """Return what a turn of a new agent costs."""
    counts: Counts = {}
    async with Agent(model, tools=[add], session=session) as agent:
        before = len(session.entries)
        with calls(counts):
            done = await turn(agent)
        done.check()
        counts["entries"] = len(session.entries) - before
    return counts


async def memory(model: Model, session: Session) -> Counts:
    """Return the memory of a turn of an agent that had some before."""
    peaks: list[int] = []
    async with Agent(model, tools=[add], session=session) as agent:
        for _ in range(WARM_UP):
            await turn(agent)
        gc.collect()
        tracemalloc.start()
        try:
            for _ in range(TURNS):
                tracemalloc.reset_peak()
                taken, _ = tracemalloc.get_traced_memory()
                await turn(agent)
                peaks.append(tracemalloc.get_traced_memory()[1] - taken)
            gc.collect()
            kept = sum(each.count for each in tracemalloc.take_snapshot().statistics("filename"))
        finally:
            tracemalloc.stop()
    return {"blocks kept": round(kept / TURNS), "bytes at most": median_low(peaks)}


async def row(name: str, folder: Path) -> Counts:
    """Return the counts of a row."""

    def session(number: int) -> Session:
        return Session.jsonl(folder / f"{name} {number}.jsonl") if "jsonl" in name else Session.memory()

    model = ROWS[name]()
    gc.collect()
    gc.disable()  # what it would finalize is called by chance
    try:
        each = [await one_turn(model, session(number)) for number in range(WARM_UP + TIMES)][WARM_UP:]
        found = {count: median_low([one[count] for one in each]) for count in each[0]}
        found |= await memory(model, session(WARM_UP + TIMES))
    finally:
        gc.enable()
    return {count: found[count] for count in TOLERANCE}


def counted() -> dict[str, Counts]:
    """Return the counts of all rows."""
    with TemporaryDirectory() as folder:
        return {name: asyncio.run(row(name, Path(folder))) for name in ROWS}


# -- judging -----------------------------------------------------------------------------------


def exceeded(found: Mapping[str, Counts], budget: Mapping[str, Counts]) -> list[str]:
    """Return a sentence for each count that is over its budget."""
    return [
        f"Row {name}, {count}: {found[name][count]:,} a turn, and the budget is {most:,}"
        + (f" (and {TOLERANCE[count]:.0%})." if TOLERANCE[count] else ".")
        for name, counts in budget.items()
        for count, most in counts.items()
        if found[name][count] > most * (1 + TOLERANCE[count])
    ]


def kinds(counts: Mapping[str, Counts]) -> set[tuple[str, str]]:
    """Return the rows and counts that there are."""
    return {(name, count) for name, each in counts.items() for count in each}


def shown(found: Mapping[str, Counts], budget: Mapping[str, Counts]) -> str:
    """Return a table of all counts, each beside its budget."""
    lines: list[list[str]] = []
    for name, counts in found.items():
        known = budget.get(name, {})
        cells = [_beside(value, known.get(count)) for count, value in counts.items()]
        lines.append([name, *cells])
    return table(["row", *TOLERANCE], lines)


def _beside(value: int, most: int | None) -> str:
    return f"{value:,}" if not most else f"{value:,} ({value / most - 1:+.1%})"


def main() -> None:
    """Count, and judge; exit with 1 where something is over its budget."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.budget", description="Count what a turn costs."
    )
    parser.add_argument("--write", action="store_true", help=f"write the budget of Python {VERSION} anew")
    write = parser.parse_args().write
    budgets: dict[str, dict[str, Counts]] = json.loads(FILE.read_text("utf-8"))
    budget = budgets.get(VERSION, {})
    found = counted()
    print(shown(found, budget))
    if write:
        budgets[VERSION] = found
        FILE.write_text(json.dumps(dict(sorted(budgets.items())), indent=1) + "\n", "utf-8")
        print(f"The budget of Python {VERSION} is written.")
    elif not budget:
        print(f"Python {VERSION} has no budget, so nothing is judged; --write would write one.")
    elif kinds(budget) != kinds(found):
        sys.exit(f"The rows or counts in {FILE.name} are not those that are counted now. {RENEW}")
    elif over := exceeded(found, budget):
        sys.exit("\n".join([*over, RENEW]))
    else:
        print(f"All within the budget of Python {VERSION}.")


if __name__ == "__main__":
    main()
