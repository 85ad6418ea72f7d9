"""The hook points: per point its states, kind, payload, what may change, the decisions, and what a failure means.

This is the only place that says so. The run time, the schema, the documentation and the pictures read it.

A hook takes one frozen payload and returns nothing (pass on), ``payload.replace(...)`` (the next hook sees it;
only the fields that ``Point.changes`` names), or one of the point's decisions.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, Self

from turnchart.machine.entries import Entry, Frozen
from turnchart.machine.messages import AssistantMessage, FailureKind, Message, ToolResultMessage
from turnchart.machine.messages import Block as Part
from turnchart.machine.states import State

if TYPE_CHECKING:
    from turnchart.machine.abort import AbortSignal
    from turnchart.machine.models import Chunk, ModelRequest

Outcome = Literal["ok", "error", "denied", "aborted"]
"""How a tool call ended."""


# -- what a payload knows of the world ------------------------------------------------------------


class Ran(Protocol):
    """What a program that a hook started gave back."""

    @property
    def exit_code(self) -> int:
        """0 is success."""
        ...

    @property
    def output(self) -> str:
        """What it wrote to standard output."""
        ...

    @property
    def errors(self) -> str:
        """What it wrote to standard error."""
        ...


class World(Protocol):
    """How a hook reaches the world: every way is traced, cancelled with the turn, and stubbed in tests."""

    @property
    def root(self) -> str:
        """The folder that files and programs start from."""
        ...

    def now(self) -> float:
        """Return the time in Unix seconds, on the clock that tests fake."""
        ...

    async def run(
        self,
        argv: Sequence[str],
        *,
        stdin: str = "",
        timeout: float = 30,
        env: Mapping[str, str] | None = None,
    ) -> Ran:
        """Run a program without a shell and return what it gave back."""
        ...

    async def ask_model(self, model: str, prompt: str) -> str:
        """Ask a model one question and return its text."""
        ...

    def read(self, path: str) -> str:
        """Return the text of a file below the root."""
        ...

    def append(self, path: str, text: str) -> None:
        """Append text to a file below the root; folders are created."""
        ...

    def notice(self, text: str) -> None:
        """Tell the user something: the signal ``notice``."""
        ...


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call of this turn."""

    call_id: str
    tool: str
    arguments: Frozen | str
    outcome: Outcome | None = None
    """None while it runs."""
    step: int = 0


class TurnView:
    """The running turn, read from the log, so that it is the same after a kill and a resume.

    Everything is computed when it is asked for, from the entries since ``turn/start``.
    """

    __slots__ = ("_entries", "_start", "number")

    def __init__(self, number: int = 0, entries: Sequence[Entry] = (), start: int = 0) -> None:
        self.number = number
        self._entries = entries
        self._start = start

    def _all(self, kind: str) -> list[Entry]:
        return [
            self._entries[i] for i in range(self._start, len(self._entries)) if self._entries[i].type == kind
        ]

    @property
    def prompt(self) -> str:
        """The text of the first message that was admitted."""
        users = self._all("user/message")
        return _text(users[0].data["message"]) if users else ""

    @property
    def steps(self) -> int:
        """How many steps began."""
        return len(self._all("step/start"))

    @property
    def calls(self) -> tuple[Call, ...]:
        """The tool calls in the order in which they started."""
        outcomes = {
            entry.data["message"]["call_id"]: entry.data["outcome"] for entry in self._all("tool/result")
        }
        return tuple(
            Call(d["call_id"], d["tool"], d["arguments"], outcomes.get(d["call_id"]), d["step"])
            for d in (entry.data for entry in self._all("tool/call"))
        )

    @property
    def continues(self) -> int:
        """How often a ``turn_stopping`` hook sent the turn on."""
        return sum(1 for entry in self._all("hook/result") if entry.data.get("decision") == "continue")

    def continues_of(self, id: str) -> int:
        """How often the hook with this id sent the turn on."""
        return sum(
            1
            for entry in self._all("hook/result")
            if entry.data.get("decision") == "continue" and entry.data["id"] == id
        )

    @property
    def usage(self) -> Mapping[str, int]:
        """Tokens of the turn so far, summed over its answers: input, output, cache_read, cache_write."""
        total: dict[str, int] = {}
        for entry in self._all("assistant/message"):
            for name, count in entry.data["message"].get("usage", {}).items():
                total[name] = total.get(name, 0) + count
        return total


def _text(message: Mapping[str, Any]) -> str:
    return "".join(part["text"] for part in message["content"] if part["type"] == "text")


NO_TURN = TurnView()


# -- decisions ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Decision:
    """What a hook decided. ``word`` is how logs and ``run:`` hooks write it."""

    word: ClassVar[str] = ""


