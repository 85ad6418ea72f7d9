"""How fast the stores append and load, beside the floor of the same run.

    python -m tests.bench.stores [ENTRIES] [--json]

A line says what was measured, how often it happens in a second, and its time as a multiple of its floor's.
The time is that of the processor, so that other programs disturb it less; with fsync it is that of the wall.
"""

import gc
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import anyio
from tests.bench.environments import ROOT, with_turnchart

from turnchart.machine.entries import Entry, Frozen
from turnchart.machine.inbox import Item
from turnchart.machine.jsonl import JsonlStore
from turnchart.machine.messages import AssistantMessage, Text, ToolCall, ToolResultMessage, UserMessage
from turnchart.machine.session import Session
from turnchart.machine.sqlite import SqliteStore
from turnchart.machine.stores import Store

ROUNDS = 3


def history(length: int) -> list[Entry]:
    """Return the log of so many entries of an agent that uses a tool in every turn."""
    session = Session.memory()
    while len(session.entries) < length:
        one_turn(session, session.brackets.turn + 1)
    return session.entries[:length]


def one_turn(session: Session, turn: int) -> None:
    said = UserMessage("Please add one and two, then tell me what it makes. " * 4, id=f"m{turn}", time=1e9)
    item = Item(f"i{turn}", "prompt", (said,))
    session.append("agent/inbox/spliced", session.inbox.insert("next-turn", item))
    session.append("turn/start", Frozen(turn=turn))
    for splice in session.inbox.claim(opens=True, steering="all", follow_up="one-at-a-time"):
        session.append("agent/inbox/spliced", splice.data)
    session.append("step/start", Frozen(turn=turn, step=1))
    session.append("user/message", Frozen(turn=turn, step=1, message=said))
    call = ToolCall("add", {"a": 1, "b": 2}, id=f"c{turn}")
    answer(session, turn, 1, AssistantMessage([Text("I will add them."), call], stop_reason="tool_calls"))
    called = Frozen(turn=turn, step=1, call_id=call.id, tool="add", arguments=call.arguments)
    session.append("tool/call", called)
    result = ToolResultMessage(call.id, "add", "The sum of both numbers is 3. " * 10, time=1e9)
    session.append("tool/result", Frozen(turn=turn, step=1, message=result, outcome="ok"))
    session.append("step/end", Frozen(turn=turn, step=1))
    session.append("step/start", Frozen(turn=turn, step=2))
    answer(session, turn, 2, AssistantMessage("One and two make three. " * 20))
    session.append("step/end", Frozen(turn=turn, step=2))
    session.append("turn/end", Frozen(turn=turn, reason="completed", steps=2))


def answer(session: Session, turn: int, step: int, said: AssistantMessage) -> None:
    stream = Frozen(parts=((1e9, 0.01, 0.02, 0.03),))
    session.append("assistant/message", Frozen(turn=turn, step=step, message=said, stream=stream), attempt=1)


def best(run: Callable[[Path], object], clock: Callable[[], float] = process_time) -> float:
    """Return the shortest time of some runs, each in a folder of its own."""
    times: list[float] = []
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as folder:
            gc.collect()
            gc.freeze()  # what is there already is no concern of the collector while it runs
            start = clock()
            run(Path(folder))
            times.append(clock() - start)
    return min(times)


class Report:
    """Takes what was measured.

    Attributes:
        figures: Microseconds an entry, by name.
    """

    def __init__(self, *, prints: bool) -> None:
        self.figures: dict[str, dict[str, float]] = {}
        self._prints = prints

    def __call__(self, name: str, count: int, seconds: float, floor: float) -> None:
        """Note the seconds that so many entries took."""
        self.figures[f"s {name}"] = {"value": seconds / count * 1_000_000}
        if self._prints:
            print(f"{name:34}{count / seconds:12,.0f} /s{seconds / floor:8.2f} x floor")


# -- appending ---------------------------------------------------------------------------------


