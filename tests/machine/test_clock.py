"""The clock of the machine."""

import time

import anyio
import anyio.lowlevel
import pytest

from turnchart.machine.clock import SYSTEM_CLOCK


def test_now_is_unix_time() -> None:
    assert abs(SYSTEM_CLOCK.now() - time.time()) < 1


async def test_sleep_waits_and_lets_others_run() -> None:
    order: list[str] = []

    async def sleeper(seconds: float) -> None:
        await SYSTEM_CLOCK.sleep(seconds)
        order.append(f"slept {seconds}")

    start = time.monotonic()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(sleeper, 0.05)
        tasks.start_soon(sleeper, 0)
    assert order == ["slept 0", "slept 0.05"]
    assert time.monotonic() - start >= 0.05


async def test_a_timeout_raises_when_its_body_takes_longer() -> None:
    with pytest.raises(TimeoutError), SYSTEM_CLOCK.timeout(0.01):
        await anyio.sleep(60)


async def test_a_timeout_lets_a_shorter_body_be() -> None:
    with SYSTEM_CLOCK.timeout(60):
        await anyio.lowlevel.checkpoint()
