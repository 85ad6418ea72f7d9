"""What the running turn knows. Made anew at every ``turn/start``; the log, not this, is the truth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from anyio import CancelScope, Event

from turnchart.machine.abort import AbortSignal
from turnchart.machine.inbox import Item
from turnchart.machine.messages import (
    RETRIED_KINDS,
    AssistantMessage,
    Failure,
    FailureKind,
    Message,
    ToolCall,
    ToolResultMessage,
)

if TYPE_CHECKING:
    from turnchart.machine.stream import Answer


NO_ATTEMPTS: Mapping[str, int] = MappingProxyType({})


class Turning:
    """One turn while it runs.

    Attributes:
        number: From 1, per session.
        step: The number of the last step that began.
        reason: Why the turn ends, as far as is known.
        error: What broke it.
        cause: Why it was cut off; None while it was not.
        abort: Reaches hooks, tools and models.
        claimed: The claim of this step was made already, by the send that woke the agent.
        batch: What was claimed and is not yet admitted.
        left_out: What was claimed for a step that began without it.
        messages: What the next step enters with.
        series: The pre-step asked for a new request series.
        rendered: The system prompt of this step, kept over its attempts.
        offered: The names of the tools that this step was put together with, kept over its attempts.
        tools: The names of the tools that the answer to this attempt may call.
        owed: There are tool results that the model should see.
        calls: The calls of the last answer.
        results: The results of this step.
        model: The id of the model that this attempt asks.
        fallback: The model that the rest of this step asks; empty for the flow's own.
        attempt: The number of the attempt in this step.
        attempts: How often each model was asked in this step.
        retry_kinds: The failure kinds that the model of this attempt calls worth another try.
        retries: How often this step was tried again.
        dispatched: The attempt has a stream.
        answer: What came so far.
        failure: Why the attempt failed.
        outcome: The type of the entry that settled the attempt.
        draft: The answer of this attempt, complete and not yet in the log.
        message: The last answer in the log.
        must_stop: The reason to end the turn after this step; empty for none.
        tool_calls: How many tools began.
        waited: Seconds spent waiting for people.
        asking: A person is asked; set when they have answered. None where nobody is asked.
        watched: Ends the watch over the turn's time; None where its time has no limit.
        told: ``agent/error`` was told.
    """

    __slots__ = (
        "abort", "admitted", "answer", "asking", "attempt", "attempt_id", "attempts", "batch", "calls",
        "cause", "claimed", "dispatched", "draft", "error", "failure", "fallback", "items", "left_out",
        "message", "messages", "model", "must_stop", "number", "offered", "outcome", "owed", "reason",
        "rendered", "results", "retries", "retry_kinds", "series", "step", "told", "tool_calls",
        "tools", "waited", "watched",
    )  # fmt: skip

    def __init__(self, number: int) -> None:
        self.number = number
        self.step = 0
        self.reason = ""
        self.error: BaseException | None = None
        self.cause: str | None = None
        self.abort = AbortSignal()
        self.claimed = False
        self.batch: tuple[Item, ...] = ()
        self.left_out: tuple[Item, ...] = ()
        self.items: tuple[str, ...] = ()
        self.messages: tuple[Message, ...] = ()
        self.series = False
        self.rendered = ""
        self.offered: tuple[str, ...] = ()
        self.tools: tuple[str, ...] = ()
        self.owed = False
        self.calls: tuple[ToolCall, ...] = ()
        self.results: tuple[ToolResultMessage, ...] = ()
        self.model = ""
        self.fallback = ""
        self.admitted = False
        self.attempt = 0
        self.attempt_id = ""
        self.attempts: Mapping[str, int] = NO_ATTEMPTS
        self.retry_kinds: Sequence[FailureKind] = RETRIED_KINDS
        self.retries = 0
        self.dispatched = False
        self.answer: Answer | None = None
        self.failure: Failure | None = None
        self.outcome = ""
        self.draft: AssistantMessage | None = None
        self.message: AssistantMessage | None = None
        self.must_stop = ""
        self.tool_calls = 0
        self.waited = 0.0
        self.asking: Event | None = None
        self.watched: CancelScope | None = None
        self.told = False

    def take(self, items: tuple[Item, ...]) -> None:
        """Take claimed items into the batch of the next step."""
        self.batch += items
        for item in items:
            self.items += (item["id"],)
            self.messages += item["messages"]

    def enter(self) -> None:
        """Begin a step: its attempts are counted anew."""
        self.step += 1
        self.attempt = self.retries = 0
        self.attempts = NO_ATTEMPTS
        self.fallback = ""
        self.admitted = False
        self.calls = ()
        self.results = ()

    def cut(self, reason: str) -> bool:
        """Cut the turn off; return whether this was the first cause."""
        if self.cause is not None:
            return False
        self.cause = reason
        self.abort.set(reason)
        return True
