"""The task of a wake, started at little cost.

For each task of its own a group of anyio keeps a handle, a cancel scope and two events, on asyncio.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn

import anyio
from anyio.abc import TaskGroup


def start(group: TaskGroup, run: Callable[[], Coroutine[Any, Any, None]]) -> asyncio.Task[None] | None:
    """Start a task of a group that ends before the group does: whoever leaves the group sees to that.

    On asyncio it is a task of the loop alone, which is returned: cancelling the group does not reach it, and
    the caller has to keep it as long as it runs. On trio it is one of the group's, and None is returned.
    What it raises ends the group in either case.
    """
    if anyio.get_cancelled_exc_class() is not asyncio.CancelledError:
        group.start_soon(run)
        return None
    # Not by the loop's factory, which might run it within the call that wakes.
    return asyncio.Task(_handing_on(group, run), loop=asyncio.get_running_loop())


async def _handing_on(group: TaskGroup, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
    try:
        await run()
    except (asyncio.CancelledError, GeneratorExit):
        raise
    except (SystemExit, KeyboardInterrupt):  # it stops the loop, which has heard of it then
        task: asyncio.Task[Any] | None = asyncio.current_task()
        assert task is not None, "this is one"
        task.add_done_callback(lambda ended: ended.exception())
        raise
    except BaseException as error:  # noqa: BLE001  # the group raises it
        group.start_soon(_raise, error)


async def _raise(error: BaseException) -> NoReturn:
    raise error
