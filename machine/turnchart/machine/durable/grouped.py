"""The log of a session that a worker works on: what its turn writes in one go is one transaction.

What is appended is written when the program next waits for anything, together with what the worker's other
sessions have to write. Before a tool or a hook acts on the world, and at the end of a turn, that is waited
for; what a turn hears from others is written at once. Each write asks for the number of the session's writer,
as every append to Postgres does.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

from turnchart.machine.entries import Entry, encodable
from turnchart.machine.errors import SessionError, SessionReadOnly
from turnchart.machine.postgres import PostgresStore
from turnchart.machine.postgres_database import Batch, Database


class _New(NamedTuple):
    """What one session has to write.

    Attributes:
        entries: Sequence number, type, time and line of each entry.
        kept: Key and line of what steps came to.
        done: The ids of the wishes that are fulfilled with this.
    """

    entries: list[tuple[int, str, float, str]]
    kept: dict[str, str]
    done: list[int]


Outcome = bool | Exception
"""What became of what one session had: it is written, somebody else is the writer now, or why it is not."""


class _Going(NamedTuple):
    """What is under way, for whom, and what to wake when it is written."""

    stores: tuple[GroupedStore, ...]
    batches: list[Batch]
    sent: Future[list[Outcome]]
    over: asyncio.Future[None] | None


def _wake(over: asyncio.Future[None] | None) -> None:
    if over is not None and not over.done():
        over.set_result(None)


class Group:
    """What the sessions of one worker have to write: by a thread of its own, one statement at a time.

    What comes while a statement is under way is written with the next one.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._thread = ThreadPoolExecutor(1, "turnchart-log")
        self._waiting: dict[GroupedStore, None] = {}
        self._over: asyncio.Future[None] | None = None
        self._going: _Going | None = None

    def add(self, store: GroupedStore) -> None:
        """Write what this session has before the program waits for anything."""
        self._waiting[store] = None
        if self._over is None:
            loop = asyncio.get_running_loop()
            self._over = loop.create_future()
            if self._going is None:
                loop.call_soon(self._begin)

    async def written(self) -> None:
        """Wait until everything is written that was added so far."""
        over = self._over if self._over is not None else self._going and self._going.over
        if over is not None:
            await asyncio.shield(over)

    def write(self, *more: GroupedStore) -> None:
        """Write all of it now, and what these sessions have. Each hears for itself what came of it."""
        if self._going is not None:
            self._settle(self._going)
        over, self._over = self._over, None
        stores, batches = self._taken(more)
        if stores:
            self._settle(_Going(stores, batches, self._thread.submit(self._send, batches), over))
        _wake(over)

    def close(self) -> None:
        """End the thread, which has nothing to write any more."""
        self._thread.shutdown()

    def _begin(self) -> None:
        if self._going is not None or not self._waiting:
            return
        over, self._over = self._over, None
        stores, batches = self._taken(())
        going = self._going = _Going(stores, batches, self._thread.submit(self._send, batches), over)
        asyncio.wrap_future(going.sent).add_done_callback(lambda _: self._sent(going))

    def _sent(self, going: _Going) -> None:
        if self._going is going:
            self._settle(going)
        self._begin()

    def _taken(self, more: Sequence[GroupedStore]) -> tuple[tuple[GroupedStore, ...], list[Batch]]:
        stores, self._waiting = tuple(dict.fromkeys((*self._waiting, *more))), {}
        return stores, [store.take() for store in stores]

    def _settle(self, going: _Going) -> None:
        """Wait until a batch is written, and tell everybody whose it is."""
        outcomes = going.sent.result()
        self._going = None
        for store, own, outcome in zip(going.stores, going.batches, outcomes, strict=True):
            store.told(own, outcome)
        _wake(going.over)

    # -- in the thread -------------------------------------------------------------------------

    def _send(self, batches: list[Batch]) -> list[Outcome]:
        if len({each.id for each in batches}) < len(batches):
            # One that lost its session without knowing, and the one that took it over: each for itself.
            return [self._send([each])[0] for each in batches]
        try:
            mine = self._database.write(batches)
        except (SessionError, self._database.psycopg.OperationalError) as away:
            return [away] * len(batches)  # alone they would wait for the server as long, each
        except Exception as error:  # noqa: BLE001  # of whatever kind, it must reach those it concerns only
            return [error] if len(batches) == 1 else [self._send([each])[0] for each in batches]
        return [each.id in mine for each in batches]


