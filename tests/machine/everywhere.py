"""Scripts that together walk every row of the chart, and whose every await goes through a counted checkpoint.

A sweep plays a script once to count its checkpoints, and then once per checkpoint, where something happens:
an abort, a cancellation, an exception. Afterwards ``at_rest`` says what must be true whatever happened.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from anyio.lowlevel import checkpoint
from tests.machine.drive import calls, drop

from turnchart.machine import (
    Agent,
    Approve,
    Compaction,
    Entry,
    Event,
    Failure,
    Limits,
    ModelRequest,
    Permissions,
    PreparedCall,
    Question,
    Queues,
    Refuse,
    Reply,
    RetryPolicy,
    Row,
    ScriptedModel,
    Session,
    Signal,
    ToolContext,
    UserMessage,
    tool,
)
from turnchart.machine.abort import AbortSignal
from turnchart.machine.automaton import step_name
from turnchart.machine.models import Chunk, RequestConfig
from turnchart.machine.points import (
    Assemble,
    Chunks,
    Context,
    Continue,
    Convert,
    PostTool,
    PreStep,
    Reject,
    Stop,
    Stream,
    TurnStopping,
)
from turnchart.machine.scripted import Scripted
from turnchart.machine.table import LIFECYCLE
from turnchart.machine.verify import performed, verify
from turnchart.testing import FakeClock

SECONDS = 5.0
"""So long, in real time, may one run take before it counts as hanging."""


class Checkpoints:
    """Counts the awaits of a run, and acts at one of them.

    Attributes:
        count: How many were passed.
        act: What happens at checkpoint number ``at``; 0 is none.
        over: The run is over, and hooks say nothing any more.
    """

    def __init__(self, at: int = 0) -> None:
        self.count = 0
        self.at = at
        self.act: Callable[[], object] = int
        self.over = False

    async def here(self) -> None:
        """Be a checkpoint."""
        self.count += 1
        if self.count == self.at:
            self.act()
        await checkpoint()


class Ticking(FakeClock):
    """A fake clock whose sleeps are checkpoints."""

    def __init__(self, points: Checkpoints) -> None:
        super().__init__()
        self._points = points

    async def sleep(self, seconds: float) -> None:
        await self._points.here()
        await super().sleep(seconds)


class Ticker(ScriptedModel):
    """A scripted model that awaits before it prepares, and before each chunk."""

    __slots__ = ("_points",)

    def __init__(self, points: Checkpoints, replies: Sequence[Scripted]) -> None:
        super().__init__(replies, default="so it is")
        self._points = points

    async def prepare(self, config: RequestConfig, abort: AbortSignal) -> PreparedCall:
        await self._points.here()
        made = await super().prepare(config, abort)
        made.open = self._counted
        return made

    async def _counted(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        stream = self._stream(request)
        try:
            async for chunk in stream:
                await self._points.here()
                yield chunk
        finally:
            await stream.aclose()  # type: ignore[attr-defined]  # a generator


class Walker(Agent):
    """An agent that writes down the rows that it takes."""

    __slots__ = ("names", "rows")
    rows: list[Row]
    names: list[str]

    def go(self, event: Event) -> None:
        row = LIFECYCLE.transition(self.state, event, self.facts())
        super().go(event)
        self.rows.append(row)


Play = Callable[[Agent, Checkpoints], Awaitable[object]]


async def _prompt(agent: Agent, points: Checkpoints) -> None:
    await agent.prompt("x")


@dataclass(frozen=True)
class Script:
    """One run.

    Attributes:
        replies: What the model says.
        settings: Makes the further settings of the agent; ``late`` gives the agent once it is made.
        play: What somebody does with the agent.
    """

    name: str
    replies: Sequence[Scripted]
    settings: "Callable[[Checkpoints, Late], dict[str, Any]]"
    play: Play = _prompt


@dataclass
class Late:
    """The agent of a run, for hooks that are made before it is."""

    made: list[Walker] = field(default_factory=lambda: list[Walker]())

    @property
    def agent(self) -> Walker:
        return self.made[-1]


def begin(script: Script, points: Checkpoints, session: Session | None = None) -> Walker:
    """Return the agent of a run; it writes down what it performs."""
    late = Late()
    given: dict[str, Any] = {"limits": Limits(parallel_tools=2), "retry": RetryPolicy(max_attempts=2)}
    given |= script.settings(points, late)
    agent = Walker(
        Ticker(points, script.replies),
        clock=Ticking(points),
        seed=1,
        session=session,
        tools=[alone, beside],
        **given,
    )
    agent.rows = []
    late.made.append(agent)
    agent.names = agent.trace()

    def note(entry: Entry) -> None:
        name = step_name(entry)
        if name is not None:
            agent.names.append(name)

    agent.session.watch(note)
    return agent


async def at_rest(agent: Agent, points: Checkpoints) -> None:
    """Check what must be true after a run, whatever happened in it; at the end there was one more turn."""
    await agent.idle()
    assert agent.state == "idle"
    assert not agent.session.brackets.turn_open
    await goes_on(agent, points)


async def goes_on(agent: Agent, points: Checkpoints) -> None:
    """Check that the agent works as if nothing had been."""
    points.over = True
    drop(agent)
    agent.abort()
    turn = await agent.prompt("and now?")
    assert turn.ok, turn
    assert not agent.parked
    check_closed(agent.session)


def check_walk(agent: Walker) -> None:
    """Check that everything performed is a walk of the chart."""
    mismatch = performed(agent.names)
    assert mismatch is None, mismatch


def check_closed(session: Session) -> None:
    """Check that a log is legal, has no open turn, and no call without a result."""
    verdict = verify(session.entries)
    assert verdict.ok, verdict.message
    assert not verdict.open
    assert unanswered(session) == []


def unanswered(session: Session) -> list[str]:
    """Return the calls that the model asked for and that have no result."""
    asked: list[str] = []
    for entry in session.entries:
        if entry.type == "assistant/message" and "interrupted" not in entry.data:
            asked += [call.id for call in entry.data["message"].tool_calls]
        elif entry.type == "tool/result":
            asked.remove(entry.data["message"].call_id)
    return asked


# -- what the scripts are made of --------------------------------------------------------------------


@tool
async def alone(n: int, ctx: ToolContext) -> int:
    """Run alone."""
    ctx.progress("half")
    await ctx.clock.sleep(0)
    return n


@tool(execution="parallel")
async def beside(n: int, ctx: ToolContext) -> int:
    """Run beside others; take 3 - n seconds."""
    await ctx.clock.sleep(3 - n)
    return n


def passing(points: Checkpoints, *names: str) -> dict[str, list[Any]]:
    """Return an async hook for each of these points that awaits and has no opinion."""

    async def look(payload: object) -> None:
        await points.here()

    return {name: [look] for name in names}


WITHOUT_TOOLS = ("assemble", "pre_step", "request", "context", "convert", "after_step", "turn_stopping")


def _answer(points: Checkpoints, _: Late) -> dict[str, Any]:
    async def facts(payload: Assemble) -> Assemble:
        await points.here()
        return payload.replace(contexts={"number": str(points.count)})

    async def shown(payload: Context) -> Context:
        await points.here()
        return payload.replace(messages=(UserMessage("shown"), *payload.messages))

    async def converted(payload: Convert) -> Convert:
        await points.here()
        return payload.replace(llm_messages=(*payload.llm_messages, UserMessage("converted")))

    async def wrap(payload: Stream, next: Callable[[Stream], Awaitable[Chunks]]) -> Chunks:
        await points.here()
        return each(await next(payload))

    async def each(chunks: Chunks) -> Chunks:
        async for chunk in chunks:
            await points.here()
            yield chunk

    hooks: dict[str, list[Any]] = passing(points, *WITHOUT_TOOLS, "session_start", "session_end")
    return {
        "hooks": hooks | {"assemble": [facts], "context": [shown], "convert": [converted], "stream": [wrap]}
    }


def _tools(points: Checkpoints, _: Late) -> dict[str, Any]:
    async def add_context(payload: PostTool) -> PostTool:
        await points.here()
        return payload.replace(content=f"<{payload.text}>", context="mind it")

    async def wrap(payload: object, next: Callable[[object], Awaitable[Any]]) -> Any:
        await points.here()
        return await next(payload)

    return {"hooks": passing(points, "pre_tool") | {"tool": [wrap], "post_tool": [add_context]}}


def _plain(_points: Checkpoints, _: Late) -> dict[str, Any]:
    return {}


def _retry(points: Checkpoints, _: Late) -> dict[str, Any]:
    return {"hooks": passing(points, "request_error")}


def _approvals(points: Checkpoints, _: Late) -> dict[str, Any]:
    async def approver(question: Question) -> Approve | Refuse:
        await points.here()
        return Refuse("no twos") if question.args["n"] == 2 else Approve()

    return {"approver": approver, "permissions": Permissions(default="ask")}


def _continue(points: Checkpoints, _: Late) -> dict[str, Any]:
    async def on(payload: TurnStopping) -> Continue | None:
        await points.here()
        return Continue("go on") if payload.continues < 2 and not points.over else None

    return {"hooks": {"turn_stopping": [on]}}


def _steering(points: Checkpoints, late: Late) -> dict[str, Any]:
    """Steer and inject in the first request, and queue prompts that go on without rest."""

    async def send(payload: PreStep) -> None:
        await points.here()
        if payload.turn.number == 1 and payload.step == 1 and not points.over:
            late.agent.steer("this way")
            late.agent.inject("by the way")
            late.agent.follow_up("two")
            late.agent.follow_up("three")
            late.agent.set_model("test")

    async def last(payload: object) -> Stop | None:
        await points.here()
        return None

    return {"hooks": {"pre_step": [send], "after_step": [last]}, "queues": Queues(steering="one-at-a-time")}


def _blocked(points: Checkpoints, _: Late) -> dict[str, Any]:
    async def no(payload: PreStep) -> Reject | None:
        await points.here()
        return None if points.over else Reject("no")

    return {"hooks": {"pre_step": [no]}}


def _empty(points: Checkpoints, late: Late) -> dict[str, Any]:
    async def nothing(payload: PreStep) -> PreStep | None:
        await points.here()
        if points.over:
            return None
        if payload.turn.number == 1:
            late.agent.follow_up("two")
        return payload.replace(messages=())

    return {"hooks": {"pre_step": [nothing]}}


def _limits(points: Checkpoints, _: Late) -> dict[str, Any]:
    return {"limits": Limits(max_steps=1), "hooks": passing(points, "after_step")}


def _time(_points: Checkpoints, _: Late) -> dict[str, Any]:
    return {"limits": Limits(max_seconds=10)}


def _polls(points: Checkpoints, _: Late) -> dict[str, Any]:
    given: dict[str, list[str | None]] = {"steering": ["left", None, "right"], "follow_up": ["and then"]}

    async def steering() -> str | None:
        await points.here()
        return given["steering"].pop(0) if given["steering"] and not points.over else None

    async def follow_up() -> str | None:
        await points.here()
        return given["follow_up"].pop(0) if given["follow_up"] and not points.over else None

    return {"poll_steering": steering, "poll_follow_up": follow_up}


def _listeners(points: Checkpoints, _: Late) -> dict[str, Any]:
    return {"hooks": passing(points, "on_signal")}


HEARD = (
    "turn/start",
    "user/message",
    "assistant/message",
    "tool/call",
    "tool/result",
    "step/end",
    "turn/end",
)


async def _listen(agent: Agent, points: Checkpoints) -> None:
    async def hear(signal: Signal, abort: AbortSignal) -> None:
        entry = signal.data.get("entry")
        if not points.over and (entry is None or entry.type in HEARD):
            await points.here()

    for kind in ("session/event", "agent/status", "tool/progress"):
        agent.on(kind, hear)
    await agent.prompt("x")


async def _maintain(agent: Agent, points: Checkpoints) -> None:
    async def job(agent: Agent) -> None:
        await points.here()

    async def wakes(agent: Agent) -> None:
        agent.set_model("test")
        agent.follow_up("after it")
        await points.here()

    await agent.maintain(job)
    await agent.maintain(wakes)
    await agent.idle()


def _overflowing(points: Checkpoints, late: Late) -> dict[str, Any]:
    """Queue a second prompt, so that there is something to compact."""

    async def send(payload: PreStep) -> None:
        await points.here()
        if payload.turn.number == 1 and not points.over:
            late.agent.follow_up("y" * 200)

    return {"compaction": Compaction(keep_last=1), "hooks": passing(points, "compact") | {"pre_step": [send]}}


def _pressed(points: Checkpoints, late: Late) -> dict[str, Any]:
    """Have a window that the second prompt does not fit."""
    return _overflowing(points, late) | {"context_window": 150}


async def _long(agent: Agent, points: Checkpoints) -> None:
    await agent.prompt("x" * 200)


ANSWER = Reply(thinking="hm", text="yes", usage={"input": 1, "output": 2})
TWO_POOLS = calls(("beside", {"n": 1}), ("beside", {"n": 0}), ("alone", {"n": 2}), ("beside", {"n": 2}))

SCRIPTS = [
    Script("answer", [ANSWER], _answer),
    Script("tools", [TWO_POOLS, "done"], _tools),
    Script("bare tools", [TWO_POOLS, "done"], _plain),
    Script("retry", [Failure("rate_limit", retry_after=2), "ok"], _retry),
    Script("give up", [Failure("overloaded"), Failure("overloaded")], _retry),
    Script("approvals", [calls(("alone", {"n": 1}), ("beside", {"n": 2})), "done"], _approvals),
    Script("continue", ["a", "b", "c"], _continue),
    Script("steering", ["a", "b", "c", "d"], _steering),
    Script("blocked", [], _blocked),
    Script("empty", [], _empty),
    Script("limits", [calls(("alone", {"n": 1}))], _limits),
    Script("time limit", [Reply("late", delay=50)], _time),
    Script("polls", ["a", "b", "c", "d"], _polls),
    Script("listeners", [calls(("beside", {"n": 2}), ("beside", {"n": 1})), "ok"], _listeners, _listen),
    Script("maintenance", ["a"], _plain, _maintain),
    Script("pressure", ["a" * 200, "sum", "b"], _pressed, _long),
    Script("overflow", ["a" * 200, Failure("context_window"), "sum", "b"], _overflowing, _long),
]
