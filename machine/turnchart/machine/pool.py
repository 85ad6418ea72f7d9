"""Jobs that run at the same time, in as few tasks and with as few timers as they need."""

from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import Generic, TypeVar

from anyio.abc import TaskGroup

from turnchart.machine.clock import Clock
from turnchart.machine.tasks import current_task

T = TypeVar("T")

SLACK = 0.01
"""Jobs that begin within so many seconds of each other in one task share a timer: the first one's."""


class Pool(Generic[T]):
    """Runs jobs, each at once: a worker that takes one calls the next worker for those behind it first.

    So ten jobs that never wait share a task or two, and ten that do have a task each.

    Attributes:
        workers: The ids of the tasks that do jobs now.
    """

    __slots__ = ("_called", "_clock", "_group", "_jobs", "_late", "_run", "workers")

    def __init__(
        self,
        group: TaskGroup,
        clock: Clock,
        run: Callable[[T], Awaitable[object]],
        late: Callable[[T], object],
    ) -> None:
        """Make an empty pool.

        Args:
            group: Where the workers live; what a job raises ends the group.
            clock: What timeouts are measured with.
            run: Does one job.
            late: Is told of a job that was stopped because its time was over.
        """
        self._group = group
        self._clock = clock
        self._run = run
        self._late = late
        self._jobs: deque[tuple[T, float | None]] = deque()
        self._called = False
        self.workers: set[int] = set()

    def start(self, job: T, timeout: float | None) -> None:
        """Begin a job as soon as the event loop comes round, and stop it after so many seconds."""
        self._jobs.append((job, timeout))
        if not self._called:
            self._call()

    def _call(self) -> None:
        self._called = True
        self._group.start_soon(self._work)

    async def _work(self) -> None:
        self._called = False
        me = current_task()
        self.workers.add(me)
        try:
            while self._jobs:
                await self._some(self._jobs[0][1])
        finally:
            self.workers.discard(me)

    async def _some(self, limit: float | None) -> None:
        """Do the jobs at the head of the queue that may share one timer."""
        running: T | None = None
        begun = self._clock.now()
        try:
            with nullcontext() if limit is None else self._clock.timeout(limit):
                while self._jobs and self._jobs[0][1] == limit and abs(self._clock.now() - begun) < SLACK:
                    running, _ = self._jobs.popleft()
                    if self._jobs and not self._called:
                        self._call()
                    await self._run(running)
        except TimeoutError:
            if running is None:
                raise
            self._late(running)
