"""Time: what the driver, models and hooks read it from. Tests give another clock."""

import time
from contextlib import AbstractContextManager
from typing import Protocol

import anyio


class Clock(Protocol):
    """Where time comes from. All seconds; ``now`` is Unix time."""

    def now(self) -> float:
        """Return Unix seconds."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait so long."""
        ...

    def timeout(self, seconds: float) -> AbstractContextManager[object]:
        """Return a context that raises TimeoutError when its body takes longer."""
        ...


class SystemClock:
    """The clock of the machine."""

    __slots__ = ()

    now = staticmethod(time.time)

    async def sleep(self, seconds: float) -> None:
        """Wait so long."""
        await anyio.sleep(seconds)

    def timeout(self, seconds: float) -> AbstractContextManager[object]:
        """Return a context that raises TimeoutError when its body takes longer."""
        return anyio.fail_after(seconds)


SYSTEM_CLOCK: Clock = SystemClock()
