"""The driver: performs what the chart says. With the modules of its effects, the only place that awaits.

``while state is not idle: event = await effect[state]()``, then the row of the event. A row performs its own
lines, in order and without an await, so closing a broken turn never waits and cannot be cut off half way.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from random import Random
from typing import TYPE_CHECKING, Any

import anyio
from anyio.abc import TaskGroup

from turnchart.machine.abort import Aborted, AbortSignal
from turnchart.machine.chain import Chain, Dispatch, Verdict
from turnchart.machine.errors import AppendRefused, InternalError, SessionError, TransitionError
from turnchart.machine.entries import Entry, Frozen, encode, freeze
from turnchart.machine.inbox import Item
from turnchart.machine.points import NO_TURN, Decision, Payload, TurnView
from turnchart.machine.signals import Signal, Signals
from turnchart.machine.states import TURN_STATES, Event, Facts, State
from turnchart.machine.table import LIFECYCLE
from turnchart.machine.turn import Turn
from turnchart.machine.turning import Turning

if TYPE_CHECKING:
    from turnchart.machine.clock import Clock
    from turnchart.machine.config import Limits, Queues, RetryPolicy
    from turnchart.machine.session import Session
    from turnchart.machine.world import AgentWorld

_log = logging.getLogger("turnchart.driver")

ARRIVALS = frozenset(("agent/inbox/spliced", "agent/inbox/inserted", "agent/inbox/discarded", "notice"))
"""What may happen in every state: the inbox is open to everybody, always."""

MEMORY = "hook_memory"
"""The kind of the ``custom`` entries that keep what hooks remember."""

Effect = Callable[["Driver"], Awaitable[Event]]


class Waiter:
    """Somebody waits for the turn that claims an item.

    Attributes:
        turn: That turn, once it is over.
    """

    __slots__ = ("turn",)

    def __init__(self) -> None:
        self.turn: Turn | None = None


class Driver:
    """One agent's machine: its state, its turn, and the acts that rows and effects may perform.

    Attributes:
        state: Where the agent is.
        turning: What the running turn knows; that of the last turn while idle.
    """

    __slots__ = (
        "_buffer", "_done", "_gates", "_group", "_latched", "_memories", "_scope", "_task", "_trace", "added_tools",
        "built_generation", "chains", "clock", "flow", "header", "limits", "name", "queues", "retry", "revision",
        "rng", "sent", "session", "signals", "state", "turning", "waiters", "world",
    )  # fmt: skip

    session: Session
    clock: Clock
    queues: Queues
    retry: RetryPolicy
    limits: Limits
    world: AgentWorld
    chains: Mapping[str, Chain]
    rng: Random
    signals: Signals
    name: str
    flow: str

    def __init__(self) -> None:
        self.state = State.IDLE
        self.turning = Turning(0)
        self.signals = Signals()
        self.header: tuple[Any, ...] | None = None
        """What this agent last logged as ``request/header``; None before its first."""
        self.sent: Any = ()
        """What the model last read, where it was not what the log derives."""
        self.added_tools: frozenset[str] = frozenset()
        self.built_generation = -1
        self.revision = 0
        self._latched = False
        self._scope: anyio.CancelScope | None = None
        self._task: int | None = None
        self._buffer: list[Callable[[], object]] = []
        self._memories: dict[str, tuple[dict[str, Any], str]] = {}
        self._gates: dict[State, tuple[anyio.Event, anyio.Event]] | None = None
        self._trace: list[str] | None = None
        self._done: list[anyio.Event] = []
        self.waiters: dict[str, Waiter] = {}
        self._group: TaskGroup | None = None

    # -- the machine ---------------------------------------------------------------------------

    def facts(self) -> Facts:
        """Return what the guards may ask, as it is now."""
        now, inbox = self.turning, self.session.inbox
        return Facts(
            bool(now.messages),
            now.owed,
            bool(now.calls),
            bool(inbox.next_step),
            bool(inbox.next_turn),
            now.must_stop != "",
            self._latched,
            now.dispatched,
            now.dispatched and now.answer is not None and now.answer.has_text,
        )

    def go(self, event: Event) -> None:
        """Take one row: first the table agrees, then the row is performed, then the state is new.

        Raises:
            TransitionError: If the state does not take the event. Nothing has changed.
            AppendRefused: If a validator refuses one of the row's entries. The state has not changed.
            SessionReadOnly: If the store refuses one. The state has not changed.
        """
        row = LIFECYCLE.transition(self.state, event, self.facts())
        if row.reasons and self.turning.reason not in row.reasons:
            raise InternalError(f"row {row.source} {event} cannot end a turn as {self.turning.reason!r}")
        for name in row.does:
            PERFORM[name](self)
        self.state = row.target

    def log(self, type: str, data: Frozen, **more: Any) -> Entry:
        """Append an entry that the state declares.

        Raises:
            InternalError: If it does not.
        """
        if type not in LIFECYCLE.does[self.state] and type not in ARRIVALS:
            raise InternalError(f"state {self.state} does not declare the entry `{type}`")
        return self.session.append(type, data, **more)

    def did(self, name: str) -> None:
        """Note that the state performed something it declares: a call, a hook point, a signal.

        Raises:
            InternalError: If it does not declare it.
        """
        if name not in LIFECYCLE.does[self.state] and name not in ARRIVALS:
            raise InternalError(f"state {self.state} does not declare `{name}`")
        if self._trace is not None:
            self._trace.append(name)

    def trace(self) -> list[str]:
        """Write down from now on what is performed, and return the list that grows."""
        if self._trace is None:
            self._trace = []
        return self._trace

    @property
    def tracing(self) -> bool:
        """A test writes down everything that is performed."""
        return self._trace is not None

    # -- telling ---------------------------------------------------------------------------------

    def tell(self, kind: str, **data: Any) -> None:
        """Tell the listeners something; the driver delivers it at its next await."""
        if self.signals.heard:
            self.signals.put(Signal(kind, data), self.turning.abort)
            self.pump()

    def pump(self) -> None:
        """Let listeners hear at once what other tasks than the driver caused."""
        if self.signals.waiting and (self._task is None or anyio.get_current_task().id != self._task):
            group = self._group
            self.signals.deliver_now(_nobody if group is None else group.start_soon)

    def notice(self, text: str, source: str = "") -> None:
        """Tell the user something."""
        self.did("notice")
        self.tell("notice", text=text, source=source)

    # -- asking hooks ----------------------------------------------------------------------------

    def common(self) -> dict[str, Any]:
        """Return the fields that every payload has."""
        now, session = self.turning, self.session
        view = TurnView(now.number, session.entries, session.brackets.turn_start) if now.number else NO_TURN
        return {
            "agent": self.name, "flow": self.flow, "session": session.id, "turn": view, "step": now.step,
            "log": session.entries, "abort": now.abort, "world": self.world,
        }  # fmt: skip

    async def ask(
        self,
        point: str,
        make: Callable[[], Payload],
        *,
        inner: Callable[[Any], Any] | None = None,
        check: Callable[[Any], Any] | None = None,
    ) -> Verdict | None:
        """Note that a point was reached and run its chain; None where it has no hooks.

        Args:
            point: The point's name.
            make: Builds the payload; not called where there are no hooks.
            inner: What a wrap point wraps.
            check: Validates a changed payload.

        Raises:
            HookFailed: If a hook failed where that is no answer.
        """
        self.did(point)
        return await self.dispatch(point, make, inner=inner, check=check)

    async def dispatch(
        self,
        point: str,
        make: Callable[[], Payload],
        *,
        inner: Callable[[Any], Any] | None = None,
        check: Callable[[Any], Any] | None = None,
    ) -> Verdict | None:
        """Do what ``ask`` does for a point whose performance was noted already."""
        chain = self.chains.get(point)
        if chain is None:
            return None
        if self.signals.waiting:
            await self.signals.deliver()
        trace: list[Dispatch] = []
        try:
            return await chain.run(
                make(),
                inner=inner, check=check, timeout=self.clock.timeout, now=self.clock.now, memory=self._memory,
                trace=trace,
            )  # fmt: skip
        finally:
            if self.turning.cause is None:
                for each in trace:
                    if each.notable:
                        self._record(each)

    def _record(self, each: Dispatch) -> None:
        now = self.turning
        given = {
            "where": each.where, "decision": each.decision, "reason": each.reason, "changed": each.changed,
            "error": each.error,
        }  # fmt: skip
        data = {name: value for name, value in given.items() if value}
        self.log(
            "hook/result",
            Frozen(
                turn=now.number, step=now.step, point=each.point, id=each.id, seconds=round(each.seconds, 6), **data
            ),
        )

    def _memory(self, id: str) -> dict[str, Any]:
        if id not in self._memories:
            self._memories[id] = self._remembered(id)
        return self._memories[id][0]

    def _remembered(self, id: str) -> tuple[dict[str, Any], str]:
        for entry in reversed(self.session.entries):
            data = entry.data
            if entry.type == "custom" and data["kind"] == MEMORY and data["data"]["id"] == id:
                kept = dict(data["data"]["memory"])
                return kept, encode(kept)
        return {}, "{}"

    def decided(self, verdict: Verdict | None) -> Decision | None:
        """Return what a chain decided; None where it did not, or has no hooks."""
        return verdict.decision if verdict is not None else None

    # -- the inbox -------------------------------------------------------------------------------

    def insert(self, item: Item, target: str) -> None:
        """Put an item into the inbox: durable when this returns."""
        self.did("agent/inbox/inserted")
        self.log("agent/inbox/spliced", self.session.inbox.insert(target, item))  # type: ignore[arg-type]  # checked by the inbox
        if self.signals.heard:
            for message in item.messages:
                self.tell("agent/inbox/inserted", message=message, target=target)

    def claim(self) -> None:
        """Take from the inbox what the next step may read; synchronous, before anything is awaited."""
        now, queues = self.turning, self.queues
        taken = self.session.inbox.claim(
            opens=now.step == 0, steering=queues.steering, follow_up=queues.follow_up
        )
        if not taken:
            return
        for splice in taken:
            self.log("agent/inbox/spliced", splice.data)
        for splice in taken:
            for item in splice.removed:
                now.take(item)
                if self._trace is not None or self.signals.heard:
                    for message in item.messages:
                        self.did("agent/inbox/claimed")
                        self.tell("agent/inbox/claimed", message=message, turn=now.number)

    # -- driving ---------------------------------------------------------------------------------

    def wake(self) -> None:
        """Ask for a turn: at once while idle, later where it cannot be honoured now.

        Status, ``turn/start`` and the first claim are in the log when this returns.
        """
        if self.state is State.IDLE:
            self._latched = False
            self._start(Event.WAKE)
        elif self.state is State.MAINTENANCE or self.turning.cause is not None:
            self._latched = True

    def _start(self, event: Event) -> None:
        before = self.turning
        try:
            self.go(event)
            if self.state is State.CLAIMING:
                self.claim()
                self.turning.claimed = True
        except (AppendRefused, SessionError) as error:
            self._broken_start(before, error)
            return
        if self.state is State.CLAIMING and self._task is None:
            if self._group is None:
                raise RuntimeError("an agent works inside `async with agent:`")
            self._task = 0
            self._group.start_soon(self._run_all)

    def _broken_start(self, before: Turning, error: Exception) -> None:
        if self.state is not State.IDLE:
            self._failed(error)
            return
        self.turning = before
        before.error, before.reason = error, "error"
        self.tell("agent/error", turn=before.number, step=0, error=error)
        self.tell("agent/status", status="idle")
        self._release()

    async def _run_all(self) -> None:
        self._task = anyio.get_current_task().id
        try:
            while True:
                await self._drive()
                await self.signals.deliver()
                if self.state is State.IDLE:
                    break
        finally:
            self._task = None
            self._release()

    async def _drive(self) -> None:
        """Perform effects until the agent rests, whatever happens on the way."""
        try:
            with anyio.CancelScope() as self._scope:
                while self.state in TURN_STATES:
                    if self.signals.waiting:
                        await self.signals.deliver()
                    if self._gates is not None:
                        await self._gate()
                    event = Event.CANCEL if self.turning.cause is not None else await EFFECTS[self.state](self)
                    if self.turning.cause is not None:
                        break
                    self.go(event)
        except Exception as error:
            self._failed(error)
            if isinstance(error, InternalError | TransitionError):
                raise
        except BaseException:
            self.turning.cut("host")
            self._cancelled()
            raise
        else:
            if self.state in TURN_STATES:
                self._cancelled()
        finally:
            self._scope = None
        if self._latched and self.session.inbox.queued():
            self._latched = False
            self._start(Event.WAKE)

    def _cancelled(self) -> None:
        now = self.turning
        now.reason = "max_seconds" if now.cause == "max_seconds" else "aborted"
        self._close(Event.CANCEL)

    def _failed(self, error: Exception) -> None:
        now = self.turning
        if now.cause is not None or isinstance(error, Aborted):
            now.cut(now.cause or "hook")
            self._cancelled()
            return
        now.error, now.reason = first_error(error), "error"
        self._close(Event.FAIL)

    def _close(self, event: Event) -> None:
        """Take a closing row, once: where one of its lines is refused the agent rests all the same."""
        now = self.turning
        try:
            self.go(event)
        except (AppendRefused, SessionError) as error:
            _log.warning("turn %d could not be closed in the log: %s", now.number, error)
            now.error, now.reason = now.error or error, "error"
            if not now.told:
                now.told = True
                self.tell("agent/error", turn=now.number, step=now.step, error=now.error)
            self.state = State.IDLE
            self._rest()

    def settle(self) -> None:
        """Tell whoever waits for a prompt of this turn what it came to."""
        now = self.turning
        if now.watched is not None:
            now.watched.cancel()
            now.watched = None
        for id in now.items:
            waiter = self.waiters.get(id)
            if waiter is not None and waiter.turn is None:
                waiter.turn = turn_of(now)

    def _rest(self) -> None:
        self.settle()
        if self._trace is not None:
            self._trace.append("agent/status idle")
        self.tell("agent/status", status="idle")

    def _release(self) -> None:
        if self.state is State.IDLE:
            done, self._done = self._done, []
            for event in done:
                event.set()

    async def rested(self) -> None:
        """Wait until the agent rests and its listeners have heard so."""
        while self.state is not State.IDLE or self._task is not None:
            done = anyio.Event()
            self._done.append(done)
            await done.wait()

    def cut(self, reason: str) -> None:
        """Abort the running turn; the first reason stays."""
        if self.turning.cut(reason):
            self._latched = False
            if self._scope is not None:
                self._scope.cancel()

    def watch(self) -> None:
        """Watch the time of the turn that begins, if it has a limit."""
        if self.limits.max_seconds is not None and self._group is not None:
            self.turning.watched = anyio.CancelScope()
            self._group.start_soon(self._watch, self.turning, self.turning.watched, self.limits.max_seconds)

    async def _watch(self, now: Turning, scope: anyio.CancelScope, seconds: float) -> None:
        """Cut the turn off when its time is over; the waiting for people does not count."""
        begun = self.clock.now()
        with scope:
            while now.watched is scope:
                time = self.clock.now()
                waiting = 0.0 if now.waiting_since is None else time - now.waiting_since
                left = begun + seconds + now.waited + waiting - time
                if left <= 0 and self.turning is now:
                    self.cut("max_seconds")
                    return
                await self.clock.sleep(max(left, 0.001))

    async def _gate(self) -> None:
        gate = (self._gates or {}).get(self.state)
        if gate is not None:
            reached, passed = gate
            reached.set()
            await passed.wait()

    # -- writes beside the turn -------------------------------------------------------------------

    def write(self, act: Callable[[], object]) -> None:
        """Do a write of a person or program: at once while idle, else at the end of the step, in order."""
        if self.state is State.IDLE and not self._buffer:
            act()
        else:
            self._buffer.append(act)

    def flush_writes(self) -> None:
        """Do what was asked for while the step ran; one leaves the buffer only after it was stored."""
        while self._buffer:
            self._buffer[0]()
            del self._buffer[0]
        for id, (memory, kept) in tuple(self._memories.items()):
            text = encode(memory) if memory else "{}"
            if text != kept:
                self.session.append("custom", Frozen(kind=MEMORY, data=Frozen(id=id, memory=freeze(memory))))
                self._memories[id] = (memory, text)


def first_error(error: BaseException) -> BaseException:
    """Return the first error of a group, or the error itself."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _nobody(_fn: object, *_args: object) -> None:
    """Start nothing: outside ``async with agent`` there is no group for async listeners."""


