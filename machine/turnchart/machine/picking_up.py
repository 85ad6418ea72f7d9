"""Going on with a turn that another process began: where it is, is read from the log.

What a crash can have left is a beginning of what rows and effects write, cut off between two entries. So the
turn goes on in the state whose effect had not come to its end: that effect begins anew, and finds in the log
what it had done already.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Literal, cast

from turnchart.machine.effects import claiming, pre_step
from turnchart.machine.entries import Entry, Frozen
from turnchart.machine.messages import AssistantMessage, Failure, Message, ToolResultMessage, message
from turnchart.machine.session import Session
from turnchart.machine.states import Event, State
from turnchart.machine.stores import Store
from turnchart.machine.turning import Turning

if TYPE_CHECKING:
    from turnchart.machine.outfit import Outfit

Last = Literal["", "entered", "attempt", "retry", "retried", "answer"]


class LastingSession(Session):
    """A session whose open turn is not closed when an agent attaches, because it goes on.

    Attributes:
        lasting: An open turn stays open.
    """

    __slots__ = ("lasting",)

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.lasting = self.brackets.turn_open

    def recover(self) -> None:
        """Close nothing, as long as the turn is to go on."""
        if not self.lasting:
            super().recover()


class Left:
    """What a process left of an open turn.

    Attributes:
        now: What the turn knew.
        last: How far its last step came.
        ended: That step is over.
        claimed: Something was claimed since.
        shown: Hooks have seen what was claimed.
        admitting: What the request shows is in the log in part.
        cut: It was being cut off or given up, so there is nothing to go on with.
        retry: The wait before the next attempt, as far as one was asked for.
    """

    def __init__(self, session: Session) -> None:
        at = session.brackets
        self.session = session
        self.now = Turning(at.turn)
        self.last: Last = ""
        self.ended = self.claimed = self.shown = self.admitting = self.cut = False
        self.retry: Entry | None = None
        self._asked: dict[str, float] = {}
        for entry in session.entries[at.turn_start :]:
            fold = _FOLD.get(entry.type)
            if fold is not None:
                fold(self, entry)
        self._settle()

    def _settle(self) -> None:
        now, header = self.now, self.session.view.header
        names = () if header is None else tuple([spec["name"] for spec in header["tools"]])
        now.offered = now.tools = names
        now.rendered = self.session.view.effective_prompt
        now.admitted = self.last != "" and not self.session.inbox.claimed
        now.owed = self._owed() if self.last == "answer" else now.owed and not now.admitted
        now.calls = () if self.ended else now.calls
        asks = now.message is not None and bool(now.message.tool_calls) and now.owed
        if now.message is not None and now.reason != "max_tokens":
            now.reason = "" if asks or self.last != "answer" else "completed"

    def _owed(self) -> bool:
        results = self.now.results
        return bool(results) and not all(each.get("terminate") for each in results)

    @property
    def state(self) -> State | None:
        """The state to go on in; None where the turn was about to end badly."""
        if self.cut:
            return None
        if self.ended or self.now.step == 0:
            settled = self.claimed or self.now.step == 0
            return State.CLAIMING if settled else State.STOPPING
        if self.last in ("attempt", "retry"):
            return State.RETRYING
        if self.last == "answer":
            return State.TOOLING
        return State.REQUESTING

    # -- the fold ------------------------------------------------------------------------------

    def step_start(self, entry: Entry) -> None:
        """Begin a step."""
        self.now.owed = self._owed()
        self.now.step = entry.data["step"] - 1
        self.now.enter()
        self.last, self.retry = "", None
        self.ended = self.claimed = self.shown = self.admitting = False

    def admits(self, entry: Entry) -> None:
        """Write what a request shows; the system prompt comes first."""
        self.admitting = True
        if entry.type != "system/message":
            self.last = self.last or "entered"

    def attempt(self, entry: Entry) -> None:
        """Settle an attempt that failed, or was cut off."""
        now, data = self.now, entry.data
        now.attempt, now.model = entry.attempt or now.attempt + 1, data["model"]
        now.attempts = {**now.attempts, now.model: now.attempts.get(now.model, 0) + 1}
        self.last, self.cut = "attempt", "failure" not in data
        now.failure = None if self.cut else Failure(**data["failure"])

    def retrying(self, entry: Entry) -> None:
        """Wait before another attempt."""
        self.last, self.retry = "retry", entry
        self.now.retries = entry.data["retry"]
        self.now.fallback = entry.data.get("model", self.now.fallback)

    def retried(self, _entry: Entry) -> None:
        """Make another attempt."""
        self.last = "retried"

    def answer(self, entry: Entry) -> None:
        """Take an answer."""
        now = self.now
        now.message = cast(AssistantMessage, message(entry.data["message"]))
        now.model, now.attempt = now.message.model, entry.attempt or 1
        now.calls, now.results = now.message.tool_calls, ()
        self.last, self.cut = "answer", "interrupted" in entry.data
        if now.message.stop_reason == "max_tokens":
            now.reason = "max_tokens"

    def call(self, _entry: Entry) -> None:
        """Start a tool."""
        self.now.tool_calls += 1

    def result(self, entry: Entry) -> None:
        """End a tool."""
        if entry.replaces is None:
            self.now.results += (cast(ToolResultMessage, message(entry.data["message"])),)

    def step_end(self, _entry: Entry) -> None:
        """End a step; one without an answer ends because its turn does."""
        self.ended, self.cut = True, self.cut or self.last != "answer"

    def splice(self, entry: Entry) -> None:
        """Claim what waits."""
        if entry.data.get("removed_count") and "outcome" not in entry.data:
            self.claimed = True

    def hook(self, entry: Entry) -> None:
        """Ask a hook."""
        self.shown = self.shown or entry.data["point"] in ("assemble", "pre_step")

    def asked(self, entry: Entry) -> None:
        """Ask a person."""
        self._asked[entry.data["call_id"]] = entry.time

    def decided(self, entry: Entry) -> None:
        """Hear a person; the time they took counts for no limit."""
        self.now.waited += entry.time - self._asked.get(entry.data["call_id"], entry.time)


_FOLD: Mapping[str, Callable[[Left, Entry], None]] = {
    "step/start": Left.step_start,
    "system/message": Left.admits,
    "user/message": Left.admits,
    "request/header": Left.admits,
    "request/context": Left.admits,
    "assistant/attempt": Left.attempt,
    "llm/retry": Left.retrying,
    "llm/retry-started": Left.retried,
    "assistant/message": Left.answer,
    "tool/call": Left.call,
    "tool/result": Left.result,
    "step/end": Left.step_end,
    "agent/inbox/spliced": Left.splice,
    "hook/result": Left.hook,
    "approval/asked": Left.asked,
    "approval/decided": Left.decided,
}


class Missing:
    """What has to be done before the effect of the state can begin anew; performed as the first effect."""

    def __init__(self, left: Left) -> None:
        self._left = left

    async def __call__(self, agent: Outfit) -> Event | None:
        """Do it, and return the event that it ended with; None to perform the state's effect."""
        left, now = self._left, agent.turning
        if left.last == "retry" and left.retry is not None:
            return await self._wait(agent, left.retry)
        if agent.state is State.TOOLING and not now.calls:
            agent.session.append("step/end", Frozen(turn=now.number, step=now.step))
            agent.state = State.STOPPING
        elif left.last in ("", "entered") and agent.state is State.REQUESTING:
            return await self._enter(agent)
        return None

    async def _wait(self, agent: Outfit, retry: Entry) -> Event:
        rest = retry.time + retry.data["after"] - agent.clock.now()
        if rest > 0:
            await agent.clock.sleep(rest)
        now = agent.turning
        if now.cause is None:
            agent.log("llm/retry-started", Frozen(turn=now.number, step=now.step, retry=now.retries))
        return Event.RETRY

    async def _enter(self, agent: Outfit) -> Event | None:
        """Put the step together once more: the log does not say yet what its request was to show."""
        now, event = agent.turning, Event.ENTER
        now.take(tuple(agent.session.inbox.claimed))
        now.claimed, agent.state = True, State.CLAIMING
        await claiming(agent)
        if now.cause is None and not now.admitted:
            agent.state = State.PRE_STEP
            event = await pre_step(agent)
        enters = now.admitted or (event is Event.ENTER and (now.messages or now.owed))
        now.admitted = now.admitted and not now.messages
        if now.cause is None and not enters:
            agent.session.append("step/end", Frozen(turn=now.number, step=now.step))
            return event
        agent.state = State.REQUESTING
        return None


