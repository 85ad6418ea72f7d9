"""What an agent is at one moment, as one frozen snapshot: ``agent.view``.

Where nobody listens through ``agent.ui``, it is read from the log and from the turn when it is asked for.
Else events change it, each right before its listeners hear it, so that they see what it changed:

    message_start, message_update    streaming_message is that message
    message_end                      messages has it too, unless its attempt failed; streaming_message is None
    tool_execution_start, _end       pending_tool_calls with and without the call
    turn_end                         error_message, where something broke the step
    agent_start, agent_end           error_message is None; streaming_message is None
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from turnchart.machine.context import Prefix
from turnchart.machine.messages import Message
from turnchart.machine.records import record
from turnchart.machine.states import TURN_STATES, State

if TYPE_CHECKING:
    from turnchart.machine.outfit import Outfit
    from turnchart.machine.tools import Tool
    from turnchart.machine.turning import Turning
    from turnchart.machine.ui import Partial


@record
class AgentState:
    """An agent at one moment.

    Attributes:
        system_prompt: The parts of the prompt that the agent was made with, joined.
        model: The id of the model that the next step asks.
        thinking_level: ``off`` where nobody chose one.
        tools: What the model may call.
        messages: The conversation, oldest first.
        is_streaming: The agent works: from before ``agent_start`` until its ``agent_end`` listeners are done.
        streaming_message: The message that is coming in, as far as it is; None between messages.
        pending_tool_calls: The ids of the calls that started and have no result; another set at each change.
        error_message: What broke the last turn; None where nothing did.
    """

    system_prompt: str = ""
    model: str = ""
    thinking_level: str = "off"
    tools: tuple[Tool, ...] = ()
    messages: Sequence[Message] = ()
    is_streaming: bool = False
    streaming_message: Message | None = None
    pending_tool_calls: frozenset[str] = frozenset()
    error_message: str | None = None


class View:
    """The state of one agent while events change it; it starts from what the agent is when it is made."""

    __slots__ = ("_agent", "_error", "_messages", "_pending", "_settled", "_streaming")

    def __init__(self, agent: Outfit) -> None:
        self._agent = agent
        self._messages = conversation(agent)
        self._streaming: Message | Partial | None = _streaming(agent)
        calls = agent.session.brackets.calls if agent.state is State.TOOLING else {}
        self._pending: frozenset[str] = frozenset([id for id, at in calls.items() if at[0] == "called"])
        self._error = error_message(agent.turning)
        self._settled = False

    def state(self) -> AgentState:
        """Return the state as it is now."""
        agent, streaming = self._agent, self._streaming
        tools = [agent.known_tools[name] for name in agent.active_tools()]
        return AgentState(
            agent.system_prompt,
            agent.session.view.model or agent.model_id,
            agent.session.view.thinking or agent.thinking or "off",
            tuple(tools),
            Prefix(self._messages, len(self._messages)),
            agent.state in TURN_STATES or (agent.working and not self._settled),
            streaming if streaming is None or isinstance(streaming, Message) else streaming.message,
            self._pending,
            self._error,
        )

    def take(self, event: Any) -> None:
        """Let an event of ``ui`` change the state."""
        change = _CHANGES.get(event.type)
        if change is not None:
            change(self, event)

    def _start(self, _event: Any) -> None:
        self._error, self._settled = None, False

    def _end(self, event: Any) -> None:
        self._streaming, self._pending = None, frozenset[str]()
        self._fail(event)

    def _fail(self, event: Any) -> None:
        if event.error_message is not None:
            self._error = event.error_message

    def _settle(self, _event: Any) -> None:
        self._settled = True

    def _begin_message(self, event: Any) -> None:
        self._streaming = event.message

    def _update_message(self, event: Any) -> None:
        self._streaming = event.partial

    def _end_message(self, event: Any) -> None:
        self._streaming = None
        if event.attempt is None and (event.message.content or event.message.role != "assistant"):
            self._messages.append(event.message)

    def _call(self, event: Any) -> None:
        self._pending |= {event.call_id}

    def _answer(self, event: Any) -> None:
        self._pending -= {event.call_id}

    def _rebuild(self, event: Any) -> None:
        self._messages = list(event.messages)


def error_message(now: Turning) -> str | None:
    """Return what broke a turn, in words; None where nothing did."""
    if now.reason != "error" or now.error is None:
        return None
    try:
        return str(now.error) or type(now.error).__name__
    except Exception:  # noqa: BLE001  # whatever str() of a foreign error does
        return type(now.error).__name__


def conversation(agent: Outfit) -> list[Message]:
    """Return what was said: the context without what only the model is told, the later system prompts."""
    return [each for each in agent.session.context() if each.role != "system"]


def _streaming(agent: Outfit) -> Message | None:
    now, answer = agent.turning, agent.turning.answer
    if agent.state is not State.REQUESTING or not now.dispatched or answer is None or not answer.count:
        return None
    return answer.message(now.model, agent.clock.now(), f"c{now.number}.{now.step}")


# pyright: reportPrivateUsage=false
# The table names methods of the class above it.
_CHANGES: Mapping[str, Callable[[View, Any], None]] = {
    "agent_start": View._start,
    "agent_end": View._end,
    "settled": View._settle,
    "turn_end": View._fail,
    "message_start": View._begin_message,
    "message_update": View._update_message,
    "message_end": View._end_message,
    "tool_execution_start": View._call,
    "tool_execution_end": View._answer,
    "rebuilt": View._rebuild,
}
