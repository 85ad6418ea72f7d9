"""Who hears what, in which order, and what a listener can do: nothing."""

from collections.abc import Awaitable, Callable
from functools import partial

import anyio
import pytest
from anyio.lowlevel import checkpoint

from turnchart.machine.abort import AbortSignal
from turnchart.machine.signals import UI, Signal, Signals

ABORT = AbortSignal()


def _start_nothing(*_: object) -> None: ...


def told(*kinds: str) -> Signals:
    """Return signals with these waiting."""
    signals = Signals()
    for kind in kinds:
        signals.put(Signal(kind, {}), ABORT)
    return signals


class Ears:
    """Listeners that write down what they hear."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def plain(self, name: str) -> Callable[[Signal, AbortSignal], None]:
        return lambda signal, abort: self.heard.append(f"{name} {signal.kind}")

    def slow(self, name: str) -> Callable[[Signal, AbortSignal], Awaitable[None]]:
        async def hear(signal: Signal, abort: AbortSignal) -> None:
            self.heard.append(f"{name} {signal.kind} (")
            await checkpoint()
            self.heard.append(f"{name} {signal.kind} )")

        return hear


async def test_each_listener_is_awaited_before_the_next_in_the_order_of_subscription() -> None:
    signals, ears = told("a", "b"), Ears()
    signals.on(None, ears.slow("one"))
    signals.on("b", ears.plain("two"))
    await signals.deliver()
    assert ears.heard == ["one a (", "one a )", "one b (", "one b )", "two b"]
    assert not signals.waiting


async def test_a_listener_gets_the_signal_and_the_abort_signal_of_its_turn() -> None:
    signals, got = Signals(), list[tuple[Signal, AbortSignal]]()
    signals.on("a", lambda signal, abort: got.append((signal, abort)))
    signals.put(Signal("a", {"n": 1}), ABORT)
    await signals.deliver()
    assert got == [(Signal("a", {"n": 1}), ABORT)]


async def test_whoever_unsubscribed_hears_nothing_any_more() -> None:
    signals, ears = told(), Ears()
    stop, other = signals.on("a", ears.plain("one")), signals.on("a", ears.plain("two"))
    assert signals.heard
    stop()
    stop()
    signals.put(Signal("a", {}), ABORT)
    await signals.deliver()
    assert ears.heard == ["two a"]
    other()
    assert not signals.heard


async def test_what_is_told_while_listeners_hear_is_delivered_after_it() -> None:
    signals, ears = told("a"), Ears()
    signals.on("a", lambda signal, abort: signals.put(Signal("b", {}), abort))
    signals.on(None, ears.plain("two"))
    await signals.deliver()
    assert ears.heard == ["two a", "two b"]


class Unhashable:
    """A listener that cannot be kept in a set, and fails."""

    __hash__ = None  # type: ignore[assignment]  # on purpose

    def __eq__(self, other: object) -> bool:
        return True

    def __call__(self, signal: Signal, abort: AbortSignal) -> None:
        raise ValueError("boom")


async def test_a_failure_is_contained_logged_once_per_listener_and_the_listener_is_still_called(
    caplog: pytest.LogCaptureFixture,
) -> None:
    signals, ears, calls = told("a", "b"), Ears(), list[str]()

    async def broken(signal: Signal, abort: AbortSignal) -> None:
        calls.append(signal.kind)
        raise ValueError("boom")

    signals.on(None, broken)
    signals.on(None, Unhashable())
    signals.on(None, ears.plain("last"))
    await signals.deliver()
    signals.put(Signal("c", {}), ABORT)
    signals.deliver_now(lambda *_: calls.append("task"))
    assert calls == ["a", "b", "task"]
    assert ears.heard == ["last a", "last b", "last c"]
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 2
    assert "failed on `a` and is still called" in said[0]


async def test_plain_listeners_hear_at_once_and_async_ones_in_a_task_in_order() -> None:
    signals, ears = told("a"), Ears()
    signals.on(None, ears.slow("async"))
    signals.on(None, ears.plain("plain"))
    async with anyio.create_task_group() as group:
        signals.deliver_now(group.start_soon)
        signals.put(Signal("b", {}), ABORT)
        signals.deliver_now(group.start_soon)
        assert ears.heard == ["plain a", "plain b"]
    assert ears.heard[2:] == ["async a (", "async a )", "async b (", "async b )"]


async def test_a_delivery_waits_for_the_one_that_runs_and_neither_overtakes() -> None:
    signals, ears = told("a"), Ears()
    signals.on(None, ears.slow("one"))

    async def more() -> None:
        signals.put(Signal("b", {}), ABORT)
        await signals.deliver()
        assert ears.heard[-1] == "one b )"

    async with anyio.create_task_group() as group:
        group.start_soon(signals.deliver)
        group.start_soon(more)
    assert [each for each in ears.heard if each.endswith(")")] == ["one a )", "one b )"]


async def test_a_delivery_to_plain_listeners_stays_in_order_when_one_of_them_causes_more() -> None:
    signals, ears = told("a"), Ears()

    def more(signal: Signal, abort: AbortSignal) -> None:
        if signal.kind == "a":
            signals.put(Signal("b", {}), abort)
            signals.deliver_now(_start_nothing)

    signals.on(None, more)
    signals.on(None, ears.plain("two"))
    signals.deliver_now(_start_nothing)
    assert ears.heard == ["two a", "two b"]


async def test_while_a_delivery_runs_nobody_is_told_in_another_order() -> None:
    signals, ears = told("a"), Ears()

    async def first(signal: Signal, abort: AbortSignal) -> None:
        if signal.kind == "a":
            signals.put(Signal("b", {}), abort)
            signals.deliver_now(_start_nothing)
            await checkpoint()

    signals.on(None, first)
    signals.on(None, ears.plain("two"))
    await signals.deliver()
    assert ears.heard == ["two a", "two b"]


async def test_a_plain_listener_that_gives_something_to_await_is_awaited() -> None:
    signals, ears = told("a"), Ears()
    signals.on("a", lambda signal, abort: ears.slow("one")(signal, abort))
    signals.on("a", partial(ears.slow("two")))
    async with anyio.create_task_group() as group:
        signals.deliver_now(group.start_soon)
    assert ears.heard == ["one a (", "one a )", "two a (", "two a )"]


async def test_a_cancelled_delivery_goes_on_behind_the_listener_that_it_cut_off() -> None:
    signals, ears = told("a", "b"), Ears()

    async def stuck(signal: Signal, abort: AbortSignal) -> None:
        ears.heard.append(f"stuck {signal.kind}")
        if signal.kind == "a":
            await anyio.sleep_forever()

    signals.on(None, stuck)
    signals.on(None, ears.plain("two"))
    async with anyio.create_task_group() as group:
        group.start_soon(signals.deliver)
        await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()
    assert ears.heard == ["stuck a"]
    await signals.deliver()
    assert ears.heard == ["stuck a", "two a", "stuck b", "two b"]


async def test_what_should_be_done_when_all_have_heard_is_done_then() -> None:
    signals, ears = told("a"), Ears()
    signals.when_heard(lambda: ears.heard.append("at once"))

    async def hear(signal: Signal, abort: AbortSignal) -> None:
        signals.when_heard(lambda: ears.heard.append("after"))
        await checkpoint()
        ears.heard.append("heard")

    signals.on("a", hear)
    signals.on("a", ears.plain("two"))
    await signals.deliver()
    assert ears.heard == ["at once", "heard", "two a", "after"]


def _of_one(signal: Signal) -> None: ...


def _of_three(signal: Signal, abort: AbortSignal, more: int) -> None: ...


HEARD: list[object] = []
NO_LISTENERS: list[tuple[Callable[..., object], str]] = [
    (_of_one, "too many positional arguments"),
    (lambda: None, "too many positional arguments"),
    (_of_three, "missing a required argument: 'more'"),
    (HEARD.append, "too many positional arguments"),
]


@pytest.mark.parametrize(("listener", "why"), NO_LISTENERS)
@pytest.mark.parametrize(
    ("kind", "takes"), [("a", "signal, abort"), (None, "signal, abort"), (UI, "event, abort")]
)
def test_what_cannot_be_called_as_a_listener_is_refused_at_once(
    listener: Callable[..., object], why: str, kind: str | None, takes: str
) -> None:
    signals = Signals()
    with pytest.raises(TypeError, match=rf"a listener takes \({takes}\), .*: {why}"):
        signals.on(kind, listener)
    assert not signals.heard


def test_what_cannot_be_told_of_a_listener_is_no_reason_to_refuse_it() -> None:
    signals = Signals()
    signals.on("a", max)
    assert signals.heard


def test_a_listener_may_take_more_than_it_is_given() -> None:
    heard: list[object] = []

    def all_of_it(*given: object) -> None:
        heard.extend(given)

    def with_defaults(signal: Signal, abort: object = None, more: int = 1) -> None:
        heard.append(more)

    def named(name: str, signal: Signal, abort: AbortSignal) -> None:
        heard.append(name)

    signals = told("a")
    for listener in (all_of_it, with_defaults, partial(named, "first")):
        signals.on("a", listener)
    signals.deliver_now(_start_nothing)
    assert heard == [Signal("a", {}), ABORT, 1, "first"]


async def test_an_object_whose_call_is_async_is_a_listener_too() -> None:
    signals, heard = told("a"), list[str]()

    class Ear:
        async def __call__(self, signal: Signal, abort: AbortSignal) -> None:
            heard.append(signal.kind)

    signals.on("a", Ear())
    tasks = list[object]()
    signals.deliver_now(tasks.append)
    assert heard == []
    assert len(tasks) == 1
    await signals.deliver()
    assert heard == ["a"]