def floor_jsonl(folder: Path, entries: Sequence[Entry]) -> None:
    fd = os.open(folder / "floor.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for entry in entries:
        raw = {"seq": entry[0], "parent": entry[1], "type": entry[2], "time": entry[3], "data": entry[4]}
        os.write(fd, (json.dumps(raw) + "\n").encode())
    os.close(fd)


def floor_sqlite(folder: Path, entries: Sequence[Entry], synchronous: str) -> None:
    db = sqlite3.connect(folder / "floor.sqlite", isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute(f"PRAGMA synchronous = {synchronous}")
    db.execute("CREATE TABLE entries (seq INTEGER PRIMARY KEY, line TEXT)")
    for entry in entries:
        raw = {"seq": entry[0], "parent": entry[1], "type": entry[2], "time": entry[3], "data": entry[4]}
        db.execute("INSERT INTO entries VALUES (?, ?)", (entry.seq, json.dumps(raw)))
    db.close()


def fill(store: Store, entries: Sequence[Entry]) -> None:
    for entry in entries:
        store.append(entry)
    store.close()


def flushed(folder: Path, entries: Sequence[Entry], flushes: int) -> None:
    """Let so many tasks wait for the disk after every entry."""
    store = JsonlStore(folder / "s.jsonl", durability="fsync")

    async def run() -> None:
        for entry in entries:
            store.append(entry)
            async with anyio.create_task_group() as tasks:
                for _ in range(flushes):
                    tasks.start_soon(store.flush)

    anyio.run(run)
    store.close()


def appending(entries: Sequence[Entry], report: Report) -> None:
    few, some = entries[:20_000], entries[:2_000]
    floor = best(lambda at: floor_jsonl(at, few))
    report("json.dumps + os.write", len(few), floor, floor)
    report("JSONL append", len(few), best(lambda at: fill(JsonlStore(at / "s.jsonl"), few)), floor)
    floor = best(lambda at: floor_sqlite(at, few, "NORMAL"))
    report("json.dumps + INSERT, WAL NORMAL", len(few), floor, floor)
    report("SQLite append", len(few), best(lambda at: fill(SqliteStore(at / "s"), few)), floor)
    floor = best(lambda at: floor_sqlite(at, some, "FULL"), perf_counter)
    report("json.dumps + INSERT, WAL FULL", len(some), floor, floor)
    seconds = best(lambda at: fill(SqliteStore(at / "s", durability="fsync"), some), perf_counter)
    report("SQLite append, fsync", len(some), seconds, floor)
    for flushes in (1, 10):
        safe = partial(flushed, entries=some, flushes=flushes)
        report(f"JSONL append + {flushes} flush, fsync", len(some), best(safe, perf_counter), floor)


# -- loading -----------------------------------------------------------------------------------


def loading(entries: Sequence[Entry], report: Report) -> None:
    with tempfile.TemporaryDirectory() as folder:
        lines, tables = Path(folder, "s.jsonl"), Path(folder, "s.sqlite")
        fill(JsonlStore(lines), entries)
        fill(SqliteStore(tables), entries)

        def parse(_folder: Path) -> list[object]:
            with lines.open("rb") as file:
                return [json.loads(line) for line in file]

        floor = best(parse)
        report("json.loads of each line", len(entries), floor, floor)
        report("JSONL load", len(entries), best(lambda _: list(JsonlStore(lines).load())), floor)
        report("SQLite load", len(entries), best(lambda _: list(SqliteStore(tables).load())), floor)
        report("JSONL session", len(entries), best(lambda _: Session.jsonl(lines)), floor)
        report("SQLite session", len(entries), best(lambda _: Session.sqlite(tables)), floor)


def measure() -> Mapping[str, Mapping[str, float]]:
    """Return the figures, taken in a process of their own."""
    print("stores, a log of 100,000 entries", file=sys.stderr, flush=True)
    command = [sys.executable, "-m", "tests.bench.stores", "--json"]
    done = subprocess.run(command, cwd=ROOT, env=with_turnchart(), capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main(arguments: Sequence[str]) -> None:
    """Measure, and print lines or JSON."""
    counts = [int(each) for each in arguments if each != "--json"]
    report = Report(prints="--json" not in arguments)
    log = history(counts[0] if counts else 100_000)
    appending(log, report)
    loading(log, report)
    if "--json" in arguments:
        print(json.dumps(report.figures))


if __name__ == "__main__":
    main(sys.argv[1:])
