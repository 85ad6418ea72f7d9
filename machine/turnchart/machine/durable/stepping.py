"""The effects of a turn as steps whose outcome is kept."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar, cast

from turnchart.machine.driver import EFFECTS
from turnchart.machine.durable.kept_world import KeptWorld, digest
from turnchart.machine.entries import Frozen
from turnchart.machine.models import Chunk, Finish, TextDelta, UsageReport
from turnchart.machine.states import Event, State
from turnchart.machine.stream import Answer

if TYPE_CHECKING:
    from turnchart.machine.acts import Acts
    from turnchart.machine.driver import Driver
    from turnchart.machine.outfit import Outfit
    from turnchart.machine.picking_up import Missing
    from turnchart.machine.points import Payload, ToolOutcome

T = TypeVar("T")
P = TypeVar("P", bound="Payload")

STEPS: Mapping[State, str] = {State.REQUESTING: "request", State.RETRYING: "retry"}
"""The states whose effect is a step, with its name: what they come to is in the log before the step is over.

The effects of the other states write nothing but what the log can do twice. What they do to the world are
steps of their own: each tool, what hooks do through their payload, and each request for a summary.
"""
PER_ATTEMPT = frozenset(("request", "context", "convert", "stream", "request_error"))
"""The points that are asked at every attempt of a step."""


class Stepping(ABC):
    """A ``StepRunner`` that knows which effects are steps.

    Attributes:
        missing: What a turn that was picked up has to do first.
    """

    def __init__(self) -> None:
        self.missing: Missing | None = None

    @abstractmethod
    async def run(self, name: str, key: str, fn: Callable[[], Awaitable[T]]) -> T:
        """Run one step; see ``StepRunner.run``."""

    @abstractmethod
    def kept(self, call_id: str) -> ToolOutcome | None:
        """Return what a tool came to; see ``StepRunner.kept``."""

    @abstractmethod
    def known(self, key: str) -> Frozen | None:
        """Return, once, what a step of a process that is gone came to; None where that is not known."""

    @abstractmethod
    def keep(self, key: str, value: Frozen) -> None:
        """Keep what was done without waiting."""

    async def once(self, name: str, key: str, fn: Callable[[], Awaitable[Frozen]]) -> Frozen:
        """Run a step whose outcome is JSON, unless it is known what it came to; return that."""
        known = self.known(key)
        return await self.run(name, key, fn) if known is None else known

    def once_now(self, key: str, fn: Callable[[], object], *, first: bool = False) -> None:
        """Do something without waiting, unless it was done; ``first`` notes that it was before it is.

        What is noted first becomes safe together with the entry that is written with it.
        """
        if self.known(key) is not None:
            return
        if first:
            self.keep(key, Frozen())
        fn()
        if not first:
            self.keep(key, Frozen())

    def bound(self, acts: Acts, point: str, payload: P) -> P:
        """Return a payload whose world does things once; see ``StepRunner.bound``."""
        if payload.world is None or not acts.session.brackets.turn_open:
            return payload
        call = getattr(payload, "call_id", "")
        attempt = f".{acts.turning.attempt}" if point in PER_ATTEMPT else ""
        place = f"{_step(acts)}{attempt} {point}{call and f' {call}'}"
        return replace(payload, world=KeptWorld(payload.world, self, place))

    async def answer(self, acts: Acts, question: str, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        """Ask for a summary once; see ``StepRunner.answer``."""
        failed: list[Answer] = []

        async def asked() -> Frozen:
            answer = await ask()
            if answer.failure is not None:
                failed.append(answer)
                raise _Failed
            text = answer.message("", acts.clock.now(), "s").text
            return Frozen(text=text, usage=answer.usage)

        try:
            came = await self.once("summary", f"{_step(acts)} summary {digest(question)}", asked)
        except _Failed:
            return failed[0]
        answer = Answer()
        chunks: list[Chunk] = [TextDelta(came["text"]), Finish("stop")]
        if came["usage"]:
            chunks.insert(0, UsageReport(came["usage"]))
        for chunk in chunks:
            answer.add(chunk, acts.clock.now())
        return answer

    async def effect(self, driver: Driver) -> Event | None:
        """Perform the effect of the driver's state; None where its row is taken already."""
        if self.missing is not None:
            missing, self.missing = self.missing, None
            event = await missing(cast("Outfit", driver))
            if event is not None or driver.turning.cause is not None:
                return event
        name = STEPS.get(driver.state)
        if name is None:
            return await EFFECTS[driver.state](driver)
        now = driver.turning
        await self.run(name, f"{now.number}.{now.step}.{now.attempt}", partial(_perform, driver))
        return None


class _Failed(Exception):
    """A request failed, so there is nothing to keep."""


def _step(acts: Acts) -> str:
    """Return the step that runs, or that would be next: the same before and after a crash."""
    step = acts.turning.step + (not acts.session.brackets.step_open)
    return f"{acts.turning.number}.{step}"


async def _perform(driver: Driver) -> None:
    """Perform the effect and take the row of its event, which writes what came of it."""
    event = await EFFECTS[driver.state](driver)
    if driver.turning.cause is None:
        driver.go(event)
