"""A clock that tests move."""

import anyio
import pytest
from anyio.lowlevel import checkpoint

from turnchart.machine.clock import Clock
from turnchart.testing import FakeClock
from turnchart.testing.clock import QUIET


async def sleeper(clock: FakeClock, seconds: float, woke: list[tuple[float, float]]) -> None:
    """Sleep, and note for how long and when that was over."""
    await clock.sleep(seconds)
    woke.append((seconds, clock.now()))


async def test_sleepers_wake_in_order_at_their_time_and_it_takes_none() -> None:
    clock: FakeClock = FakeClock(100.0)
    as_protocol: Clock = clock
    woke: list[tuple[float, float]] = []
    with anyio.fail_after(1):
        async with anyio.create_task_group() as group:
            for seconds in (3_000_000.0, 1.0, 2.5):
                group.start_soon(sleeper, clock, seconds, woke)
    assert woke == [(1.0, 101.0), (2.5, 102.5), (3_000_000.0, 3_000_100.0)]
    assert as_protocol.now() == 3_000_100.0
    assert sorted(clock.slept) == [1.0, 2.5, 3_000_000.0]


async def test_time_does_not_pass_while_somebody_works() -> None:
    clock = FakeClock(0.0)
    at: list[float] = []

    async def work() -> None:
        for _ in range(10):
            await checkpoint()
        at.append(clock.now())

    async with anyio.create_task_group() as group:
        group.start_soon(clock.sleep, 5)
        group.start_soon(work)
    assert at == [0.0]


async def test_sleeps_one_after_another_add_up() -> None:
    clock = FakeClock(0.0)
    for _ in range(3):
        await clock.sleep(1.5)
    assert clock.now() == 4.5


@pytest.mark.parametrize("seconds", [0, -1])
async def test_no_time_at_all_is_a_checkpoint(seconds: float) -> None:
    clock = FakeClock(7.0)
    with anyio.CancelScope() as scope:
        scope.cancel()
        await clock.sleep(seconds)
    assert scope.cancelled_caught
    await clock.sleep(seconds)
    assert clock.now() == 7.0


async def test_a_body_that_takes_longer_than_its_timeout_is_cut_off_at_that_time() -> None:
    clock = FakeClock(0.0)
    with anyio.fail_after(1), pytest.raises(TimeoutError), clock.timeout(5):
        await clock.sleep(10)
    assert clock.now() == 5.0


async def test_a_body_that_is_quick_enough_is_left_alone_and_so_is_what_comes_after() -> None:
    clock = FakeClock(0.0)
    with clock.timeout(5):
        await clock.sleep(1)
    await clock.sleep(100)
    assert clock.now() == 101.0


async def test_the_inner_timeout_is_the_one_that_is_over() -> None:
    clock = FakeClock(0.0)
    inner: list[float] = []
    with clock.timeout(10):
        try:
            with clock.timeout(2):
                await clock.sleep(5)
        except TimeoutError:
            inner.append(clock.now())
        await clock.sleep(1)
    assert inner == [2.0]


async def test_being_cancelled_from_outside_is_no_timeout() -> None:
    clock = FakeClock(0.0)
    with anyio.CancelScope() as scope:
        with clock.timeout(5):
            scope.cancel()
            await checkpoint()
    assert scope.cancelled_caught


async def test_without_autojump_time_passes_when_the_test_says_so() -> None:
    clock = FakeClock(0.0, autojump=False)
    woke: list[tuple[float, float]] = []
    async with anyio.create_task_group() as group:
        for seconds in (1.0, 2.0, 5.0):
            group.start_soon(sleeper, clock, seconds, woke)
        await anyio.wait_all_tasks_blocked()
        assert woke == []
        await clock.advance(2)
        assert woke == [(1.0, 1.0), (2.0, 2.0)]
        await clock.advance(2)
        assert (len(woke), clock.now()) == (2, 4.0)
        await clock.advance(10)
    assert woke[-1] == (5.0, 5.0)
    assert clock.now() == 14.0


async def test_what_wakes_while_time_advances_sleeps_on_from_there() -> None:
    clock = FakeClock(0.0, autojump=False)
    at: list[float] = []

    async def tick() -> None:
        for _ in range(3):
            await clock.sleep(1)
            at.append(clock.now())

    async with anyio.create_task_group() as group:
        group.start_soon(tick)
        await clock.advance(3)
    assert at == [1.0, 2.0, 3.0]


async def test_advancing_cuts_off_a_body_that_waits_for_no_time_at_all() -> None:
    clock = FakeClock(0.0, autojump=False)

    async def wait() -> None:
        with pytest.raises(TimeoutError), clock.timeout(30):
            await anyio.sleep_forever()

    with anyio.fail_after(1):
        async with anyio.create_task_group() as group:
            group.start_soon(wait)
            await clock.advance(30)


async def test_a_sleeper_that_is_cancelled_holds_nobody_up() -> None:
    clock = FakeClock(0.0)
    async with anyio.create_task_group() as group:
        group.start_soon(clock.sleep, 1)
        await checkpoint()
        group.cancel_scope.cancel()
    with anyio.fail_after(1):
        await clock.sleep(5)
    assert clock.now() == 5.0


async def test_time_stands_while_something_real_is_waited_for() -> None:
    clock = FakeClock()
    begun = clock.now()
    async with anyio.create_task_group() as group:
        with clock.standing():
            group.start_soon(clock.sleep, 10)
            for _ in range(5 * QUIET):
                await checkpoint()
            assert clock.now() == begun
    assert clock.now() == begun + 10
