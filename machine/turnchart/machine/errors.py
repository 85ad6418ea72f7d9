"""Every error of the run time. A message says what was wrong, where, and what would be right.

TurnchartError
├── InternalError            our bug, never yours
├── TransitionError          the chart does not take this event in this state
├── AgentBusy                prompt() while a turn is open
├── TurnFailed               a turn that ended in another way than completed
├── AppendRefused            a validator refused an entry; the session stays usable
├── SessionError             the log cannot be read, or not any more be written
│   ├── SessionLocked        another process writes this session
│   ├── SessionReadOnly      a store refused an append; reopen the session
│   └── SessionCorrupt       the stored log is not what we wrote
├── HookFailed               a hook raised, timed out or answered nonsense
├── RequestFailed            the model's failure, as an exception
├── CompactionFailed         a conversation could not be made shorter
├── McpError                 an MCP server cannot be started or reached
├── ScriptError              a scripted model was called too often, or too seldom
└── UnknownModel             no resolver knows the model's id
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from turnchart.machine.messages import Failure
    from turnchart.machine.states import Event, State
    from turnchart.machine.turn import Turn


class TurnchartError(Exception):
    """Base of every error that this package raises on purpose."""


class InternalError(TurnchartError):
    """A bug in Turnchart itself: an effect did what its state does not declare."""


class TransitionError(TurnchartError):
    """An event that the state does not take. Nothing has changed.

    Attributes:
        state: The state that was asked.
        event: The event it does not take.
        accepted: The events that it takes, in the order of the chart.
        guard: The guard that said no, where the state takes the event under conditions only.
    """

    def __init__(
        self, state: "State", event: "Event", accepted: Iterable["Event"], guard: str | None = None
    ) -> None:
        self.state = state
        self.event = event
        self.accepted = tuple(accepted)
        self.guard = guard
        takes = ", ".join(self.accepted) or "nothing"
        because = f" unless {guard}" if guard else ""
        super().__init__(f"state `{state}` does not take event `{event}`{because}; it takes {takes}")


class AgentBusy(TurnchartError):
    """``prompt()`` while the agent works."""

    def __init__(self, state: "State") -> None:
        self.state = state
        super().__init__(
            f"the agent is working (state `{state}`): use steer() to reach the running turn,"
            " follow_up() to queue a prompt, or await idle() first"
        )


class TurnFailed(TurnchartError):
    """A turn that ended in another way than completed.

    Attributes:
        turn: The turn that ended so, or None where no turn took the prompt.
    """

    def __init__(self, message: str, turn: "Turn | None" = None) -> None:
        self.turn = turn
        super().__init__(message)


class AppendRefused(TurnchartError):
    """A validator refused an entry. The entry does not exist, the session stays usable.

    Attributes:
        type: The type of the refused entry.
        reason: What the validator said.
    """

    def __init__(self, type: str, reason: str) -> None:
        self.type = type
        self.reason = reason
        super().__init__(f"the entry `{type}` was refused: {reason}")


class SessionError(TurnchartError):
    """The log of a session cannot be read or written."""


class SessionLocked(SessionError):
    """Another process, or another object of this one, writes this session."""


class SessionReadOnly(SessionError):
    """The store refused an append earlier; nothing more is written until the session is reopened."""


class SessionCorrupt(SessionError):
    """The stored log is not what this program writes."""


class HookFailed(TurnchartError):
    """A hook raised, timed out, or returned something that its point does not take.

    Attributes:
        point: The hook point.
        id: The id of the hook.
        where: ``file:line`` of its entry or its function; empty where unknown.
    """

    def __init__(self, point: str, id: str, where: str, cause: str) -> None:
        self.point = point
        self.id = id
        self.where = where
        at = f" ({where})" if where else ""
        super().__init__(f"hook `{id}`{at} on {point} failed: {cause}")


class RequestFailed(TurnchartError):
    """A model request failed and nothing recovered it.

    Attributes:
        failure: Kind, status and text of the failure.
        note: What failed after it; empty where nothing did.
    """

    def __init__(self, failure: "Failure", note: str = "") -> None:
        self.failure = failure
        self.note = note
        text = f": {failure.message}" if failure.message else ""
        super().__init__(f"model request failed ({failure.kind}){text}{note}")


class CompactionFailed(TurnchartError):
    """A conversation could not be made shorter; it is as it was.

    Attributes:
        code: ``off`` (strategy none), ``nothing`` (there is nothing to replace), ``vetoed`` (by a hook),
            ``aborted``, ``changed`` (the conversation went on meanwhile), ``not_shorter``, or ``summary``
            (the model gave none).
    """

    def __init__(self, code: str, text: str) -> None:
        self.code = code
        super().__init__(text)


class McpError(TurnchartError):
    """An MCP server cannot be started or reached, or does not answer in time."""


class ScriptError(TurnchartError):
    """A scripted model was asked once too often, or has replies left over."""


class UnknownModel(TurnchartError):
    """No resolver knows this model id."""


def text_of(error: BaseException) -> str:
    """Return what an error says; nothing where it is foreign and cannot say it."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001  # a foreign __str__
        return ""


def named_text_of(error: BaseException) -> str:
    """Return the type of an error and what it says."""
    said = text_of(error)
    return f"{type(error).__name__}: {said}" if said else type(error).__name__
