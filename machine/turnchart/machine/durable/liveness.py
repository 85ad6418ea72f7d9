"""A worker says that it lives, and looks for those that do not: their turns go back into the queue."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from turnchart.machine.postgres_database import driver

if TYPE_CHECKING:
    from psycopg import Connection

_log = logging.getLogger("turnchart.durable")

_BEAT: Final = """
    INSERT INTO turnchart.writers AS w (key, name, lease) VALUES (%s, %s, %s * interval '1 s')
    ON CONFLICT (key) DO UPDATE SET seen = clock_timestamp()"""
_DEAD: Final = """
    SELECT key FROM turnchart.writers
    WHERE lease IS NOT NULL AND seen + lease < clock_timestamp() AND key <> %s"""
_STILL: Final = """
    SELECT FROM turnchart.writers
    WHERE key = %s AND seen + lease < clock_timestamp() FOR UPDATE SKIP LOCKED"""


def executor(key: int) -> str:
    """Return the id under which DBOS knows a worker."""
    return f"turnchart-{key}"


class Liveness:
    """The heart of a worker: a thread with a connection of its own, so that no tool can hold it up.

    Args:
        dsn: The address of the database.
        key: The number of the worker's row in ``writers``.
        name: What it is called there.
        lease: Seconds after its last beat in which it counts as alive.
        take_over: Puts the turns of a dead executor back into the queue; called in the thread.
    """

    def __init__(
        self, dsn: str, key: int, name: str, lease: float, take_over: Callable[[str], object]
    ) -> None:
        self._dsn, self._key, self._name, self._lease = dsn, key, name, lease
        self._take_over = take_over
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
        psycopg = driver()
        db: Connection[Any] | None = None
        over = False
        while not over:
            try:
                db = self._connected(db)
                self._beat(db)
            except psycopg.OperationalError as error:
                _log.warning("the database cannot be reached: %s", " ".join(str(error).split()))
                if db is not None:
                    db.close()
                db = None
            except Exception:  # noqa: BLE001  # whatever it is, the heart has to go on
                _log.exception("the turns of a dead worker could not be taken over")
            over = self._over.wait(self._lease / 5)
        if db is not None and not db.closed:
            db.execute("UPDATE turnchart.writers SET seen = '-infinity' WHERE key = %s", (self._key,))
            db.close()

    def _connected(self, db: Connection[Any] | None) -> Connection[Any]:
        if db is not None and not db.closed:
            return db
        fresh: Connection[Any] = driver().connect(
            self._dsn, autocommit=True, application_name="turnchart-heart"
        )
        return fresh

    def _beat(self, db: Connection[Any]) -> None:
        db.execute(_BEAT, (self._key, self._name, self._lease))
        for (key,) in db.execute(_DEAD, (self._key,)).fetchall():
            with db.transaction():  # by one only, so that what it put back is not put back again
                if db.execute(_STILL, (key,)).rowcount == 1:
                    self._take_over(executor(key))
                    db.execute("DELETE FROM turnchart.writers WHERE key = %s", (key,))
