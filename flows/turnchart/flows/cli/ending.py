"""Signals that end the process, heard all through a run: also while an agent opens or closes."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
from anyio.abc import TaskGroup, TaskStatus

from turnchart.flows.cli.conversation import ending_signals


class Ending:
    """Cancels what runs ``inside`` when a signal ends the process.

    Attributes:
        heard: The number of the signal; 0 for none yet.
    """

    def __init__(self) -> None:
        self.heard = 0
        self._group: TaskGroup | None = None
        self._listening = anyio.CancelScope()
        self._stopped = anyio.Event()

    @asynccontextmanager
    async def inside(self) -> AsyncGenerator[None]:
        """Cancel what runs here; where a signal was heard, it ends here without an error."""
        async with anyio.create_task_group() as self._group:
            await self._group.start(self._listen)
            yield
            self._group.cancel_scope.cancel()

    @asynccontextmanager
    async def lent(self) -> AsyncGenerator[None]:
        """Let what runs here take these signals itself: the receiver that was opened last gets them."""
        yield
        assert self._group is not None, "it is inside"
        self._listening.cancel()
        await self._stopped.wait()
        await self._group.start(self._listen)

    async def _listen(self, *, task_status: TaskStatus[None]) -> None:
        self._stopped = anyio.Event()
        ending = ending_signals()
        with anyio.CancelScope() as self._listening:
            if not ending:
                task_status.started()
                await anyio.sleep_forever()
            with anyio.open_signal_receiver(*ending) as signals:
                task_status.started()
                async for heard in signals:
                    self.heard = heard
                    assert self._group is not None, "it listens inside"
                    self._group.cancel_scope.cancel()
        self._stopped.set()
