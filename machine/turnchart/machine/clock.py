"""Time: what the driver, models and hooks read it from. Tests give another clock."""

import time
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Protocol

import anyio

from turnchart.machine.tasks import timed_scope


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
        return _Timeout(seconds)


class _Timeout:
    """What ``anyio.fail_after`` does, at half its cost: every tool and async hook runs inside one."""

    __slots__ = ("_scope",)

    def __init__(self, seconds: float) -> None:
        self._scope = timed_scope(seconds)

    def __enter__(self) -> None:
        self._scope.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        handled = self._scope.__exit__(kind, error, trace)
        if self._scope.cancelled_caught:
            raise TimeoutError
        return handled


SYSTEM_CLOCK: Clock = SystemClock()