# -- what rows perform -----------------------------------------------------------------------------


def _running(driver: Driver) -> None:
    _note(driver, "agent/status running")
    driver.tell("agent/status", status="running")


def _idle(driver: Driver) -> None:
    driver._rest()  # pyright: ignore[reportPrivateUsage]  # the rows are the driver's own, kept in a table


def _turn_start(driver: Driver) -> None:
    number = driver.session.brackets.turn + 1
    driver.session.append("turn/start", Frozen(turn=number))
    driver.turning = Turning(number)
    driver.watch()


def _turn_end(driver: Driver) -> None:
    now = driver.turning
    data: dict[str, Any] = {"turn": now.number, "reason": now.reason, "steps": now.step}
    if now.error is not None:
        data["error"] = _error(now.error)
    if now.cause is not None:
        data["cause"] = now.cause
    driver.session.append("turn/end", Frozen(data))
    driver.settle()


def _error(error: BaseException) -> Frozen:
    failure = getattr(error, "failure", None)
    if failure is not None:
        return Frozen(failure.json())
    parts: list[str] = []
    at: BaseException | None = error
    while at is not None and len(parts) < 5:
        said = _said(at)
        if not any(said in part for part in parts):
            parts.append(said)
        at = at.__cause__
    return Frozen(kind="unknown", type=type(error).__name__, message=": ".join(parts))


