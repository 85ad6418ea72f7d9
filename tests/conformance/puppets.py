"""Everything around one agent, held in hand: its model, tools, hooks, approver and time move only when told."""

from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import anyio
from anyio.lowlevel import checkpoint

from turnchart.machine import (
    Agent,
    Approve,
    ApproveForSession,
    Entry,
    Limits,
    PreparedCall,
    Question,
    Refuse,
    RetryPolicy,
    Session,
    Signal,
    Tool,
    ToolContext,
    UserMessage,
    tool,
)
from turnchart.machine.abort import AbortSignal
from turnchart.machine.models import Chunk, Finish, ModelRequest, RequestConfig
from turnchart.machine.permissions import Permissions
from turnchart.machine.points import (
    Ask,
    Block,
    Continue,
    Deny,
    Enter,
    GiveUp,
    Payload,
    Reject,
    Retry,
    Stop,
    ToolOutcome,
)
from turnchart.testing import FakeClock

CALM = 30
"""So many rounds of the loop without an entry count as everybody waiting."""


class Puppet:
    """A model that streams what it is told to, chunk by chunk.

    Attributes:
        waits: A stream is open and waits for its next chunk.
    """

    id = "puppet"

    def __init__(self) -> None:
        self._chunks: deque[Chunk] = deque()
        self._told = anyio.Event()
        self.waits = False

    async def prepare(self, config: RequestConfig, abort: AbortSignal) -> PreparedCall:
        del abort
        return PreparedCall(config, self._stream)

    def say(self, *chunks: Chunk) -> None:
        self._chunks.extend(chunks)
        self._told.set()

    async def _stream(self, _: ModelRequest) -> AsyncIterator[Chunk]:
        self._chunks.clear()
        self.waits = True
        try:
            while True:
                while self._chunks:
                    chunk = self._chunks.popleft()
                    yield chunk
                    if isinstance(chunk, Finish):
                        return
                self._told = anyio.Event()
                await self._told.wait()
        finally:
            self.waits = False


class Waiting:
    """Whoever waits here goes on when told how: a tool body, a held hook, an approver, a job.

    Attributes:
        over: Nobody waits here any more; this is the answer for all.
    """

    def __init__(self) -> None:
        self.over: Any = None
        self._waiting: dict[int, tuple[anyio.Event, list[Any]]] = {}
        self._count = 0

    def __len__(self) -> int:
        return len(self._waiting)

    async def wait(self) -> Any:
        if self.over is not None:
            return self.over
        self._count += 1
        number, event, answers = self._count, anyio.Event(), list[Any]()
        self._waiting[number] = event, answers
        try:
            await event.wait()
        finally:
            del self._waiting[number]
        return answers[0]

    def answer(self, which: int, how: Any) -> None:
        """Let one of them go on: the one at this place, counted round."""
        numbers = [number for number, (event, _) in self._waiting.items() if not event.is_set()]
        if numbers:
            event, answers = self._waiting[numbers[which % len(numbers)]]
            answers.append(how)
            event.set()

    def end(self, how: Any) -> None:
        """Let all of them go on, those too who come later."""
        self.over = how
        for _ in range(len(self._waiting)):
            self.answer(0, how)


def _first_dropped(payload: Any) -> Any:
    return payload.replace(messages=payload.messages[1:])


def _one_more(payload: Any) -> Any:
    return payload.replace(messages=(*payload.messages, UserMessage("from a hook", source="hook")))


Plan = Callable[[Any], Any]
NONSENSE: Plan = lambda _: 5  # noqa: E731  # one of a table of plans
PLANS: Mapping[str, Mapping[str, Plan]] = {
    "assemble": {"nonsense": NONSENSE, "facts": lambda payload: payload.replace(contexts={"day": "Monday"})},
    "pre_step": {
        "reject": lambda _: Reject("no"), "drop": _first_dropped, "more": _one_more, "empty": lambda _: Enter(()),
        "nonsense": NONSENSE,
    },
    "request": {"nonsense": NONSENSE},
    "context": {"more": _one_more},
    "request_error": {
        "again": lambda _: Retry(0), "later": lambda _: Retry(7), "give up": lambda _: GiveUp("no"),
        "nonsense": NONSENSE,
    },
    "pre_tool": {"deny": lambda _: Deny("no"), "ask": lambda _: Ask("sure?"), "nonsense": NONSENSE},
    "post_tool": {
        "block": lambda _: Block("no"), "context": lambda payload: payload.replace(context="from a tool"),
        "nonsense": NONSENSE,
    },
    "after_step": {"stop": lambda _: Stop("enough"), "nonsense": NONSENSE},
    "turn_stopping": {"continue": lambda _: Continue("go on"), "nonsense": NONSENSE},
}  # fmt: skip
"""What the hook of a point can be told to do the next time; each can also be told to wait: ``hold`` until it is
let go, ``late`` until the turn is aborted."""
PLANNED = [(point, name) for point, plans in PLANS.items() for name in plans]

