"""A worker: takes turns from the queue of a flow, one a session, and goes on with those of the dead."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Self

from turnchart.machine.driver import first_error
from turnchart.machine.durable import mailbox
from turnchart.machine.durable.attending import Attending
from turnchart.machine.durable.grouped import Group, GroupedStore
from turnchart.machine.durable.journal import (
    VERSION,
    WORKFLOW,
    alchemy_url,
    app_of,
    dbos,
    serializer,
    version_of,
)
from turnchart.machine.durable.liveness import BEATS, Liveness, executor
from turnchart.machine.durable.mailbox import Wish
from turnchart.machine.durable.opening import engine_of, opened
from turnchart.machine.durable.queueing import BegunElsewhere, begun_with, has, put_back, unpin
from turnchart.machine.durable.sqlite_database import LOOK, Ear, path_of
from turnchart.machine.errors import SessionCorrupt, SessionError, SessionLocked, named_text_of
from turnchart.machine.picking_up import LastingSession
from turnchart.machine.postgres import PostgresStore
from turnchart.machine.postgres_database import Database, database, driver

if TYPE_CHECKING:
    from types import TracebackType

    from psycopg import AsyncConnection

    from turnchart.machine.agent import Agent
    from turnchart.machine.session import Session

_log = logging.getLogger("turnchart.durable")

LANES = 4
"""Connections over which sessions are opened and results told, so that none waits long for another."""
PAUSE = 0.2
"""Seconds before a turn is put back into the queue that could not be run; twice as long every time."""
LONGEST_PAUSE = 30.0


_NO_NEWS: Final = ("Asyncio task cancelled for workflow or step", "Current version '")
"""How begins what DBOS warns of where all is well: a turn is left to another worker, another version was the
last that asked for turns; those that are there ask by turns."""


def is_news(record: logging.LogRecord) -> bool:
    """Tell whether something that DBOS says is worth a word."""
    return not record.getMessage().startswith(_NO_NEWS)


class Worker:
    """Runs the turns of the sessions of one flow, as ``async with Worker(...):`` in an asyncio program.

    A process has one worker. Its turns go on elsewhere when it ends, however it ends.

    Args:
        dsn: The address of a Postgres database, ``postgres://user@host/name``, or of a file of this machine,
            ``sqlite:PATH``.
        make: Makes the agent of a session, the same in every worker; called once a turn.
        flow: The name of the flow; workers with the same one share its queue.
        concurrency: How many turns it runs at once.
        lease: Seconds after which a worker that is not heard of counts as dead.
        version: Turns that were begun are gone on with by workers of the same version only.
        poll: Seconds between looks into the queue.
        about: What a session says of the flow that it is used with, ``Flow.info``.

    Raises:
        DurableError: If DBOS is not installed, or the address is none of those.
    """

    def __init__(
        self,
        dsn: str,
        make: Callable[[Session], Agent],
        *,
        flow: str = "agent",
        concurrency: int = 50,
        lease: float = 10.0,
        version: str = VERSION,
        poll: float = 0.1,
        about: Mapping[str, str] | None = None,
    ) -> None:
        self._dbos = dbos().DBOS
        self.dsn, self.flow, self.make = dsn, flow, make
        self._concurrency, self._lease, self._poll = concurrency, lease, poll
        self._app, self._version = app_of(flow), version_of(flow, version)
        self.about = about
        self._file = path_of(dsn)
        self._url = alchemy_url(dsn) if self._file is None else f"sqlite:///{self._file}"
        self.database: Database = database(dsn) if self._file is None else opened(dsn)
        self.running: dict[str, Attending] = {}
        self._group: Group | None = None
        self._lanes: list[Database] = []
        self._turns: dict[str, asyncio.Task[Any]] = {}
        self._failures: dict[str, int] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._executor = ""
        self._heart: Liveness | None = None
        self._side: AsyncConnection[Any] | None = None
        self._connecting = asyncio.Lock()
        self._ears: asyncio.Task[None] | None = None
        self._offering: asyncio.Task[None] | None = None
        self._stopping = False
        self._others = False
        """Workers of another version have asked for turns."""

    # -- starting and stopping -----------------------------------------------------------------

    async def __aenter__(self) -> Self:
        """Begin to take turns."""
        db = self.database
        db.lease = self._lease
        db.enter()
        key = db.be_writer()
        self._executor = executor(key)
        mailbox.prepare(db)
        self._group = Group(db)
        self._lanes = [db.another() for _ in range(LANES)]
        for lane in self._lanes:
            lane.enter()
        self._dbos(
            config={
                "name": self._app, "system_database_url": self._url, "executor_id": self._executor,
                "application_version": self._version, "serializer": serializer(), "log_level": "WARNING",
                "sys_db_pool_size": 10,
                "system_database_engine": None if self._file is None else engine_of(self.dsn),
            }
        )  # fmt: skip

        async def turn(session: str, ticket: int) -> dict[str, Any]:
            return await self._turn(session, ticket)

        self._dbos.workflow(name=WORKFLOW, max_recovery_attempts=None)(turn)
        self._dbos.listen_queues([self._app])
        logging.getLogger("dbos").addFilter(is_news)
        self._dbos.launch()
        await self._ask()
        await self._dbos.register_queue_async(
            self._app, partition_concurrency=1, worker_concurrency=self._concurrency,
            polling_interval_sec=self._poll, on_conflict="always_update",
        )  # fmt: skip
        self._heart = Liveness(self.dsn, key, db.name, self._lease, self._take_over, self._at_work)
        self._heart.start()
        self._ears = asyncio.create_task(self._hear())
        self._offering = asyncio.create_task(self._offer())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the running turns to other workers, and end."""
        self._stopping = True
        await self._leave_turns()
        if self._ears is not None and self._offering is not None:
            self._offering.cancel()
            await asyncio.gather(self._ears, self._offering, return_exceptions=True)
        if self._heart is not None:
            await asyncio.to_thread(self._heart.stop)
        await asyncio.to_thread(self._dbos.destroy, destroy_registry=True)
        await self._leave_turns()
        logging.getLogger("dbos").removeFilter(is_news)
        # DBOS made the threads of this loop its own, and has ended them; the program may go on.
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor())
        if self._side is not None:
            await self._side.close()
        if self._group is not None:
            self._group.close()
        for lane in (*self._lanes, self.database):
            lane.leave()

    async def _leave_turns(self) -> None:
        while self._tasks:
            for each in tuple(self.running.values()):
                each.leave()
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(tuple(self._tasks))

    async def _offer(self) -> None:
        """Offer again and again to take turns that nobody has begun.

        DBOS gives them to the version only that said so last. Whichever it is, its workers may end; so
        those of every version that is there say so by turns.
        """
        while True:
            try:
                await self._ask()
            except Exception as error:  # noqa: BLE001  # of whatever kind, it is offered again
                _log.debug("new turns could not be asked for: %s", error)
            await asyncio.sleep(self._lease / BEATS)

    async def _ask(self) -> None:
        """Ask for new turns, unless this version was the last that did so."""
        latest = await self._dbos.get_latest_application_version_async()
        if latest["version_name"] != self._version:
            self._others = True
            await self._dbos.set_latest_application_version_async(self._version)

    def unpin(self, store: GroupedStore) -> None:
        """Let workers of every version have what waits in a session in which no turn is open any more.

        What was asked for meanwhile had to wait for the version of that turn, and no longer has to.
        """
        if self._others:
            unpin(store.database, self._app, store.as_writer)

    def _at_work(self) -> set[str]:
        """Return the executors that have turns."""
        found = self._dbos.list_workflows(
            status="PENDING", name=WORKFLOW, load_input=False, load_output=False
        )
        return {each.executor_id for each in found if each.executor_id is not None}

    def _take_over(self, dead: str) -> None:
        """Put the turns of a worker that is dead back into the queue."""
        left = self._dbos.list_workflows(
            status="PENDING", executor_id=dead, name=WORKFLOW, load_input=False, load_output=False
        )
        for each in left:
            _log.info("turn %s of %s is taken over", each.workflow_id, dead)
            self._dbos.resume_workflow(each.workflow_id, queue_name=each.queue_name)

    # -- turns -----------------------------------------------------------------------------------

    async def _turn(self, session: str, ticket: int) -> dict[str, Any]:
        """Run the turns of a session up to the one with this number, and return what that came to."""
        if self._stopping:  # it was taken while this ended, and goes back with the others
            raise asyncio.CancelledError("this worker ends")
        task, workflow = asyncio.current_task(), f"{session}:{ticket}"
        assert task is not None, "a workflow is a task of the loop"
        self._tasks.add(task)
        self._turns[workflow] = task
        try:
            came = await self._attend(session, ticket)
        except SessionLocked as lost:
            # What becomes of this turn is not ours to say. Another worker that has the session has it, too;
            # behind any other writer it waits in the queue.
            await self._put_back(workflow)
            raise asyncio.CancelledError(str(lost)) from lost
        except BegunElsewhere as other:
            _log.info("turn %d of %s is left to others: %s", ticket, session, other)
            await self._put_back(workflow, other.version)
            raise asyncio.CancelledError(str(other)) from other
        except Exception as error:
            broken = error if self._passes(error) else await self._say_failed(session, ticket, error)
            if broken is None:
                raise
            _log.warning("turn %d of %s is put back into the queue: %s", ticket, session, broken)
            await self._pause(workflow)
            await self._put_back(workflow)
            raise asyncio.CancelledError(str(broken)) from broken
        else:
            self._failures.pop(workflow, None)
            return came
        finally:
            self._tasks.discard(task)
            if self._turns.get(workflow) is task:
                del self._turns[workflow]

    def _passes(self, error: Exception) -> bool:
        """Tell whether another try may do better: the database was away, or refused something."""
        passing = (SessionError, self.database.psycopg.Error)
        return isinstance(error, passing) and not isinstance(error, SessionCorrupt)

    async def _pause(self, workflow: str) -> None:
        failures = self._failures.get(workflow, 0)
        self._failures[workflow] = failures + 1
        await asyncio.sleep(min(LONGEST_PAUSE, PAUSE * 2.0 ** min(failures, 10)))

    async def _put_back(self, workflow: str, version: str | None = None) -> None:
        """Put a turn back into the queue, once the database is there again, unless somebody has taken it."""
        while self._turns.get(workflow) is asyncio.current_task():
            try:
                await asyncio.to_thread(put_back, self.database, workflow, self._executor, version)
            except (SessionError, self.database.psycopg.Error) as away:
                _log.warning("%s cannot be put back into the queue yet: %s", workflow, away)
                await self._pause(workflow)
            else:
                return

    async def _say_failed(self, session: str, ticket: int, error: Exception) -> Exception | None:
        """Tell who waits for a turn that it could not even begin; return why that could not be told.

        Only the writer of a session may say so, and only as long as the turn is ours.
        """
        sql = """SELECT id FROM turnchart.wishes WHERE session = %s AND ticket = %s
            AND kind IN ('prompt', 'steer') AND result IS NULL"""
        failed = mailbox.no_turn("error", error=named_text_of(error))

        def say() -> None:
            store = PostgresStore(self.dsn, session, self.database)
            store.lock()
            try:
                if has(self.database, f"{session}:{ticket}", self._executor):
                    for (id,) in self.database.execute(sql, (session, ticket)).fetchall():
                        mailbox.settle(store, id, failed)
            finally:
                store.close()

        try:
            await asyncio.to_thread(say)
        except (SessionError, self.database.psycopg.Error) as away:
            return away
        return None

    async def _attend(self, id: str, ticket: int) -> dict[str, Any]:
        assert self._group is not None, "a worker that takes turns is open"
        store = GroupedStore(self._lanes[hash(id) % LANES], id, self._group)
        try:
            session, wishes = await self._opened(store, ticket)
            attending = Attending(self, store, self.make, session)
            self.running[id] = attending
            try:
                return await attending.work(ticket, wishes)
            except BaseExceptionGroup as many:
                raise first_error(many) from None
            finally:
                if self.running.get(id) is attending:
                    del self.running[id]
        finally:
            store.release()

    async def _opened(self, store: GroupedStore, ticket: int) -> tuple[LastingSession, list[Wish]]:
        """Become the writer of a session, and return it, with what is wanted of it.

        Raises:
            BegunElsewhere: If a turn is open that workers of another version go on with.
        """

        def open_() -> tuple[LastingSession, list[Wish]]:
            store.lock()
            session = LastingSession(store)
            if session.lasting:
                version = begun_with(store.database, self._app, store.id, ticket)
                if version is not None and version != self._version:
                    raise BegunElsewhere(version)
            return session, mailbox.open_wishes(store.database, store.id)

        while True:
            try:
                return await asyncio.to_thread(open_)
            except SessionLocked:  # by a worker that is about to leave it, or whose lease still runs
                await asyncio.sleep(self._lease / 20)

    # -- hearing and telling -----------------------------------------------------------------------

    async def _hear(self) -> None:
        """Hear at once of what is wanted of the sessions that are worked on."""
        await (self._hear_server() if self._file is None else self._hear_file(self._file))

    async def _hear_file(self, path: str) -> None:
        ear = Ear(path)
        while not self._stopping:
            for channel, session in ear.heard():
                if channel == mailbox.BELL and session in self.running:
                    self.running[session].ring()
            await asyncio.sleep(LOOK)
        ear.close()

    async def _hear_server(self) -> None:
        psycopg = driver()
        while not self._stopping:
            with suppress(psycopg.OperationalError):
                async with await psycopg.AsyncConnection.connect(self.dsn, autocommit=True) as db:
                    await db.execute(f"LISTEN {mailbox.BELL}")
                    for each in tuple(self.running.values()):
                        each.ring()  # what was wanted while nobody listened
                    while not self._stopping:
                        async for told in db.notifies(timeout=mailbox.PATIENCE):
                            if told.payload in self.running:
                                self.running[told.payload].ring()
            await asyncio.sleep(mailbox.PATIENCE)

    async def tell(self, session: str, pieces: list[str]) -> None:
        """Tell the readers of a session what is not kept; each piece is JSON of at most 6,000 bytes."""
        channel, told = mailbox.channel(session), f'{{"pieces":[{",".join(pieces)}]}}'
        try:
            if self._file is not None:
                await asyncio.to_thread(self.database.tell, channel, told)
                return
            side = self._side
            if side is None or side.closed:
                side = await self._beside()
            await side.execute("SELECT pg_notify(%s, %s)", (channel, told))
        except self.database.psycopg.OperationalError as error:
            _log.debug("readers of %s miss %d chunks: %s", session, len(pieces), error)

    async def _beside(self) -> AsyncConnection[Any]:
        """Return the one connection over which everything is told that is not kept."""
        async with self._connecting:
            side = self._side
            if side is None or side.closed:
                side = self._side = await driver().AsyncConnection.connect(self.dsn, autocommit=True)
            return side
