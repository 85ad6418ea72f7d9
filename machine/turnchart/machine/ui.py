"""What a user interface hears: our signals by the names of the system that calls a step a turn.

``agent.ui(listener)`` gives these events, each frozen, in the order in which it happened. Nothing of this
module is loaded before somebody asks for it. The mapping, word by word:

    agent_start, agent_end, settled     status running; status idle, then again when it stayed idle
    turn_start, turn_end, save_point    step/start; step/end; after step/end and its buffered writes
    message_start, message_end          each user/message and tool/result
    the same and message_update         of an assistant: its stream and its settlement
    tool_execution_start, _end          tool/call; what post_tool let through, before tool/result
    tool_execution_update               ctx.progress
    queue_update                        after each agent/inbox/spliced
    abort                               after an abort that discarded something
    model_update, thinking_level_update, tools_update    after their entries
    tools_update                        MCP tools that came or went; the next request header has them
    after_provider_response             the first chunk of an attempt
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, cast

from turnchart.machine.messages import AssistantMessage, Block, Failure, Message, ToolResultMessage
from turnchart.machine.models import BlockEnd, BlockStart, Chunk, TextDelta, ThinkingDelta, ToolCallDelta
from turnchart.machine.records import record
from turnchart.machine.signals import Signal
from turnchart.machine.states import TURN_STATES
from turnchart.machine.stream import Answer, expand
from turnchart.machine.view import View, conversation, error_message

if TYPE_CHECKING:
    from turnchart.machine.entries import Entry, Frozen
    from turnchart.machine.inbox import Item
    from turnchart.machine.outfit import Outfit

_PARTS = (BlockStart, TextDelta, ThinkingDelta, ToolCallDelta, BlockEnd)
"""The chunks that change what the answer shows."""


# -- the events ------------------------------------------------------------------------------------


@record
class AgentStart:
    """The agent works."""

    type: ClassVar[Literal["agent_start"]] = "agent_start"


@record
class AgentEnd:
    """It does not work any more. ``messages``: what this run added to the conversation, oldest first."""

    type: ClassVar[Literal["agent_end"]] = "agent_end"
    messages: tuple[Message, ...] = ()
    error_message: str | None = None


@record
class Settled:
    """It came to rest: no ``agent_end`` listener sent it on. ``next_turn_count``: riders that wait."""

    type: ClassVar[Literal["settled"]] = "settled"
    next_turn_count: int = 0


@record
class TurnStart:
    """A step of a turn begins."""

    type: ClassVar[Literal["turn_start"]] = "turn_start"
    turn: int = 0
    step: int = 0


@record
class TurnEnd:
    """A step is over: its last answer, the results of its tools, and what broke it."""

    type: ClassVar[Literal["turn_end"]] = "turn_end"
    message: AssistantMessage | None = None
    tool_results: tuple[ToolResultMessage, ...] = ()
    error_message: str | None = None


@record
class MessageStart:
    """A message of any role begins; that of an assistant holds nothing yet."""

    type: ClassVar[Literal["message_start"]] = "message_start"
    message: Message


@record
class MessageUpdate:
    """More of an answer came."""

    type: ClassVar[Literal["message_update"]] = "message_update"
    chunk: Chunk
    partial: Partial

    @property
    def message(self) -> AssistantMessage:
        """The answer as it was then; put together when it is looked at."""
        return self.partial.message


@record
class MessageEnd:
    """A message is complete; it is the object that the log holds.

    Attributes:
        message: Of any role.
        attempt: The number of a failed attempt, whose message the conversation never holds; else None.
        failure: Why that attempt failed, where the model said so.
    """

    type: ClassVar[Literal["message_end"]] = "message_end"
    message: Message
    attempt: int | None = None
    failure: Failure | None = None


@record
class ToolExecutionStart:
    """A call starts: hooks and people are asked about it, then its tool runs."""

    type: ClassVar[Literal["tool_execution_start"]] = "tool_execution_start"
    call_id: str
    tool: str
    args: Frozen | str


@record
class ToolExecutionUpdate:
    """How far a call is."""

    type: ClassVar[Literal["tool_execution_update"]] = "tool_execution_update"
    call_id: str
    tool: str
    args: Frozen | str
    content: tuple[Block, ...] = ()


@record
class ToolExecutionEnd:
    """A call is over, and this is what the ``post_tool`` hooks made of its result; in the model's order."""

    type: ClassVar[Literal["tool_execution_end"]] = "tool_execution_end"
    call_id: str
    tool: str
    result: ToolResultMessage
    is_error: bool = False


