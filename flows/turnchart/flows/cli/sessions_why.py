"""Why the turns of a session went as they did: what ended each, and who decided something on the way."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from turnchart.flows.cli.words import MALFORMED, arguments, failure, hook_result, one_line, retry
from turnchart.machine.entries import Entry


def why(entries: Sequence[Entry]) -> Iterator[str]:
    """Yield for each turn why it ended, and below it every decision that was made in it, with its number."""
    turn: list[Entry] = []
    for entry in entries:
        if entry.type == "turn/start":
            turn = [entry]
        elif turn:
            turn.append(entry)
        if entry.type == "turn/end":
            yield from _told(turn)
            turn = []
    if turn:
        yield from _told(turn)


def _told(turn: Sequence[Entry]) -> Iterator[str]:
    yield f"turn {turn[0].data['turn']} {_readably(lambda data, turn: ending(turn), turn[-1], turn)}"
    for entry in turn:
        tell = _DECIDED.get(entry.type)
        said = _readably(tell, entry, turn) if tell is not None else ""
        if said:
            yield f"{entry.seq:>5}  {said}"


def _readably(
    tell: Callable[[Mapping[str, Any], Sequence[Entry]], str], entry: Entry, turn: Sequence[Entry]
) -> str:
    try:
        return tell(entry.data, turn)
    except MALFORMED:
        return f"{entry.type} {arguments(entry.data)}"


def ending(turn: Sequence[Entry]) -> str:
    """Return why a turn ended, as the end of a sentence about it.

    Args:
        turn: Its entries, from ``turn/start`` on; without ``turn/end`` where it is open.
    """
    last = turn[-1]
    if last.type != "turn/end":
        return "has not ended: it is running, or its program was killed"
    data, reason = last.data, last.data["reason"]
    explain = REASONS.get(reason)
    steps = data.get("steps", 0)
    after = f"ended as {reason} after {steps} {'step' if steps == 1 else 'steps'}"
    return f"{after}: {explain(data, turn)}" if explain is not None else after


# -- what ended it ---------------------------------------------------------------------------------

Data = Mapping[str, Any]


def _completed(data: Data, turn: Sequence[Entry]) -> str:
    if not data.get("steps"):
        return "there was nothing to ask the model"
    answers = [entry.data["message"] for entry in turn if entry.type == "assistant/message"]
    if answers and any(block["type"] == "tool_call" for block in answers[-1]["content"]):
        return "every tool of the last step said that its result ends the turn"
    return "the model asked for no tool, and nothing waited for the turn"


def _decided(point: str, decision: str, otherwise: str) -> Callable[[Data, Sequence[Entry]], str]:
    """Return what names the last hook of a point that decided so."""

    def tell(_data: Data, turn: Sequence[Entry]) -> str:
        for entry in reversed(turn):
            said = entry.data
            if entry.type == "hook/result" and (said["point"], said.get("decision")) == (point, decision):
                return f"hook {hook_result(said)}"
        return otherwise

    return tell


def _limit(name: str) -> Callable[[Data, Sequence[Entry]], str]:
    return lambda data, turn: f"the limit `limits.{name}` was reached"


def _error(data: Data, _turn: Sequence[Entry]) -> str:
    return failure(data.get("error") or {}) or "something failed"


REASONS: Final[Mapping[str, Callable[[Data, Sequence[Entry]], str]]] = {
    "completed": _completed,
    "max_tokens": lambda data, turn: "the model's answer was cut at its token limit",
    "stopped": _decided("after_step", "stop", "an after_step hook stopped it"),
    "blocked": _decided("pre_step", "reject", "a pre_step hook rejected the input"),
    "aborted": lambda data, turn: f"it was cut off: {one_line(data.get('cause') or 'abort()')}",
    "error": _error,
    "interrupted": lambda data, turn: "its program stopped inside it, and the next one closed it",
    **{name: _limit(name) for name in ("max_steps", "max_tool_calls", "max_continues", "max_seconds")},
}
"""What explains each reason for which a turn ends."""

# -- who decided something -------------------------------------------------------------------------


def _answered(data: Data, turn: Sequence[Entry]) -> str:
    asked = (
        entry.data
        for entry in turn
        if entry.type == "approval/asked" and entry.data["call_id"] == data["call_id"]
    )
    tool = next((one_line(each["tool"]) for each in asked), data["call_id"])
    reason = f": {one_line(data['reason'])}" if data.get("reason") else ""
    return f"{tool} was asked for: {data['outcome']}{reason}"


def _refused(data: Data, _turn: Sequence[Entry]) -> str:
    if data["outcome"] in ("ok", "error"):
        return ""
    text = " ".join(block.get("text", "") for block in data["message"]["content"])
    came = "did not run" if data["outcome"] == "denied" else "was cut off"
    return f"{one_line(data['message']['tool'])} {came} ({data['outcome']}): {one_line(text)}"


_DECIDED: Final[Mapping[str, Callable[[Data, Sequence[Entry]], str]]] = {
    "hook/result": lambda data, turn: f"hook {hook_result(data)}",
    "approval/decided": _answered,
    "assistant/attempt": lambda data, turn: (
        f"request failed: {failure(data['failure'])}" if data.get("failure") else "request cut off"
    ),
    "llm/retry": lambda data, turn: f"retry {retry(data)}",
    "tool/result": _refused,
}
