"""The names of the lifecycle: states, events, and the facts that guards ask.

Written out literally, so that this file imports no engine; a test compares them with the chart class.
"""

from enum import StrEnum
from typing import NamedTuple


class State(StrEnum):
    """Where an agent is. Every state but ``idle`` and ``maintenance`` is inside a turn."""

    IDLE = "idle"
    CLAIMING = "claiming"
    PRE_STEP = "pre_step"
    REQUESTING = "requesting"
    RETRYING = "retrying"
    TOOLING = "tooling"
    STOPPING = "stopping"
    MAINTENANCE = "maintenance"

    @property
    def shown(self) -> str:
        """The name as people write it: ``pre-step``."""
        return self.value.replace("_", "-")


class Event(StrEnum):
    """What happened to an agent; a row of the table says where it goes from there."""

    WAKE = "wake"
    CLAIMED = "claimed"
    ENTER = "enter"
    REJECT = "reject"
    RESPOND = "respond"
    REQUEST_FAILED = "request_failed"
    RETRY = "retry"
    GIVE_UP = "give_up"
    TOOLS_DONE = "tools_done"
    SETTLE = "settle"
    CANCEL = "cancel"
    FAIL = "fail"
    MAINTAIN = "maintain"
    MAINTAINED = "maintained"


TURN_STATES = frozenset(State) - {State.IDLE, State.MAINTENANCE}
"""The states of an open turn: each takes ``cancel`` and ``fail``."""


class Facts(NamedTuple):
    """Everything a guard may ask. The driver fills it in, the table reads it."""

    has_input: bool = False
    """The pre-step decision holds messages."""
    results_owed: bool = False
    """There are tool results that the model has not seen and should see."""
    has_tool_calls: bool = False
    """The answer asks for tools and was not cut by max-tokens."""
    next_step_pending: bool = False
    """Something that the next claim would take waits for the next step."""
    prompt_queued: bool = False
    """A prompt waits for a turn of its own."""
    must_stop: bool = False
    """A limit or an ``after_step`` hook said that the turn ends here."""
    wake_latched: bool = False
    """A wake came while it could not be honoured."""
    dispatched: bool = False
    """The open attempt has a stream."""
    has_text: bool = False
    """The stream showed something."""

    @property
    def request_due(self) -> bool:
        """There is something to ask the model."""
        return self.has_input or self.results_owed

    @property
    def results_due(self) -> bool:
        """Tool results want another step."""
        return self.results_owed and not self.must_stop

    @property
    def input_due(self) -> bool:
        """Input that came meanwhile wants another step."""
        return self.next_step_pending and not self.must_stop

    @property
    def prompt_due(self) -> bool:
        """The next prompt opens the next turn at once."""
        return self.prompt_queued and not self.must_stop


NO_FACTS = Facts()
