"""Workers are killed, stopped and cut off: their turns go on, and nothing is lost or doubled."""

import asyncio
import json
import os
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import AsyncExitStack
from functools import partial
from inspect import isawaitable
from pathlib import Path
from random import Random
from typing import Any

import psycopg
import pytest
from tests.machine.postgres_server import Server, binaries, server
from tests.trials.durable import (
    LEASE,
    PATIENCE,
    Process,
    deeds,
    go,
    opened,
    prepare,
    results,
    told,
    workers,
)
from tests.trials.durable_worker import POINTS

pytest.importorskip("dbos")

from turnchart.machine.durable import DurableAgent, DurableTurn, opening

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(binaries() is None, reason="Postgres is not installed"),
    pytest.mark.parametrize("anyio_backend", ["asyncio"]),
]

FULL = os.environ.get("TURNCHART_TRIALS") == "full"
SEED = os.environ.get("TURNCHART_SEED", "0")
PLAN = json.dumps([["look", "look", "pay"], {"fail": ["look"]}, "the end"])
"""Tools beside each other and alone, a request that fails once, and a last word."""
TRIES = 4
"""So often it is tried how quickly something goes."""
SLACK = 15
"""Seconds that a busy machine may take to find a dead worker, and to open what it left."""


@pytest.fixture(scope="module")
def running() -> Generator[Server]:
    with server() as one:
        yield one


@pytest.fixture
def dsn(running: Server) -> str:
    dsn = running.dsn()
    prepare(dsn)
    return dsn


@pytest.fixture(params=["postgres", "sqlite"])
def store(request: pytest.FixtureRequest, dsn: str, tmp_path: Path) -> str:
    """Where the turns are; what tools and models do is in Postgres."""
    if request.param == "postgres":
        return dsn
    if sys.version_info >= (3, 12) and sqlite3.sqlite_version_info < (3, 42):
        pytest.skip("DBOS cannot use this SQLite with this Python")
    return f"sqlite:{tmp_path / 'turns.db'}"


async def soon(turn: "asyncio.Task[DurableTurn]") -> DurableTurn:
    return await asyncio.wait_for(turn, PATIENCE)


@pytest.fixture(scope="module")
def undisturbed(running: Server, tmp_path_factory: pytest.TempPathFactory) -> str:
    """What hooks do to the world in a turn that nobody disturbs."""
    dsn, marks = running.dsn(), tmp_path_factory.mktemp("undisturbed") / "marks"
    prepare(dsn)

    async def play() -> None:
        async with DurableAgent(dsn, "s") as agent:
            assert (await agent.prompt(PLAN)).ok

    with workers() as ones:
        ones.append(Process(dsn, marks=str(marks)))
        ones[0].says("ready")
        asyncio.run(asyncio.wait_for(play(), PATIENCE))
    return marks.read_text("utf-8")


@pytest.mark.parametrize("point", POINTS if FULL else Random(SEED).sample(POINTS, 3))
async def test_a_worker_is_killed_in_a_state(
    point: str, dsn: str, store: str, undisturbed: str, tmp_path: Path
) -> None:
    marks = tmp_path / "marks"
    with workers() as running:
        held = Process(dsn, store=store, hold=point, marks=str(marks))
        running.append(held)
        held.says("ready")
        async with DurableAgent(store, "s") as agent:
            turn = asyncio.create_task(agent.prompt(PLAN))
            await asyncio.to_thread(held.says, f"at {point}")
            before = deeds(dsn, "answered")
            finished = deeds(dsn, "done")
            other = Process(dsn, store=store, marks=str(marks))
            running.append(other)
            other.says("ready")
            first = writers(store, "s")
            held.kill()
            killed = time.monotonic()
            await until(lambda: writers(store, "s") > first)
            took = time.monotonic() - killed
            came = await soon(turn)
    assert came.ok, came
    assert came.text.strip() == "the end"
    assert took < LEASE + SLACK, f"taken over only after {took:.1f} s"
    session = opened(store, "s")
    assert told(session) == [PLAN]
    again = {key for key, count in deeds(dsn, "answered").items() if count > 1 and key in before}
    assert not again, f"answered again: {again}"
    assert all(deeds(dsn, "done")[key] == 1 for key in finished), "a tool that had finished ran again"
    assert len(results(session)) == 4
    for _, key in deeds(dsn, "done"):
        assert key.startswith("s:"), key
    done = Counter(marks.read_text("utf-8").split())
    assert done == Counter(undisturbed.split()), "what a hook had done was done again"


