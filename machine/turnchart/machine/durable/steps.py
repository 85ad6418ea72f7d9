"""The steps of a turn: what each came to is in the session, and the journal of DBOS says where."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

from turnchart.machine.durable.grouped import place
from turnchart.machine.durable.stepping import STEPS, Stepping
from turnchart.machine.entries import Frozen, decode, encode
from turnchart.machine.messages import content_blocks
from turnchart.machine.points import ToolOutcome

if TYPE_CHECKING:
    from dbos import DBOS

    from turnchart.machine.durable.grouped import GroupedStore
    from turnchart.machine.outfit import Outfit

T = TypeVar("T")

WRITTEN = 2
"""So many entries the row of an answer writes: it, and the end of its step where it asks for nothing."""
LINGER = 0.05
"""Seconds for which steps are gathered before the journal is told of them."""


class JournaledSteps(Stepping):
    """Runs each step, and keeps what it came to in the session, where whoever goes on with the turn finds it.

    The answer is in its log, the outcome of a tool beside it until the result can be written in the model's
    order. The journal of DBOS is told of every step, several at once, and nobody waits for that; what is left
    at the end goes with the result of the workflow. What is known of a step is asked of the session alone.

    Attributes:
        agent: Whose steps these are; set before the first.
    """

    agent: Outfit

    def __init__(self, store: GroupedStore, dbos: type[DBOS]) -> None:
        super().__init__()
        self._store = store
        self._dbos = dbos
        self._kept: dict[str, str] = {}
        self._notes: list[dict[str, Any]] = []
        self._noted = asyncio.Event()
        self._noting = asyncio.Lock()

    def go_on(self) -> None:
        """Look up what the steps of an open turn came to that another process began."""
        self._kept = self._store.kept()

    async def run(self, name: str, key: str, fn: Callable[[], Awaitable[T]]) -> T:
        """Run one step; see ``StepRunner.run``."""
        if name not in STEPS.values():
            await self._store.flush()  # what it is to do is in the log before it does it
        try:
            came = await fn()
        except Exception as error:
            self._note({"step": name, "key": key, "failed": type(error).__name__})
            raise
        self._note({"step": name, "key": key, **self._keep(key, came)})
        if self.agent.chains or isinstance(came, Frozen):
            await self._store.flush()  # a hook may keep the program from writing, and take its time
        return came

    def _keep(self, key: str, value: object) -> dict[str, Any]:
        if isinstance(value, ToolOutcome):
            self._store.keep(self._place(key), encode(_json(value)))
            return {"usage": dict(value.usage)} if value.usage else {}
        if isinstance(value, Frozen):
            self.keep(key, value)
            return {}
        entries, message = self.agent.session.entries, self.agent.turning.message
        for entry in reversed(entries[-WRITTEN:]):
            if entry.type == "assistant/message" and message is not None:
                calls = [call.id for call in message.tool_calls]
                return {"seq": entry.seq, "usage": dict(message.usage), "calls": calls}
        return {"seq": entries[-1].seq}

    def kept(self, call_id: str) -> ToolOutcome | None:
        """Return what a tool came to; see ``StepRunner.kept``."""
        line = self._kept.pop(self._place(call_id), None) if self._kept else None
        return None if line is None else _outcome(line)

    def known(self, key: str) -> Frozen | None:
        """Return what a step came to; see ``Stepping.known``."""
        line = self._kept.pop(key, None) if self._kept else None
        return None if line is None else decode(line)

    def keep(self, key: str, value: Frozen) -> None:
        """Keep what was done; it becomes safe with what is written next."""
        self._store.keep(key, encode(value))

    def _place(self, call_id: str) -> str:
        now = self.agent.turning
        return place(now.number, now.step, call_id)

    def forget(self) -> None:
        """Remove the outcomes of turns that are over; while the session is ours."""
        self._store.forget()

    # -- the journal ---------------------------------------------------------------------------

    def _note(self, note: dict[str, Any]) -> None:
        self._notes.append(note)
        self._noted.set()

    async def record(self) -> None:
        """Tell the journal of steps until cancelled.

        Raises:
            Exception: If the workflow is not ours any more: it was cancelled, or goes on elsewhere.
        """
        while True:
            await self._noted.wait()
            await asyncio.sleep(LINGER)
            await self.recorded()

    async def recorded(self) -> None:
        """Wait until the journal knows of all steps so far."""
        async with self._noting:
            self._noted.clear()
            while self._notes:
                notes, self._notes = self._notes, []
                await self._write(notes)

    async def unrecorded(self) -> list[dict[str, Any]]:
        """Return the steps that the journal is told of no more."""
        async with self._noting:
            notes, self._notes = self._notes, []
            return notes

    async def _write(self, notes: list[dict[str, Any]]) -> None:
        """Put a record into the journal; those of another process are passed over, one a call."""
        written = False

        async def body() -> list[dict[str, Any]]:
            nonlocal written
            written = True
            return notes

        while not written:
            await self._dbos.run_step_async({"name": "steps"}, body)


def _json(outcome: ToolOutcome) -> Frozen:
    return Frozen(
        content=outcome.content, details=outcome.details, is_error=outcome.is_error, usage=outcome.usage,
        terminate=outcome.terminate, added_tools=tuple(outcome.added_tools), outcome=outcome.outcome,
    )  # fmt: skip


def _outcome(line: str) -> ToolOutcome:
    raw = decode(line)
    return ToolOutcome(
        content_blocks(raw["content"]), raw["details"], raw["is_error"], raw["usage"], raw["terminate"],
        tuple(raw["added_tools"]), raw["outcome"],
    )  # fmt: skip
