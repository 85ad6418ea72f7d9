"""Live signals: who hears what an agent does, and when.

The driver queues what it tells and delivers it at its next await, each listener awaited in the order of
subscription. What other tasks cause (a steer, a tool's progress) reaches plain listeners at once and the
others in a short task. A listener can break or change nothing: what it raises is logged, once per listener.
"""

import inspect
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

import anyio

from turnchart.machine.abort import AbortSignal

_log = logging.getLogger("turnchart.signals")


class Signal(NamedTuple):
    """One live signal: its kind (see ``entries.SIGNALS``) and its fields."""

    kind: str
    data: Mapping[str, Any]


Listener = Callable[[Signal, AbortSignal], object]
Start = Callable[..., object]


class _Subscription(NamedTuple):
    kind: str | None
    fn: Listener
    plain: bool


class Signals:
    """The listeners of one agent and what waits for them.

    Attributes:
        heard: Somebody listens; without listeners nobody pays for signals.
        waiting: What was told and not yet heard.
    """

    __slots__ = ("_delivered", "_failed", "_subscriptions", "heard", "waiting")

    def __init__(self) -> None:
        self._subscriptions: tuple[_Subscription, ...] = ()
        self.heard = False
        self.waiting: deque[tuple[Signal, AbortSignal]] = deque()
        self._failed: set[Listener] = set()
        self._delivered: anyio.Event | None = None
        """Set when the delivery that runs now is over; None while none runs."""

    def on(self, kind: str | None, fn: Listener) -> Callable[[], None]:
        """Let ``fn`` hear one kind of signal, or every kind; return a function that stops that."""
        subscription = _Subscription(kind, fn, not _is_async(fn))
        self._subscriptions = (*self._subscriptions, subscription)
        self.heard = True

        def stop() -> None:
            self._subscriptions = tuple(each for each in self._subscriptions if each is not subscription)
            self.heard = bool(self._subscriptions)

        return stop

    def put(self, signal: Signal, abort: AbortSignal) -> None:
        """Queue a signal for the next delivery."""
        self.waiting.append((signal, abort))

    async def deliver(self) -> None:
        """Let the listeners hear what waits, one after another, and return when they have."""
        while self.waiting or self._delivered is not None:
            if self._delivered is not None:
                await self._delivered.wait()
                continue
            self._delivered = anyio.Event()
            try:
                while self.waiting:
                    signal, abort = self.waiting.popleft()
                    for subscription in self._hearing(signal):
                        await self._tell(subscription, signal, abort)
            finally:
                self._delivered.set()
                self._delivered = None

    def deliver_now(self, start: Start) -> None:
        """Let plain listeners hear what waits at once, and ``start`` a short task for the others."""
        if self._delivered is not None:
            return
        later: list[tuple[_Subscription, Signal, AbortSignal]] = []
        while self.waiting:
            signal, abort = self.waiting.popleft()
            for subscription in self._hearing(signal):
                if subscription.plain:
                    self._call(subscription, signal, abort)
                else:
                    later.append((subscription, signal, abort))
        if later:
            start(self._deliver_later, later)

    async def _deliver_later(self, later: list[tuple[_Subscription, Signal, AbortSignal]]) -> None:
        for subscription, signal, abort in later:
            await self._tell(subscription, signal, abort)

    def _hearing(self, signal: Signal) -> list[_Subscription]:
        return [each for each in self._subscriptions if each.kind is None or each.kind == signal.kind]

    async def _tell(self, subscription: _Subscription, signal: Signal, abort: AbortSignal) -> None:
        answer = self._call(subscription, signal, abort)
        if isinstance(answer, Awaitable):
            try:
                await answer
            except Exception as error:  # noqa: BLE001  # as below
                self._report(subscription, signal, error)

    def _call(self, subscription: _Subscription, signal: Signal, abort: AbortSignal) -> object:
        try:
            return subscription.fn(signal, abort)
        except Exception as error:  # noqa: BLE001  # a listener may raise what it likes
            self._report(subscription, signal, error)
            return None

    def _report(self, subscription: _Subscription, signal: Signal, error: Exception) -> None:
        if subscription.fn not in self._failed:
            self._failed.add(subscription.fn)
            _log.error(
                "listener %r failed on `%s` and is still called", subscription.fn, signal.kind, exc_info=error
            )


def _is_async(fn: Listener) -> bool:
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(getattr(fn, "__call__", None))  # noqa: B004  # an object whose call is async counts too
