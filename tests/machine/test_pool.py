"""Jobs that run at the same time, in as few tasks and with as few timers as they need."""

from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager

import anyio
import pytest
from anyio.abc import TaskGroup

from turnchart.machine.pool import Pool
from turnchart.testing import FakeClock


class Counting(FakeClock):
    """Counts the timers."""

    def __init__(self) -> None:
        super().__init__()
        self.timers: list[float] = []

    @contextmanager
    def timeout(self, seconds: float) -> Generator[None]:
        self.timers.append(seconds)
        with super().timeout(seconds):
            yield


class Work:
    """Jobs that take so many seconds, and what came of them."""

    def __init__(self) -> None:
        self.clock = Counting()
        self.tasks: list[int] = []
        self.done: list[str] = []
        self.late: list[str] = []
        self.pool: Pool[tuple[str, float]]

    async def _run(self, job: tuple[str, float]) -> None:
        name, seconds = job
        self.tasks.append(anyio.get_current_task().id)
        assert self.tasks[-1] in self.pool.workers
        if seconds < 0:
            raise OSError(name)
        if seconds:
            await self.clock.sleep(seconds)
        self.done.append(f"{name}@{self.clock.now() - 1_000_000:g}")

    async def all(self, *jobs: tuple[str, float, float | None]) -> None:
        async with anyio.create_task_group() as group:
            self.pool = self.made(group)
            for name, seconds, limit in jobs:
                self.pool.start((name, seconds), limit)
        assert not self.pool.workers

    def made(self, group: TaskGroup) -> "Pool[tuple[str, float]]":
        run: Callable[[tuple[str, float]], Awaitable[object]] = self._run
        return Pool(group, self.clock, run, lambda job: self.late.append(job[0]))


async def test_jobs_that_never_wait_share_a_task_and_a_timer() -> None:
    work = Work()
    await work.all(*[(name, 0.0, 60.0) for name in "abcde"])
    assert work.done == [f"{name}@0" for name in "abcde"]
    assert len(set(work.tasks)) == 1
    assert work.clock.timers == [60]


async def test_jobs_that_wait_run_at_the_same_time() -> None:
    work = Work()
    await work.all(("a", 3, 60), ("b", 2, 60), ("c", 0, 60), ("d", 1, 60))
    assert work.done == ["c@0", "d@1", "b@2", "a@3"]
    assert len(set(work.tasks)) == 3


async def test_a_job_whose_time_is_over_is_stopped_and_the_others_go_on() -> None:
    work = Work()
    await work.all(("a", 5, 2), ("b", 3, None), ("c", 1, 2))
    assert work.done == ["c@1", "b@3"]
    assert work.late == ["a"]


async def test_limits_that_differ_have_timers_of_their_own() -> None:
    work = Work()
    await work.all(("a", 0, 60), ("b", 0, 5), ("c", 0, None), ("d", 0, 5))
    assert work.done == ["a@0", "b@0", "c@0", "d@0"]
    assert work.clock.timers == [60, 5, 5]


async def test_a_job_that_begins_later_in_the_same_task_has_all_of_its_time() -> None:
    work = Work()

    async with anyio.create_task_group() as group:
        work.pool = work.made(group)
        for name, seconds in ("a", 3), ("b", 3), ("c", 0):
            work.pool.start((name, seconds), 4)
        await work.clock.sleep(2)
        work.pool.start(("d", 3), 4)
    assert work.done == ["c@0", "a@3", "b@3", "d@5"]
    assert work.late == []


async def test_what_a_job_raises_ends_the_group() -> None:
    work = Work()
    with pytest.raises(ExceptionGroup) as raised:
        await work.all(("a", 9, None), ("b", -1, 5))
    assert [str(error) for error in raised.value.exceptions] == ["b"]
    assert work.done == []


async def test_a_timeout_that_a_job_raises_itself_is_told_as_its_own() -> None:
    work = Work()

    async def run(job: tuple[str, float]) -> None:
        raise TimeoutError(job[0])

    async with anyio.create_task_group() as group:
        work.pool = Pool(group, work.clock, run, lambda job: work.late.append(job[0]))
        work.pool.start(("a", 0), 5)
    assert work.late == ["a"]
