"""A session that workers work on, for programs that only want something of it."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Self
from uuid import uuid4

from turnchart.machine.chart import ON_GOING
from turnchart.machine.durable import mailbox
from turnchart.machine.durable.exchange import exchange, said
from turnchart.machine.durable.journal import DurableError, alchemy_url, asked_for, dbos
from turnchart.machine.durable.opening import opened
from turnchart.machine.durable.sqlite_database import path_of
from turnchart.machine.errors import TurnFailed
from turnchart.machine.messages import Prompt, normalize_prompt_input
from turnchart.machine.postgres import NO_ID, PostgresStore, is_id
from turnchart.machine.postgres_database import PATIENCE
from turnchart.machine.records import record
from turnchart.machine.session import Session

if TYPE_CHECKING:
    from types import TracebackType

    from sqlalchemy import Connection as Transaction

LONGEST = 10.0
"""Seconds after which a result is looked at that nobody told of."""


@record
class DurableTurn:
    """What a turn came to that a worker ran.

    Attributes:
        number: From 1, per session; 0 where no turn took the prompt.
        reason: Why it ended. Where no turn took the prompt: ``discarded`` by an abort, ``refused``, or
            ``parked``: it waits in the inbox because the turn before it ended badly.
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


@record
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
        DurableError: If DBOS is not installed, the address is that of no database, or the session has none.
    """

    def __init__(self, dsn: str, session: str, *, flow: str = "agent") -> None:
        dbos()
        self._file = path_of(dsn)
        if self._file is None:
            alchemy_url(dsn)
        if not is_id(session):
            raise DurableError(NO_ID.format(session))
        self._dsn, self.id, self._flow = dsn, session, flow
        self._results: dict[int, asyncio.Future[DurableTurn]] = {}
        self._readers: set[asyncio.Queue[dict[str, Any]]] = set()
        self._looking: set[asyncio.Future[None]] = set()
        self._stop: Callable[[], None] | None = None

    async def __aenter__(self) -> Self:
        """Connect, and listen; the agents of a program share their connections.

        Raises:
            DurableError: If no worker ever used this database, or it cannot be reached.
        """
        self._exchange = exchange(self._dsn)
        await self._exchange.enter()
        self._stop = self._exchange.listen(mailbox.channel(self.id), self._heard)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Disconnect; what was asked for goes on."""
        if self._stop is not None:
            self._stop()
        await self._exchange.leave()

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
                made: int = await asyncio.to_thread(self._exchange.work, partial(self._make_wish, values))
            except self._exchange.away as error:
                if time.monotonic() > until:
                    raise DurableError(f"the database cannot be reached: {said(error)}") from error
            else:
                return made
            await asyncio.sleep(mailbox.PATIENCE)

    def _make_wish(self, values: dict[str, Any], db: Transaction) -> int:
        """Write a wish and put its turn into the queue, in one transaction; once, also when tried again."""
        id, ticket, new = mailbox.make(db, values)
        if new and values["kind"] in mailbox.WAKING:
            turn = asked_for(self._flow, self.id, ticket)
            self._exchange.client.enqueue_in_transaction(db, turn, self.id, ticket)
        return id

    # -- hearing -------------------------------------------------------------------------------

    async def result(self, wish: int) -> DurableTurn:
        """Wait until the turn is over that read what was sent, and return what it came to."""
        future = self._results.setdefault(wish, asyncio.get_running_loop().create_future())
        wait = 1.0
        while True:
            await self._look(wish)
            done, _ = await asyncio.wait((future,), timeout=wait)
            if done:
                return future.result()
            wait = min(wait * 2, LONGEST)

    async def _look(self, wish: int) -> None:
        """Look whether a result is there; of a server that is away, what it says when it is back counts."""
        text: str | None = None
        with suppress(*self._exchange.away):
            text = await asyncio.to_thread(self._exchange.work, partial(mailbox.result, id=wish))
        if text is not None:
            self._came(wish, json.loads(text))

    def _came(self, wish: int, raw: dict[str, Any]) -> None:
        future = self._results.get(wish)
        if future is not None and not future.done():
            future.set_result(
                DurableTurn(raw["turn"], raw["reason"], raw["text"], raw["steps"], raw.get("error", ""))
            )

    def _heard(self, told: dict[str, Any]) -> None:
        """Hear what a worker tells of the session; a result that is too long to be told is looked at."""
        wish = told.get("result")
        if wish in self._results and "came" in told:
            self._came(wish, told["came"])
        elif wish in self._results or "missed" in told:
            for each in [wish] if wish else [id for id, came in self._results.items() if not came.done()]:
                look = asyncio.ensure_future(self._look(each))
                self._looking.add(look)
                look.add_done_callback(self._looking.discard)
        for piece in told.get("pieces", ()):
            for queue in self._readers:
                queue.put_nowait(piece)

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
        shared = None if self._file is None else opened(self._dsn)
        return await asyncio.to_thread(lambda: Session(PostgresStore(self._dsn, self.id, shared)))

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
