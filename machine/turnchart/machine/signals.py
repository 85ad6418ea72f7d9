"""Live signals: who hears what an agent does, and when.

The driver queues what it tells and delivers it at its next await, each listener awaited in the order of
subscription. What other tasks cause (a steer, a tool's progress) reaches plain listeners at once and the
others in a short task, in order. A listener can break or change nothing: what it raises is logged, once per
listener. Nothing cuts it off either: it is given the abort signal of the turn and may heed it.
"""

import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import anyio

from turnchart.machine.abort import AbortSignal
from turnchart.machine.tasks import current_task

if TYPE_CHECKING:
    from turnchart.machine.ui import Rebuilt, UiEvent
    from turnchart.machine.view import View

_log = logging.getLogger("turnchart.signals")


class Signal(NamedTuple):
    """One live signal: its kind (see ``entries.SIGNALS``) and its fields."""

    kind: str
    data: Mapping[str, Any]


Told: TypeAlias = "Signal | UiEvent | Rebuilt"
Listener = Callable[[Signal, AbortSignal], object]
UiListener: TypeAlias = "Callable[[UiEvent, AbortSignal], object]"
Start = Callable[..., object]


UI = "agent.ui"
"""The kind of the subscriptions to UI events; no signal has it."""


class Mapper(Protocol):
    """Makes UI events of what happens; ``ui.Ui`` is one."""

    view: "View"

    def begin(self) -> None:
        """Start from what the agent is now."""
        ...

    def told(self, signal: Signal) -> Iterable[Told]:
        """Return a signal among the events that it makes."""
        ...

    def made(self, happened: str, data: Mapping[str, Any]) -> "Iterable[UiEvent]":
        """Return the events of what is told to nobody else."""
        ...

    def take(self, event: "UiEvent | Rebuilt") -> bool:
        """Take an event in right before it is heard, and return whether it is heard at all."""
        ...


class _Subscription:
    """Who hears what. ``plain``: it need not be awaited; ``failed``: that was reported."""

    __slots__ = ("failed", "fn", "kind", "plain")

    def __init__(self, kind: str | None, fn: Callable[[Any, AbortSignal], object]) -> None:
        self.kind = kind
        self.fn = fn
        self.plain = not _is_async(fn)
        self.failed = False


