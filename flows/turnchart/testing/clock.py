"""A clock that tests move: seconds of waiting pass in no time, in the right order."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from heapq import heapify, heappop, heappush
from itertools import count

import anyio
from anyio.lowlevel import checkpoint

QUIET = 20
"""So many rounds of the event loop without progress of a sleeper count as everybody waiting."""


class FakeClock:
    """Time that passes only when everybody waits (``autojump``), or when a test says so (``advance``).

    Attributes:
        autojump: While somebody sleeps, go to what is due next (a sleeper's end, or a timeout before it)
            when nothing else runs. Work in threads is not seen.
        slept: What was slept through, in seconds and in order.
    """

    def __init__(self, start: float = 1_000_000.0, *, autojump: bool = True) -> None:
        self.autojump = autojump
        self.slept: list[float] = []
        self._now = start
        self._order = count()
        self._due: list[tuple[float, int, Callable[[], object]]] = []
        self._sleepers: set[int] = set()
        self._standing = 0
        self._nudged = anyio.Event()

    def now(self) -> float:
        """Return the time in Unix seconds."""
        return self._now

    async def sleep(self, seconds: float) -> None:
        """Wait until so many seconds have passed on this clock."""
        self.slept.append(seconds)
        if seconds <= 0:
            await checkpoint()
            return
        over = anyio.Event()
        entry = self._at(self._now + seconds, over.set)
        self._sleepers.add(entry[1])
        try:
            while not over.is_set():
                if self._jumps() and self._first_asleep() is entry:
                    if await self._quiet(over) and self._jumps() and self._first_asleep() is entry:
                        self._pass_to(self._due[0][0])
                else:
                    await self._nudged.wait()
        finally:
            self._sleepers.discard(entry[1])
            self._drop(entry)

    @contextmanager
    def timeout(self, seconds: float) -> Generator[None]:
        """Raise TimeoutError when the body takes longer, on this clock."""
        with anyio.CancelScope() as scope:
            entry = self._at(self._now + seconds, scope.cancel)
            try:
                yield
            finally:
                self._drop(entry)
        if scope.cancelled_caught:
            raise TimeoutError

    @contextmanager
    def standing(self) -> Generator[None]:
        """Let no time pass by itself in the body: what it waits for is real, and unseen by this clock."""
        self._standing += 1
        try:
            yield
        finally:
            self._standing -= 1
            self._nudge()

    def _jumps(self) -> bool:
        return self.autojump and not self._standing

    async def advance(self, seconds: float) -> None:
        """Let so many seconds pass, stopping at everything that is due on the way."""
        end = self._now + seconds
        await self._settle()
        while self._due and self._due[0][0] <= end:
            self._pass_to(self._due[0][0])
            await self._settle()
        self._now = end

    def _at(self, time: float, act: Callable[[], object]) -> tuple[float, int, Callable[[], object]]:
        entry = (time, next(self._order), act)
        heappush(self._due, entry)
        return entry

    def _first_asleep(self) -> tuple[float, int, Callable[[], object]]:
        return min(each for each in self._due if each[1] in self._sleepers)

    def _drop(self, entry: tuple[float, int, Callable[[], object]]) -> None:
        if entry in self._due:
            self._due.remove(entry)
            heapify(self._due)
            self._nudge()

    def _nudge(self) -> None:
        nudged, self._nudged = self._nudged, anyio.Event()
        nudged.set()

    def _pass_to(self, time: float) -> None:
        self._now = max(self._now, time)
        while self._due and self._due[0][0] <= self._now:
            _, _, act = heappop(self._due)
            act()
        self._nudge()

    async def _quiet(self, over: anyio.Event) -> bool:
        nudged = self._nudged
        for _ in range(QUIET):
            await checkpoint()
            if over.is_set() or nudged.is_set():
                return False
        return True

    async def _settle(self) -> None:
        for _ in range(QUIET):
            await checkpoint()