@dataclass(frozen=True, slots=True)
class Enter(Decision):
    """Enter the step with these messages; the same as replacing them in the payload."""

    word = "enter"
    messages: tuple[Message, ...]
    starts_request_series: bool = False


@dataclass(frozen=True, slots=True)
class Reject(Decision):
    """Do not enter the step; the turn ends as blocked."""

    word = "reject"
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Retry(Decision):
    """Try the request again after so many seconds, with another model if one is named."""

    word = "retry"
    after: float = 0
    model: str | None = None


@dataclass(frozen=True, slots=True)
class GiveUp(Decision):
    """Do not try again; the failure ends the turn."""

    word = "give_up"
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Allow(Decision):
    """See nothing wrong. Ends nothing and undoes nothing."""

    word = "allow"
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Ask(Decision):
    """Ask a person before the tool runs; the chain goes on, and a later Deny wins."""

    word = "ask"
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Deny(Decision):
    """Do not run the tool; the model reads the reason."""

    word = "deny"
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Stop(Decision):
    """End the turn after this step."""

    word = "stop"
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Continue(Decision):
    """Send the turn back to the model with this reason."""

    word = "continue"
    reason: str = ""


@dataclass(frozen=True, slots=True)
class AddContext(Decision):
    """Tell the model this with the next step."""

    word = "add_context"
    text: str = ""


@dataclass(frozen=True, slots=True)
class Block(Decision):
    """Withhold the result of a tool; the model reads an error with the reason instead."""

    word = "block"
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Veto(Decision):
    """Do not compact now."""

    word = "veto"
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Summary(Decision):
    """Use this text as the summary."""

    word = "summary"
    text: str = ""


# -- payloads -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """What every hook gets. Frozen: change it with ``replace``.

    Attributes:
        agent: The agent's name.
        flow: The flow's name; empty for an agent made in Python.
        session: The session's id.
        turn: The running turn, read from the log.
        step: The number of the step inside the turn, from 1.
        id: The id of the hook that reads this.
        log: The entries so far; do not keep it.
        memory: A small JSON object of this hook's own; stored at the end of the step when it changed.
    """

    agent: str = ""
    flow: str = ""
    session: str = ""
    turn: TurnView = NO_TURN
    step: int = 0
    id: str = ""
    log: Sequence[Entry] = ()
    memory: MutableMapping[str, Any] = field(default_factory=dict[str, Any])
    abort: "AbortSignal | None" = None
    world: World | None = None

    may_change: ClassVar[frozenset[str]] = frozenset()

    def replace(self, **changes: Any) -> Self:
        """Return a payload with some fields changed.

        Raises:
            TypeError: If the contract of the point does not let a hook change a field.
        """
        wrong = sorted(changes.keys() - self.may_change)
        if wrong:
            may = ", ".join(sorted(self.may_change)) or "nothing"
            raise TypeError(
                f"{type(self).__name__}.{wrong[0]} cannot be changed by a hook; it may change {may}"
            )
        return replace(self, **changes)

    @property
    def now(self) -> float:
        """The time in Unix seconds, on the clock that tests fake."""
        return self._world().now()

    async def run(self, argv: Sequence[str], *, stdin: str = "", timeout: float = 30) -> Ran:
        """Run a program without a shell: traced, cancelled with the turn, stubbed in tests."""
        return await self._world().run(argv, stdin=stdin, timeout=timeout)

    async def ask_model(self, model: str, prompt: str) -> str:
        """Ask a model one question and return its text."""
        return await self._world().ask_model(model, prompt)

    def read(self, path: str) -> str:
        """Return the text of a file below the root."""
        return self._world().read(path)

    def notice(self, text: str) -> None:
        """Tell the user something: the signal ``notice``."""
        self._world().notice(text)

    def _world(self) -> World:
        if self.world is None:
            raise RuntimeError(
                f"this {type(self).__name__} was made without a world, so it has no clock, programs or models:"
                " pass world= to run_chain, or use agent_from(flow) of turnchart.testing"
            )
        return self.world

    def changed(self, other: "Payload") -> tuple[str, ...]:
        """Return the names of the fields in which another payload of the same point differs."""
        return tuple(sorted(name for name in self.may_change if getattr(self, name) != getattr(other, name)))

    def json(self) -> dict[str, Any]:
        """Return what a ``run:`` hook reads: the point's own fields, by the names of the contract."""
        own = {f.name for f in fields(self)} - _COMMON
        given = {name: getattr(self, name) for name in sorted(own)}
        turn = {"number": self.turn.number, "prompt": self.turn.prompt, "steps": self.turn.steps}
        common = {"agent": self.agent, "flow": self.flow, "session": self.session, "id": self.id}
        return {**common, "turn": turn, "step": self.step, **given}


