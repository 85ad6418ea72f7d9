"""One call of a tool on its way: planned, ready, done; and the outcomes that the driver itself gives."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple, cast

from turnchart.machine.entries import Frozen, freeze
from turnchart.machine.messages import Text, ToolCall
from turnchart.machine.points import ToolOutcome
from turnchart.machine.tools import Tool, ToolArgumentError, ToolContext


class Plan(NamedTuple):
    """A call before it runs: its tool, and its arguments or what is wrong with them."""

    tool: Tool | None
    args: dict[str, Any] | None = None
    error: ToolArgumentError | None = None


class Ready(NamedTuple):
    """A call that may run."""

    call: ToolCall
    tool: Tool
    args: dict[str, Any]


Run = Callable[[Tool, dict[str, Any], ToolContext | None], Awaitable[ToolOutcome]]
"""Runs a tool with parsed arguments; the context is for one that asks for it."""


class Done(NamedTuple):
    """How a call ended; ``post`` says whether the post_tool chain sees it."""

    outcome: ToolOutcome
    args: Mapping[str, Any]
    post: bool = True


def planned(tool: Tool | None, call: ToolCall) -> Plan:
    """Return a call with its tool and its arguments, or with what is wrong with them."""
    if tool is None:
        return Plan(None)
    try:
        return Plan(tool, tool.parse(call.arguments))
    except ToolArgumentError as error:
        return Plan(tool, None, error)


def shown_arguments(call: ToolCall, args: Mapping[str, Any]) -> Frozen:
    """Return the arguments as hooks see them: JSON with defaults filled in, or as the model gave them."""
    try:
        return cast(Frozen, freeze(dict(args)))
    except (TypeError, ValueError):
        return call.arguments if isinstance(call.arguments, Frozen) else Frozen()


def time_limit(tool: Tool) -> float | None:
    """Return the seconds that a tool may take; a function that blocks the loop cannot be stopped anyway."""
    return None if tool.inline and not tool.is_async else tool.timeout


def too_late(tool: Tool) -> ToolOutcome:
    """Return the outcome of a call that was stopped because its time was over."""
    return error_outcome(f"{tool.name} took longer than {tool.timeout:g} seconds and was stopped.", "TIMEOUT")


def error_outcome(text: str, code: str) -> ToolOutcome:
    """Return the outcome of a call that went wrong, with a code for programs."""
    return ToolOutcome((Text(text),), details=Frozen(code=code), is_error=True, outcome="error")


def denied(reason: str) -> ToolOutcome:
    """Return the outcome of a call that a hook, a rule or a person did not let run."""
    return ToolOutcome(
        (Text(f"Denied: {reason}"),), details=Frozen(code="DENIED"), is_error=True, outcome="denied"
    )


def aborted(text: str) -> ToolOutcome:
    """Return the outcome of a call that was cut off."""
    return ToolOutcome((Text(text),), details=Frozen(code="ABORTED"), is_error=True, outcome="aborted")
