"""What the durable agents of one program share: a few connections to the database, however many they are."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from turnchart.machine.durable.journal import DurableError, dbos, serializer
from turnchart.machine.durable.opening import engine_of
from turnchart.machine.durable.sqlite_database import LOOK, Ear, exists, path_of
from turnchart.machine.postgres_database import driver

if TYPE_CHECKING:
    from dbos import DBOSClient
    from psycopg import Connection
    from sqlalchemy import Connection as Transaction
    from sqlalchemy import Engine

Hearer = Callable[[dict[str, Any]], object]
AGAIN: Final = 0.2
"""Seconds between tries to reach a server that went away."""


class Exchange:
    """One line that hears what is told of sessions, and a few connections to ask for something.

    Attributes:
        client: Puts turns into queues.
        away: What is raised while the server cannot be reached, and where it was reached after all, by a try
            that seemed to have failed.
    """

    client: DBOSClient
    away: tuple[type[Exception], ...]

    def __init__(self, dsn: str, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._dsn, self._file = dsn, path_of(dsn)
        if self._file is None:
            self._psycopg = driver()
        self._entering = asyncio.Lock()
        self._users = 0
        self._hearers: dict[str, list[Hearer]] = {}
        self._line: Connection[Any] | None = None
        self._heard_at = -1
        self._mending: asyncio.Task[None] | None = None
        self._engine: Engine | None = None

    async def enter(self) -> None:
        """Become one of those who use it; the first one connects.

        Raises:
            DurableError: If no worker ever used this database, or it cannot be reached.
        """
        async with self._entering:
            if not self._users:
                await asyncio.to_thread(self._connect)
                if self._file is None:
                    await self._begin_to_hear()
                else:
                    await self._begin_to_look(self._file)
            self._users += 1

    async def _begin_to_hear(self) -> None:
        try:
            self._hear(await asyncio.to_thread(self._lined))
        except self._psycopg.OperationalError as error:
            await self._disconnect()
            raise DurableError(f"the database cannot be reached: {said(error)}") from error

    async def _begin_to_look(self, path: str) -> None:
        try:
            ear = await asyncio.to_thread(Ear, path)
        except BaseException:
            await self._disconnect()
            raise
        self._mending = self.loop.create_task(self._hear_file(ear))

    async def leave(self) -> None:
        """Use it no more; the last one disconnects."""
        async with self._entering:
            self._users -= 1
            if self._users:
                return
            if self._mending is not None:
                self._mending.cancel()
                await asyncio.gather(self._mending, return_exceptions=True)
            self._hang_up()
            await self._disconnect()

    async def _disconnect(self) -> None:
        engine, self._engine = self._engine, None
        await asyncio.to_thread(self.client.destroy)
        if engine is not None:
            await asyncio.to_thread(engine.dispose)

    def _connect(self) -> None:
        from sqlalchemy.exc import IntegrityError, OperationalError

        self.away = OperationalError, IntegrityError
        engine = engine_of(self._dsn)
        try:
            ready = _used(engine) if self._file is None else exists(self._file)
        except OperationalError as error:
            engine.dispose()
            raise DurableError(f"the database cannot be reached: {said(error)}") from error
        if not ready:
            engine.dispose()
            raise DurableError("no worker has used this database yet: start `turnchart worker` first")
        self.client = dbos().DBOSClient(system_database_engine=engine, serializer=serializer())
        self._engine = engine

    def work(self, fn: Callable[[Transaction], Any]) -> Any:
        """Do something in a transaction, and return what that gives; blocks the thread.

        Raises:
            Exception: ``away``, if the server cannot be reached.
        """
        assert self._engine is not None, "who uses it has entered it"
        with self._engine.begin() as db:
            return fn(db)

    # -- hearing -------------------------------------------------------------------------------

    def listen(self, channel: str, hearer: Hearer) -> Callable[[], None]:
        """Tell somebody what is told on a channel; return what stops that."""
        hearers = self._hearers.setdefault(channel, [])
        hearers.append(hearer)
        if len(hearers) == 1:
            self._say(f"LISTEN {channel}")

        def stop() -> None:
            hearers.remove(hearer)
            if not hearers:
                del self._hearers[channel]
                self._say(f"UNLISTEN {channel}")

        return stop

    async def _hear_file(self, ear: Ear) -> None:
        try:
            while True:
                for channel, payload in ear.heard():
                    if channel in self._hearers:
                        self._tell(channel, payload)
                await asyncio.sleep(LOOK)
        finally:
            ear.close()

    def _say(self, sql: str) -> None:
        """Say something on the line; while it is down, the next one says it anew."""
        if self._line is not None:
            try:
                self._line.execute(sql.encode())
            except self._psycopg.OperationalError:
                self._mend()

    def _lined(self) -> Connection[Any]:
        line: Connection[Any] = self._psycopg.connect(
            self._dsn, autocommit=True, application_name="turnchart-ear"
        )
        for channel in tuple(self._hearers):
            line.execute(f"LISTEN {channel}".encode())
        return line

    def _hear(self, line: Connection[Any]) -> None:
        """Hear on a line, which may have missed channels that were asked for while it was made."""
        self._line = line
        line.add_notify_handler(lambda told: self._tell(told.channel, told.payload))
        self._heard_at = line.fileno()  # one that broke has none any more
        self.loop.add_reader(self._heard_at, self._readable)
        for channel in tuple(self._hearers):
            self._say(f"LISTEN {channel}")

    def _readable(self) -> None:
        line = self._line
        if line is None:
            return
        try:
            line.pgconn.consume_input()
            while (told := line.pgconn.notifies()) is not None:
                self._tell(told.relname.decode(), told.extra.decode())
        except self._psycopg.OperationalError:
            self._mend()

    def _tell(self, channel: str, payload: str) -> None:
        heard = json.loads(payload)
        for hearer in tuple(self._hearers.get(channel, ())):
            hearer(heard)

    def _mend(self) -> None:
        self._hang_up()
        if self._mending is None or self._mending.done():
            self._mending = self.loop.create_task(self._mended())

    async def _mended(self) -> None:
        """Open another line, and say that something may have been missed."""
        while True:
            try:
                self._hear(await asyncio.to_thread(self._lined))
            except self._psycopg.OperationalError:
                await asyncio.sleep(AGAIN)
            else:
                for hearer in [each for hearers in self._hearers.values() for each in hearers]:
                    hearer({"missed": True})
                return

    def _hang_up(self) -> None:
        line, self._line = self._line, None
        if line is not None:
            self.loop.remove_reader(self._heard_at)
            line.close()


_exchanges: dict[str, Exchange] = {}


def _used(engine: Engine) -> bool:
    """Tell whether a worker has used a server."""
    with engine.connect() as db:
        sql = "SELECT to_regclass('turnchart.wishes'), to_regclass('dbos.workflow_status')"
        return None not in tuple(db.exec_driver_sql(sql).one())


def exchange(dsn: str) -> Exchange:
    """Return what the agents of the running loop share that use this database.

    Raises:
        DurableError: If DBOS is not installed, or the address is no Postgres URL.
    """
    loop, found = asyncio.get_running_loop(), _exchanges.get(dsn)
    if found is None or found.loop is not loop:
        found = _exchanges[dsn] = Exchange(dsn, loop)
    return found


def said(error: Exception) -> str:
    """Return what a driver says of an error, on one line."""
    return " ".join(str(getattr(error, "orig", error)).split())