@record
class QueueUpdate:
    """What waits now: for the next step, for turns of its own, and beside the next prompt."""

    type: ClassVar[Literal["queue_update"]] = "queue_update"
    steer: tuple[Item, ...] = ()
    follow_up: tuple[Item, ...] = ()
    next_turn: tuple[Item, ...] = ()


@record
class SavePoint:
    """A step and what was asked for meanwhile are in the log."""

    type: ClassVar[Literal["save_point"]] = "save_point"
    had_pending_mutations: bool = False


@record
class Abort:
    """An abort discarded these."""

    type: ClassVar[Literal["abort"]] = "abort"
    cleared: tuple[Item, ...] = ()


@record
class ModelUpdate:
    """Another model is asked from the next step on."""

    type: ClassVar[Literal["model_update"]] = "model_update"
    model: str
    previous_model: str


@record
class ThinkingLevelUpdate:
    """Another thinking level counts from the next step on; None is the provider's default."""

    type: ClassVar[Literal["thinking_level_update"]] = "thinking_level_update"
    level: str | None
    previous_level: str | None


@record
class ToolsUpdate:
    """The model may call other tools from the next step on."""

    type: ClassVar[Literal["tools_update"]] = "tools_update"
    tools: tuple[str, ...]
    previous_tools: tuple[str, ...]


@record
class AfterProviderResponse:
    """The model began to answer. ``attempt`` counts inside the step, from 1."""

    type: ClassVar[Literal["after_provider_response"]] = "after_provider_response"
    model: str
    attempt: int = 1


UiEvent: TypeAlias = (
    AgentStart | AgentEnd | Settled | TurnStart | TurnEnd | MessageStart | MessageUpdate | MessageEnd
    | ToolExecutionStart | ToolExecutionUpdate | ToolExecutionEnd | QueueUpdate | SavePoint | Abort
    | ModelUpdate | ThinkingLevelUpdate | ToolsUpdate | AfterProviderResponse
)  # fmt: skip


class Partial:
    """An answer as it was after so many chunks. Put together only when somebody looks, and once."""

    __slots__ = ("_answer", "_call_id", "_count", "_message", "_model", "_time")

    def __init__(self, answer: Answer, count: int, model: str, call_id: str, time: float) -> None:
        self._answer = answer
        self._count = count
        self._model = model
        self._call_id = call_id
        self._time = time
        self._message: AssistantMessage | None = None

    @property
    def message(self) -> AssistantMessage:
        """What the chunks so far say."""
        if self._message is None:
            answer = self._answer
            if answer.count != self._count:
                answer = Answer()
                for chunk, time in islice(expand(self._answer.record()), self._count):
                    answer.add(chunk, time)
            self._message = answer.message(self._model, self._time, self._call_id)
        return self._message


@record
class Rebuilt:
    """For the view alone: the conversation was changed further up, or is another branch now."""

    type: ClassVar[Literal["rebuilt"]] = "rebuilt"
    messages: Sequence[Message] = ()


# -- the mapping -----------------------------------------------------------------------------------


