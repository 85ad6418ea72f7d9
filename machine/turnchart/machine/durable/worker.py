"""A worker: takes turns from the queue of a flow, one a session, and goes on with those of the dead."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from turnchart.machine.driver import first_error
from turnchart.machine.durable import mailbox
from turnchart.machine.durable.attending import Attending
from turnchart.machine.durable.journal import APP, VERSION, WORKFLOW, alchemy_url, dbos, queue_of, serializer
from turnchart.machine.durable.liveness import Liveness, executor
from turnchart.machine.errors import SessionLocked, SessionReadOnly, named_text_of
from turnchart.machine.picking_up import LastingSession
from turnchart.machine.postgres import PostgresStore
from turnchart.machine.postgres_database import Database, database, driver

if TYPE_CHECKING:
    from types import TracebackType

    from psycopg import AsyncConnection

    from turnchart.machine.agent import Agent
    from turnchart.machine.session import Session

_log = logging.getLogger("turnchart.durable")


class Worker:
    """Runs the turns of the sessions of one flow, as ``async with Worker(...):`` in an asyncio program.

    A process has one worker. Its turns go on elsewhere when it ends, however it ends.

    Args:
        dsn: The address of a Postgres database, ``postgres://user@host/name``.
        make: Makes the agent of a session, the same in every worker; called once a turn.
        flow: The name of the flow; workers with the same one share its queue.
        concurrency: How many turns it runs at once.
        lease: Seconds after which a worker that is not heard of counts as dead.
        version: Turns that were begun are gone on with by workers of the same version only.
        poll: Seconds between looks into the queue.
        about: What a session says of the flow that it is used with, ``Flow.info``.

    Raises:
        DurableError: If DBOS is not installed, or the address is no Postgres URL.
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
        self._url = alchemy_url(dsn)
        self.dsn, self.flow, self.make = dsn, flow, make
        self._concurrency, self._lease, self._version, self._poll = concurrency, lease, version, poll
        self.about = about
        self.database: Database = database(dsn)
        self.running: dict[str, Attending] = {}
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
        self._dbos(
            config={
                "name": APP, "system_database_url": self._url, "executor_id": executor(key),
                "application_version": self._version, "serializer": serializer(), "log_level": "WARNING",
                "sys_db_pool_size": 10,
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
        self._heart = Liveness(self.dsn, key, db.name, self._lease, self._take_over)
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
        if self._side is not None:
            await self._side.close()
        db = self.database
        db.leave()

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
        except (SessionReadOnly, driver().Error) as broken:
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
        store = PostgresStore(self.dsn, id)
        while True:
            try:
                store.lock()
                break
            except SessionLocked:  # by a worker that is about to leave it, or whose lease still runs
                await asyncio.sleep(self._lease / 20)
        try:
            attending = Attending(self, store, self.make, LastingSession(store))
            self.running[id] = attending
            try:
                return await attending.work(ticket)
            except BaseExceptionGroup as many:
                raise first_error(many) from None
            finally:
                self.running.pop(id, None)
        finally:
            store.close()

    # -- hearing and telling -----------------------------------------------------------------------

    async def _hear(self) -> None:
        """Hear at once of what is wanted of the sessions that are worked on."""
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
