"""A worker: takes turns from the queue of a flow, one a session, and goes on with those of the dead."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from turnchart.machine.driver import first_error
from turnchart.machine.durable import mailbox
from turnchart.machine.durable.attending import Attending
from turnchart.machine.durable.grouped import Group, GroupedStore
from turnchart.machine.durable.journal import APP, VERSION, WORKFLOW, alchemy_url, dbos, queue_of, serializer
from turnchart.machine.durable.liveness import Liveness, executor
from turnchart.machine.durable.mailbox import Wish
from turnchart.machine.durable.opening import engine_of, opened
from turnchart.machine.durable.sqlite_database import LOOK, Ear, path_of
from turnchart.machine.errors import SessionLocked, SessionReadOnly, named_text_of
from turnchart.machine.picking_up import LastingSession
from turnchart.machine.postgres_database import Database, database, driver

if TYPE_CHECKING:
    from types import TracebackType

    from psycopg import AsyncConnection

    from turnchart.machine.agent import Agent
    from turnchart.machine.session import Session

_log = logging.getLogger("turnchart.durable")

LANES = 4
"""Connections over which sessions are opened and results told, so that none waits long for another."""


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
        self._concurrency, self._lease, self._version, self._poll = concurrency, lease, version, poll
        self.about = about
        self._file = path_of(dsn)
        self._url = alchemy_url(dsn) if self._file is None else f"sqlite:///{self._file}"
        self.database: Database = database(dsn) if self._file is None else opened(dsn)
        self.running: dict[str, Attending] = {}
        self._group: Group | None = None
        self._lanes: list[Database] = []
        self._tasks: set[asyncio.Task[Any]] = set()
        self._heart: Liveness | None = None
        self._side: AsyncConnection[Any] | None = None
        self._ears: asyncio.Task[None] | None = None
        self._stopping = False

    # -- starting and stopping -----------------------------------------------------------------

    async def __aenter__(self) -> Self:
        """Begin to take turns."""
        db = self.database
        db.lease = self._lease
        db.enter()
        key = db.be_writer()
        mailbox.prepare(db)
        self._group = Group(db)
        self._lanes = [db.another() for _ in range(LANES)]
        for lane in self._lanes:
            lane.enter()
        self._dbos(
            config={
                "name": APP, "system_database_url": self._url, "executor_id": executor(key),
                "application_version": self._version, "serializer": serializer(), "log_level": "WARNING",
                "sys_db_pool_size": 10,
                "system_database_engine": None if self._file is None else engine_of(self.dsn),
            }
        )  # fmt: skip

        async def turn(session: str, ticket: int) -> dict[str, Any]:
            return await self._turn(session, ticket)

        self._dbos.workflow(name=WORKFLOW, max_recovery_attempts=None)(turn)
        self._dbos.listen_queues([queue_of(self.flow)])
        self._dbos.launch()
        await self._dbos.register_queue_async(
            queue_of(self.flow), partition_concurrency=1, worker_concurrency=self._concurrency,
            polling_interval_sec=self._poll, on_conflict="always_update",
        )  # fmt: skip
        self._heart = Liveness(self.dsn, key, db.name, self._lease, self._take_over, self._at_work)
        self._heart.start()
        self._ears = asyncio.create_task(self._hear())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the running turns to other workers, and end."""
        self._stopping = True
        for each in tuple(self.running.values()):
            each.leave()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._ears is not None:
            await asyncio.gather(self._ears, return_exceptions=True)
        if self._heart is not None:
            await asyncio.to_thread(self._heart.stop)
        await asyncio.to_thread(self._dbos.destroy, destroy_registry=True)
        # DBOS made the threads of this loop its own, and has ended them; the program may go on.
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor())
        if self._side is not None:
            await self._side.close()
        if self._group is not None:
            self._group.close()
        for lane in (*self._lanes, self.database):
            lane.leave()

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
        task = asyncio.current_task()
        assert task is not None, "a workflow is a task of the loop"
        self._tasks.add(task)
        try:
            return await self._attend(session, ticket)
        except SessionLocked as lost:
            # Another worker goes on with this turn: what becomes of it is not ours to say.
            raise asyncio.CancelledError(str(lost)) from lost
        except (SessionReadOnly, self.database.psycopg.Error) as broken:
            _log.warning("turn %d of %s is put back into the queue: %s", ticket, session, broken)
            await self._put_back(f"{session}:{ticket}")
            raise asyncio.CancelledError(str(broken)) from broken
        except Exception as error:
            self._say_failed(session, ticket, error)
            raise
        finally:
            self._tasks.discard(task)

    async def _put_back(self, workflow: str) -> None:
        loop = asyncio.get_running_loop()
        # Outside the context of the workflow, which would take it for one of its steps.
        again = partial(self._dbos.resume_workflow, workflow, queue_name=queue_of(self.flow))
        await loop.run_in_executor(None, again)

    def _say_failed(self, session: str, ticket: int, error: Exception) -> None:
        """Tell who waits for a turn that it could not even begin."""
        sql = "SELECT id FROM turnchart.wishes WHERE session = %s AND ticket = %s AND result IS NULL"
        failed = {"turn": 0, "reason": "error", "text": "", "steps": 0, "error": named_text_of(error)}
        for (id,) in self.database.execute(sql, (session, ticket)).fetchall():
            mailbox.settle(self.database, session, id, failed)

    async def _attend(self, id: str, ticket: int) -> dict[str, Any]:
        assert self._group is not None, "a worker that takes turns is open"
        store = GroupedStore(self._lanes[hash(id) % LANES], id, self._group)
        try:
            session, wishes = await self._opened(store)
            attending = Attending(self, store, self.make, session)
            self.running[id] = attending
            try:
                return await attending.work(ticket, wishes)
            except BaseExceptionGroup as many:
                raise first_error(many) from None
            finally:
                self.running.pop(id, None)
        finally:
            store.release()

    async def _opened(self, store: GroupedStore) -> tuple[LastingSession, list[Wish]]:
        """Become the writer of a session, and return it, with what is wanted of it."""

        def open_() -> tuple[LastingSession, list[Wish]]:
            store.lock()
            return LastingSession(store), mailbox.open_wishes(store.database, store.id)

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
        if self._file is not None:
            channel, told = mailbox.channel(session), f'{{"pieces":[{",".join(pieces)}]}}'
            await asyncio.to_thread(self.database.tell, channel, told)
            return
        psycopg = driver()
        try:
            side = self._side
            if side is None or side.closed:
                side = self._side = await psycopg.AsyncConnection.connect(self.dsn, autocommit=True)
            await side.execute(
                "SELECT pg_notify(%s, %s)", (mailbox.channel(session), f'{{"pieces":[{",".join(pieces)}]}}')
            )
        except psycopg.OperationalError as error:
            _log.debug("readers of %s miss %d chunks: %s", session, len(pieces), error)