class Ui:
    """Makes UI events of the signals of one agent, and keeps its view by them.

    Signals are translated when they are told, so that an event says what was true then; the view takes an
    event right before its listeners hear it, so that they see what it changed.
    """

    __slots__ = ("_agent", "_args", "_failed", "_level", "_model", "_run", "_started", "_step", "_tools",
                 "_unsaved", "view")  # fmt: skip

    def __init__(self, agent: Outfit) -> None:
        self._agent = agent
        self.begin()

    def begin(self) -> None:
        """Start from what the agent is now."""
        agent = self._agent
        self.view = View(agent)
        self._model, self._level = _model(agent), _level(agent)
        self._tools = agent.active_tools()
        self._run = _last(agent, "turn/start") if agent.session.brackets.turn_open else self._end
        self._step = _last(agent, "step/start") if agent.session.brackets.step_open else self._end
        self._args: dict[str, Frozen | str] = {
            entry.data["call_id"]: entry.data["arguments"]
            for entry in agent.session.entries[self._step :]
            if entry.type == "tool/call"
        }
        self._failed: AssistantMessage | None = None
        """The message of the last attempt of this step, where it failed."""
        self._started = ""
        """The id of the attempt whose message has begun."""
        self._unsaved = False

    @property
    def _end(self) -> int:
        return len(self._agent.session.entries)

    def told(self, signal: Signal) -> Iterable[Signal | UiEvent | Rebuilt]:
        """Return a signal among the events that it makes, in the order in which listeners hear them."""
        if signal.kind == "session/event":
            return self._entry(signal, signal.data["entry"])
        return (signal, *self.made(signal.kind, signal.data))

    def made(self, happened: str, data: Mapping[str, Any]) -> Iterable[UiEvent]:
        """Return the events of something that happened."""
        make = _MADE.get(happened)
        return () if make is None else make(self, data)

    def take(self, event: UiEvent | Rebuilt) -> bool:
        """Take an event into the view, and return whether listeners should hear it."""
        if event.type == "settled" and self._agent.state in TURN_STATES:
            return False
        self.view.take(event)
        return event.type != "rebuilt"

    # -- from entries --------------------------------------------------------------------------

    def _entry(self, signal: Signal, entry: Entry) -> Iterator[Signal | UiEvent | Rebuilt]:
        if entry.replaces is not None or entry.type in ("leaf", "compaction", "branch_summary"):
            yield signal
            yield Rebuilt(conversation(self._agent))
            return
        if entry.type == "tool/result":
            message = cast(ToolResultMessage, entry.data["message"])
            self._args.pop(message.call_id, None)
            yield ToolExecutionEnd(message.call_id, message.tool, message, message.is_error)
        yield signal
        make = _ENTRIES.get(entry.type)
        if make is not None:
            yield from make(self, entry)

    def _step_start(self, entry: Entry) -> Iterator[UiEvent]:
        self._step, self._failed = entry.seq, None
        self._args.clear()
        yield TurnStart(entry.data["turn"], entry.data["step"])

    def _step_end(self, _entry: Entry) -> Iterator[UiEvent]:
        self._unsaved = True
        entries = self._agent.session.entries[self._step :]
        own = [each for each in entries if each.replaces is None]
        answers = [each.data["message"] for each in own if each.type == "assistant/message"]
        results = [each.data["message"] for each in own if each.type == "tool/result"]
        answer = answers[-1] if answers else self._failed
        yield TurnEnd(answer, tuple(results), error_message(self._agent.turning))

    def _message(self, entry: Entry) -> Iterator[UiEvent]:
        yield MessageStart(entry.data["message"])
        yield MessageEnd(entry.data["message"])

    def _answered(self, entry: Entry) -> Iterator[UiEvent]:
        message = cast(AssistantMessage, entry.data["message"])
        yield from self._begun(message)
        yield MessageEnd(message)

    def _attempted(self, entry: Entry) -> Iterator[UiEvent]:
        now = self._agent.turning
        answer = now.answer or Answer()
        message = answer.message(now.model, entry.time, self._call_id)
        aborted = now.cause is not None or (now.failure is not None and now.failure.kind == "aborted")
        message = AssistantMessage.of_fields({**message, "stop_reason": "aborted" if aborted else "error"})
        self._failed = message
        yield from self._begun(message)
        yield MessageEnd(message, entry.attempt, now.failure)

    def _begun(self, message: AssistantMessage) -> Iterator[UiEvent]:
        """Let a message begin whose stream showed nothing."""
        if self._started != self._agent.turning.attempt_id:
            yield MessageStart(message.with_content(()))
        self._started = ""

    def _call(self, entry: Entry) -> Iterator[UiEvent]:
        data = entry.data
        self._args[data["call_id"]] = data["arguments"]
        yield ToolExecutionStart(data["call_id"], data["tool"], data["arguments"])

    def _queue(self, _entry: Entry) -> Iterator[UiEvent]:
        yield QueueUpdate(*self._agent.session.inbox.queued())

    def _model_changed(self, _entry: Entry) -> Iterator[UiEvent]:
        previous, self._model = self._model, _model(self._agent)
        yield ModelUpdate(self._model, previous)

    def _level_changed(self, _entry: Entry) -> Iterator[UiEvent]:
        previous, self._level = self._level, _level(self._agent)
        yield ThinkingLevelUpdate(self._level, previous)

    def _tools_changed(self, _entry: Entry) -> Iterator[UiEvent]:
        previous, self._tools = self._tools, self._agent.active_tools()
        yield ToolsUpdate(self._tools, previous)

    # -- from other signals ----------------------------------------------------------------------

    def _status(self, data: Mapping[str, Any]) -> Iterator[UiEvent]:
        if data["status"] == "running":
            self._run = self._end
            yield AgentStart()
            return
        run = self._agent.session.entries[self._run :]
        self._run = self._end
        yield AgentEnd(tuple(_messages(run)), error_message(self._agent.turning))
        yield Settled(len(self._agent.session.inbox.riders))

    def _frame(self, data: Mapping[str, Any]) -> Iterator[UiEvent]:
        now = self._agent.turning
        if data["frame"] != "chunk" or now.answer is None:
            return
        if data["index"] == 0:
            yield AfterProviderResponse(now.model, now.attempt)
        if self._started != now.attempt_id:
            self._started = now.attempt_id
            yield MessageStart(self._partial(now.answer, data["index"], data["time"]).message)
        if isinstance(data["chunk"], _PARTS):
            yield MessageUpdate(data["chunk"], self._partial(now.answer, data["index"] + 1, data["time"]))

    def _retooled(self, _data: Mapping[str, Any]) -> Iterator[UiEvent]:
        previous, self._tools = self._tools, self._agent.active_tools()
        if self._tools != previous:
            yield ToolsUpdate(self._tools, previous)

    def _partial(self, answer: Answer, count: int, time: float) -> Partial:
        return Partial(answer, count, self._agent.turning.model, self._call_id, time)

    @property
    def _call_id(self) -> str:
        return f"c{self._agent.turning.number}.{self._agent.turning.step}"

    def _written(self, data: Mapping[str, Any]) -> Iterator[UiEvent]:
        if self._unsaved:
            self._unsaved = False
            yield SavePoint(data["wrote"])

    def _aborted(self, data: Mapping[str, Any]) -> Iterator[UiEvent]:
        if data["cleared"]:
            yield Abort(data["cleared"])

    def _progress(self, data: Mapping[str, Any]) -> Iterator[UiEvent]:
        args = self._args.get(data["call_id"], "")
        yield ToolExecutionUpdate(data["call_id"], data["tool"], args, data["content"])