async def test_an_unsafe_tool_asks_before_it_runs_again(dsn: str, store: str) -> None:
    with workers() as running:
        first = Process(dsn, store=store, waits=True)
        running.append(first)
        first.says("ready")
        async with DurableAgent(store, "s") as agent:
            turn = asyncio.create_task(agent.prompt(json.dumps([["shoot"], "done"])))
            await until(lambda: sum(deeds(dsn, "began").values()) == 1)
            first.kill()
            running.append(Process(dsn, store=store))
            asked = await until(agent.questions)
            assert [(each.tool, "may have taken effect" in each.reason) for each in asked] == [
                ("shoot", True)
            ]
            assert sum(deeds(dsn, "began").values()) == 1, "it ran again without being asked about"
            await agent.refuse(asked[0].call_id, "look first")
            assert (await soon(turn)).ok
    session = opened(store, "s")
    (result,) = results(session).values()
    assert "look first" in result["content"][0]["text"]
    assert sum(deeds(dsn, "began").values()) == 1


async def test_somebody_else_steers_and_aborts_within_a_second(dsn: str, store: str) -> None:
    took: dict[str, list[float]] = {"steer": [], "abort": []}
    with workers() as running:
        worker = Process(dsn, store=store, waits=True)
        running.append(worker)
        worker.says("ready")
        async with DurableAgent(store, "s") as asks, DurableAgent(store, "s") as third:
            turn = asyncio.create_task(asks.prompt(json.dumps([["look"], "one two three four", "end"])))
            await until(lambda: deeds(dsn, "began"))
            for number in range(TRIES):
                sent = time.monotonic()
                await third.steer(f"be quick {number}")
                await until(partial(waiting, store, f"be quick {number}"), pause=0.01)
                took["steer"].append(time.monotonic() - sent)
            go(dsn)
            assert (await soon(turn)).ok
            for number in range(TRIES):
                turn = asyncio.create_task(asks.prompt(json.dumps([["long"], "never"])))
                await until(partial(begun, dsn, number + 2))
                waits = await third.follow_up('["not any more"]')
                sent = time.monotonic()
                await third.abort("enough")
                assert (await soon(turn)).reason == "aborted"
                took["abort"].append(time.monotonic() - sent)
                assert (await third.result(waits)).reason == "discarded"
            assert (await asks.prompt('["on we go"]')).text.strip() == "on we go"
    # What a machine does that is busy with other things says nothing; the quickest time is what it takes.
    assert all(min(times) < 1 for times in took.values()), took
    session = opened(store, "s")
    assert told(session)[1 : TRIES + 1] == [f"be quick {number}" for number in range(TRIES)]
    steered = [e for e in session.entries if e.type == "user/message" and e.data["step"] > 1]
    assert [e.data["turn"] for e in steered] == [1] * TRIES, "they reached the turn that ran"


def begun(dsn: str, count: int) -> bool:
    """Tell whether so many calls have begun."""
    return len(deeds(dsn, "began")) == count


def waiting(store: str, text: str) -> bool:
    """Tell whether a message is in the inbox of the session."""
    queued = opened(store, "s").inbox.queued()
    return any(said.text == text for items in queued for item in items for said in item.messages)


async def test_a_stopped_worker_cannot_write_when_it_goes_on(dsn: str, store: str) -> None:
    with workers() as running:
        first = Process(dsn, store=store, waits=True)
        running.append(first)
        first.says("ready")
        async with DurableAgent(store, "s") as agent:
            turn = asyncio.create_task(agent.prompt(json.dumps([["pay"], "one two three", "end"])))
            await until(lambda: deeds(dsn, "began"))
            first.freeze()
            second = Process(dsn, store=store, pause=0.3)
            running.append(second)
            second.says("ready")
            await until(lambda: sum(deeds(dsn, "began").values()) == 2)
            go(dsn)
            first.thaw()
            assert (await soon(turn)).ok
            assert (await soon(asyncio.create_task(agent.prompt('["again"]')))).ok
            await asyncio.sleep(2 * LEASE)
    session = opened(store, "s")
    assert sum(deeds(dsn, "began").values()) == 2
    assert len(deeds(dsn, "began")) == 1, "both tries of a keyed tool have one key"
    assert len(results(session)) == 1
    assert [e.data["reason"] for e in session.entries if e.type == "turn/end"] == ["completed"] * 2


