"""A worker says that it lives, and looks for those that do not: their turns go back into the queue."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial

from turnchart.machine.durable.opening import opened
from turnchart.machine.errors import SessionError
from turnchart.machine.postgres_database import Database

_log = logging.getLogger("turnchart.durable")


BEATS = 5
"""So often it beats within its lease."""
_PREFIX = "turnchart-"


def since_boot() -> float:
    """Return the seconds since the machine was started; where that can be told, with those that it slept."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def executor(key: int) -> str:
    """Return the id under which DBOS knows a worker."""
    return f"{_PREFIX}{key}"


def _key(executor: str) -> int | None:
    number = executor.removeprefix(_PREFIX)
    return int(number) if number != executor and number.isdigit() else None


class Liveness:
    """The heart of a worker: a thread with a connection of its own, so that no tool can hold it up.

    Args:
        dsn: The address of the database.
        key: The number of the worker's row in ``writers``.
        name: What it is called there.
        lease: Seconds after its last beat in which it counts as alive.
        take_over: Puts the turns of a dead executor back into the queue; called in the thread.
        at_work: Returns the executors that have turns. One may have taken turns although it had been declared
            dead, and have died before it could say that it lives: nobody knows it any more.
    """

    def __init__(
        self,
        dsn: str,
        key: int,
        name: str,
        lease: float,
        take_over: Callable[[str], object],
        at_work: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        self._dsn, self._key, self._name, self._lease = dsn, key, name, lease
        self._take_over, self._at_work = take_over, at_work
        self._beats = 0
        """How often in a row it has beaten in time."""
        self._last = since_boot()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="turnchart-heart", daemon=True)

    def start(self) -> None:
        """Begin to beat."""
        self._thread.start()

    def stop(self) -> None:
        """Beat no more, and say so, so that others need not wait for the lease to run out."""
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        with opened(self._dsn).used() as db:
            over = False
            while not over:
                try:
                    self._beat(db)
                except (SessionError, db.psycopg.OperationalError) as error:
                    _log.warning("the database cannot be reached: %s", " ".join(str(error).split()))
                except Exception:  # noqa: BLE001  # whatever it is, the heart has to go on
                    _log.exception("the turns of a dead worker could not be taken over")
                over = self._over.wait(self._lease / BEATS)
            with suppress(SessionError, db.psycopg.Error):  # else the lease says so
                db.part(self._key)

    def _beat(self, db: Database) -> None:
        """Say that it lives, and look for the dead.

        Behind an outage, and behind the sleep of a machine, all are silent for as long as it took. So whoever
        could not beat itself waits as long as a lease before it takes silence for death.
        """
        try:
            db.beat(self._key, self._name, self._lease)
        except BaseException:
            self._beats = 0
            raise
        now = since_boot()
        self._beats = self._beats + 1 if now - self._last < self._lease else 0
        self._last = now
        if self._beats and self._beats % BEATS == 0:
            at_work = [key for each in self._at_work() if (key := _key(each)) is not None]
            for key in db.missing(at_work):
                db.declare_dead(key, self._lease)
        for key in db.dead(self._key, parted=self._beats < BEATS):
            db.bury(key, partial(self._take_over, executor(key)))
