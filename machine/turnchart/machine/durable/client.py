"""A session that workers work on, for programs that only want something of it."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self
from uuid import uuid4

from turnchart.machine.chart import ON_GOING
from turnchart.machine.durable import mailbox
from turnchart.machine.durable.journal import APP, DurableError, alchemy_url, asked_for, dbos, serializer
from turnchart.machine.errors import TurnFailed
from turnchart.machine.messages import Prompt, normalize_prompt_input
from turnchart.machine.postgres import PostgresStore
from turnchart.machine.postgres_database import PATIENCE, driver
from turnchart.machine.session import Session

if TYPE_CHECKING:
    from types import TracebackType

    from psycopg import AsyncConnection


@dataclass(frozen=True, slots=True)
class DurableTurn:
    """What a turn came to that a worker ran.

    Attributes:
        number: From 1, per session; 0 where no turn read the prompt.
        reason: Why it ended; ``discarded`` where an abort took the prompt away, ``parked`` where it waits in
            the inbox because the turn before it ended badly.
        text: The text of the last answer.
        steps: How many steps it took.
        error: What broke it; empty where nothing did.
    """

    number: int
    reason: str
    text: str = ""
    steps: int = 0
    error: str = ""

    @property
    def ok(self) -> bool:
        """It ended by itself: completed, or at the model's token limit."""
        return self.reason in ON_GOING

    def check(self) -> DurableTurn:
        """Return the turn itself, if it ended by itself.

        Raises:
            TurnFailed: If it did not.
        """
        if self.ok:
            return self
        because = f": {self.error}" if self.error else ""
        raise TurnFailed(f"turn {self.number} ended as {self.reason}{because}")


@dataclass(frozen=True, slots=True)
class Asked:
    """A question that a running turn waits with.

    Attributes:
        call_id: The id of the call; answer with it.
        tool: The name of the tool.
        arguments: What the model gave.
        reason: Why it is asked.
    """

    call_id: str
    tool: str
    arguments: Any
    reason: str


