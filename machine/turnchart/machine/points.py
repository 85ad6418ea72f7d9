"""The hook points: per point its states, kind, payload, decisions, and what a failure means.

This is the only place that says so. The run time, the schema, the documentation and the pictures read it.
The classes of payloads and decisions are named here and loaded when they are first used: checking a flow or
drawing one needs none of them.

A hook takes one frozen payload and returns nothing (pass on), ``payload.replace(...)`` (the next hook
sees it; only the fields that ``Payload.may_change`` names), or one of the point's decisions.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from turnchart.machine.states import State

if TYPE_CHECKING:
    from turnchart.machine.decisions import (
        AddContext,
        Allow,
        Ask,
        Block,
        Continue,
        Decision,
        Deny,
        Enter,
        GiveUp,
        Reject,
        Retry,
        Stop,
        Summary,
        Veto,
    )
    from turnchart.machine.payloads import (
        AfterStep,
        Assemble,
        Chunks,
        Compact,
        Context,
        Convert,
        Next,
        OnSignal,
        Payload,
        PostTool,
        PreStep,
        PreTool,
        Request,
        RequestError,
        RunTool,
        SessionEnd,
        SessionStart,
        Stream,
        ToolOutcome,
        TurnStopping,
    )
    from turnchart.machine.turn_view import (
        NO_TURN,
        Call,
        Outcome,
        Ran,
        TurnView,
        World,
    )

__all__ = [
    "NO_TURN",
    "POINTS",
    "WITH_ON_ERROR",
    "AddContext",
    "AfterStep",
    "Allow",
    "Ask",
    "Assemble",
    "Block",
    "Call",
    "Chunks",
    "Compact",
    "Context",
    "Continue",
    "Convert",
    "Decision",
    "Deny",
    "Enter",
    "FailureRule",
    "GiveUp",
    "Next",
    "OnError",
    "OnSignal",
    "Outcome",
    "Payload",
    "Point",
    "PointKind",
    "PostTool",
    "PreStep",
    "PreTool",
    "Ran",
    "Reject",
    "Request",
    "RequestError",
    "Retry",
    "RunTool",
    "SessionEnd",
    "SessionStart",
    "Stop",
    "Stream",
    "Summary",
    "ToolOutcome",
    "TurnStopping",
    "TurnView",
    "Veto",
    "World",
]

PointKind = Literal["all", "rewrite", "gate", "wrap", "first answer", "observer"]
OnError = Literal["warn", "stop"]
FailureRule = Literal["turn error", "call denied", "error result", "withheld", "does not start", "reported"]


@dataclass(frozen=True, eq=False)
class Point:
    """One hook point.

    Attributes:
        name: The name in YAML and in Python.
        states: Where it acts; empty for every state.
        kind: How the answers of a chain combine.
        payload_name: The class of what its hooks get.
        decision_names: The classes of what they may decide.
        on_error: The default where YAML may write ``on_error``; None where the rule below is fixed.
        failure: What a failing or late hook does (with ``on_error: warn`` the previous value stays).
        run: A ``run:`` program may stand here.
        tools: An entry may carry ``tools:`` globs.
        does: One line for people.
    """

    name: str
    states: tuple[State, ...]
    kind: PointKind
    payload_name: str
    decision_names: tuple[str, ...]
    on_error: OnError | None
    failure: FailureRule
    run: bool
    tools: bool
    does: str

    @cached_property
    def payload(self) -> "type[Payload]":
        """What its hooks get; ``payload.may_change`` names the fields they may replace."""
        kind: type[Payload] = _load(self.payload_name)
        return kind

    @cached_property
    def decisions(self) -> "tuple[type[Decision], ...]":
        """What its hooks may decide."""
        return tuple(_load(name) for name in self.decision_names)

    @property
    def gate(self) -> bool:
        """A failing hook blocks, and YAML cannot say otherwise."""
        return self.kind == "gate"


_S = State

POINTS: Mapping[str, Point] = MappingProxyType({point.name: point for point in (
    Point("session_start", (_S.IDLE,), "all", "SessionStart", ("AddContext",), "warn", "does not start",
          True, False, "once per open; may add context to a new session"),
    Point("session_end", (_S.IDLE,), "all", "SessionEnd", (), None, "reported", True, False,
          "once per close"),
    Point("assemble", (_S.CLAIMING,), "rewrite", "Assemble", (), "stop", "turn error", True, False,
          "puts the prompt, the facts and the tool list of a step together"),
    Point("pre_step", (_S.PRE_STEP,), "gate", "PreStep", ("Reject", "Enter"), None, "turn error", True, False,
          "lets a step in or not, and rewrites its messages"),
    Point("request", (_S.REQUESTING,), "rewrite", "Request", (), "stop", "turn error", True, False,
          "chooses model, settings, thinking and tools of the request"),
    Point("context", (_S.REQUESTING,), "rewrite", "Context", (), "warn", "turn error", True, False,
          "rewrites the messages that the request shows"),
    Point("convert", (_S.REQUESTING,), "rewrite", "Convert", (), None, "turn error", False, False,
          "rewrites the messages in the form that models know"),
    Point("stream", (_S.REQUESTING,), "wrap", "Stream", (), None, "turn error", False, False,
          "wraps the stream of chunks"),
    Point("request_error", (_S.RETRYING,), "first answer", "RequestError", ("Retry", "GiveUp"), None,
          "turn error", True, False, "says whether a failed request is tried again"),
    Point("pre_tool", (_S.TOOLING,), "gate", "PreTool", ("Allow", "Ask", "Deny"), None, "call denied",
          True, True, "lets a tool call run or not, and rewrites its arguments"),
    Point("tool", (_S.TOOLING,), "wrap", "RunTool", (), None, "error result", False, True,
          "wraps the running of a tool"),
    Point("post_tool", (_S.TOOLING,), "rewrite", "PostTool", ("Block",), "warn", "withheld", True, True,
          "rewrites what a tool gave back, or withholds it"),
    Point("after_step", (_S.STOPPING,), "first answer", "AfterStep", ("Stop",), None, "turn error", True,
          False, "may end the turn after a step"),
    Point("turn_stopping", (_S.STOPPING,), "first answer", "TurnStopping", ("Continue",), None, "turn error",
          True, False, "may send the turn back to the model"),
    Point("compact", (_S.PRE_STEP, _S.RETRYING, _S.MAINTENANCE), "first answer", "Compact",
          ("Veto", "Summary"), None, "reported", True, False, "may veto a compaction or write its summary"),
    Point("on_signal", (), "observer", "OnSignal", (), None, "reported", True, False,
          "hears every live signal"),
)})  # fmt: skip
"""The contract of every hook point, by name, in the order of a turn."""

WITH_ON_ERROR: tuple[str, ...] = tuple(point.name for point in POINTS.values() if point.on_error)
"""The points where an entry may write ``on_error``."""

_LOADED_FROM = ("decisions", "payloads", "turn_view")


def _load(name: str) -> Any:
    """Return a class of the contract. Where two modules know the name, the first is meant."""
    modules = (import_module(f"turnchart.machine.{module}") for module in _LOADED_FROM)
    return next(getattr(module, name) for module in modules if hasattr(module, name))


if not TYPE_CHECKING:  # checkers read the imports above, and complain of a name that is not there

    def __getattr__(name):
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = value = _load(name)
        return value