def pick_up(agent: Outfit) -> Missing | None:
    """Let an agent go on with the open turn of its session, which must be a ``LastingSession``.

    Returns what its ``steps`` have to do as the first effect; None where the turn could only be closed: it
    was about to end badly, or hooks had changed what was being written. What it had not read waits again.

    Raises:
        AppendRefused: If a validator refuses what closes it.
    """
    session = cast(LastingSession, agent.session)
    left = Left(session)
    state, now = left.state, left.now
    session.lasting = False
    half = state is State.REQUESTING and left.admitting and not now.admitted
    if state is None or (half and not agent.chains.keys().isdisjoint(("assemble", "pre_step"))):
        session.recover()
        return None
    if state is State.CLAIMING:
        now.take(tuple(session.inbox.claimed))  # the claim goes on, unless hooks have seen what it took
        now.claimed = left.shown
    begun = session.entries[session.brackets.turn_start].time
    now.waited -= agent.clock.now() - begun  # what it took so far counts against its time
    agent.turning = now
    header = session.view.header
    if header is not None and header["turn"] == now.number:
        defaults = frozenset(header.get("defaults", ()))
        agent.header = (header["model"], header["settings"], header["thinking"], header["tools"], defaults)
    agent.sent = _sent(session)
    agent.pick_up(state)
    return Missing(left)


def _sent(session: Session) -> tuple[Message, ...]:
    """Return what the model last read where that was not what the log derives."""
    sent: tuple[Message, ...] = ()
    for entry in session.entries:
        if entry.type == "request/rewritten":
            sent = (*sent[: entry.data["keep"]], *map(message, entry.data["messages"]))
    return sent
