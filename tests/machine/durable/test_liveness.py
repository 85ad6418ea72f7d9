"""A worker beats, and finds those that do not."""

import queue
import time
from typing import Any, cast

import psycopg
import pytest
from tests.machine.postgres_server import Server

from turnchart.machine.durable import liveness
from turnchart.machine.durable.liveness import BEATS, Liveness, executor, since_boot
from turnchart.machine.errors import SessionError
from turnchart.machine.postgres_database import Database


@pytest.fixture
def dsn(running: Server) -> str:
    dsn = running.dsn()
    with Database(dsn).used() as db:
        db.execute("SELECT 1")  # makes the tables
    return dsn


def until_gone(dsn: str, key: int) -> None:
    with psycopg.connect(dsn, autocommit=True) as db:
        while db.execute("SELECT FROM turnchart.writers WHERE key = %s", (key,)).rowcount:
            time.sleep(0.01)


def test_a_worker_whose_lease_ran_out_is_taken_over_once(dsn: str) -> None:
    with Database(dsn).used() as db:
        sql = (
            "INSERT INTO turnchart.writers VALUES (%s, %s, %s * interval '1 s', now() - %s * interval '1 s')"
        )
        for key, lease, silent in ((1, 5, 60), (2, 500, 60), (3, None, 60)):
            db.execute(sql, (key, f"worker {key}", lease, silent))
    taken: queue.Queue[str] = queue.Queue()
    hearts = [Liveness(dsn, key, "me", 0.2, taken.put) for key in (101, 102)]
    for each in hearts:
        each.start()
    ours = {executor(101), executor(102)}  # on a busy machine one of them may be silent for that long
    while (first := taken.get(timeout=10)) in ours:
        pass
    assert first == executor(1)
    until_gone(dsn, 1)
    for each in hearts:
        each.stop()
    later = [taken.get() for _ in range(taken.qsize())]
    assert executor(1) not in later, "it was taken over twice"
    assert not {executor(2), executor(3)} & set(later), "one that lives was taken over"


def test_one_that_stops_says_so(dsn: str) -> None:
    taken: queue.Queue[str] = queue.Queue()
    stops, looks = Liveness(dsn, 201, "stops", 3600, taken.put), Liveness(dsn, 202, "looks", 0.2, taken.put)
    stops.start()
    stops.stop()
    looks.start()
    assert taken.get(timeout=10) == executor(201)
    looks.stop()


def test_one_that_was_declared_dead_and_lives_is_there_again(dsn: str) -> None:
    heart = Liveness(dsn, 301, "lives", 0.5, print)
    heart.start()
    with psycopg.connect(dsn, autocommit=True) as db:
        for _ in range(2):
            while not db.execute("DELETE FROM turnchart.writers WHERE key = 301").rowcount:
                time.sleep(0.01)
    heart.stop()


def test_one_that_nobody_knows_and_that_has_turns_is_taken_over(dsn: str) -> None:
    taken: queue.Queue[str] = queue.Queue()
    working = {executor(501), executor(502), "somebody-else"}

    def take(dead: str) -> None:
        working.discard(dead)
        taken.put(dead)

    heart = Liveness(dsn, 502, "looks", 0.2, take, lambda: tuple(working))
    heart.start()
    assert taken.get(timeout=10) == executor(501)
    until_gone(dsn, 501)
    heart.stop()
    assert taken.empty()


class Outage:
    """A database that is away for a while, and knows one that is silent and one that ended."""

    def __init__(self) -> None:
        self.away = False
        self.buried: list[int] = []

    def beat(self, key: int, name: str, lease: float) -> None:
        if self.away:
            raise SessionError("the database cannot be reached")

    def dead(self, key: int, *, parted: bool = False) -> list[int]:
        return [8] if parted else [7, 8]

    def missing(self, keys: object) -> list[int]:
        return []

    def bury(self, key: int, take_over: object) -> None:
        self.buried.append(key)


def test_behind_an_outage_silence_is_no_death_before_a_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(liveness, "since_boot", lambda: clock[0])
    heart, db = cast("Any", Liveness("postgres://x", 1, "me", 10, print)), Outage()

    def beats(count: int, apart: float = 2.0) -> list[int]:
        db.buried = []
        for _ in range(count):
            clock[0] += apart
            heart._beat(db)
        return db.buried

    assert beats(BEATS - 1) == [8] * (BEATS - 1), "of one that ended nobody need wait"
    assert beats(1) == [7, 8]
    db.away = True
    with pytest.raises(SessionError):
        beats(1)
    db.away = False
    assert beats(BEATS - 1) == [8] * (BEATS - 1)
    assert beats(1) == [7, 8]
    assert beats(1, apart=30.0) == [8], "a beat that had to wait for the server comes behind an outage, too"


def test_the_time_that_a_machine_slept_counts() -> None:
    if not hasattr(time, "CLOCK_BOOTTIME"):
        pytest.skip("this system does not say how long it slept")
    began = time.clock_gettime(time.CLOCK_BOOTTIME)
    assert began <= since_boot() <= time.clock_gettime(time.CLOCK_BOOTTIME)


def test_a_failed_takeover_stops_no_heart(dsn: str) -> None:
    tried: queue.Queue[str] = queue.Queue()

    def fails(dead: str) -> None:
        tried.put(dead)
        raise RuntimeError("not now")

    with Database(dsn).used() as db:
        db.execute("INSERT INTO turnchart.writers VALUES (401, 'gone', interval '1 s', '-infinity')")
    heart = Liveness(dsn, 402, "tries", 0.1, fails)
    heart.start()
    assert [tried.get(timeout=10) for _ in range(2)] == [executor(401)] * 2
    heart.stop()
