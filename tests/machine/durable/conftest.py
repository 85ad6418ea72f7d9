"""A worker in the process of the tests, for what needs no second one, and a session without any."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from turnchart.machine import Agent
from turnchart.machine.driver import first_error
from turnchart.machine.durable import Worker, attending, mailbox
from turnchart.machine.durable.attending import Attending
from turnchart.machine.durable.grouped import Group, GroupedStore
from turnchart.machine.durable.sqlite_database import SqliteDatabase, engine
from turnchart.machine.messages import normalize_prompt_input
from turnchart.machine.picking_up import LastingSession
from turnchart.machine.session import Session


class Makes:
    """Makes the agents of the worker; a test says how."""

    def __init__(self) -> None:
        self.how: Callable[[Session], Agent] | None = None

    def __call__(self, session: Session) -> Agent:
        assert self.how is not None
        return self.how(session)


class Stand:
    """A hook that stands still until it may go on."""

    def __init__(self) -> None:
        self.reached, self.go = asyncio.Event(), asyncio.Event()

    async def __call__(self, payload: object) -> None:
        del payload
        self.reached.set()
        await self.go.wait()


@pytest.fixture(scope="module")
async def works(dsn: str) -> AsyncIterator[Makes]:
    """Let a worker run, once for the tests of a file."""
    makes = Makes()
    about = {"flow": "tests", "path": "here", "digest": "d1"}
    async with Worker(dsn, makes, lease=2, poll=0.02, about=about):
        yield makes


class Journal:
    """What a worker tells of steps, to nobody."""

    @staticmethod
    async def run_step_async(options: object, body: Callable[[], Awaitable[Any]]) -> Any:
        """Run the step."""
        del options
        return await body()


async def _alone(work: Callable[[], Awaitable[Any]]) -> Any:
    try:
        return await work()
    except BaseExceptionGroup as many:
        raise first_error(many) from None


class Desk:
    """One session in a file, where a worker would work on it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.db = SqliteDatabase(str(path))
        self.db.lease = 60
        self.db.enter()
        self.db.be_writer()
        self._engine = engine(str(path))
        self._group = Group(self.db)
        self._stores: list[GroupedStore] = []
        self._tokens = count()

    def wish(self, kind: str, body: Any) -> int:
        """Want something of the session; return the id of the wish."""
        text = mailbox.body_of(normalize_prompt_input(body)) if isinstance(body, str) else json.dumps(body)
        values = {
            "session": "s", "more": int(kind in mailbox.WAKING), "kind": kind, "body": text,
            "token": str(next(self._tokens)),
        }  # fmt: skip
        with self._engine.begin() as db:
            return mailbox.make(db, values)[0]

    def open(self) -> list[int]:
        """Return the ids of what is wanted."""
        return [wish.id for wish in mailbox.open_wishes(self.db, "s")]

    def result(self, wish: int) -> Any:
        """Return what a wish came to; None before."""
        sql = "SELECT result FROM turnchart_wishes WHERE id = ?"
        (text,) = self.db.execute(sql, (wish,)).fetchone()
        return text and json.loads(text)

    def store(self) -> GroupedStore:
        """Become the writer of the session."""
        store = GroupedStore(self.db, "s", self._group)
        self._stores.append(store)
        store.lock()
        return store

    def attend(self, make: Callable[[Session], Agent]) -> Attending:
        """Become the writer of the session, and read it."""

        async def tell(session: str, pieces: list[str]) -> None:
            del session, pieces

        store = self.store()
        worker = cast("Any", SimpleNamespace(about=None, tell=tell, unpin=print))
        return Attending(worker, store, make, LastingSession(store))

    def work(self, at_work: Attending, ticket: int) -> asyncio.Task[Any]:
        """Work on the session until the turn of this number is over, or it is left."""
        wishes = mailbox.open_wishes(self.db, "s")
        return asyncio.create_task(_alone(lambda: at_work.work(ticket, wishes)))

    def begin(self, make: Callable[[Session], Agent], ticket: int) -> tuple[Attending, asyncio.Task[Any]]:
        """Do both."""
        at_work = self.attend(make)
        return at_work, self.work(at_work, ticket)

    def lose(self) -> None:
        """Be silent for so long that others may take the session over."""
        self.db.part(self.db.key)

    async def leave(self, at_work: Attending, working: "asyncio.Task[Any]") -> None:
        """Leave the session as a worker does that ends."""
        at_work.leave()
        working.cancel()
        await asyncio.wait((working,))

    def close(self) -> None:
        """Let the file go, as a worker does: nobody writes any more, however the work ended."""
        for store in self._stores:
            store.release()
        self._group.close()
        self._engine.dispose()
        self.db.leave()


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """Let a session be worked on without a worker."""
    monkeypatch.setattr(attending, "dbos", lambda: SimpleNamespace(DBOS=Journal))
    one = Desk(tmp_path / "turns.db")
    yield one
    one.close()


@pytest.fixture
def other(desk: Desk) -> Iterator[Desk]:
    """Let another process work on the same session."""
    one = Desk(desk.path)
    yield one
    one.close()
