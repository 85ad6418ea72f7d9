"""The acts that rows and effects may perform: log, tell, ask, claim. What no line declares is refused."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import anyio
from anyio.abc import TaskGroup

from turnchart.machine.chain import Chain, Dispatch, Verdict
from turnchart.machine.entries import Entry, Frozen, decode, encode, freeze
from turnchart.machine.errors import AppendRefused, InternalError, SessionError
from turnchart.machine.inbox import Item, Splice, Target, home, unread
from turnchart.machine.points import NO_TURN, Decision, Payload, TurnView
from turnchart.machine.signals import Signal, Signals
from turnchart.machine.states import State
from turnchart.machine.table import LIFECYCLE
from turnchart.machine.tasks import current_task
from turnchart.machine.turn import Turn
from turnchart.machine.turning import Turning
from turnchart.machine.verdict import remarks
from turnchart.machine.writers import Write

if TYPE_CHECKING:
    from turnchart.machine.clock import Clock
    from turnchart.machine.config import Limits, Queues, RetryPolicy
    from turnchart.machine.session import Session
    from turnchart.machine.steps import StepRunner
    from turnchart.machine.world import AgentWorld

_log = logging.getLogger("turnchart.driver")

ARRIVALS = frozenset(("agent/inbox/spliced", "agent/inbox/inserted", "agent/inbox/discarded", "notice"))
"""What may happen in every state: the inbox is open to everybody, always."""
MAY: Mapping[State, frozenset[str]] = {state: does | ARRIVALS for state, does in LIFECYCLE.does.items()}
"""Everything that may happen in each state."""

NO_NAMES: frozenset[str] = frozenset()
NO_TASKS: frozenset[int] = frozenset()
NO_MEMORIES: Mapping[str, tuple[dict[str, Any], str]] = MappingProxyType({})
"""One of each for all agents: an idle agent should cost little."""

MEMORY = "hook_memory"
"""The kind of the ``custom`` entries that keep what hooks remember."""


class Waiter:
    """Somebody waits for the turn that claims an item.

    Attributes:
        turn: That turn, once it is over.
        over: Is set then; None while nobody waits for just that.
    """

    __slots__ = ("over", "turn")

    def __init__(self) -> None:
        self.turn: Turn | None = None
        self.over: anyio.Event | None = None


NO_WAITERS: Mapping[str, Waiter] = MappingProxyType({})


class Acts:
    """What one agent can do inside its chart, and what it knows while it does.

    Attributes:
        state: Where the agent is.
        turning: What the running turn knows; that of the last turn while idle.
        header: What this agent last logged as ``request/header``; None before its first.
        sent: What the model last read, where it was not what the log derives.
        added_tools: The tools that results of this session added.
        built_generation: The generation of the view at the last request; when it was opened before the first.
        revision: Counts the attempts of this agent.
        waiters: Who waits for the turn of an item, by the item's id.
        bodies: The ids of the tasks that run the bodies of async tools.
        steps: Through whom its effects pass where its turns outlive their process; None where they do not.
        left: Another process goes on with its turn: this one writes nothing more, and rests without a row.
    """

    __slots__ = (
        "_buffer", "_group", "_held", "_latched", "_memories", "_scope", "_task", "_trace", "added_tools",
        "bodies", "built_generation", "chains", "clock", "flow", "header", "left", "limits", "name",
        "queues", "retry", "revision", "sent", "session", "signals", "state", "steps", "turning", "waiters",
    )  # fmt: skip

    session: Session
    clock: Clock
    queues: Queues
    retry: RetryPolicy
    limits: Limits
    chains: Mapping[str, Chain]
    name: str
    flow: str

    def __init__(self) -> None:
        self.state = State.IDLE
        self.turning = Turning(0)
        self.signals = Signals()
        self.header: tuple[Any, ...] | None = None
        self.sent: Any = ()
        self.added_tools = NO_NAMES
        self.built_generation = 0
        self.revision = 0
        self.waiters: Mapping[str, Waiter] = NO_WAITERS
        self.bodies: AbstractSet[int] = NO_TASKS
        self._latched = False
        self._scope: anyio.CancelScope | None = None
        self._task: int | None = None
        self._held = False
        self._group: TaskGroup | None = None
        self._buffer: list[Write] = []
        self._memories: Mapping[str, tuple[dict[str, Any], str]] = NO_MEMORIES
        self._trace: list[str] | None = None
        self.steps: StepRunner | None = None
        self.left = False

    def log(self, type: str, data: Frozen, **more: Any) -> Entry:
        """Append an entry that the state declares.

        Raises:
            InternalError: If it does not.
        """
        if type not in MAY[self.state]:
            raise InternalError(f"state {self.state} does not declare the entry `{type}`")
        return self.session.append(type, data, **more)

    def did(self, name: str) -> None:
        """Note that the state performed something it declares: a call, a hook point, a signal.

        Raises:
            InternalError: If it does not declare it.
        """
        if name not in MAY[self.state]:
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

    @property
    def world(self) -> AgentWorld:
        """How hooks and tools reach the world."""
        raise NotImplementedError  # an outfit has one

    # -- telling ---------------------------------------------------------------------------------

    def tell(self, kind: str, **data: Any) -> None:
        """Tell the listeners something; the driver delivers it at its next await."""
        if self.signals.heard:
            self.signals.put(Signal(kind, data), self.turning.abort)
            self.pump()

    def pump(self) -> None:
        """Let listeners hear at once what others than the driver caused, once it is done as a whole."""
        if self.signals.waiting and not self._held and not self._driving():
            self.signals.deliver_now(self._start_short)

    def in_body(self) -> bool:
        """The body of an async tool runs now, or a job of maintenance."""
        return bool(self.bodies) and current_task() in self.bodies

    def _driving(self) -> bool:
        """The driver itself runs now; it delivers at its next await."""
        return bool(self._task) and current_task() == self._task

    def _telling(self) -> bool:
        """A listener runs now that is awaited."""
        return self.signals.teller is not None and current_task() == self.signals.teller

    def _start_short(self, fn: Callable[..., Any], *args: object) -> None:
        """Start a short task for async listeners; outside ``async with agent`` there is no group for it."""
        if self._group is not None:
            self._group.start_soon(fn, *args)

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
        if point not in self.chains:
            return None
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
            payload = make()
            if self.steps is not None:
                payload = self.steps.bound(self, point, payload)
            return await chain.run(
                payload,
                inner=inner, check=check, timeout=self.clock.timeout, now=self.clock.now, memory=self._memory,
                trace=trace,
            )  # fmt: skip
        finally:
            if self.turning.cause is None:
                for each in trace:
                    if each.notable:
                        self._record(each)
            elif not self.left:
                for each in remarks(trace):
                    self._record(each)

    def _record(self, each: Dispatch) -> None:
        now, seconds = self.turning, round(each.seconds, 6)
        given = {"turn": now.number, "step": now.step, "point": each.point, "id": each.id, "seconds": seconds}
        self.log("hook/result", Frozen(**given, **each.said()))

    def _memory(self, id: str) -> dict[str, Any]:
        if id not in self._memories:
            self._memories = {**self._memories, id: self._remembered(id)}
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

    def insert(self, item: Item, target: Target) -> None:
        """Put an item into the inbox: durable when this returns."""
        held, self._held = self._held, True
        try:
            self.session.append("agent/inbox/spliced", self.session.inbox.insert(target, item))
            self.told_inserted(item, target)
        finally:
            self._held = held
        self.pump()

    def told_inserted(self, item: Item, target: Target) -> None:
        """Tell that an item came in."""
        if self._trace is not None:
            self._trace.append("agent/inbox/inserted")
        if self.signals.heard:
            for message in item.messages:
                self.tell("agent/inbox/inserted", message=message, target=target)

    def told_discarded(self, items: Iterable[Item], target: Target) -> None:
        """Tell that items are gone without having been read."""
        for item in items:
            for message in item.messages:
                self.did("agent/inbox/discarded")
                self.tell("agent/inbox/discarded", message=message, target=target)

    def claim(self) -> None:
        """Take from the inbox what the next step may read; synchronous, before anything is awaited."""
        now, queues = self.turning, self.queues
        self._latched = False
        taken = self.session.inbox.claim(
            opens=now.step == 0, steering=queues.steering, follow_up=queues.follow_up
        )
        if taken:
            self._take(taken)

    def claim_one(self, item: Item) -> None:
        """Take one item, if it still waits."""
        found = self.session.inbox.find(item.id)
        if found is not None:
            target, at = found
            self._take([Splice(Frozen(target=target, start=at, removed_count=1), (item,))])

    def _take(self, taken: Sequence[Splice]) -> None:
        now = self.turning
        for splice in taken:
            self.session.append("agent/inbox/spliced", splice.data)
            now.take(splice.removed)
        if self._trace is None and not self.signals.heard:
            return
        for splice in taken:
            for item in splice.removed:
                for message in item.messages:
                    self.did("agent/inbox/claimed")
                    self.tell("agent/inbox/claimed", message=message, turn=now.number)

    # -- the turn as a whole -----------------------------------------------------------------------

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
                if waiter.over is not None:
                    waiter.over.set()

    def rest(self) -> None:
        """Tell that the agent rests, and what its turn came to; what the turn needed for itself is let go."""
        self.settle()
        self.turning.answer = self.turning.draft = None
        if self._trace is not None:
            self._trace.append("agent/status idle")
        if self.signals.heard:
            self.tell("agent/status", status="idle")

    def cut(self, reason: str) -> None:
        """Abort the running turn; the first reason stays. A listener that runs now is not cut off."""
        now = self.turning
        if now.cut(reason):
            self._latched = False
            self._drop(unread(now.batch, self.session.inbox.said))
            if self._scope is None:
                return
            if self.signals.teller == self._task:
                self.signals.when_heard(self._scope.cancel)
            else:
                self._scope.cancel()

    def _drop(self, items: Sequence[Item]) -> None:
        """Discard what was claimed and will not be read: in the log too, so that no recovery puts it back."""
        if self.left:
            return
        try:
            for splice in self.session.inbox.drop(items):
                self.log("agent/inbox/spliced", splice)
        except (AppendRefused, SessionError, RuntimeError) as error:
            _log.warning("what was claimed comes back if the turn cannot end in the log: %s", error)
        for item in items:
            self.told_discarded((item,), home(item))

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
                if now.asking is not None:
                    await now.asking.wait()
                    continue
                left = begun + seconds + now.waited - self.clock.now()
                if left <= 0 and self.turning is now:
                    self.cut("max_seconds")
                    return
                await self.clock.sleep(max(left, 0.001))

    # -- writes beside the turn -------------------------------------------------------------------

    def write(self, type: str, data: Frozen, *, fresh: bool = False) -> Entry | None:
        """Do a write of a person or program: at once while idle, else at the end of the step, in order."""
        write = Write(type, data, fresh)
        if self.state is State.IDLE:
            self.mend()
            return self.write_now(write)
        self._buffer.append(write)
        return None

    def write_now(self, write: Write) -> Entry:
        """Put a write into the log."""
        return self.session.append(write.type, write.data)

    def mend(self) -> None:
        """Close the log of a turn whose end a validator refused, and write what that kept from being written.

        Raises:
            AppendRefused: If it is refused again.
        """
        if self.session.brackets.turn_open:
            self.session.recover()
        if self._buffer:
            self.flush_writes()

    def flush_writes(self) -> None:
        """Do what was asked for while the step ran, in order; one leaves the buffer when it was stored.

        One that is refused leaves it too, and holds up none behind it.

        Raises:
            AppendRefused: If one was refused; the others are written.
            SessionReadOnly: If the store failed; what is not written stays in the buffer.
        """
        refused: Exception | None = None
        while self._buffer:
            write = self._buffer.pop(0)  # a listener that hears of it may write, too
            try:
                self.write_now(write)
            except (AppendRefused, ValueError) as error:
                refused = refused or error
            except BaseException:
                self._buffer.insert(0, write)
                raise
        if refused is not None:
            raise refused
        for id, (memory, kept) in tuple(self._memories.items()):
            if memory or kept != "{}":
                self._keep(id, memory, kept)

    def _keep(self, id: str, memory: dict[str, Any], kept: str) -> None:
        """Store what a hook remembers, where it changed."""
        try:
            frozen = freeze(memory)
        except (TypeError, ValueError) as error:
            said = f"hook `{id}` keeps in its memory what is no JSON ({error}), so it was forgotten"
            _log.error(said)
            self.notice(said, id)
            self._memories = {**self._memories, id: (dict(decode(kept)), kept)}
            return
        text = encode(frozen)
        if text != kept:
            self._memories = {**self._memories, id: (memory, text)}
            self.session.append("custom", Frozen(kind=MEMORY, data=Frozen(id=id, memory=frozen)))


def turn_of(now: Turning) -> Turn:
    """Return what a turn came to."""
    return Turn(
        now.number, now.reason, now.message.text if now.message else "", now.message, now.error, now.step,
        (*now.left_out, *now.batch),
    )  # fmt: skip