async def test_the_server_is_restarted_amid_turns(dsn: str, running: Server) -> None:
    with workers() as processes:
        worker = Process(dsn, pause=0.05)
        processes.append(worker)
        worker.says("ready")
        async with DurableAgent(dsn, "s0") as agent, DurableAgent(dsn, "s1") as other:
            plan = json.dumps([["look", "pay"]] * 6 + ["end"])
            turns = [asyncio.create_task(each.prompt(plan)) for each in (agent, other)]
            await until(lambda: len(deeds(dsn, "done")) > 3)
            await asyncio.to_thread(running.stop)
            await asyncio.sleep(0.5)
            await asyncio.to_thread(running.start)
            for turn in turns:
                assert (await soon(turn)).ok
    for id in ("s0", "s1"):
        session = opened(dsn, id)
        assert len(results(session)) == 12
        assert told(session) == [plan]


async def test_a_turn_ends_with_the_version_it_began_with(dsn: str) -> None:
    with workers() as running:
        old = Process(dsn, version="1", waits=True)
        running.append(old)
        old.says("ready")
        async with DurableAgent(dsn, "s") as agent, DurableAgent(dsn, "t") as other:
            turn = asyncio.create_task(agent.prompt(json.dumps([["look"], "old end"])))
            await until(lambda: deeds(dsn, "began", "s"))
            new = Process(dsn, version="2")
            running.append(new)
            new.says("ready")
            assert (await soon(asyncio.create_task(other.prompt('["new"]')))).ok
            old.kill()
            await asyncio.sleep(3 * LEASE)
            assert not turn.done(), "a worker of another version went on with it"
            again = Process(dsn, version="1")
            running.append(again)
            assert (await soon(turn)).text.strip() == "old end"
    assert told(opened(dsn, "s")) == [json.dumps([["look"], "old end"])]


async def test_flows_of_one_database_have_versions_of_their_own(dsn: str, store: str) -> None:
    with workers() as running:
        flows = ("reviewer", "writer")
        for version, flow in enumerate(flows):
            running.append(Process(dsn, store=store, flow=flow, version=str(version)))
            running[-1].says("ready")
        for flow in flows:
            async with DurableAgent(store, flow, flow=flow) as agent:
                assert (await soon(asyncio.create_task(agent.prompt('["end"]')))).ok


async def test_the_next_prompt_waits_for_the_version_of_an_open_turn(dsn: str, store: str) -> None:
    with workers() as running:
        old = Process(dsn, store=store, version="1", waits=True)
        running.append(old)
        old.says("ready")
        async with DurableAgent(store, "s") as agent, DurableAgent(store, "t") as other:
            turn = asyncio.create_task(agent.prompt(json.dumps([["look"], "old end"])))
            await until(lambda: deeds(dsn, "began", "s"))
            later = asyncio.create_task(agent.result(await agent.follow_up('["later"]')))
            old.kill()
            before = deeds(dsn, "answered", "s")
            new = Process(dsn, store=store, version="2")
            running.append(new)
            new.says("ready")
            await asyncio.sleep(4 * LEASE)
            assert (await soon(asyncio.create_task(other.prompt('["new"]')))).ok
            assert not turn.done()
            assert not later.done()
            assert deeds(dsn, "answered", "s") == before, "a worker of another version went on with it"
            running.append(Process(dsn, store=store, version="1"))
            assert (await soon(turn)).text.strip() == "old end"
            assert (await soon(later)).text.strip() == "later"
    assert told(opened(store, "s")) == [json.dumps([["look"], "old end"]), '["later"]']


SESSIONS, TURNS = (200, 3) if FULL else (30, 2)


