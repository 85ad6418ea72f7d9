"""The agent: what a program holds in its hand. Everything it does goes through the driver below."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, cast

import anyio

from turnchart.machine import effects
from turnchart.machine.acts import NO_TASKS, NO_WAITERS, Waiter, turn_of
from turnchart.machine.driver import first_error
from turnchart.machine.entries import SIGNALS, Entry
from turnchart.machine.errors import AgentBusy, AppendRefused, SessionError, SessionReadOnly, TurnFailed
from turnchart.machine.inbox import Item, Queued, Splice, unread
from turnchart.machine.message_fields import plain
from turnchart.machine.messages import Prompt, normalize_prompt_input
from turnchart.machine.models import close_models
from turnchart.machine.moving import Moving
from turnchart.machine.outfit import Outfit
from turnchart.machine.points import OnSignal, SessionEnd
from turnchart.machine.signals import UI, Listener, Signal, UiListener
from turnchart.machine.states import TURN_STATES, Event, State
from turnchart.machine.tasks import current_task
from turnchart.machine.tree import starts_series
from turnchart.machine.turn import Turn
from turnchart.machine.turning import Turning

if TYPE_CHECKING:
    from turnchart.machine.compaction import Compacted
    from turnchart.machine.view import AgentState

_log = logging.getLogger("turnchart.agent")
_ = effects  # importing it fills in what happens in each state


class Agent(Moving, Outfit):
    """One agent with one session.

    Use it as ``async with Agent(...) as agent:``; on leaving, a running turn is cut off and closed.

    Attributes:
        queues: How many waiting messages are taken at once; assign another at any time.
        approver: Who answers where a tool call asks; None denies.
    """

    __slots__ = ("_deaf", "_stops")

    _stops: tuple[Callable[[], None], ...]
    _deaf: tuple[str, ...]
    """The ids of the ``on_signal`` hooks whose failure was reported."""

    # -- opening and closing -----------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        """Become the writer of the session, close what a crash left open, run ``session_start``.

        Raises:
            SessionLocked: If somebody else writes the session.
        """
        self._latched = self._stopped = False
        self.session.attach(self.clock.now, self)
        self.turning = Turning(self.session.brackets.turn)
        self.turning.reason = self.session.brackets.reason
        moved = starts_series(self.session.entries)
        self.built_generation = self.session.view.generation - moved
        self._group = await anyio.create_task_group().__aenter__()
        self._stops, self._deaf = (), ()
        if self.signals.heard:
            self._listen()
        if "on_signal" in self.chains:
            self._stops += (self.on("*", self._observe),)
        try:
            self._stops += await self.begin(self.session.origin)
        except BaseException as error:
            await self._leave(type(error), error, error.__traceback__)
            raise
        self._open = True
        if self._latched and self.pending:
            self.wake()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        """Abort a running turn, run ``session_end``, give the session back; a second call does nothing.

        Raises:
            ScriptError: If a scripted model has replies left over and nothing else went wrong.
        """
        if self._group is None:
            return None
        self._open = False
        self.session.origin = "resumed"
        try:
            with anyio.CancelScope(shield=True):
                self._dispose(isinstance(error, anyio.get_cancelled_exc_class()))
                await self._come_to_rest(self._group)
                await self._session_end("error" if error is not None else "closed")
                await close_models(self.model, self.models)
        finally:
            left = await self._leave(kind, error, trace)
        check = getattr(self.model, "check", None)
        if error is None and check is not None:
            check()
        return left

    def _dispose(self, cancelled: bool) -> None:
        if self.left or self.state is State.MAINTENANCE:
            self.cut("disposed")
        elif self.state is not State.IDLE and not cancelled:
            try:
                self.abort("disposed")
            except (AppendRefused, SessionError) as failed:
                _log.warning("what waits could not be discarded: %s", failed)
        if cancelled:
            self._stop_all()

    async def _leave(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        for stop in self._stops:
            stop()
        self._stops = ()
        self.session.after_append = None
        group, self._group = self._group, None
        try:
            if group is None:
                return None
            if isinstance(error, Exception):  # it goes on as it is, not in a group
                group.cancel_scope.cancel()
                await group.__aexit__(None, None, None)
                return None
            return await group.__aexit__(kind, error, trace)
        except BaseExceptionGroup as many:
            if len(many.exceptions) > 1:
                raise
            raise first_error(many) from None
        finally:
            self.session.close()

    async def _session_end(self, reason: str) -> None:
        if "session_end" in self.chains and not self.session.read_only:
            try:
                await self.ask("session_end", lambda: SessionEnd(reason=reason, **self.common()))
            except (AppendRefused, SessionError) as failed:
                _log.warning("what the session_end hooks did could not be logged: %s", failed)

    def _listen(self) -> None:
        """Hear the session's entries from now on; without listeners nothing pays for them."""
        if self.session.after_append is None and self._group is not None:
            self._stops += (self.session.watch(self._entry),)
            self.session.after_append = self.pump
            if self.signals.ui is not None:
                self.signals.ui.begin()

    def _entry(self, entry: Entry) -> None:
        self.signals.put(Signal("session/event", {"entry": entry}), self.turning.abort)

    async def _observe(self, signal: Signal, abort: object) -> None:
        del abort
        chain = self.chains["on_signal"]
        verdict = await chain.run(
            OnSignal(signal=signal.kind, data=signal.data, **self.common()),
            timeout=self.clock.timeout, now=self.clock.now, memory=self._memory,
        )  # fmt: skip
        for each in verdict.trace:
            if each.error and each.id not in self._deaf:
                self._deaf = (*self._deaf, each.id)
                _log.error(
                    "hook `%s` (%s) failed on `%s` and is still called: %s",
                    each.id, each.where, signal.kind, each.error,
                )  # fmt: skip

    # -- input -------------------------------------------------------------------------------------

    async def prompt(self, content: Prompt) -> Turn:
        """Prompt the agent and wait until it rests again; return the turn that took this prompt.

        Cancelling this aborts that turn, and returns after it is closed.

        Raises:
            AgentBusy: If a turn is open.
            TurnFailed: If the agent came to rest before a turn took the prompt.
            ValueError: If the prompt is empty.
            SessionReadOnly: If the session's store failed.
        """
        if not self._open:
            raise RuntimeError("an agent works inside `async with agent:`")
        if self.state is not State.IDLE:
            raise AgentBusy(self.state)
        self.check_outside()
        item = self.put(normalize_prompt_input(content), "next-turn", "prompt")
        waiter = Waiter()
        self.waiters = {**self.waiters, item.id: waiter}
        try:
            self.wake()
            await self._rested()
        except BaseException:
            if waiter.turn is None:
                await self._give_up(item, waiter)
            raise
        finally:
            self.waiters = {id: each for id, each in self.waiters.items() if each is not waiter} or NO_WAITERS
        if self.session.read_only:
            error = self.turning.error
            raise SessionReadOnly(str(error or f"session {self.session.id} is read-only")) from error
        if waiter.turn is None:
            raise TurnFailed(self._parked_because(), self.last_turn) from self.turning.error
        return waiter.turn

    async def _give_up(self, item: Item, waiter: Waiter) -> None:
        """Take a prompt back that nobody waits for any more, or cut its turn off and see it closed."""
        splice = self.session.inbox.remove(item.id)
        if splice is not None:
            try:
                self._discard(splice)
            except (AppendRefused, SessionError) as error:
                _log.warning("the prompt stays in the inbox: %s", error)
        elif item.id in self.turning.items:
            waiter.over = anyio.Event()
            self.cut("cancelled")
            with anyio.CancelScope(shield=True):
                await waiter.over.wait()

    def _parked_because(self) -> str:
        now = self.turning
        ended = (
            f"turn {now.number} ended as {now.reason or 'nothing'}" if now.items else "no turn could begin"
        )
        because = f" ({now.error})" if now.error is not None else ""
        return (
            f"the agent came to rest after {ended}{because}, before a turn took this prompt;"
            " unless it was discarded it waits in the inbox: agent.resume() goes on"
        )

    @property
    def last_turn(self) -> Turn | None:
        """The last turn of this agent object; None before its first."""
        return turn_of(self.turning) if self.turning.reason and self.turning.items else None

    def follow_up(self, content: Prompt) -> Item:
        """Queue a prompt for a turn of its own, and wake the agent. Durable when this returns.

        Raises:
            ValueError: If it is empty.
        """
        self.check_open()
        item = self.put(normalize_prompt_input(content), "next-turn", "follow_up")
        self.wake()
        return item

    def steer(self, content: Prompt) -> Item:
        """Tell the running turn something; it enters with the next request. Wakes an idle agent.

        After an abort that is still closing, it waits for a turn of its own instead.

        Raises:
            ValueError: If it is empty.
        """
        if self.state is not State.IDLE and self.turning.cause is not None:
            return self.follow_up(content)
        self.check_open()
        item = self.put(normalize_prompt_input(content), "next-step", "steer")
        self.wake()
        return item

    def inject(self, content: Prompt, *, source: str = "") -> Item:
        """Add something for the next request, without waking the agent.

        Raises:
            ValueError: If it is empty.
        """
        source = plain("source", source)
        return self.put(normalize_prompt_input(content), "next-step", "inject", source=source)

    def next_turn(self, content: Prompt) -> Item:
        """Add something that goes along with the next prompt; it starts no turn and enters no running one.

        Raises:
            ValueError: If it is empty.
        """
        return self.put(normalize_prompt_input(content), "rider", "next_turn")

    def resume(self) -> bool:
        """Go on with what is parked; return whether there was anything.

        Raises:
            AgentBusy: If a turn is open that nothing cuts off.
        """
        if self.state in TURN_STATES and self.turning.cause is None:
            raise AgentBusy(self.state)
        if not self.pending:
            return False
        self.wake()
        return True

    def abort(self, reason: str = "user", *, keep_inbox: bool = False) -> tuple[Item, ...]:
        """Cut off the running turn, and empty the inbox unless ``keep_inbox``.

        Riders stay. Returns what was discarded: what waited, and what was claimed and not yet admitted. With
        ``keep_inbox`` the latter goes back to the front instead. While idle it only empties the inbox.
        """
        reason = plain("reason", reason)
        running = self.state in TURN_STATES and self.turning.cause is None
        claimed = tuple(unread(self.turning.batch, self.session.inbox.said)) if running else ()
        held, self._held = self._held, True  # whoever hears of it and sends something comes after the abort
        cleared: tuple[Item, ...] = ()
        try:
            cleared = self._put_back(claimed) if keep_inbox else self._clear(claimed)
        finally:
            self._latched = self._latched and keep_inbox
            if running:
                self.cut(reason)
            elif self.state is State.MAINTENANCE:
                self.turning.abort.set(reason)
            self.signals.hint("abort", self.turning.abort, cleared=cleared)
            self._held = held
            self.pump()
        return cleared

    def _put_back(self, claimed: tuple[Item, ...]) -> tuple[Item, ...]:
        for data in self.session.inbox.put_back(claimed):
            self.log("agent/inbox/spliced", data)
        if claimed:
            self.turning.batch = ()
        return ()

    def _clear(self, claimed: tuple[Item, ...]) -> tuple[Item, ...]:
        discarded: list[Item] = []
        for splice in self.session.inbox.clear():
            self._discard(splice)
            discarded += splice.removed
        return (*discarded, *claimed)

    def remove(self, id: str) -> bool:
        """Discard an item that waits, by its id or that of one of its messages; return whether it waited."""
        splice = self.session.inbox.remove(id)
        if splice is not None:
            self._discard(splice)
        return splice is not None

    def replace(self, id: str, content: Prompt) -> Item:
        """Give an item that waits another content; it keeps its id and its place.

        Raises:
            ValueError: If it does not wait (any more), or the content is empty.
        """
        old = self.session.inbox.item(id)
        if old is None:
            raise ValueError(f"no item {id!r} waits: it was claimed or discarded, or never was")
        splice = self.session.inbox.replace(old, self.named(normalize_prompt_input(content), old=old))
        self._discard(splice)
        return cast(Item, splice.data["inserted"][0])

    def clear(self) -> tuple[Item, ...]:
        """Discard everything that waits but the riders, and return it. A running turn goes on."""
        return self._clear(())

    def _discard(self, splice: Splice) -> None:
        held, self._held = self._held, True
        try:
            self.log("agent/inbox/spliced", splice.data)
            self.told_discarded(splice.removed, splice.data["target"])
            for item in splice.data.get("inserted", ()):
                self.told_inserted(item, splice.data["target"])
        finally:
            self._held = held
        self.pump()

    # -- looking -----------------------------------------------------------------------------------

    @property
    def status(self) -> Literal["idle", "running"]:
        """``running`` while a turn is open; ``idle`` else, maintenance included."""
        return "idle" if self.state in (State.IDLE, State.MAINTENANCE) else "running"

    @property
    def queued(self) -> Queued:
        """What waits in the inbox."""
        return self.session.inbox.queued()

    @property
    def parked(self) -> bool:
        """Something waits that no turn will take before the next wake or ``resume()``."""
        return self.state is State.IDLE and self.pending

    async def idle(self) -> None:
        """Wait until the agent rests and its listeners have heard so. Never raises for a failed turn.

        Raises:
            RuntimeError: If a hook, a listener, a tool or a job of this agent waits for its own end.
        """
        await self.rested()

    def on(self, kind: str, listener: Listener) -> Callable[[], None]:
        """Let a listener hear one kind of signal (``"*"`` for all); return a function that stops that.

        It is called with the signal and the ``AbortSignal`` of the turn, and awaited where it is async.

        Raises:
            ValueError: If there is no such kind; the events of a user interface are heard with ``ui``.
            TypeError: If it cannot be called so.
        """
        if kind != "*" and kind not in SIGNALS:
            raise ValueError(f"there is no signal {kind!r}; the signals are: {', '.join(SIGNALS)}")
        stop = self.signals.on(None if kind == "*" else kind, listener)
        self._listen()
        return stop

    def ui(self, listener: UiListener) -> Callable[[], None]:
        """Let a user interface hear the events of ``machine.ui``; return a function that stops that.

        They are told, awaited and contained like signals; ``view`` shows what each of them changed.
        """
        stop = self.signals.on(UI, listener)
        if self.signals.ui is None:
            from turnchart.machine.ui import Ui

            self.signals.ui = Ui(self)
        self._listen()
        return stop

    @property
    def view(self) -> AgentState:
        """What the agent is now, as a frozen snapshot."""
        from turnchart.machine.view import View

        ui = self.signals.ui
        return (View(self) if ui is None else ui.view).state()

    async def compact(self, focus: str = "") -> Compacted:
        """Make the conversation of an idle agent shorter; prompts that come meanwhile wait.

        The last turns stay (``compaction.keep_last``), but fewer where nothing else is left to replace.

        Args:
            focus: What a summary should care about besides.

        Raises:
            AgentBusy: If the agent is not idle.
            CompactionFailed: If there is nothing to make shorter, it was aborted, or no summary came of it.
        """
        from turnchart.machine.compaction import compact

        self.check_open()
        return cast("Compacted", await self.maintain(partial(compact, focus=plain("focus", focus))))

    # -- tests -------------------------------------------------------------------------------------

    async def until(self, state: State) -> None:
        """Wait until the agent reaches a turn state; the driver then waits there for ``go_on()``.

        Call it in the task that started the one that prompts, so that it is not too late.

        Raises:
            ValueError: If no turn is ever in this state.
        """
        if state not in TURN_STATES:
            known = ", ".join(each for each in State if each in TURN_STATES)
            raise ValueError(f"{state!s} is no state of a turn; they are: {known}")
        gates = self._gates = self._gates or {}
        if state not in gates:
            gates[state] = (anyio.Event(), anyio.Event())
        await gates[state][0].wait()

    def go_on(self) -> None:
        """Let the driver go on from where ``until`` holds it."""
        gates, self._gates = self._gates or {}, None
        for _, passed in gates.values():
            passed.set()

    async def maintain(self, job: Callable[[Agent], Any]) -> Any:
        """Run a job while no turn can begin; a wake that comes meanwhile is kept, and honoured after it.

        Raises:
            AgentBusy: If the agent is not idle.
        """
        if self.state is not State.IDLE:
            raise AgentBusy(self.state)
        self.mend()
        before, self.turning = self.turning, Turning(self.turning.number)
        self.go(Event.MAINTAIN)
        during, self.bodies = self.turning, {current_task()}
        try:
            return await job(self)
        finally:
            self.bodies = NO_TASKS
            self._latched = self._latched and self.pending and self._open
            try:
                self.flush_writes()
            finally:
                self._start(Event.MAINTAINED)
                self._latched = False
                if self.turning is during:
                    self.turning = before
                self._release()