OUTCOMES: Mapping[str, Callable[[], Any]] = {
    "ok": lambda: "done",
    "nothing": lambda: None,
    "terminate": lambda: ToolOutcome(terminate=True),
    "nonsense": lambda: object(),
    "raise": lambda: 1 / 0,
}
ANSWERS = (Approve(), ApproveForSession(), Refuse("no"), None)


class Stage:
    """One agent over one session, with everything around it.

    Attributes:
        statuses: What was told of its status.
        running: The tool bodies that run.
        draining: Those that run on after an abort.
        held: The hooks that were told to wait, and do.
        asked: The questions that nobody answered yet.
        plans: What the hook of each point does the next time.
        meddling: What a listener does at the next entry of each type.
        refusing: The types of entries of which a validator refuses the next one.
        refused: It did.
        wrong: What must never happen, and did.
        jobs: The maintenance jobs that run.
    """

    def __init__(self, session: Session) -> None:
        self.clock = FakeClock(autojump=False)
        self.model = Puppet()
        self.running, self.draining = Waiting(), Waiting()
        self.held, self.asked, self.jobs = Waiting(), Waiting(), Waiting()
        self.plans: dict[str, str] = {}
        self.meddling: dict[str, Callable[[Agent], object]] = {}
        self.refusing: set[str] = set()
        self.refused = False
        self.wrong: list[str] = []
        self.statuses: list[str] = []
        self.agent = Agent(
            self.model, session=session, clock=self.clock, seed=1, prompt="Be brief.", tools=self._tools(),
            hooks={point: [self._hook(point)] for point in PLANS}, approver=self._approve,
            permissions=Permissions(default="allow", ask=["asked"]), retry=RetryPolicy(max_attempts=3),
            limits=Limits(max_steps=6, max_tool_calls=9, max_continues=2, max_seconds=900, parallel_tools=2),
        )  # fmt: skip
        self.agent.on("agent/status", self._heard)
        self.agent.on("session/event", self._meddle)
        session.validate(self._refuse)

    def _meddle(self, signal: Signal, _: AbortSignal) -> None:
        act = self.meddling.pop(signal.data["entry"].type, None)
        if act is not None:
            act(self.agent)

    def _refuse(self, entry: Entry) -> str | None:
        if entry.type not in self.refusing:
            return None
        self.refusing.clear()
        self.refused = True
        return "not this one"

    def _heard(self, signal: Signal, _: AbortSignal) -> None:
        self.statuses.append(signal.data["status"])

    def _tools(self) -> list[Tool]:
        async def body(n: int, ctx: ToolContext) -> Any:
            del n
            ctx.progress("began")
            if ctx.abort.aborted:
                self.wrong.append(f"{ctx.tool} began after the abort")
            return OUTCOMES[await self.running.wait()]()

        async def shielded(n: int) -> Any:
            del n
            with anyio.CancelScope(shield=True):
                return OUTCOMES[await self.draining.wait()]()

        return [
            tool(body, name="together", description="Beside others.", execution="parallel"),
            tool(body, name="alone", description="Alone."),
            tool(body, name="asked", description="Only if a person agrees."),
            tool(shielded, name="drains", description="To its end.", execution="parallel"),
        ]

    def _hook(self, point: str) -> Callable[..., Any]:
        async def act(payload: Payload) -> Any:
            plan = self.plans.pop(point, "")
            if plan == "hold":
                return await self.held.wait()
            if plan == "late" and payload.abort is not None:
                return await payload.abort.wait() and None
            return PLANS[point][plan](payload) if plan else None

        return act

    async def _approve(self, _: Question) -> Any:
        return await self.asked.wait()

    async def job(self, _: Agent) -> None:
        """Wait, as maintenance."""
        await self.jobs.wait()

    async def settle(self) -> None:
        """Let everybody go on until all of them wait."""
        calm, entries = 0, self.agent.session.entries
        while calm < CALM:
            before = len(entries), self.agent.state
            await checkpoint()
            calm = calm + 1 if before == (len(entries), self.agent.state) else 0

    async def do(self, act: Callable[[Agent], Any]) -> Any:
        """Do something to the agent, and let everybody go on."""
        result = act(self.agent)
        await self.settle()
        return result

    async def pass_time(self, seconds: float) -> None:
        """Let time pass."""
        await self.clock.advance(seconds)
        await self.settle()