async def test_two_workers_share_many_sessions(dsn: str, store: str) -> None:
    with workers() as running:
        # Neither may be so quick that nothing is left for the other when that looks next.
        running += [Process(dsn, store=store, pause=0.05, count=5) for _ in range(2)]
        for each in running:
            each.says("ready")
        asked, began = 0, time.monotonic()
        while len(pids := {pid for (pid,) in rows(dsn, "SELECT DISTINCT pid FROM deeds")}) < 2:
            assert time.monotonic() - began < PATIENCE, f"worker {pids} did all the work"
            await load(store, SESSIONS, TURNS, first=asked)
            asked += TURNS
    whole(dsn, store, SESSIONS, asked)


@pytest.mark.timeout(3600 if FULL else 300)  # a hundred workers are started, one after the other
async def test_workers_are_killed_and_stopped_at_random_under_load(dsn: str, store: str) -> None:
    random = Random(SEED)
    kills, sessions, turns = (100, 40, 10) if FULL else (4, 12, 4)
    asked = turns
    with workers() as running:
        running += [Process(dsn, store=store, pause=0.02), Process(dsn, store=store, pause=0.02)]
        for each in running:
            each.says("ready")
        working = asyncio.create_task(load(store, sessions, turns, within=1800))
        for kill in range(kills):
            if working.done():
                await working
                working = asyncio.create_task(load(store, sessions, turns, first=asked, within=1800))
                asked += turns
            await asyncio.sleep(random.uniform(0, 1.5))
            victim = random.randrange(2)
            if kill % 4 == 3:  # it is silent for so long that it may count as dead, and goes on
                running[victim].freeze()
                await asyncio.sleep(random.uniform(0.5, 2.5) * LEASE)
                running[victim].thaw()
                continue
            running[victim].kill()
            running[victim] = Process(dsn, store=store, pause=0.02)
            running[victim].says("ready")
        await working
    whole(dsn, store, sessions, asked)


async def load(store: str, sessions: int, turns: int, first: int = 0, within: float = 300) -> None:
    """Ask for turns of many sessions, and wait for all of them."""
    async with AsyncExitStack() as stack:
        agents = [await stack.enter_async_context(DurableAgent(store, f"s{i}")) for i in range(sessions)]
        asked = [
            (agent, await agent.follow_up(plan_of(i)))
            for i in range(first, first + turns)
            for agent in agents
        ]
        came = await asyncio.wait_for(asyncio.gather(*(agent.result(id) for agent, id in asked)), within)
    assert all(each.ok for each in came), [each for each in came if not each.ok]


def plan_of(turn: int) -> str:
    return json.dumps([["look", "look"], {"fail": ["pay"]}, f"end of {turn}"])


def whole(dsn: str, store: str, sessions: int, turns: int) -> None:
    """Hold every session against what was asked for."""
    for i in range(sessions):
        session = opened(store, f"s{i}")
        assert told(session) == [plan_of(turn) for turn in range(turns)], "lost, doubled or out of order"
        assert len(results(session)) == 3 * turns
        reasons = [entry.data["reason"] for entry in session.entries if entry.type == "turn/end"]
        assert reasons == ["completed"] * turns
        called = {
            f"{session.id}:{e.seq}:{e.data['call_id']}" for e in session.entries if e.type == "tool/call"
        }
        assert {key for _, key in deeds(dsn, "done", session.id)} == called, "a try of a call had another key"


def rows(dsn: str, sql: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(dsn, autocommit=True) as db:
        return db.execute(sql.encode()).fetchall()


def writers(store: str, session: str) -> int:
    """Return how often a session has got a writer."""
    with opening.opened(store).used() as db:
        found = db.execute("SELECT epoch FROM turnchart.sessions WHERE id = %s", (session,)).fetchone()
    return int(found[0]) if found else 0


async def until(ask: Callable[[], Any], pause: float = 0.05) -> Any:
    """Wait until this is true, and return what it gave."""
    end = time.monotonic() + PATIENCE
    while True:
        found = ask()
        if isawaitable(found):
            found = await found
        if found:
            return found
        assert time.monotonic() < end, "it never came"
        await asyncio.sleep(pause)
