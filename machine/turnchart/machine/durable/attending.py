"""One session while a worker works on it: its agent, what is wanted of it, and who listens."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import anyio

from turnchart.machine.approvals import Answer, Approve, ApproveForSession, Question, Refuse
from turnchart.machine.durable import mailbox
from turnchart.machine.durable.journal import dbos
from turnchart.machine.durable.mailbox import Wish
from turnchart.machine.durable.steps import JournaledSteps
from turnchart.machine.entries import Frozen
from turnchart.machine.errors import AppendRefused, SessionLocked, SessionReadOnly
from turnchart.machine.messages import Failure
from turnchart.machine.picking_up import pick_up
from turnchart.machine.scripted import ScriptedModel
from turnchart.machine.session import info
from turnchart.machine.signals import Signal
from turnchart.machine.states import State

if TYPE_CHECKING:
    from turnchart.machine.agent import Agent
    from turnchart.machine.durable.grouped import GroupedStore
    from turnchart.machine.durable.worker import Worker
    from turnchart.machine.messages import Message
    from turnchart.machine.session import Session

TICK = 1.0
"""Seconds after which it is looked for what is wanted, whoever rang."""
PAUSE = 0.02
"""Seconds for which chunks are gathered before readers are told of them."""


class Attending:
    """Works on one session until nothing is left to do for the turns that were asked for so far."""

    def __init__(
        self, worker: Worker, store: GroupedStore, make: Callable[[Session], Agent], session: Session
    ) -> None:
        self._worker, self._store, self.session = worker, store, session
        self.agent = make(session)
        if self.agent.approver is None:
            self.agent.approver = self._ask
        self._steps = JournaledSteps(store, dbos().DBOS)
        self._steps.agent = self.agent
        self.agent.steps = self._steps
        self._bell = asyncio.Event()
        self._taken: set[int] = set()
        self._asked: dict[str, asyncio.Future[Answer]] = {}
        self._pieces: list[str] = []
        self._rest: list[dict[str, Any]] = []
        self._heard = asyncio.Event()
        added = {
            name
            for entry in session.entries
            if entry.type == "tool/result"
            for name in entry.data["message"].get("added_tools", ())
        }
        if added:
            self.agent.added_tools = frozenset(added)
        if isinstance(self.agent.model, ScriptedModel):
            settled = ("assistant/message", "assistant/attempt")
            self.agent.model.skip(sum(entry.type in settled for entry in session.entries))

    def ring(self) -> None:
        """Look at what is wanted."""
        self._bell.set()

    def leave(self) -> None:
        """Write nothing more: another worker goes on from what is in the log."""
        self.agent.left = True
        self._store.abandon()

    async def work(self, ticket: int, wishes: list[Wish]) -> dict[str, Any]:
        """Go on with an open turn, then run every turn up to this one; return what it came to.

        Args:
            ticket: The number of the turn.
            wishes: What is wanted of the session.
        """
        agent, lasting = self.agent, self.session.brackets.turn_open
        agent.on("agent/assistant-stream", self._piece)
        async with agent:
            try:
                await self._turns(ticket, wishes, lasting=lasting)
            except BaseException:
                self.leave()  # the agent would close the turn in the log, which is to go on
                raise
        return await asyncio.to_thread(self._result, ticket)

    async def _turns(self, ticket: int, wishes: list[Wish], *, lasting: bool) -> None:
        agent = self.agent
        if lasting:
            if wishes:
                self.ring()  # they may be about the open turn
            self._steps.go_on()
            self._steps.missing = pick_up(agent)
            if self._steps.missing is None:
                agent.resume()
        else:
            self._introduce()
        async with anyio.create_task_group() as group:
            group.start_soon(self._listen)
            group.start_soon(self._tell)
            group.start_soon(self._steps.record)
            await agent.idle()
            while self._next(ticket, wishes):
                await agent.idle()
                wishes = await self._look()
            self._rest = await self._steps.unrecorded()
            group.cancel_scope.cancel()
        await self._tell_rest()
        await self._store.flush()
        if self.session.read_only:
            raise SessionReadOnly(f"session {self.session.id} could not be written")
        if isinstance(agent.model, ScriptedModel):
            agent.model.drop()  # the rest is for the turns to come

    def _introduce(self) -> None:
        """Note in the session which flow it is used with, where it does not say so yet."""
        about = self._worker.about
        if about is not None and info(self.session).get("digest") != about["digest"]:
            self.session.append("session_info", Frozen(about))

    # -- what is wanted ------------------------------------------------------------------------

    def _wishes(self) -> list[Wish]:
        """Return what is wanted and was not begun with; it stays on the list until it is in the log."""
        return self._fresh(mailbox.open_wishes(self._store.database, self.session.id))

    async def _look(self) -> list[Wish]:
        """Return what is wanted, while other sessions go on."""
        return self._fresh(
            await asyncio.to_thread(mailbox.open_wishes, self._store.database, self.session.id)
        )

    def _fresh(self, wishes: list[Wish]) -> list[Wish]:
        return [wish for wish in wishes if wish.id not in self._taken]

    async def _listen(self) -> None:
        with suppress(SessionLocked):  # the driver finds out with its next entry, too
            await self._fulfil()

    async def _fulfil(self) -> None:
        while True:
            with anyio.move_on_after(TICK):  # a bell may be missed while the connection is opened anew
                await self._bell.wait()
            self._bell.clear()
            if self.agent.state is not State.IDLE:
                for wish in await self._look():
                    self._during(wish)

    def _during(self, wish: Wish) -> None:
        """Fulfil what concerns a running turn, if it still runs; a prompt waits for its own."""
        if self.agent.state is State.IDLE:
            return
        if wish.kind == "steer":
            self._put(wish, self.agent.steer)
        elif wish.kind == "abort":
            self._abort(wish)
        elif wish.kind == "decide":
            self._decide(wish)
        elif wish.kind == "inject":
            self._put(wish, self.agent.inject)

    def _next(self, ticket: int, wishes: list[Wish]) -> bool:
        """Fulfil what waits, in order, until a turn begins; return whether one did."""
        wishes = self._fresh(wishes)  # they were read before the turn that is over now, which took some
        for last in [wish for wish in wishes if wish.kind == "abort"]:
            self._abort(last)
        if any(wish.kind == "abort" for wish in wishes):
            wishes = self._wishes()
        for late in [wish for wish in wishes if wish.kind == "decide"]:
            self._decide(late)  # no question is open, and the next turn may ask about a call of the same id
        waits = False
        for wish in wishes:
            if wish.kind == "inject":
                self._put(wish, self.agent.inject)
            elif wish.kind == "steer":
                self._put(wish, self.agent.steer)
                return True
            elif wish.kind != "prompt":
                continue
            elif wish.ticket <= ticket or self.agent.queues.follow_up == "all":
                together = self.agent.queues.follow_up == "all" and self._later_prompt(wish, wishes)
                taken = self._put(wish, self._beside if together else self.agent.follow_up)
                if not together:
                    if waits and not taken:
                        self.agent.resume()  # those before it open their turn without it
                    return True
                waits = waits or taken
        return False

    def _later_prompt(self, wish: Wish, wishes: list[Wish]) -> bool:
        return any(each.kind == "prompt" and each.id > wish.id for each in wishes)

    def _beside(self, said: list[Message]) -> object:
        """Put a prompt into the inbox for the turn that the last of them opens."""
        return self.agent.put(said, "next-turn", "follow_up")

    def _put(self, wish: Wish, how: Callable[[list[Message]], object]) -> bool:
        """Bring the messages of a wish in; it is fulfilled in the transaction that writes them.

        Returns whether they are taken.
        """
        self._taken.add(wish.id)
        self._store.fulfil(wish.id)
        try:
            how(wish.messages())
        except (AppendRefused, ValueError) as error:
            mailbox.settle(self._store, wish.id, mailbox.no_turn("refused", error=str(error)))
            return False
        finally:
            self._store.fulfil(None)
        return True

    def _abort(self, wish: Wish) -> None:
        """Cut the running turn off, and take what was wanted before and not yet begun off the list."""
        keep = bool(wish.body.get("keep_inbox"))
        self._store.write()  # who is not the writer any more discards nothing
        self._taken.add(wish.id)
        runs = self.agent.state is not State.IDLE
        if runs:
            self._store.fulfil_at_end(wish.id)
        self.agent.abort(str(wish.body.get("reason", "user")), keep_inbox=keep)
        if not keep:
            for each in self._wishes():
                if each.id < wish.id and each.kind in ("prompt", "steer", "inject"):
                    mailbox.settle(self._store, each.id, mailbox.no_turn("discarded"))
        if not runs:
            self._store.done(wish.id)

    # -- questions -----------------------------------------------------------------------------

    async def _ask(self, question: Question) -> Answer:
        """Wait for whoever answers through the session; the question is in its log."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._asked[question.call_id] = answer
        self.ring()  # the answer may be older than the question, where that is asked once more
        try:
            return await answer
        finally:
            del self._asked[question.call_id]

    def _decide(self, wish: Wish) -> None:
        call_id = str(wish.body.get("call_id"))
        waiting = self._asked.get(call_id)
        if waiting is None and self.agent.state is not State.IDLE and not self._decided(call_id):
            return  # its question is still to be asked
        self._taken.add(wish.id)
        if waiting is None or waiting.done():
            self._store.done(wish.id)
        else:
            said = wish.body.get("answer")
            self._store.fulfil_with(call_id, wish.id)
            waiting.set_result(
                Approve() if said == "approve"
                else ApproveForSession() if said == "approve_for_session"
                else Refuse(str(wish.body.get("reason", "")))
            )  # fmt: skip

    def _decided(self, call_id: str) -> bool:
        """Tell whether what was asked last about this call has its answer."""
        for entry in reversed(self.session.entries):
            if entry.type in ("approval/asked", "approval/decided") and entry.data["call_id"] == call_id:
                return entry.type == "approval/decided"
        return False

    # -- telling -------------------------------------------------------------------------------

    def _piece(self, signal: Signal, _abort: object) -> None:
        data = signal.data
        piece: dict[str, Any] = {
            "attempt": data["attempt_id"],
            "frame": data["frame"],
            "n": data.get("index", 0),
        }
        chunk = data.get("chunk")
        if chunk is not None:
            piece["type"] = chunk.type
            piece |= {k: v.json() if isinstance(v, Failure) else v for k, v in chunk._asdict().items()}
        self._pieces.append(json.dumps(piece, default=str))
        self._heard.set()

    async def _tell(self) -> None:
        while True:
            await self._heard.wait()
            self._heard.clear()
            with anyio.CancelScope(shield=True):  # psycopg closes a connection that is cut off in a statement
                await self._tell_rest()
            await anyio.sleep(PAUSE)

    async def _tell_rest(self) -> None:
        pieces, self._pieces = self._pieces, []
        for some in portions(pieces):
            await self._worker.tell(self.session.id, some)

    def _result(self, ticket: int) -> dict[str, Any]:
        """Say what every turn that was asked for so far came to, give the session back, and return it."""
        db = self._store.database
        if not self.session.brackets.turn_open:
            self._steps.forget()
        found: dict[str, Any] = {}
        sql = """SELECT id, ticket, result FROM turnchart.wishes WHERE session = %s AND ticket <= %s
            AND kind IN ('prompt', 'steer') AND done IS NOT NULL AND (result IS NULL OR ticket = %s)"""
        for id, number, result in db.execute(sql, (self.session.id, ticket, ticket)).fetchall():
            come = json.loads(result) if result else self._came(f"w{id}")
            if result is None:
                mailbox.settle(self._store, id, come)
            if number == ticket:
                found = come
        if not self.session.brackets.turn_open:
            self._worker.unpin(self._store)
        self._store.release()
        return found | {"journal": self._rest}

    def _came(self, message_id: str) -> dict[str, Any]:
        entries = self.session.entries
        came = mailbox.result_of(entries, message_id)
        if came is None and not self.session.inbox.knows(message_id):
            came = mailbox.taken_by(entries, message_id) or mailbox.no_turn("discarded")
        return came or mailbox.no_turn("parked")


def portions(pieces: list[str]) -> list[list[str]]:
    """Return pieces in lists that are small enough to be told at once."""
    portions: list[list[str]] = [[]]
    size = 0
    for piece in pieces:
        length = len(piece)
        if length > mailbox.LARGEST:
            continue  # whoever reads the log sees it whole
        if size + length > mailbox.LARGEST:
            portions.append([])
            size = 0
        portions[-1].append(piece)
        size += length
    return [each for each in portions if each]