_COMMON = frozenset(f.name for f in fields(Payload))


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStart(Payload):
    """The session opens. ``source``: new, resumed or forked."""

    source: Literal["new", "resumed", "forked"] = "new"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionEnd(Payload):
    """The agent closes. ``reason``: closed, or error."""

    reason: str = "closed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Assemble(Payload):
    """The prompt of the next step is put together.

    Attributes:
        sections: The parts of the system prompt, joined with a blank line.
        contexts: Facts by name, told to the model as one message when they change.
        tools: The names of the tools that the model may call.
    """

    sections: tuple[str, ...] = ()
    contexts: Mapping[str, str] = field(default_factory=Frozen)
    tools: tuple[str, ...] = ()
    may_change: ClassVar[frozenset[str]] = frozenset(("sections", "contexts", "tools"))


@dataclass(frozen=True, slots=True, kw_only=True)
class PreStep(Payload):
    """A step is proposed. ``messages`` were claimed, in the order in which the model will read them."""

    messages: tuple[Message, ...] = ()
    starts_request_series: bool = False
    may_change: ClassVar[frozenset[str]] = frozenset(("messages", "starts_request_series"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Request(Payload):
    """What the next request uses. ``calls`` are those of the step before."""

    model: str = ""
    settings: Mapping[str, Any] = field(default_factory=Frozen)
    thinking: str | None = None
    tools: tuple[str, ...] = ()
    calls: tuple[Call, ...] = ()
    may_change: ClassVar[frozenset[str]] = frozenset(("model", "settings", "thinking", "tools"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Context(Payload):
    """The messages that this request shows, as this project writes them."""

    messages: Sequence[Message] = ()
    may_change: ClassVar[frozenset[str]] = frozenset(("messages",))


@dataclass(frozen=True, slots=True, kw_only=True)
class Convert(Payload):
    """The messages that this request shows, after custom kinds became what models know."""

    llm_messages: Sequence[Message] = ()
    may_change: ClassVar[frozenset[str]] = frozenset(("llm_messages",))


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream(Payload):
    """A request goes out: ``next(payload)`` returns the chunks, and a hook may return others."""

    request: "ModelRequest | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestError(Payload):
    """A request failed. ``attempt`` counts within the step and model, from 1; ``retry_after`` is in seconds."""

    kind: FailureKind = "unknown"
    status: int | None = None
    retry_after: float | None = None
    attempt: int = 1
    model: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreTool(Payload):
    """A tool is about to run. ``args`` are valid; changed ones are validated again at once."""

    tool: str = ""
    args: Mapping[str, Any] = field(default_factory=Frozen)
    call_id: str = ""
    subject: str | None = None
    """The argument that permissions match, as text; None where the tool declares none."""
    subject_name: str | None = None
    """The name of that argument."""
    may_change: ClassVar[frozenset[str]] = frozenset(("args",))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTool(Payload):
    """A tool runs: ``next(payload)`` returns its ``ToolOutcome``, and a hook may return another."""

    tool: str = ""
    args: Mapping[str, Any] = field(default_factory=Frozen)
    call_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PostTool(Payload):
    """A tool has run, or was not let run.

    Attributes:
        outcome: ok, error, denied or aborted.
        content: What the model will read.
        details: For people and logs; the model does not see it.
        terminate: End the turn here, if every result of the batch says so.
        context: What else to tell the model with the next step; empty for nothing.
    """

    tool: str = ""
    args: Mapping[str, Any] = field(default_factory=Frozen)
    call_id: str = ""
    outcome: Outcome = "ok"
    content: tuple[Part, ...] = ()
    details: Any = None
    is_error: bool = False
    usage: Mapping[str, int] | None = None
    terminate: bool = False
    context: str = ""
    may_change: ClassVar[frozenset[str]] = frozenset(
        ("content", "details", "is_error", "usage", "terminate", "context")
    )

    @property
    def text(self) -> str:
        """The text of the content."""
        return "".join(part["text"] for part in self.content if part["type"] == "text")


@dataclass(frozen=True, slots=True, kw_only=True)
class AfterStep(Payload):
    """A step is over: its answer, and the results of its tools."""

    message: AssistantMessage | None = None
    results: tuple[ToolResultMessage, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnStopping(Payload):
    """The turn would end. ``continues`` of ``max_continues`` have been spent."""

    text: str = ""
    reason: str = "completed"
    continues: int = 0
    max_continues: int = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Compact(Payload):
    """The conversation would be compacted. ``range``: first and last seq; ``tokens``: its estimate."""

    trigger: Literal["threshold", "overflow", "manual"] = "threshold"
    range: tuple[int, int] = (0, 0)
    tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class OnSignal(Payload):
    """A live signal was told. ``signal`` is its name, ``data`` its fields."""

    signal: str = ""
    data: Mapping[str, Any] = field(default_factory=Frozen)


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """What running a tool gave: the answer of the ``tool`` point."""

    content: tuple[Part, ...] = ()
    details: Any = None
    is_error: bool = False
    usage: Mapping[str, int] | None = None
    terminate: bool = False
    added_tools: tuple[str, ...] = ()
    outcome: Outcome = "ok"


Chunks = AsyncIterator["Chunk"]
Next = Callable[[Any], Awaitable[Any]]
"""The rest of a chain: give it a payload, get what the rest of the chain says."""


# -- the contract ---------------------------------------------------------------------------------

PointKind = Literal["all", "rewrite", "gate", "wrap", "first answer", "observer"]
OnError = Literal["warn", "stop"]
FailureRule = Literal["turn error", "call denied", "error result", "withheld", "does not start", "reported"]


@dataclass(frozen=True, slots=True)
class Point:
    """One hook point.

    Attributes:
        name: The name in YAML and in Python.
        states: Where it acts; empty for every state.
        kind: How the answers of a chain combine.
        payload: What its hooks get; ``payload.may_change`` names the fields they may replace.
        decisions: What they may decide.
        on_error: The default where YAML may write ``on_error``; None where the rule below is fixed.
        failure: What a failing or late hook does (with ``on_error: warn`` the previous value stays).
        run: A ``run:`` program may stand here.
        tools: An entry may carry ``tools:`` globs.
        does: One line for people.
    """

    name: str
    states: tuple[State, ...]
    kind: PointKind
    payload: type[Payload]
    decisions: tuple[type[Decision], ...]
    on_error: OnError | None
    failure: FailureRule
    run: bool
    tools: bool
    does: str

    @property
    def gate(self) -> bool:
        """A failing hook blocks, and YAML cannot say otherwise."""
        return self.kind == "gate"


_S = State

POINTS: Mapping[str, Point] = MappingProxyType({point.name: point for point in (
    Point("session_start", (_S.IDLE,), "all", SessionStart, (AddContext,), "warn", "does not start", True, False,
          "once per open; may add context to a new session"),
    Point("session_end", (_S.IDLE,), "all", SessionEnd, (), None, "reported", True, False,
          "once per close"),
    Point("assemble", (_S.CLAIMING,), "rewrite", Assemble, (), "stop", "turn error", True, False,
          "puts the prompt, the facts and the tool list of a step together"),
    Point("pre_step", (_S.PRE_STEP,), "gate", PreStep, (Reject, Enter), None, "turn error", True, False,
          "lets a step in or not, and rewrites its messages"),
    Point("request", (_S.REQUESTING,), "rewrite", Request, (), "stop", "turn error", True, False,
          "chooses model, settings, thinking and tools of the request"),
    Point("context", (_S.REQUESTING,), "rewrite", Context, (), "warn", "turn error", True, False,
          "rewrites the messages that the request shows"),
    Point("convert", (_S.REQUESTING,), "rewrite", Convert, (), None, "turn error", False, False,
          "rewrites the messages in the form that models know"),
    Point("stream", (_S.REQUESTING,), "wrap", Stream, (), None, "turn error", False, False,
          "wraps the stream of chunks"),
    Point("request_error", (_S.RETRYING,), "first answer", RequestError, (Retry, GiveUp), None, "turn error",
          True, False, "says whether a failed request is tried again"),
    Point("pre_tool", (_S.TOOLING,), "gate", PreTool, (Allow, Ask, Deny), None, "call denied", True, True,
          "lets a tool call run or not, and rewrites its arguments"),
    Point("tool", (_S.TOOLING,), "wrap", RunTool, (), None, "error result", False, True,
          "wraps the running of a tool"),
    Point("post_tool", (_S.TOOLING,), "rewrite", PostTool, (Block,), "warn", "withheld", True, True,
          "rewrites what a tool gave back, or withholds it"),
    Point("after_step", (_S.STOPPING,), "first answer", AfterStep, (Stop,), None, "turn error", True, False,
          "may end the turn after a step"),
    Point("turn_stopping", (_S.STOPPING,), "first answer", TurnStopping, (Continue,), None, "turn error",
          True, False, "may send the turn back to the model"),
    Point("compact", (_S.PRE_STEP, _S.RETRYING, _S.MAINTENANCE), "first answer", Compact, (Veto, Summary), None,
          "reported", True, False, "may veto a compaction or write its summary"),
    Point("on_signal", (), "observer", OnSignal, (), None, "reported", True, False,
          "hears every live signal"),
)})  # fmt: skip
"""The contract of every hook point, by name, in the order of a turn."""

WITH_ON_ERROR: tuple[str, ...] = tuple(point.name for point in POINTS.values() if point.on_error)
"""The points where an entry may write ``on_error``."""
