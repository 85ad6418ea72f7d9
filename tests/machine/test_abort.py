"""The signal of one turn: set once, waited for by many."""

import anyio
import pytest

from turnchart.machine.abort import Aborted, AbortSignal


def test_it_begins_unset() -> None:
    signal = AbortSignal()
    assert (signal.aborted, signal.reason) == (False, "")
    signal.check()


def test_the_first_reason_stays() -> None:
    signal = AbortSignal()
    signal.set("user")
    signal.set("max_seconds")
    assert (signal.aborted, signal.reason) == (True, "user")
    with pytest.raises(Aborted, match=r"^user$"):
        signal.check()


async def test_all_who_wait_get_the_reason() -> None:
    signal = AbortSignal()
    got: list[str] = []

    async def waiter() -> None:
        got.append(await signal.wait())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(waiter)
        tasks.start_soon(waiter)
        await anyio.wait_all_tasks_blocked()
        assert got == []
        signal.set("user")
    assert got == ["user", "user"]


async def test_who_waits_after_the_abort_does_not_wait() -> None:
    signal = AbortSignal()
    signal.set("user")
    with anyio.fail_after(1):
        assert await signal.wait() == "user"
