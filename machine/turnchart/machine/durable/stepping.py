"""The effects of a turn as steps whose outcome is kept."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, TypeVar, cast

from turnchart.machine.driver import EFFECTS
from turnchart.machine.states import Event, State

if TYPE_CHECKING:
    from turnchart.machine.driver import Driver
    from turnchart.machine.outfit import Outfit
    from turnchart.machine.picking_up import Missing
    from turnchart.machine.points import ToolOutcome

T = TypeVar("T")

STEPS: Mapping[State, str] = {State.REQUESTING: "request", State.RETRYING: "retry"}
"""The states whose effect is a step, with its name: what they come to is in the log before the step is over.

The effects of the other states ask hooks, and write nothing but what the log can do twice; the tools of
``tooling`` are steps of their own.
"""


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


async def _perform(driver: Driver) -> None:
    """Perform the effect and take the row of its event, which writes what came of it."""
    event = await EFFECTS[driver.state](driver)
    if driver.turning.cause is None:
        driver.go(event)
