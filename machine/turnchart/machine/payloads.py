"""What hooks get: one frozen payload per point. ``points.py`` says which point gives which of these."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping, Sequence
from dataclasses import field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeVar, dataclass_transform

from turnchart.machine.entries import Entry, Frozen
from turnchart.machine.messages import AssistantMessage, FailureKind, Message, ToolResultMessage
from turnchart.machine.messages import Block as Part
from turnchart.machine.records import make, record
from turnchart.machine.turn_view import NO_TURN, Call, Outcome, Ran, TurnView, World

if TYPE_CHECKING:
    from turnchart.machine.abort import AbortSignal
    from turnchart.machine.models import Chunk, ModelRequest

P = TypeVar("P", bound="Payload")


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field,))
def _payload(kind: type[P]) -> type[P]:
    """Make a frozen dataclass of a payload, every field of which has a default."""
    return make(kind, kw_only=True)


@_payload
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

    async def run(  # the time limit is on the clock that tests fake
        self,
        argv: Sequence[str],
        *,
        stdin: str = "",
        timeout: float = 30,  # noqa: ASYNC109  # a limit on the clock that tests fake
    ) -> Ran:
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

    def inject(self, text: str) -> None:
        """Tell the model something with the next request, without waking the agent."""
        self._world().inject(text, f"hook {self.id}")

    def _world(self) -> World:
        if self.world is None:
            raise RuntimeError(
                f"this {type(self).__name__} was made without a world, so it has no clock, programs"
                " or models: pass world= to run_chain, or use agent_from(flow) of turnchart.testing"
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


@_payload
class SessionStart(Payload):
    """The session opens. ``source``: new, resumed or forked."""

    source: Literal["new", "resumed", "forked"] = "new"


@_payload
class SessionEnd(Payload):
    """The agent closes. ``reason``: closed, or error."""

    reason: str = "closed"


@_payload
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


@_payload
class PreStep(Payload):
    """A step is proposed. ``messages`` were claimed, in the order in which the model will read them."""

    messages: tuple[Message, ...] = ()
    starts_request_series: bool = False
    may_change: ClassVar[frozenset[str]] = frozenset(("messages", "starts_request_series"))


@_payload
class Request(Payload):
    """What the next request uses. ``calls`` are those of the step before."""

    model: str = ""
    settings: Mapping[str, Any] = field(default_factory=Frozen)
    thinking: str | None = None
    tools: tuple[str, ...] = ()
    calls: tuple[Call, ...] = ()
    may_change: ClassVar[frozenset[str]] = frozenset(("model", "settings", "thinking", "tools"))


@_payload
class Context(Payload):
    """The messages that this request shows, as this project writes them."""

    messages: Sequence[Message] = ()
    may_change: ClassVar[frozenset[str]] = frozenset(("messages",))


@_payload
class Convert(Payload):
    """The messages that this request shows, after custom kinds became what models know."""

    llm_messages: Sequence[Message] = ()
    may_change: ClassVar[frozenset[str]] = frozenset(("llm_messages",))


@_payload
class Stream(Payload):
    """A request goes out: ``next(payload)`` returns the chunks, and a hook may return others."""

    request: "ModelRequest | None" = None


@_payload
class RequestError(Payload):
    """A request failed. ``attempt`` counts within step and model, from 1; ``retry_after`` is in seconds.

    Attributes:
        fallback: The next model of the flow's fallback list; empty where there is none left in this step.
    """

    kind: FailureKind = "unknown"
    status: int | None = None
    retry_after: float | None = None
    attempt: int = 1
    model: str = ""
    message: str = ""
    fallback: str = ""


@_payload
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


@_payload
class RunTool(Payload):
    """A tool runs: ``next(payload)`` returns its ``ToolOutcome``, and a hook may return another."""

    tool: str = ""
    args: Mapping[str, Any] = field(default_factory=Frozen)
    call_id: str = ""


@_payload
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


@_payload
class AfterStep(Payload):
    """A step is over: its answer, and the results of its tools."""

    message: AssistantMessage | None = None
    results: tuple[ToolResultMessage, ...] = ()


@_payload
class TurnStopping(Payload):
    """The turn would end. ``continues`` of ``max_continues`` have been spent."""

    text: str = ""
    reason: str = "completed"
    continues: int = 0
    max_continues: int = 8


@_payload
class Compact(Payload):
    """The conversation would be compacted. ``range``: first and last seq; ``tokens``: its estimate."""

    trigger: Literal["threshold", "overflow", "manual"] = "threshold"
    range: tuple[int, int] = (0, 0)
    tokens: int = 0


@_payload
class OnSignal(Payload):
    """A live signal was told. ``signal`` is its name, ``data`` its fields."""

    signal: str = ""
    data: Mapping[str, Any] = field(default_factory=Frozen)


@record
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