def _said(error: BaseException) -> str:
    try:
        return str(error) or type(error).__name__
    except Exception:
        return f"{type(error).__name__} (its text cannot be read)"


def _step_start(driver: Driver) -> None:
    now = driver.turning
    driver.session.append("step/start", Frozen(turn=now.number, step=now.step + 1))
    now.enter()


def _step_end(driver: Driver) -> None:
    now = driver.turning
    driver.session.append("step/end", Frozen(turn=now.number, step=now.step))


def _agent_error(driver: Driver) -> None:
    now = driver.turning
    _note(driver, "agent/error")
    now.told = True
    driver.tell("agent/error", turn=now.number, step=now.step, error=now.error)


def _assistant_message(driver: Driver) -> None:
    now = driver.turning
    answer, message = now.answer, now.draft
    assert answer is not None, "an answer is put together before its row is taken"
    data: dict[str, Any] = {"turn": now.number, "step": now.step}
    if now.cause is not None or message is None:
        message = answer.message(
            now.model, driver.clock.now(), f"c{now.number}.{now.step}", interrupted=True
        )
        data["interrupted"] = True
        now.calls = ()
    driver.session.append(
        "assistant/message", Frozen(data, message=message, stream=answer.record()), attempt=now.attempt
    )
    now.message, now.dispatched = message, False
    now.outcome = "assistant/message"