class DurableAgent:
    """Speaks with the workers of a session, as ``async with DurableAgent(...) as agent:`` in asyncio.

    What it was told is in the database when a method returns: neither the end of this program nor that of a
    worker loses it.

    Args:
        dsn: The address of the workers' database.
        session: The id of the session; it begins with its first prompt.
        flow: The name of the flow whose workers run its turns.

    Raises:
        DurableError: If DBOS is not installed, or the address is no Postgres URL.
    """

    def __init__(self, dsn: str, session: str, *, flow: str = "agent") -> None:
        self._dbos = dbos()
        self._url = alchemy_url(dsn)
        self._dsn, self.id, self._flow = dsn, session, flow
        self._results: dict[int, asyncio.Future[DurableTurn]] = {}
        self._readers: set[asyncio.Queue[dict[str, Any]]] = set()
        self._ears: asyncio.Task[None] | None = None
        self._over = False

    async def __aenter__(self) -> Self:
        """Connect, and listen.

        Raises:
            DurableError: If no worker ever used this database, or it cannot be reached.
        """
        await asyncio.to_thread(self._connect)
        hears = asyncio.Event()
        self._ears = asyncio.create_task(self._hear(hears))
        await hears.wait()
        return self

    def _connect(self) -> None:
        import sqlalchemy
        from sqlalchemy.exc import OperationalError

        self._away = OperationalError
        self._engine = sqlalchemy.create_engine(self._url, pool_size=2, pool_pre_ping=True)
        try:
            with self._engine.connect() as db:
                known = db.exec_driver_sql(
                    "SELECT to_regclass('turnchart.wishes'), to_regclass('dbos.workflow_status')"
                )
                ready = None not in tuple(known.one())
        except self._away as error:
            self._engine.dispose()
            raise DurableError(f"the database cannot be reached: {_said(error)}") from error
        if not ready:
            self._engine.dispose()
            raise DurableError("no worker has used this database yet: start `turnchart worker` first")
        self._client = self._dbos.DBOSClient(
            system_database_engine=self._engine, serializer=serializer(), application_name=APP
        )

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Disconnect; what was asked for goes on."""
        self._over = True
        if self._ears is not None:
            await asyncio.gather(self._ears, return_exceptions=True)
        await asyncio.to_thread(self._client.destroy)
        await asyncio.to_thread(self._engine.dispose)

    # -- asking --------------------------------------------------------------------------------

    async def prompt(self, content: Prompt) -> DurableTurn:
        """Ask for a turn, and wait until it is over. Cancelling this stops the waiting, not the turn.

        Raises:
            ValueError: If the prompt is empty.
        """
        return await self.result(await self.follow_up(content))

    async def follow_up(self, content: Prompt) -> int:
        """Ask for a turn, and return the number to wait for its end with (``result``)."""
        return await self._wish("prompt", mailbox.body_of(normalize_prompt_input(content)))

    async def steer(self, content: Prompt) -> int:
        """Tell the running turn something, which enters with its next request; else this opens a turn."""
        return await self._wish("steer", mailbox.body_of(normalize_prompt_input(content)))

    async def inject(self, content: Prompt) -> None:
        """Add something for the next request, without asking for one."""
        await self._wish("inject", mailbox.body_of(normalize_prompt_input(content)))

    async def abort(self, reason: str = "user", *, keep_inbox: bool = False) -> None:
        """Cut the running turn off; what was asked for before is discarded unless ``keep_inbox``."""
        await self._wish("abort", json.dumps({"reason": reason, "keep_inbox": keep_inbox}))

    async def approve(self, call_id: str, *, for_session: bool = False) -> None:
        """Let a call run that a turn asks about."""
        answer = "approve_for_session" if for_session else "approve"
        await self._wish("decide", json.dumps({"call_id": call_id, "answer": answer}))

    async def refuse(self, call_id: str, reason: str = "") -> None:
        """Do not let a call run that a turn asks about; the model reads the reason."""
        await self._wish("decide", json.dumps({"call_id": call_id, "answer": "refuse", "reason": reason}))

    async def _wish(self, kind: mailbox.Kind, body: str) -> int:
        values = {
            "session": self.id, "more": int(kind in mailbox.WAKING), "kind": kind, "body": body,
            "token": uuid4().hex,
        }  # fmt: skip
        until = time.monotonic() + PATIENCE
        while True:
            try:
                return await asyncio.to_thread(self._make_wish, values)
            except self._away as error:
                if time.monotonic() > until:
                    raise DurableError(f"the database cannot be reached: {_said(error)}") from error
            await asyncio.sleep(mailbox.PATIENCE)

    def _make_wish(self, values: dict[str, Any]) -> int:
        """Write a wish and put its turn into the queue, in one transaction; once, also when tried again."""
        waking = values["kind"] in mailbox.WAKING
        with self._engine.begin() as db:
            made = db.exec_driver_sql(mailbox.MADE, values).one_or_none()
            if made is not None:
                return int(made[0])
            id, ticket = db.exec_driver_sql(mailbox.MAKE, values).one()
            if waking:
                turn = asked_for(self._flow, self.id, ticket)
                self._client.enqueue_in_transaction(db, turn, self.id, ticket)
            db.exec_driver_sql("SELECT pg_notify(%s, %s)", (mailbox.BELL, self.id))
        return int(id)

    # -- hearing -------------------------------------------------------------------------------

    async def result(self, wish: int) -> DurableTurn:
        """Wait until the turn is over that read what was sent, and return what it came to."""
        future = self._results.setdefault(wish, asyncio.get_running_loop().create_future())
        while True:
            await self._look(wish)
            done, _ = await asyncio.wait((future,), timeout=1.0)
            if done:
                return future.result()

    async def _look(self, wish: int) -> None:
        sql = "SELECT result FROM turnchart.wishes WHERE id = %s AND result IS NOT NULL"

        def look() -> str | None:
            with suppress(self._away), self._engine.connect() as db:
                found = db.exec_driver_sql(sql, (wish,)).one_or_none()
                return None if found is None else str(found[0])
            return None  # what the server says when it is there again, is looked at again

        text = await asyncio.to_thread(look)
        future = self._results.get(wish)
        if text is not None and future is not None and not future.done():
            raw = json.loads(text)
            future.set_result(
                DurableTurn(raw["turn"], raw["reason"], raw["text"], raw["steps"], raw.get("error", ""))
            )

    async def chunks(self) -> AsyncIterator[dict[str, Any]]:
        """Yield what models stream in this session from now on; nothing of it is kept.

        Each piece has ``attempt``, ``n`` (from 0 in each attempt), ``frame`` (start, chunk, end), and where
        it is a chunk its ``type`` and fields. A turn that is taken over streams its attempt anew.
        """
        queue: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._readers.add(queue)
        try:
            while True:
                yield await queue.get()
        finally:
            self._readers.discard(queue)

    async def session(self) -> Session:
        """Return the session as its log is now, to look at."""
        return await asyncio.to_thread(lambda: Session(PostgresStore(self._dsn, self.id)))

    async def questions(self) -> Sequence[Asked]:
        """Return what the running turn asks a person and nobody has answered."""
        session = await self.session()
        open_: dict[str, Asked] = {}
        for entry in session.entries[session.brackets.turn_start :]:
            data = entry.data
            if entry.type == "approval/asked":
                asked = Asked(data["call_id"], data["tool"], data["arguments"], data["reason"])
                open_[asked.call_id] = asked
            elif entry.type == "approval/decided":
                open_.pop(data["call_id"], None)
            elif entry.type == "turn/end":
                open_.clear()
        return tuple(open_.values())

    async def _hear(self, hears: asyncio.Event) -> None:
        psycopg = driver()
        while not self._over:
            try:
                async with await psycopg.AsyncConnection.connect(self._dsn, autocommit=True) as db:
                    await db.execute(f"LISTEN {mailbox.channel(self.id)}")
                    hears.set()
                    await self._heard(db)
            except psycopg.OperationalError:
                await asyncio.sleep(0.2)  # the server is away; what is waited for is looked at as well

    async def _heard(self, db: AsyncConnection[Any]) -> None:
        while not self._over:  # a wait for the next one is never cut off: psycopg would close the connection
            async for told in db.notifies(timeout=mailbox.PATIENCE):
                said = json.loads(told.payload)
                if "result" in said and said["result"] in self._results:
                    await self._look(said["result"])
                for piece in said.get("pieces", ()):
                    for queue in self._readers:
                        queue.put_nowait(piece)


def _said(error: Exception) -> str:
    return " ".join(str(getattr(error, "orig", error)).split())
