"""Through whom the effects of a turn pass, where the turn is to outlive its process.

In process nobody stands there, and an effect is simply awaited.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from turnchart.machine.driver import Driver
    from turnchart.machine.points import ToolOutcome
    from turnchart.machine.states import Event

T = TypeVar("T")


class StepRunner(Protocol):
    """Runs what a turn does to the world, and keeps what came of it."""

    async def run(self, name: str, key: str, fn: Callable[[], Awaitable[T]]) -> T:
        """Run one step and keep what it came to, so that it need not run again where that is known.

        Args:
            name: ``request``, ``retry`` or ``tool``.
            key: Unique among the steps with this name in the session.
            fn: What is to be done.

        Raises:
            Exception: Whatever ``fn`` raises.
        """
        ...

    async def effect(self, driver: Driver) -> Event | None:
        """Perform the effect of the driver's state; None where its row is taken already."""
        ...

    def kept(self, call_id: str) -> ToolOutcome | None:
        """Return what a tool came to whose result is not in the log yet; None where that is not known."""
        ...
