"""The settings of an agent: queue modes, retries and limits. Frozen, checked when they are made."""

from collections.abc import Sequence
from random import Random
from typing import Literal, get_args

from turnchart.machine.inbox import MODES, Mode
from turnchart.machine.messages import FAILURE_KINDS, RETRIED_KINDS, Failure, FailureKind
from turnchart.machine.records import record


@record
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


@record
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

    def wait(
        self, failure: Failure, attempts: int, retried: Sequence[FailureKind], random: Random
    ) -> float | None:
        """Return the seconds to wait before another try; None gives up.

        Args:
            failure: Why the last try failed.
            attempts: How many there were.
            retried: The kinds that the model calls worth another try, where the policy names none itself.
            random: Where the random part of a wait comes from.
        """
        kinds = retried if self.retry_on is RETRIED_KINDS else self.retry_on
        if failure.kind not in kinds or attempts >= self.max_attempts:
            return None
        if failure.retry_after is not None and self.honor_retry_after:
            return failure.retry_after if failure.retry_after <= self.max_delay else None
        return random.uniform(0, min(self.max_delay, self.base_delay * 2 ** min(attempts - 1, 60)))


@record
class Limits:
    """What one turn may spend. None means no limit.

    Attributes:
        max_steps: Model requests that were answered.
        max_tool_calls: Calls that may start; the others get a result that says so.
        max_seconds: Time without the waiting for people.
        max_continues: How often ``turn_stopping`` hooks may send the turn on.
        max_retries: After so many retries of one step, those of the retry policy included, a hook is not
            asked for one more: its ``Retry`` ends the turn. The policy has a budget of its own.
        parallel_tools: How many parallel tools run at once.
    """

    max_steps: int | None = 100
    max_tool_calls: int | None = None
    max_seconds: float | None = None
    max_continues: int | None = 8
    max_retries: int | None = 20
    parallel_tools: int = 10

    def __post_init__(self) -> None:
        for name in ("max_steps", "max_tool_calls", "parallel_tools"):
            _positive(f"limits.{name}", getattr(self, name))
        if self.max_seconds is not None and not self.max_seconds > 0:
            raise ValueError(f"limits.max_seconds is {self.max_seconds!r}; it must be more than 0")
        for name in ("max_continues", "max_retries"):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise ValueError(f"limits.{name} is {value!r}; it must not be negative")


Strategy = Literal["none", "drop_oldest", "summarize"]
"""What becomes of the beginning of a conversation that is too long."""
STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)


@record
class Compaction:
    """How a conversation is made shorter that does not fit the model's context window.

    Attributes:
        strategy: ``none``: never; ``drop_oldest``: leave the beginning out; ``summarize``: replace it by a
            summary that a model writes.
        trigger: Share of the context window, without the tokens of an answer, that a request may take.
        keep_last: So many of the user's last turns stay as they are, if they fit; an overflow keeps none of
            them but the running one.
        model: The id of the model that writes summaries; None: the one that answers.
    """

    strategy: Strategy = "summarize"
    trigger: float = 0.8
    keep_last: int = 2
    model: str | None = None

    def __post_init__(self) -> None:
        if self.strategy not in STRATEGIES:
            known = ", ".join(STRATEGIES)
            raise ValueError(f"compaction.strategy is {self.strategy!r}; it must be one of: {known}")
        if type(self.trigger) not in (int, float) or not 0 < self.trigger <= 1:
            raise ValueError(f"compaction.trigger is {self.trigger!r}; it must be more than 0 and at most 1")
        if type(self.keep_last) is not int or self.keep_last < 0:
            raise ValueError(f"compaction.keep_last is {self.keep_last!r}; it must be a whole number from 0")
        if not (self.model is None or type(self.model) is str):
            raise ValueError(f"compaction.model is {self.model!r}; it must be the id of a model")


def _positive(name: str, value: object) -> None:
    if value is None and name != "limits.parallel_tools" and name != "retry.max_attempts":
        return
    if type(value) is not int or value < 1:
        raise ValueError(f"{name} is {value!r}; it must be a whole number from 1")
