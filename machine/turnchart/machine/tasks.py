"""Tasks, scopes and events of anyio, at little cost.

anyio finds out anew which loop runs for each event, scope and id that it is asked for, and on asyncio a group
keeps a handle, a cancel scope and two events for each of its tasks. A turn needs some of each.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import cache
from typing import Any, NoReturn, Protocol

import anyio
from anyio.abc import TaskGroup


class Event(Protocol):
    """Something that happens once."""

    def set(self) -> object:
        """Let it have happened, and everybody who waits go on."""
        ...

    async def wait(self) -> object:
        """Wait until it has happened."""
        ...


def event_for(group: TaskGroup | None) -> Event:
    """Return an event for the loop of a group; for that of the caller where there is no group."""
    return asyncio.Event() if group is not None and _on_asyncio(type(group)) else anyio.Event()


def scope_for(group: TaskGroup | None) -> anyio.CancelScope:
    """Return a scope for the loop of a group; for that of the caller where there is no group."""
    return anyio.CancelScope() if group is None else type(group.cancel_scope)()


def start(group: TaskGroup, run: Callable[[], Coroutine[Any, Any, None]]) -> asyncio.Task[None] | None:
    """Start a task of a group that ends before the group does: whoever leaves the group sees to that.

    On asyncio it is a task of the loop alone, which is returned: cancelling the group does not reach it, and
    the caller has to keep it as long as it runs. On trio it is one of the group's, and None is returned.
    What it raises ends the group in either case.
    """
    if not _on_asyncio(type(group)):
        group.start_soon(run)
        return None
    # Not by the loop's factory, which might run it within the call that wakes.
    return asyncio.Task(_handing_on(group, run), loop=asyncio.get_running_loop())


def timed_scope(seconds: float) -> anyio.CancelScope:
    """Return a scope that is cancelled so many seconds from now."""
    if _asyncio_task() is None:
        return anyio.CancelScope(deadline=anyio.current_time() + seconds)
    return _asyncio_scope()(deadline=asyncio.get_running_loop().time() + seconds)


def current_task() -> int:
    """Return the id of the task that runs; 0 in a callback of the loop, which is no task."""
    task = _asyncio_task()
    if task is not None:
        return id(task)  # as that of anyio
    try:
        return anyio.get_current_task().id
    except (RuntimeError, TypeError):
        return 0


def _asyncio_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # no loop of asyncio runs here
        return None


@cache
def _asyncio_scope() -> type[anyio.CancelScope]:
    return type(anyio.CancelScope())


@cache
def _on_asyncio(kind: type[TaskGroup]) -> bool:
    """Tell whether the loop that runs now, whose groups are of this kind, is asyncio's."""
    del kind
    return anyio.get_cancelled_exc_class() is asyncio.CancelledError


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
