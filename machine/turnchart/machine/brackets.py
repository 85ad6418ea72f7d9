"""Turns, steps and tool calls: what is open, which numbers come next, what would close an open end. Pure."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

from turnchart.machine.entries import Entry, Frozen
from turnchart.machine.messages import ToolResultMessage

UNKNOWN_OUTCOME = (
    "The program stopped while this tool ran, so its outcome is unknown. It may have taken effect:"
    " check before you call it again."
)
NOT_STARTED = (
    "The program stopped before this tool started. It had no effect, so it is safe to call it again."
)

Closer = tuple[str, Frozen, dict[str, Any]]
"""Type, data and further arguments of an append."""


class Brackets:
    """A fold over the whole log, in seq order.

    Attributes:
        turn: Number of the last turn; 0 before the first.
        step: Number of the last step of that turn.
        turn_open: The turn has not ended.
        step_open: The step has not ended.
        reason: The reason of the last turn that ended; empty before.
        turn_start: The seq of the last ``turn/start``.
        calls: The calls of the open step without a result: asked for, or called.
    """

    __slots__ = ("calls", "reason", "step", "step_open", "turn", "turn_open", "turn_start")

    def __init__(self) -> None:
        self.turn = 0
        self.step = 0
        self.turn_open = False
        self.step_open = False
        self.reason = ""
        self.turn_start = 0
        self.calls: dict[str, tuple[Literal["asked", "called"], str]] = {}

    def refusal(self, type: str, data: Mapping[str, Any], replaces: object = None) -> str | None:
        """Return why an entry would break the order of brackets, or None.

        A ``tool/result`` that replaces another answers no call, so it may stand anywhere.
        """
        rule = RULES.get(type) if replaces is None or type != "tool/result" else None
        return rule(self, data) if rule is not None else None

    def apply(self, type: str, data: Mapping[str, Any], seq: int = 0) -> None:
        """Take an entry into the fold."""
        fold = FOLD.get(type)
        if fold is not None:
            fold(self, data, seq)

    def closers(self, entries: Sequence[Entry]) -> Iterator[Closer]:
        """Yield the appends that close what a crash left open; nothing where all is closed.

        A call that had started gets a result that says its outcome is unknown; one that had only been asked
        for, a result that says it is safe to call again. Then the step and the turn end, as interrupted.
        """
        if not self.turn_open:
            return
        time = {"time": entries[-1].time}
        turn, step, steps = self.turn, self.step, self.step
        if self.step_open:
            for call_id, (state, tool) in tuple(self.calls.items()):
                text = UNKNOWN_OUTCOME if state == "called" else NOT_STARTED
                recovered = {"recovered": "unknown" if state == "called" else "not_started"}
                said = ToolResultMessage(
                    call_id, tool, text, is_error=True, time=entries[-1].time, details=recovered
                )
                yield "tool/result", Frozen(turn=turn, step=step, message=said, outcome="aborted"), time
            yield "step/end", Frozen(turn=turn, step=step), time
        yield "turn/end", Frozen(turn=turn, reason="interrupted", steps=steps), time


def _opens_turn(at: Brackets, data: Mapping[str, Any], seq: int) -> None:
    at.turn, at.step, at.turn_open, at.turn_start = data["turn"], 0, True, seq


def _closes_turn(at: Brackets, data: Mapping[str, Any], _seq: int) -> None:
    at.turn_open, at.reason = False, data["reason"]


def _opens_step(at: Brackets, data: Mapping[str, Any], _seq: int) -> None:
    at.step, at.step_open = data["step"], True


def _closes_step(at: Brackets, _data: Mapping[str, Any], _seq: int) -> None:
    at.step_open = False
    if at.calls:
        at.calls = {}


def _asks(at: Brackets, data: Mapping[str, Any], _seq: int) -> None:
    if at.step_open and "interrupted" not in data:
        for part in data["message"]["content"]:
            if part["type"] == "tool_call":
                at.calls[part["id"]] = ("asked", part["name"])


def _calls(at: Brackets, data: Mapping[str, Any], _seq: int) -> None:
    at.calls[data["call_id"]] = ("called", data["tool"])


def _answers(at: Brackets, data: Mapping[str, Any], _seq: int) -> None:
    at.calls.pop(data["message"]["call_id"], None)


FOLD: Mapping[str, Callable[[Brackets, Mapping[str, Any], int], None]] = {
    "turn/start": _opens_turn,
    "turn/end": _closes_turn,
    "step/start": _opens_step,
    "step/end": _closes_step,
    "assistant/message": _asks,
    "tool/call": _calls,
    "tool/result": _answers,
}


def _turn_start(at: Brackets, data: Mapping[str, Any]) -> str | None:
    if at.turn_open:
        return f"turn {at.turn} is still open"
    return None if data["turn"] == at.turn + 1 else f"turn {at.turn + 1} comes next, not {data['turn']}"


def _turn_end(at: Brackets, data: Mapping[str, Any]) -> str | None:
    if not at.turn_open or data["turn"] != at.turn:
        return f"turn {data['turn']} is not open"
    return f"step {at.step} is still open" if at.step_open else _lacks(data, "reason")


def _step_start(at: Brackets, data: Mapping[str, Any]) -> str | None:
    if not at.turn_open or data["turn"] != at.turn:
        return f"turn {data['turn']} is not open"
    if at.step_open:
        return f"step {at.step} is still open"
    return None if data["step"] == at.step + 1 else f"step {at.step + 1} comes next, not {data['step']}"


def _in_step(at: Brackets, data: Mapping[str, Any]) -> str | None:
    if at.step_open and data.get("step") == at.step and data.get("turn") == at.turn:
        return None
    return f"step {data.get('step')} of turn {data.get('turn')} is not open"


def _answer(at: Brackets, data: Mapping[str, Any]) -> str | None:
    wrong = _in_step(at, data)
    if wrong is not None:
        return wrong
    for part in data["message"]["content"]:
        if part["type"] == "tool_call" and not ("id" in part and "name" in part):
            return _lacks(part, "id", "name")
    return None


def _call(at: Brackets, data: Mapping[str, Any]) -> str | None:
    wrong = _in_step(at, data)
    return wrong if wrong or ("call_id" in data and "tool" in data) else _lacks(data, "call_id", "tool")


def _lacks(data: Mapping[str, Any], *names: str) -> str | None:
    return next((f"it lacks {name!r}" for name in names if name not in data), None)


def _result(at: Brackets, data: Mapping[str, Any]) -> str | None:
    wrong = _in_step(at, data)
    if wrong is None and data["message"]["call_id"] not in at.calls:
        return f"no call {data['message']['call_id']!r} waits for a result in this step"
    return wrong


def _between_turns(at: Brackets, _data: Mapping[str, Any]) -> str | None:
    return f"turn {at.turn} is open; move in the tree when it is over" if at.turn_open else None


RULES: Mapping[str, Callable[[Brackets, Mapping[str, Any]], str | None]] = {
    "turn/start": _turn_start,
    "turn/end": _turn_end,
    "step/start": _step_start,
    "step/end": _in_step,
    "system/message": _in_step,
    "request/header": _in_step,
    "request/context": _in_step,
    "assistant/message": _answer,
    "assistant/attempt": _in_step,
    "tool/call": _call,
    "tool/result": _result,
    "leaf": _between_turns,
    "branch_summary": _between_turns,
}
