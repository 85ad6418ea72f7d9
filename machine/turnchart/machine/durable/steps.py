"""The steps of a turn in the journal of DBOS."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

from turnchart.machine.durable.stepping import Stepping
from turnchart.machine.entries import Frozen, decode, encode
from turnchart.machine.messages import content_blocks
from turnchart.machine.points import ToolOutcome

if TYPE_CHECKING:
    from dbos import DBOS

    from turnchart.machine.outfit import Outfit
    from turnchart.machine.postgres import PostgresStore

T = TypeVar("T")

WRITTEN = 2
"""So many entries the row of an answer writes: it, and the end of its step where it asks for nothing."""


class JournaledSteps(Stepping):
    """Runs each step as one of DBOS, whose journal says what it was and where its entry is.

    The whole of what a step came to is in the session: the answer in its log, the outcome of a tool beside it
    until the result can be written in the model's order. So the journal stays small, and a step of another
    process that is in the journal is passed over: what it came to is known already.

    Attributes:
        agent: Whose steps these are; set before the first.
    """

    agent: Outfit

    def __init__(self, store: PostgresStore, dbos: type[DBOS]) -> None:
        super().__init__()
        self._store = store
        self._dbos = dbos
        self._kept = {key: _outcome(line) for key, line in store.kept().items()}

    async def run(self, name: str, key: str, fn: Callable[[], Awaitable[T]]) -> T:
        """Run one step; see ``StepRunner.run``."""
        came: list[T] = []
        broke: list[BaseException] = []

        async def body() -> dict[str, Any]:
            try:
                came.append(await fn())
            except Exception as error:  # noqa: BLE001  # raised again below, as the object that it is
                broke.append(error)
                return {"step": name, "key": key, "failed": type(error).__name__}
            return {"step": name, "key": key, **self._keep(key, came[0])}

        while not came and not broke:  # what is in the journal already is passed over, one step a call
            try:
                await self._dbos.run_step_async({"name": "step"}, body)
            except BaseException:
                # No abort of the turn: the workflow is not ours any more, or this process ends. So whoever
                # goes on with the turn must not find it closed.
                if self.agent.turning.cause is None:
                    self._store.abandon()
                raise
        if broke:
            raise broke[0]
        return came[0]

    def _keep(self, key: str, value: object) -> dict[str, Any]:
        if isinstance(value, ToolOutcome):
            self._store.keep(self._place(key), encode(_json(value)))
            return {"usage": dict(value.usage)} if value.usage else {}
        entries, message = self.agent.session.entries, self.agent.turning.message
        for entry in reversed(entries[-WRITTEN:]):
            if entry.type == "assistant/message" and message is not None:
                calls = [call.id for call in message.tool_calls]
                return {"seq": entry.seq, "usage": dict(message.usage), "calls": calls}
        return {"seq": entries[-1].seq}

    def kept(self, call_id: str) -> ToolOutcome | None:
        """Return what a tool came to; see ``StepRunner.kept``."""
        return self._kept.pop(self._place(call_id), None)

    def _place(self, call_id: str) -> str:
        """Return what names a call in the session: a model may give the ids of earlier turns again."""
        now = self.agent.turning
        return f"{now.number}.{now.step}.{call_id}"

    def forget(self) -> None:
        """Remove the outcomes of turns that are over; while the session is ours."""
        self._store.forget()


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