def _model(agent: Outfit) -> str:
    return agent.session.view.model or agent.model_id


def _level(agent: Outfit) -> str | None:
    chosen = agent.session.view.thinking
    return chosen if chosen is not None else agent.thinking


def _last(agent: Outfit, type: str) -> int:
    return next((entry.seq for entry in reversed(agent.session.entries) if entry.type == type), 0)


def _messages(entries: Sequence[Entry]) -> Iterator[Message]:
    """Yield what these entries added to the conversation."""
    for entry in entries:
        if entry.type in _SPOKEN and entry.replaces is None:
            yield entry.data["message"]


_SPOKEN = frozenset(("user/message", "custom_message", "assistant/message", "tool/result"))

# pyright: reportPrivateUsage=false
# The tables name methods of the class above them.
_ENTRIES: Mapping[str, Callable[[Ui, Entry], Iterator[UiEvent]]] = {
    "step/start": Ui._step_start,
    "step/end": Ui._step_end,
    "user/message": Ui._message,
    "custom_message": Ui._message,
    "tool/result": Ui._message,
    "assistant/message": Ui._answered,
    "assistant/attempt": Ui._attempted,
    "tool/call": Ui._call,
    "agent/inbox/spliced": Ui._queue,
    "model_change": Ui._model_changed,
    "thinking_level_change": Ui._level_changed,
    "active_tools_change": Ui._tools_changed,
}
_MADE: Mapping[str, Callable[[Ui, Mapping[str, Any]], Iterator[UiEvent]]] = {
    "agent/status": Ui._status,
    "agent/assistant-stream": Ui._frame,
    "tool/progress": Ui._progress,
    "writes": Ui._written,
    "abort": Ui._aborted,
    "tools": Ui._retooled,
}
