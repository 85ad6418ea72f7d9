"""How a row performs what it says, line by line, in order and without an await."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from turnchart.machine.acts import Acts
from turnchart.machine.entries import Frozen
from turnchart.machine.errors import RequestFailed
from turnchart.machine.turning import Turning


def _running(acts: Acts) -> None:
    _note(acts, "agent/status running")
    acts.turning = Turning(acts.session.brackets.turn + 1)  # whoever hears of it gets the signal of this turn
    if acts.signals.heard:
        acts.tell("agent/status", status="running")


def _idle(acts: Acts) -> None:
    acts.rest()


def _turn_start(acts: Acts) -> None:
    number = acts.session.brackets.turn + 1
    acts.session.append("turn/start", Frozen(turn=number))
    if acts.turning.number != number:
        acts.turning = Turning(number)
    acts.watch()


def _turn_end(acts: Acts) -> None:
    now = acts.turning
    if not acts.session.brackets.turn_open:
        return  # a row that was refused further on has ended it already
    data: dict[str, Any] = {"turn": now.number, "reason": now.reason, "steps": now.step}
    if now.error is not None:
        data["error"] = _error(now.error)
    if now.cause is not None:
        data["cause"] = now.cause
    acts.session.append("turn/end", Frozen(data))
    acts.settle()


def _error(error: BaseException) -> Frozen:
    if isinstance(error, RequestFailed):
        failure = error.failure
        return Frozen(failure.json(), message=f"{failure.message}{error.note}".removeprefix("; "))
    parts: list[str] = []
    at: BaseException | None = error
    while at is not None and len(parts) < 5:
        said = _said(at)
        if not any(said in part for part in parts):
            parts.append(said)
        at = at.__cause__
    return Frozen(kind="unknown", type=type(error).__name__, message=": ".join(parts))


def _said(error: BaseException) -> str:
    try:
        return str(error) or type(error).__name__
    except Exception:  # noqa: BLE001  # whatever str() of a foreign error does
        return f"{type(error).__name__} (its text cannot be read)"


def _step_start(acts: Acts) -> None:
    now = acts.turning
    acts.session.append("step/start", Frozen(turn=now.number, step=now.step + 1))
    now.enter()


def _step_end(acts: Acts) -> None:
    now = acts.turning
    if not acts.session.brackets.step_open:
        return  # as above
    acts.session.append("step/end", Frozen(turn=now.number, step=now.step))


def _agent_error(acts: Acts) -> None:
    now = acts.turning
    if now.told:
        return  # as above
    _note(acts, "agent/error")
    now.told = True
    acts.tell("agent/error", turn=now.number, step=now.step, error=now.error)


def _assistant_message(acts: Acts) -> None:
    now = acts.turning
    answer, message = now.answer, now.draft
    assert answer is not None, "an answer is put together before its row is taken"
    data: dict[str, Any] = {"turn": now.number, "step": now.step}
    if now.cause is not None or message is None:
        message = answer.message(now.model, acts.clock.now(), f"c{now.number}.{now.step}", interrupted=True)
        data["interrupted"] = True
        now.calls = ()
    acts.session.append(
        "assistant/message", Frozen(data, message=message, stream=answer.record()), attempt=now.attempt
    )
    now.message, now.dispatched = message, False
    now.outcome = "assistant/message"


def _assistant_attempt(acts: Acts) -> None:
    now = acts.turning
    record = now.answer.record() if now.answer is not None else ()
    data: dict[str, Any] = {"turn": now.number, "step": now.step, "model": now.model, "stream": record}
    if now.failure is not None:
        data["failure"] = now.failure.json()
    acts.session.append("assistant/attempt", Frozen(data), attempt=now.attempt)
    now.dispatched = False
    now.outcome = "assistant/attempt"


def _stream_end(acts: Acts) -> None:
    now = acts.turning
    _note(acts, "agent/assistant-stream end")
    if acts.signals.heard:
        settled = {} if now.outcome == "abandoned" else {"seq": len(acts.session.entries) - 1}
        acts.tell(
            "agent/assistant-stream",
            frame="end", attempt_id=now.attempt_id, revision=acts.revision, turn=now.number, step=now.step,
            index=now.answer.count if now.answer else 0, outcome=now.outcome, **settled,
        )  # fmt: skip


def abandon(acts: Acts) -> None:
    """End the frames of an attempt that the log does not take."""
    acts.turning.dispatched, acts.turning.outcome = False, "abandoned"
    _stream_end(acts)


def _writes(acts: Acts) -> None:
    if acts.signals.ui is None:
        acts.flush_writes()
        return
    before = len(acts.session.entries)
    acts.flush_writes()
    acts.signals.hint("writes", acts.turning.abort, wrote=len(acts.session.entries) > before)


def _note(acts: Acts, name: str) -> None:
    if acts.tracing:
        acts.trace().append(name)


PERFORM: Mapping[str, Callable[[Acts], None]] = {
    "agent/status running": _running,
    "agent/status idle": _idle,
    "turn/start": _turn_start,
    "turn/end": _turn_end,
    "step/start": _step_start,
    "step/end": _step_end,
    "agent/error": _agent_error,
    "assistant/message": _assistant_message,
    "assistant/attempt": _assistant_attempt,
    "agent/assistant-stream end": _stream_end,
    "writes": _writes,
}
"""How a row performs each thing that it says."""