class Signals:
    """The listeners of one agent and what waits for them.

    Attributes:
        heard: Somebody listens; without listeners nobody pays for signals.
        waiting: What was told and not yet heard by anybody.
        teller: The id of the task that awaits listeners now; None while none does.
        ui: Makes UI events of signals; None while nobody listens to these.
    """

    __slots__ = (
        "_after", "_delivered", "_later", "_subscriptions", "_telling", "heard", "teller", "ui", "waiting",
    )  # fmt: skip

    def __init__(self) -> None:
        self._subscriptions: tuple[_Subscription, ...] = ()
        self.heard = False
        self.teller: int | None = None
        self.ui: Mapper | None = None
        self.waiting: list[tuple[Told, AbortSignal]] = []
        self._later: list[tuple[_Subscription, Told, AbortSignal, object]] = []
        """Who has yet to hear what, in order; with what the listener gave, where it was called already."""
        self._delivered: anyio.Event | None = None
        """Set when the delivery that runs now is over; None while none runs."""
        self._telling = False
        self._after: Callable[[], object] | None = None

    def on(self, kind: str | None, fn: Callable[[Any, AbortSignal], object]) -> Callable[[], None]:
        """Let ``fn`` hear one kind of signal, or every kind; return a function that stops that.

        Raises:
            TypeError: If it cannot be called, or not with what it is told and the abort signal.
        """
        _check(kind, fn)
        subscription = _Subscription(kind, fn)
        self._subscriptions = (*self._subscriptions, subscription)
        self.heard = True

        def stop() -> None:
            self._subscriptions = tuple(each for each in self._subscriptions if each is not subscription)
            self.heard = bool(self._subscriptions)
            if self.ui is not None and not any(each.kind == UI for each in self._subscriptions):
                self.ui = None
                self.waiting = [each for each in self.waiting if isinstance(each[0], Signal)]

        return stop

    def put(self, signal: Signal, abort: AbortSignal) -> None:
        """Queue a signal for the next delivery, and what it is for those who listen through ``agent.ui``."""
        if self.ui is None:
            self.waiting.append((signal, abort))
        else:
            self.waiting.extend([(each, abort) for each in self.ui.told(signal)])

    def hint(self, happened: str, abort: AbortSignal, **data: Any) -> None:
        """Queue what only those hear who listen through ``agent.ui``."""
        if self.ui is not None:
            self.waiting.extend([(each, abort) for each in self.ui.made(happened, data)])

    async def deliver(self) -> None:
        """Let the listeners hear what waits, one after another, and return when they have.

        Where this is cancelled, the listener that ran is cut off, and the next delivery goes on behind it.
        """
        while self.waiting or self._later or self._delivered is not None:
            if self._delivered is not None:
                await self._delivered.wait()
                continue
            self._delivered = anyio.Event()
            self.teller = current_task()
            try:
                await self._tell_all()
            finally:
                self._delivered.set()
                self._delivered = self.teller = None
                after, self._after = self._after, None
                if after is not None:
                    after()

    async def _tell_all(self) -> None:
        while self._later or self.waiting:
            if not self._later:
                signal, abort = self.waiting.pop(0)
                self._later.extend([(each, signal, abort, None) for each in self._hearing(signal)])
                continue
            subscription, signal, abort, answer = self._later.pop(0)
            if answer is None:
                answer = self._call(subscription, signal, abort)
            if isinstance(answer, Awaitable):
                try:
                    await answer
                except Exception as error:  # noqa: BLE001  # as below
                    self._report(subscription, signal, error)

    def deliver_now(self, start: Start) -> None:
        """Let plain listeners hear what waits at once, and ``start`` a short task for the others."""
        if self._delivered is not None or self._telling:
            return
        self._telling = True
        try:
            while self.waiting:
                signal, abort = self.waiting.pop(0)
                for subscription in self._hearing(signal):
                    answer = self._call(subscription, signal, abort) if subscription.plain else None
                    if not subscription.plain or inspect.isawaitable(answer):
                        self._later.append((subscription, signal, abort, answer))
        finally:
            self._telling = False
        if self._later:
            start(self.deliver)

    def when_heard(self, act: Callable[[], object]) -> None:
        """Do something when the delivery that runs now is over; at once where none runs."""
        if self._delivered is None:
            act()
        else:
            self._after = act

    def _hearing(self, told: Told) -> list[_Subscription]:
        if isinstance(told, Signal):
            return [each for each in self._subscriptions if each.kind is None or each.kind == told.kind]
        if self.ui is None or not self.ui.take(told):
            return []
        return [each for each in self._subscriptions if each.kind == UI]

    def _call(self, subscription: _Subscription, signal: Told, abort: AbortSignal) -> object:
        try:
            return subscription.fn(signal, abort)
        except Exception as error:  # noqa: BLE001  # a listener may raise what it likes
            self._report(subscription, signal, error)
            return None

    def _report(self, subscription: _Subscription, told: Told, error: Exception) -> None:
        if not subscription.failed:
            subscription.failed = True
            name = told.kind if isinstance(told, Signal) else told.type
            _log.error(
                "listener %r failed on `%s` and is still called", subscription.fn, name, exc_info=error
            )


def _check(kind: str | None, fn: object) -> None:
    if not callable(fn):
        raise TypeError(f"a listener must be callable, not {type(fn).__name__}")
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):  # it does not say what it takes, like many a builtin
        return
    try:
        signature.bind(None, None)
    except TypeError as error:
        takes = "(event, abort)" if kind == UI else "(signal, abort)"
        raise TypeError(f"a listener takes {takes}, which {fn!r} cannot be called with: {error}") from None


def _is_async(fn: Callable[..., object]) -> bool:
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(getattr(fn, "__call__", None))  # noqa: B004  # an object whose call is async counts too