def _assistant_attempt(driver: Driver) -> None:
    now = driver.turning
    record = now.answer.record() if now.answer is not None else ()
    data: dict[str, Any] = {"turn": now.number, "step": now.step, "model": now.model, "stream": record}
    if now.failure is not None:
        data["failure"] = now.failure.json()
    driver.session.append("assistant/attempt", Frozen(data), attempt=now.attempt)
    now.dispatched = False
    now.outcome = "assistant/attempt"


def _stream_end(driver: Driver) -> None:
    now = driver.turning
    _note(driver, "agent/assistant-stream end")
    if driver.signals.heard:
        driver.tell(
            "agent/assistant-stream",
            frame="end", attempt_id=now.attempt_id, revision=driver.revision, turn=now.number, step=now.step,
            index=now.answer.count if now.answer else 0, outcome=now.outcome, seq=len(driver.session.entries) - 1,
        )  # fmt: skip


def _writes(driver: Driver) -> None:
    driver.flush_writes()


def _note(driver: Driver, name: str) -> None:
    trace = driver._trace  # pyright: ignore[reportPrivateUsage]  # as above
    if trace is not None:
        trace.append(name)


PERFORM: Mapping[str, Callable[[Driver], None]] = {
    "agent/status running": _running,
    "agent/status idle": _idle,
    "turn/start": _turn_start,
    "turn/end": _turn_end,
    "step/start": _step_start,
    "step/end": _step_end,
    "agent/error": _agent_error,
    "assistant/message": _assistant_message,
    "assistant/attempt": _assistant_attempt,
    "agent/assistant-stream end": _stream_end,
    "writes": _writes,
}
"""How a row performs each thing that it says."""

EFFECTS: dict[State, Effect] = {}
"""What happens in each turn state; ``effects.py`` fills it in. An effect returns the event it ends with."""


def turn_of(now: Turning) -> Turn:
    """Return what a turn came to."""
    return Turn(
        now.number, now.reason, now.message.text if now.message else "", now.message, now.error, now.step,
        tuple(now.batch),
    )  # fmt: skip
