"""Payloads to try a hook with: of every point one as a running flow would give it, or one read from JSON."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any, Final

from turnchart.flows.problems import meant
from turnchart.machine.entries import Frozen
from turnchart.machine.errors import TurnchartError
from turnchart.machine.messages import (
    AssistantMessage,
    Block,
    Message,
    Text,
    ToolResultMessage,
    UserMessage,
    block,
    message,
)
from turnchart.machine.messages import ToolCall as Asked
from turnchart.machine.payloads import Payload
from turnchart.machine.points import POINTS
from turnchart.machine.turn_view import Call

_COMMAND: Final = {"command": "ls -l src"}
_USER: Final = UserMessage("Which files are in src?", time=1.0)
_ASKING: Final = AssistantMessage(
    [Text("I look."), Asked("shell", _COMMAND, "call-1")], model="anthropic:claude-sonnet-5",
    stop_reason="tool_calls", usage={"input": 1200, "output": 40}, time=2.0,
)  # fmt: skip
_RESULT: Final = ToolResultMessage("call-1", "shell", "main.py\nutil.py", time=3.0)
_CONVERSATION: Final[tuple[Message, ...]] = (_USER, _ASKING, _RESULT)

_GIVEN: Final[Mapping[str, Mapping[str, Any]]] = {
    "assemble": {
        "sections": ("You are a careful assistant.",),
        "contexts": Frozen(date="2026-01-05"),
        "tools": ("read_file", "shell"),
    },
    "pre_step": {"messages": (_USER,)},
    "request": {
        "model": "anthropic:claude-sonnet-5",
        "settings": Frozen(max_tokens=8192),
        "tools": ("read_file", "shell"),
        "calls": (Call("call-1", "shell", Frozen(_COMMAND), "ok", 1),),
    },
    "context": {"messages": _CONVERSATION},
    "convert": {"llm_messages": _CONVERSATION},
    "request_error": {
        "kind": "rate_limit", "status": 429, "retry_after": 2.0, "model": "anthropic:claude-sonnet-5",
        "message": "too many requests",
    },
    "pre_tool": {
        "tool": "shell", "args": Frozen(_COMMAND), "call_id": "call-1", "subject": _COMMAND["command"],
        "subject_name": "command",
    },
    "tool": {"tool": "shell", "args": Frozen(_COMMAND), "call_id": "call-1"},
    "post_tool": {
        "tool": "shell", "args": Frozen(_COMMAND), "call_id": "call-1",
        "content": (Text("main.py\nutil.py"),),
    },
    "after_step": {"message": _ASKING, "results": (_RESULT,)},
    "turn_stopping": {"text": "There are two files: main.py and util.py."},
    "compact": {"range": (0, 41), "tokens": 160_000},
    "on_signal": {"signal": "agent/status", "data": Frozen(status="running")},
}  # fmt: skip


class WrongPayload(TurnchartError):
    """What was given is no payload of the point."""


def sample(point: str) -> Payload:
    """Return a payload of a point, as a running flow would give it.

    Raises:
        WrongPayload: If there is no such point.
    """
    return payload_of(point, {})


def payload_of(point: str, given: Mapping[str, Any]) -> Payload:
    """Return the sample of a point with other fields, given as a ``run:`` hook reads them.

    Raises:
        WrongPayload: If there is no such point, or it has no such field.
    """
    if point not in POINTS:
        help = meant(point, POINTS) or f"the points: {', '.join(POINTS)}"
        raise WrongPayload(f"there is no hook point {point!r}; {help}")
    kind = POINTS[point].payload
    known = {field.name for field in fields(kind)} - _OURS
    values: dict[str, Any] = {"agent": "sample", "flow": "sample", "session": "sample-1", "step": 1}
    values |= _GIVEN.get(point, {})
    for name, value in given.items():
        if name in _ALONG:
            continue
        if name not in known:
            raise WrongPayload(f"{point} has no field {name!r}; the fields: {', '.join(sorted(known))}")
        values[name] = _read(name, value)
    return kind(**values)


_OURS: Final = frozenset(("turn", "log", "memory", "abort", "world"))
"""Fields that no JSON holds."""
_ALONG: Final = ("protocol", "point", "turn")
"""What a program reads beside the fields; it is not read back."""


def _read(name: str, value: Any) -> Any:
    try:
        plain = name not in _READ or value is None or (name == "message" and isinstance(value, str))
        return value if plain else _READ[name](value)
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise WrongPayload(f"the field {name!r} cannot be read: {error}") from error


def _messages(value: Sequence[Mapping[str, Any]]) -> tuple[Message, ...]:
    return tuple(message(each) for each in value)


def _calls(value: Sequence[Mapping[str, Any]]) -> tuple[Call, ...]:
    calls: list[dict[str, Any]] = [{**each, "arguments": Frozen(each["arguments"])} for each in value]
    return tuple(Call(**each) for each in calls)


def _message(value: Any) -> Message:
    return message(value)


def _blocks(value: Sequence[Mapping[str, Any]]) -> tuple[Block, ...]:
    return tuple(block(each) for each in value)


_READ: Final[Mapping[str, Callable[[Any], Any]]] = {
    "messages": _messages, "llm_messages": _messages, "results": _messages, "message": _message,
    "content": _blocks, "calls": _calls, "args": Frozen, "contexts": Frozen, "settings": Frozen,
    "data": Frozen, "sections": tuple, "tools": tuple, "range": tuple,
}  # fmt: skip
"""How a field is read back from JSON, where it is no plain value."""
