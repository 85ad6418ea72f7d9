"""The settings of an agent: queue modes, retries and limits. Frozen, checked when they are made."""

from collections.abc import Sequence
from dataclasses import dataclass

from turnchart.machine.inbox import MODES, Mode
from turnchart.machine.messages import FAILURE_KINDS, RETRIED_KINDS, FailureKind


@dataclass(frozen=True, slots=True)
class Queues:
    """How many waiting messages are taken at once.

    Attributes:
        steering: ``all``, or ``one-at-a-time``: how many steering messages enter per request.
        follow_up: ``one-at-a-time``, or ``all``: how many queued prompts open one turn.
    """

    steering: Mode = "all"
    follow_up: Mode = "one-at-a-time"

    def __post_init__(self) -> None:
        for name in ("steering", "follow_up"):
            value = getattr(self, name)
            if value not in MODES:
                raise ValueError(f"queues.{name} is {value!r}; it must be one of: {', '.join(MODES)}")


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """When a failed request is tried again, inside its step.

    Attributes:
        max_attempts: Per step and model, the first one included.
        base_delay: Seconds; the n-th wait is random between 0 and ``base_delay * 2 ** (n - 1)``.
        max_delay: Seconds; no wait is longer, and a provider that asks for longer ends the retries.
        honor_retry_after: Wait exactly as long as the provider asks.
        retry_on: The failure kinds that are tried again; where it is not given, those that the model names.
    """

    max_attempts: int = 5
    base_delay: float = 1
    max_delay: float = 60
    honor_retry_after: bool = True
    retry_on: Sequence[FailureKind] = RETRIED_KINDS

    def __post_init__(self) -> None:
        _positive("retry.max_attempts", self.max_attempts)
        if not 0 <= self.base_delay <= self.max_delay:
            raise ValueError("retry: base_delay must not be negative, and max_delay not below base_delay")
        for kind in self.retry_on:
            if kind not in FAILURE_KINDS:
                raise ValueError(f"retry.retry_on has {kind!r}; the kinds are: {', '.join(FAILURE_KINDS)}")


@dataclass(frozen=True, slots=True)
class Limits:
    """What one turn may spend. None means no limit.

    Attributes:
        max_steps: Model requests that were answered.
        max_tool_calls: Calls that may start; the others get a result that says so.
        max_seconds: Time without the waiting for people.
        max_continues: How often ``turn_stopping`` hooks may send the turn on.
        parallel_tools: How many parallel tools run at once.
    """

    max_steps: int | None = 100
    max_tool_calls: int | None = None
    max_seconds: float | None = None
    max_continues: int | None = 8
    parallel_tools: int = 10

    def __post_init__(self) -> None:
        for name in ("max_steps", "max_tool_calls", "parallel_tools"):
            _positive(f"limits.{name}", getattr(self, name))
        if self.max_seconds is not None and not self.max_seconds > 0:
            raise ValueError(f"limits.max_seconds is {self.max_seconds!r}; it must be more than 0")
        if self.max_continues is not None and self.max_continues < 0:
            raise ValueError(f"limits.max_continues is {self.max_continues!r}; it must not be negative")


def _positive(name: str, value: object) -> None:
    if value is None and name != "limits.parallel_tools" and name != "retry.max_attempts":
        return
    if type(value) is not int or value < 1:
        raise ValueError(f"{name} is {value!r}; it must be a whole number from 1")