class GroupedStore(PostgresStore):
    """One session of a worker, as ``PostgresStore``; what is appended is safe after ``flush``.

    A message that comes into the inbox is safe at once, unless it is the wish that ``fulfil`` names: that one
    stays open until what it brought is in the log.
    """

    def __init__(self, database: Database, id: str, group: Group) -> None:
        super().__init__(database.dsn, id, database)
        self._group = group
        self._new = _New([], {}, [])
        self._first = 0
        self._broken: Exception | None = None
        self._wish: int | None = None
        self._ending: list[int] = []
        self._deciding: dict[str, int] = {}
        self._keeps = False
        self._under_way = 0

    # -- writing -------------------------------------------------------------------------------

    def append(self, entry: Entry) -> None:
        """Take the next entry, which is written soon; takes the lock first if nobody did.

        Raises:
            SessionLocked: If somebody else writes the session, or has taken it over.
            ValueError: If the entry is not the next one.
            SessionReadOnly: If what was appended before could not be written.
        """
        self.check()
        if self._epoch is None:
            self.lock()
        seq = entry.seq
        if seq != self._next:
            raise ValueError(f"entry {seq} cannot follow the {self._next} entries of session {self.id}")
        line, at = entry.line(), float(entry.time)
        if not self._new.entries:
            self._first = seq
        self._new.entries.append((seq, entry.type.replace("\0", "\ufffd"), at, line))
        self._next = seq + 1
        if entry.type == "tool/result" and self._new.kept:
            data = entry.data
            self._new.kept.pop(_name(place(data["turn"], data["step"], data["message"]["call_id"])), None)
        wish, self._wish = self._wish, None
        if wish is not None:
            self._new.done.append(wish)
        elif entry.type == "agent/inbox/spliced" and entry.data.get("inserted"):
            self.write()
            return
        if entry.type == "approval/decided":
            decided = self._deciding.pop(entry.data["call_id"], None)
            if decided is not None:
                self._new.done.append(decided)
        elif entry.type == "turn/end":
            self._new.done.extend((*self._ending, *self._deciding.values()))
            self._ending.clear()
            self._deciding.clear()
        self._group.add(self)

    def write(self) -> None:
        """Write now what is new, and say where that could not be done.

        Raises:
            SessionLocked: If somebody else has taken the session over.
            SessionReadOnly: If the database refuses it.
        """
        if self._epoch is not None:
            self._group.write(self)
        self.check()

    async def flush(self) -> None:
        """Wait until everything that was appended is written; see ``write``."""
        if any(self._new) or self._under_way:
            await self._group.written()
        self.check()

    def check(self) -> None:
        """Raise where nothing more can be written.

        Raises:
            SessionLocked: If somebody else has taken the session over, or it was left to others.
            SessionReadOnly: If something could not be written.
        """
        super().check()
        if self._broken is not None:
            said = " ".join(str(self._broken).split())
            raise SessionReadOnly(f"session {self.id} could not be written: {said}") from self._broken

    def fulfil(self, wish: int | None) -> None:
        """Take a wish off the list together with the next entry; None takes back one that got no entry."""
        self._wish = wish

    def fulfil_at_end(self, wish: int) -> None:
        """Take a wish off the list together with the end of the turn."""
        self._ending.append(wish)

    def fulfil_with(self, call_id: str, wish: int) -> None:
        """Take an answer off the list together with the entry that it becomes, or the end of the turn."""
        self._deciding[call_id] = wish

    def done(self, wish: int) -> None:
        """Take a wish off the list that becomes no entry; written as entries are.

        Raises:
            SessionLocked: If somebody else has taken the session over.
        """
        self.check()
        self._new.done.append(wish)
        self._group.add(self)

    def abandon(self) -> None:
        """Give the lock up for good: what was appended is written, what is appended from now on refused."""
        self.release()
        super().abandon()
        self._new = _New([], {}, [])

    def close(self) -> None:
        """Write what is new, which waits for the database; the lock stays until ``release``."""
        if self._epoch is not None and any(self._new):
            self._group.write(self)

    def release(self) -> None:
        """Give the lock up, so that another worker may have the session; a second call does nothing."""
        self.close()
        super().close()

    # -- what steps came to --------------------------------------------------------------------

    def keep(self, key: str, line: str) -> None:
        """Store what a step came to whose entry is not in the log yet; written as entries are.

        The outcome of a tool, under its ``place``, is written only if its result is not in the log by then.
        """
        self.check()
        self._new.kept[_name(key)] = encodable(line)
        self._keeps = True
        self._group.add(self)

    def kept(self) -> dict[str, str]:
        """Return what ``keep`` stored, by key."""
        found = {json.loads(key): line for key, line in super().kept().items()}
        self._keeps = self._keeps or bool(found)
        return found

    def forget(self) -> None:
        """Remove what ``keep`` stored, as the writer; asks for nothing where nothing was."""
        if self._keeps:
            super().forget()
            self._keeps = False

    # -- for the group -------------------------------------------------------------------------

    def take(self) -> Batch:
        """Return what is new, which is the group's to write now."""
        new, self._new = self._new, _New([], {}, [])
        self._under_way += 1
        count = self._next or 0
        first, at = (new.entries[0][0], new.entries[-1][2]) if new.entries else (count, None)
        return Batch(self.id, self._epoch or 0, first, count, at, *new)

    def told(self, new: Batch, outcome: Outcome) -> None:
        """Hear what became of what was new; where it is not written, another writer has the session."""
        self._under_way -= 1
        if outcome is True or self._lost or self._broken is not None:
            return
        try:
            if isinstance(outcome, Exception):
                raise outcome
            if not new.entries or not self._is_there(new.entries[-1][0], new.entries[-1][3]):
                self._fenced()
        except Exception as error:  # noqa: BLE001  # so nothing is written behind the gap
            self._broken = self._broken or error


def place(turn: int, step: int, call_id: str) -> str:
    """Return what names a call in the session: a model may give the ids of earlier turns again."""
    return f"{turn}.{step}.{call_id}"


def _name(key: str) -> str:
    """Return a key as JSON: a model may put into the id of a call what no database takes as text."""
    return json.dumps(key)
