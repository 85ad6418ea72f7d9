"""The driver: performs what the chart says. With the modules of its effects, the only place that awaits.

``while state is not idle: event = await effect[state]()``, then the row of the event. A row performs its own
lines, in order and without an await, so closing a broken turn never waits and cannot be cut off half way.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import ClassVar, cast

import anyio
from anyio.abc import TaskGroup

from turnchart.machine.abort import Aborted
from turnchart.machine.acts import Acts
from turnchart.machine.chart import ON_GOING
from turnchart.machine.errors import (
    AppendRefused,
    InternalError,
    RequestFailed,
    SessionError,
    TransitionError,
)
from turnchart.machine.performing import PERFORM, abandon
from turnchart.machine.states import TURN_STATES, Event, Facts, State
from turnchart.machine.table import LIFECYCLE, Row
from turnchart.machine.tasks import Event as Happening
from turnchart.machine.tasks import current_task, event_for, scope_for, start
from turnchart.machine.turning import Turning

_log = logging.getLogger("turnchart.driver")

Effect = Callable[["Driver"], Awaitable[Event]]

EFFECTS: dict[State, Effect] = {}
"""What happens in each turn state; ``effects.py`` fills it in. An effect returns the event it ends with."""

LEFT_OPEN: dict[State, Callable[[Driver], None]] = {}
"""What a state says, without an await, where the turn ends before its effect has begun."""


class Driver(Acts):
    """One agent's machine: takes events, performs rows, awaits effects."""

    __slots__ = ("_done", "_gates", "_hearing", "_note", "_open", "_stopped", "_walk", "_worker")

    counted: ClassVar[Callable[[Driver], Callable[[Row], object]] | None] = None
    """Returns what a new agent tells of each row that it takes; None while nobody counts."""

    def __init__(self) -> None:
        super().__init__()
        self._gates: dict[State, tuple[anyio.Event, anyio.Event]] | None = None
        self._done: tuple[Happening, ...] = ()
        self._open = False
        self._worker: asyncio.Task[None] | None = None
        self._hearing: anyio.CancelScope | None = None
        self._stopped = False
        self._walk: list[Row] | None = None
        self._note = None if Driver.counted is None else Driver.counted(self)

    @property
    def pending(self) -> bool:
        """Something waits that a turn would take; riders alone open none."""
        inbox = self.session.inbox
        return bool(inbox.next_step or inbox.next_turn)

    @property
    def working(self) -> bool:
        """A turn is open, or the listeners have yet to hear that the last one is over."""
        return self.state in TURN_STATES or self._task is not None

    def facts(self) -> Facts:
        """Return what the guards may ask, as it is now."""
        now, inbox = self.turning, self.session.inbox
        has_text = now.cause is not None and now.dispatched and now.answer is not None and now.answer.has_text
        return Facts(
            bool(now.messages), now.owed, bool(now.calls), bool(inbox.next_step), bool(inbox.next_turn),
            now.must_stop != "", self._latched, now.dispatched, has_text,
        )  # fmt: skip

    def go(self, event: Event) -> None:
        """Take one row: first the table agrees, then the row is performed, then the state is new.

        Raises:
            TransitionError: If the state does not take the event. Nothing has changed.
            AppendRefused: If a validator refuses one of the row's entries. The state has not changed.
            SessionReadOnly: If the store refuses one. The state has not changed.
        """
        row = LIFECYCLE.only(self.state, event) or LIFECYCLE.transition(self.state, event, self.facts())
        if row.reasons and self.turning.reason not in row.reasons:
            raise InternalError(f"row {row.source} {event} cannot end a turn as {self.turning.reason!r}")
        for name in row.does:
            PERFORM[name](self)
        self.state = row.target
        if self._note is not None:
            self._note(row)

    def walk(self) -> list[Row]:
        """Write down from now on every row that is taken, and return the list that grows."""
        if self._walk is None:
            self._walk, before = [], self._note
            self._note = self._walk.append if before is None else _both(before, self._walk.append)
        return self._walk

    def wake(self) -> None:
        """Ask for a turn: at once while idle, later where it cannot be honoured now.

        Status, ``turn/start`` and the first claim are in the log when this returns. While ``session_start``
        runs a wake is kept until that is over; once ``session_end`` is due nothing begins any more.
        """
        self.check_open()
        if self._open and self.state is State.IDLE:
            self._start(Event.WAKE)
        else:
            self._latched = True

    def check_open(self) -> None:
        """Raise where no turn could ever run.

        Raises:
            RuntimeError: If this is not inside ``async with agent:``.
        """
        if self._group is None:
            raise RuntimeError("an agent works inside `async with agent:`")

    def _start(self, event: Event) -> None:
        """Leave idle or maintenance. Listeners hear of it when all of it is in the log."""
        held, self._held = self._held, True
        mended = False
        try:
            self.mend()
            mended = True
            self.go(event)
            if self.state is State.CLAIMING:
                self.claim()
                self.turning.claimed = True
        except Exception as error:
            self._broken_start(error, running=mended)
            if isinstance(error, InternalError | TransitionError):
                self._held = held
                self.pump()
                raise
        finally:
            self._held = held
        if self.state is State.CLAIMING and self._task is None and self._group is not None:
            self._work(self._group)
        self.pump()

    def pick_up(self, state: State) -> None:
        """Go on in this state with a turn that another process began; ``turning`` says where it is."""
        self.check_open()
        self.state = state
        self.tell("agent/status", status="running")
        self.watch()
        assert self._group is not None, "it was looked for just now"
        self._work(self._group)
        self.pump()

    def _work(self, group: TaskGroup) -> None:
        """Start the task of this wake."""
        self._task = 0
        self._worker = start(group, self._run_all)

    def _broken_start(self, error: Exception, *, running: bool) -> None:
        if self.state in TURN_STATES:
            self._failed(error)
            return
        self.state = State.IDLE
        now = self.turning = Turning(self.session.brackets.turn)
        now.error, now.reason = error, "error"
        self.tell("agent/error", turn=now.number, step=0, error=error)
        if running:
            self.tell("agent/status", status="idle")
        self._release()

    async def _run_all(self) -> None:
        if self.signals.heard or self.chains:  # only what they call back can need to know
            self._task = current_task()
        try:
            while not self._stopped:
                await self._drive()
                if self.session.barriers and not self.left:
                    await self._flush()
                if self.signals.heard:
                    await self._hear_out()
                if self.state not in TURN_STATES:
                    break
        finally:
            if self.state in TURN_STATES:
                self._cut_by_host()  # while listeners heard of the last turn, a wake began this one
            self._task = self._worker = None
            self._release()
            self.pump()

    async def _hear_out(self) -> None:
        """Let the listeners hear that a turn is over; who cancels the program around waits for none."""
        try:
            with scope_for(self._group) as self._hearing:
                if self._stopped:
                    self._hearing.cancel()
                await self.signals.deliver()
        finally:
            self._hearing = None

    async def _flush(self) -> None:
        """Wait until the end of the turn is safe. Where the disk refuses, the session is read-only now."""
        try:
            await self.session.flush()
        except SessionError as error:
            _log.warning("turn %d may not be safe: %s", self.turning.number, error)
            self.turning.error = self.turning.error or error

    async def _drive(self) -> None:
        """Perform effects until the agent rests, whatever happens on the way."""
        try:
            with scope_for(self._group) as self._scope:
                while self.state in TURN_STATES:
                    if self.signals.waiting:
                        await self.signals.deliver()
                    if self._gates is not None:
                        await self._gate()
                    effect = EFFECTS[self.state] if self.steps is None else self.steps.effect
                    event = Event.CANCEL if self.turning.cause is not None else await effect(self)
                    if self.turning.cause is not None:
                        break
                    if event is not None:
                        self.go(event)
        except Exception as error:
            self._failed(error)
            if isinstance(error, InternalError | TransitionError):
                raise
        except BaseException:
            self._cut_by_host()
            raise
        else:
            if self.state in TURN_STATES:
                self._cancelled()
        finally:
            self._scope = None
        latched, self._latched = self._latched, False
        if latched and self.pending and self._open and self._goes_on():
            self._start(Event.WAKE)

    def _goes_on(self) -> bool:
        """The turn that ended does not park what came with a wake: it was cut off before, or completed."""
        now = self.turning
        return now.cause is not None or (now.reason in ON_GOING and not now.must_stop)

    def _stop_all(self) -> None:
        """Stop what runs because the program around the agent is cancelled; no listener is heard out."""
        if not self.working:
            return
        self._stopped = True
        if self.state in TURN_STATES:
            self.cut("host")
        for scope in (self._scope, self._hearing):
            if scope is not None:
                scope.cancel()

    async def _come_to_rest(self, group: TaskGroup) -> None:
        """Wait, shielded, until the agent that is being left rests."""
        if self._worker is not None:
            group.start_soon(self._accompany)
        try:
            await self.rested()
        except anyio.get_cancelled_exc_class():  # by asyncio itself, which knows no shields
            self._stop_all()
            group.cancel_scope.cancel()
            raise

    async def _accompany(self) -> None:
        """Stand in a group for the task of a wake that is none of its own, while the agent is being left.

        So nobody leaves the group before that task is over, and who cancels the group stops it.
        """
        try:
            await self.rested()
        except anyio.get_cancelled_exc_class():
            self._stop_all()
            with anyio.CancelScope(shield=True):
                await self.rested()
            raise

    def _cut_by_host(self) -> None:
        """Close a turn because the program around the agent is cancelled, or ends."""
        self._scope = None
        self.cut("host")
        self._cancelled()

    def _cancelled(self) -> None:
        now = self.turning
        now.reason = "max_seconds" if now.cause == "max_seconds" else "aborted"
        self._close(Event.CANCEL)

    def _failed(self, error: Exception) -> None:
        now = self.turning
        if now.cause is not None or isinstance(error, Aborted):
            self.cut(now.cause or "hook")
            self._cancelled()
            return
        now.error, now.reason = self._whole(first_error(error)), "error"
        self._close(Event.FAIL)

    def _whole(self, error: BaseException) -> BaseException:
        """Return the error, joined with the failed request where the log refused what came of that."""
        failure = self.turning.failure
        if failure is None or not isinstance(error, AppendRefused | SessionError):
            return error
        both = RequestFailed(failure, note=f"; then {error}")
        both.__cause__ = error
        return both

    def _close(self, event: Event) -> None:
        """Take a closing row, once: where one of its lines is refused the agent rests all the same.

        A turn that is left to another process gets no row: it stays open in the log.
        """
        now = self.turning
        if self.left:
            if now.dispatched:
                abandon(self)
            self.state = State.IDLE
            self.rest()
            return
        try:
            if self.state in LEFT_OPEN:
                LEFT_OPEN[self.state](self)
            self.go(event)
        except Exception as error:
            _log.warning("turn %d could not be closed in the log: %s", now.number, error)
            now.error, now.reason = now.error or error, "error"
            if now.dispatched:
                abandon(self)
            if not now.told:
                now.told = True
                self.tell("agent/error", turn=now.number, step=now.step, error=now.error)
            self.state = State.IDLE
            self.rest()
            if isinstance(error, InternalError | TransitionError):
                raise

    def _release(self) -> None:
        if self.state is State.IDLE:
            done, self._done = self._done, ()
            for event in done:
                event.set()

    def check_outside(self) -> None:
        """Raise where the driver itself would wait for its own end.

        Raises:
            RuntimeError: If this is a hook, a listener or a tool of the turn itself.
        """
        if self._driving() or self._telling() or self.in_body():
            raise RuntimeError(
                "this would wait for itself: hooks, listeners and tools run inside the turn,"
                " a job inside its maintenance; use follow_up() or steer()"
            )

    async def rested(self) -> None:
        """Wait until the agent rests and its listeners have heard so.

        Raises:
            RuntimeError: If a hook, a listener or a tool of the turn itself waits for its end.
        """
        self.check_outside()
        await self._rested()

    async def _rested(self) -> None:
        while self.state is not State.IDLE or self._task is not None:
            done = event_for(self._group)
            self._done += (done,)
            await done.wait()

    async def _gate(self) -> None:
        gate = (self._gates or {}).get(self.state)
        if gate is not None:
            reached, passed = gate
            reached.set()
            try:
                await passed.wait()
            finally:
                if self._gates is not None and self._gates.get(self.state) is gate:
                    del self._gates[self.state]


def _both(one: Callable[[Row], object], other: Callable[[Row], object]) -> Callable[[Row], object]:
    def tell(row: Row) -> None:
        one(row)
        other(row)

    return tell


def first_error(error: BaseException) -> BaseException:
    """Return the first error of a group, or the error itself."""
    found: BaseException = error
    while isinstance(found, BaseExceptionGroup):
        found = cast("BaseExceptionGroup[BaseException]", found).exceptions[0]
    return found
