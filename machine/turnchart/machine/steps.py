"""Through whom the effects of a turn pass, where the turn is to outlive its process.

In process nobody stands there, and an effect is simply awaited.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from turnchart.machine.acts import Acts
    from turnchart.machine.driver import Driver
    from turnchart.machine.points import Payload, ToolOutcome
    from turnchart.machine.states import Event
    from turnchart.machine.stream import Answer

T = TypeVar("T")
P = TypeVar("P", bound="Payload")


class StepRunner(Protocol):
    """Runs what a turn does to the world, and keeps what came of it."""

    async def run(self, name: str, key: str, fn: Callable[[], Awaitable[T]]) -> T:
        """Run one step and keep what it came to, so that it need not run again where that is known.

        Args:
            name: ``request``, ``retry``, ``tool``, ``hook`` or ``summary``.
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

    def bound(self, acts: Acts, point: str, payload: P) -> P:
        """Return a payload for the hooks of a point; what they do to the world through it is a step."""
        ...

    async def answer(self, acts: Acts, question: str, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        """Ask for a summary as a step, unless it is known what the answer to this question was."""
        ...
