"""Making an agent walk a path: what its model answers, what hooks say, what people do, and the comparison."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import anyio
from anyio.lowlevel import checkpoint

from turnchart.machine.agent import Agent
from turnchart.machine.chain import BoundHook, Chain, bind
from turnchart.machine.entries import Entry
from turnchart.machine.errors import TurnchartError, TurnFailed
from turnchart.machine.messages import Failure, ToolCall
from turnchart.machine.points import POINTS, GiveUp, Payload, Reject, Retry, Stop
from turnchart.machine.records import record
from turnchart.machine.scripted import Reply, Scripted, ScriptedModel
from turnchart.machine.sides import align, side_by_side
from turnchart.machine.signals import Signal
from turnchart.machine.states import TURN_STATES, Event, State
from turnchart.machine.table import Row
from turnchart.machine.tools import Tool, tool
from turnchart.machine.verdict import acted
from turnchart.machine.walks import Path, Step

ID: Final = "path"
"""The id of the hooks that a path brings along."""
TOOL: Final = "path_step"
EMPTY, FAIL, ENOUGH = "empty", "fail", "enough"
"""Answers of hooks that are no decision: let nothing in, break, and end the turn with this result."""

Act = Literal["prompt", "maintain", "abort", "steer", "follow_up", "refuse"]
When = Literal["entering", "started", "shown"]


class PathFailure(TurnchartError):
    """What breaks a turn where a path says that it fails."""


class WalkDiffers(AssertionError):
    """An agent walked otherwise than a path, and no hook of its own made that path impossible."""


@record
class PathInput:
    """What somebody does while a path is walked.

    Attributes:
        at: After so many rows.
        state: Where the path is then.
        act: What; ``refuse`` lets the log refuse one entry.
        when: On entering the state, when the stream has started, or when it has shown text.
    """

    at: int
    state: State
    act: Act
    when: When = "entering"


@dataclass(slots=True)
class PathScript:
    """What makes an agent walk one path; made for one use.

    Attributes:
        model: Answers as the path needs it.
        tools: A stub for the call that the model makes.
        inputs: What people do, in order; the first wakes the agent.
        hooks: Answers by hook point, to stand behind the agent's own hooks.
    """

    model: ScriptedModel
    tools: tuple[Tool, ...]
    inputs: tuple[PathInput, ...]
    hooks: dict[str, list[BoundHook]]


@record
class Driven:
    """How a path went.

    Attributes:
        path: The path.
        blocked_by: The id of the agent's own hook that made it impossible, or its limit; empty where the
            agent walked it.
    """

    path: Path
    blocked_by: str = ""

    def __str__(self) -> str:
        return f"{self.path}: blocked by {self.blocked_by}" if self.blocked_by else f"{self.path}: walked"


@tool(name=TOOL, inline=True)
def _path_step() -> str:
    """Do nothing."""
    return "done"


# -- writing the script ---------------------------------------------------------------------------


@dataclass(slots=True)
class _Draft:
    path: Path
    replies: list[Scripted] = field(default_factory=list[Scripted])
    inputs: list[PathInput] = field(default_factory=list[PathInput])
    answers: dict[str, list[Any]] = field(default_factory=dict[str, list[Any]])

    def answer(self, point: str, answer: Any = None) -> None:
        self.answers.setdefault(point, []).append(answer)

    def do(self, at: int, act: Act, when: When = "entering") -> None:
        steps = self.path.steps
        state = steps[at].state if at < len(steps) else steps[-1].target
        self.inputs.append(PathInput(at, state, act, when))


def script_of(path: Path) -> PathScript:
    """Return what makes an agent walk a path."""
    draft = _Draft(path)
    for at, step in enumerate(path.steps):
        if step.event is Event.CANCEL and not step.facts.dispatched:
            draft.do(at, "abort")  # before the state does anything
        else:
            _WRITE[step.state](draft, at, step)
    if path.steps[-1].target in TURN_STATES:
        draft.do(len(path.steps), "abort")
    hooks = {
        point: [bind(point, _hook(deque(answers)), id=ID, where="")]
        for point, answers in draft.answers.items()
        if any(answer is not None for answer in answers)
    }
    return PathScript(ScriptedModel(draft.replies, id=ID), (_path_step,), tuple(draft.inputs), hooks)


def _hook(answers: deque[Any]) -> Callable[[Payload], object]:
    def answer(payload: Payload) -> object:
        said = answers.popleft() if answers else None
        if said == FAIL:
            raise PathFailure("the path says so")
        if said == EMPTY:
            return payload.replace(messages=())
        if said == ENOUGH:
            return payload.replace(terminate=True)
        return said

    return answer


def _idle(draft: _Draft, at: int, step: Step) -> None:
    draft.do(at, "maintain" if step.event is Event.MAINTAIN else "prompt")


def _maintenance(draft: _Draft, at: int, step: Step) -> None:
    if step.facts.wake_latched:
        draft.do(at, "follow_up")


def _claiming(draft: _Draft, at: int, step: Step) -> None:
    draft.answer("assemble", FAIL if step.event is Event.FAIL else None)


def _pre_step(draft: _Draft, at: int, step: Step) -> None:
    if step.event is Event.FAIL:
        draft.answer("pre_step", FAIL)
    elif step.event is Event.REJECT:
        draft.answer("pre_step", Reject("the path says so"))
    else:
        draft.answer("pre_step", None if step.facts.request_due else EMPTY)
        if step.facts.prompt_queued:
            draft.do(at, "follow_up")


def _requesting(draft: _Draft, at: int, step: Step) -> None:
    broken = step.event is Event.FAIL
    draft.answer("request", FAIL if broken and not step.facts.dispatched else None)
    if step.event is Event.CANCEL:
        draft.do(at, "abort", "shown" if step.facts.has_text else "started")
        draft.replies.append(Reply(chunks=["something", 3600]))
    elif broken and step.facts.dispatched:
        draft.replies.append(PathFailure("the path says so"))
    elif step.event is Event.REQUEST_FAILED:
        draft.replies.append(Failure("server_error", message="the path says so"))
    elif step.event is Event.RESPOND:
        calls = [ToolCall(TOOL)] if step.facts.has_tool_calls else []
        draft.replies.append(Reply("" if calls else "done", calls))


def _retrying(draft: _Draft, at: int, step: Step) -> None:
    said = {Event.RETRY: Retry(0), Event.GIVE_UP: GiveUp()}
    draft.answer("request_error", said.get(step.event, FAIL))


def _tooling(draft: _Draft, at: int, step: Step) -> None:
    if step.event is Event.FAIL:
        draft.do(at, "refuse")
    elif step.event is Event.TOOLS_DONE:
        draft.answer("post_tool", None if step.facts.results_owed else ENOUGH)


def _stopping(draft: _Draft, at: int, step: Step) -> None:
    stop = Stop("the path says so") if step.facts.must_stop else None
    draft.answer("after_step", FAIL if step.event is Event.FAIL else stop)
    if step.facts.next_step_pending:
        draft.do(at, "steer")
    elif step.facts.prompt_queued:
        draft.do(at, "follow_up")


_WRITE: Final[dict[State, Callable[[_Draft, int, Step], None]]] = {
    State.IDLE: _idle, State.MAINTENANCE: _maintenance, State.CLAIMING: _claiming,
    State.PRE_STEP: _pre_step, State.REQUESTING: _requesting, State.RETRYING: _retrying,
    State.TOOLING: _tooling, State.STOPPING: _stopping,
}  # fmt: skip


# -- walking --------------------------------------------------------------------------------------


async def drive(path: Path, agent: Agent) -> Driven:
    """Make an agent walk a path; see ``Path.drive``."""
    script = script_of(path)
    agent.model, agent.model_id = script.model, script.model.id

    def model(_id: str) -> ScriptedModel:
        return script.model

    agent.models = model
    added = {
        point: Chain(point, [*(agent.chains[point].hooks if point in agent.chains else ()), *hooks])
        for point, hooks in script.hooks.items()
    }
    agent.chains = {**agent.chains, **added}
    rows = agent.walk()
    async with agent:
        await _Conductor(agent, script, rows).whole()
        script.model.drop()
    return _compared(path, rows, agent.session.entries)


class _Conductor:
    """Does what people do, each act at its place."""

    def __init__(self, agent: Agent, script: PathScript, rows: list[Row]) -> None:
        self._agent = agent
        self._rows = rows
        first, *self._inputs = script.inputs
        self._first = first
        self._streams = [each for each in self._inputs if each.when != "entering"]

    async def whole(self) -> None:
        """Wake the agent, and wait until it rests."""
        agent = self._agent
        stop = agent.on("agent/assistant-stream", self._hear) if self._streams else None
        async with anyio.create_task_group() as group:
            group.start_soon(self._conduct)
            await checkpoint()  # so that it waits for the first state already
            if self._first.act == "maintain":
                await agent.maintain(self._job)
            else:
                await self._prompt()
            await agent.idle()
            group.cancel_scope.cancel()
        agent.go_on()
        if stop is not None:
            stop()

    async def _prompt(self) -> None:
        try:
            await self._agent.prompt("walk")
        except TurnFailed:
            return  # the walk tells it

    async def _job(self, agent: Agent) -> None:
        if any(each.at == len(self._rows) and each.act == "follow_up" for each in self._inputs):
            agent.follow_up("walk")

    async def _conduct(self) -> None:
        agent, rows, held = self._agent, self._rows, False
        for given in self._inputs:
            if given.when != "entering" or (given.at == 1 and self._first.act == "maintain"):
                continue
            while not held or len(rows) < given.at:
                agent.go_on()
                await agent.until(given.state)
                held = True
            if len(rows) == given.at:
                self._act(given.act)
        agent.go_on()

    def _act(self, act: Act) -> None:
        agent = self._agent
        match act:
            case "abort":
                agent.abort(ID)
            case "steer":
                agent.steer("walk on")
            case "follow_up":
                agent.follow_up("walk again")
            case "refuse":
                stop = agent.session.validate(lambda entry: refuse(entry))

                def refuse(entry: Entry) -> str:
                    stop()
                    return "the path says so"

            case _:
                raise ValueError(f"{act} only begins a path")

    def _hear(self, signal: Signal, abort: object) -> None:
        frame = {"started": "start", "shown": "chunk"}
        for given in self._streams:
            if given.at == len(self._rows) and signal.data["frame"] == frame[given.when]:
                self._agent.abort(ID)


def _compared(path: Path, rows: Sequence[Row], entries: Sequence[Entry]) -> Driven:
    ways = [(row.source, row.event, row.target) for row in rows]
    planned = [(step.state, step.event, step.target) for step in path.steps]
    whole = path.steps[-1].target is State.IDLE
    walked = ways if whole else ways[: len(planned)]
    if walked == planned:
        return Driven(path)
    same = next(
        (i for i, (one, other) in enumerate(zip(walked, planned, strict=False)) if one != other), None
    )
    at = path.steps[min(len(walked), len(planned) - 1) if same is None else same].state
    blocked = _blocker(at, entries)
    if blocked:
        return Driven(path, blocked)
    shown = [" ".join(way) for way in planned]
    came = [" ".join(way) for way in ways]
    lines = side_by_side(align(shown, came, str.__eq__), shown, came)
    raise WalkDiffers("\n".join([f"the agent left the path {path}:", *(f"  {line}" for line in lines)]))


def _blocker(state: State, entries: Sequence[Entry]) -> str:
    """Return which hook of the agent's own, or which of its limits, acted in a state."""
    for entry in reversed(entries):
        data = entry.data
        if entry.type != "hook/result" or data["id"] == ID or not acted(data):
            continue
        if state in POINTS[data["point"]].states:
            return str(data["id"])
    ends = [entry.data["reason"] for entry in entries if entry.type == "turn/end"]
    return next((f"limits.{reason}" for reason in ends if reason.startswith("max_")), "")
