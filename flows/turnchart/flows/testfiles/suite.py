"""What a test file says, as plain data, and the shapes of its parts as pydantic models."""

import re
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self, TypeAlias, cast

from pydantic import AfterValidator, BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from turnchart.flows.schema import Closed, Count, Maybe, Name, Seconds, Thinking, says
from turnchart.flows.script import ScriptInput, ScriptStep
from turnchart.flows.source import AnyNode, MapNode
from turnchart.flows.validate import find
from turnchart.machine.records import record

Reason = Literal[
    "completed", "max_tokens", "stopped", "max_steps", "max_tool_calls", "max_continues", "blocked", "error",
    "aborted", "max_seconds", "interrupted",
]  # fmt: skip
PointName = Literal[
    "session_start", "session_end", "assemble", "pre_step", "request", "context", "convert", "stream",
    "request_error", "pre_tool", "tool", "post_tool", "after_step", "turn_stopping", "compact", "on_signal",
]  # fmt: skip
Word = Literal[
    "allow", "ask", "deny", "enter", "reject", "retry", "give_up", "stop", "continue", "add_context", "block",
    "veto", "summary",
]  # fmt: skip
Place = Literal[
    "idle", "claiming", "pre_step", "requesting", "retrying", "tooling", "stopping", "maintenance", "..."
]
ANY: Final = "..."
"""Stands for any part of a walk, or any calls."""
EVERY_MODEL: Final = ""
"""The id under which a script is kept that answers for every model."""


def _compiles(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise PydanticCustomError(
            "regex", "not a valid regular expression: {why}", {"why": str(error)}
        ) from None
    return text


def _one_text(value: object) -> object:
    one: list[object] = [value]
    return one if isinstance(value, str) else value


def _approval(value: object) -> object:
    if isinstance(value, list) or value in ("all", "reads", "none"):
        return cast(object, value)
    raise says("it must be all, reads, none, or a list of permission rules")


Texts: TypeAlias = Annotated[list[Name], BeforeValidator(_one_text)]
Approval: TypeAlias = Annotated[Any, BeforeValidator(_approval)]
Exactly: TypeAlias = Literal[True]


class TextRule(Closed):
    """What a text must be: just this, or text in which a pattern is found."""

    equals: Maybe[str] = None
    matches: Maybe[Annotated[str, AfterValidator(_compiles)]] = None

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        return {"equals": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _given(self) -> Self:
        if self.equals is None and self.matches is None:
            raise says("it must be text, or {matches: a regular expression}")
        return self

    def holds(self, text: str) -> bool:
        """Tell whether a text is as it must be."""
        if self.equals is not None and text.strip() != self.equals.strip():
            return False
        return self.matches is None or re.search(self.matches, text) is not None

    def __str__(self) -> str:
        return f"text that matches {self.matches}" if self.matches is not None else repr(self.equals)


class CallRule(Closed):
    """What one tool call must be; what is left out may be anything."""

    tool: Name
    args: Maybe[dict[str, Any]] = None
    decision: Maybe[Literal["allow", "ask", "deny"]] = None
    by: Maybe[Name] = None
    ran: Maybe[bool] = None
    outcome: Maybe[Literal["ok", "error", "denied", "aborted"]] = None
    result: Maybe[TextRule] = None


class HookRule(Closed):
    """What one hook must have done."""

    point: Maybe[PointName] = None
    id: Maybe[Name] = None
    decision: Maybe[Word] = None
    reason: Maybe[TextRule] = None
    changed: Maybe[Texts] = None
    failed: Maybe[bool] = None


class RequestRule(Closed):
    """What one request must show; of the requests of a step, one has to."""

    turn: Maybe[Count] = None
    step: Maybe[Count] = None
    model: Maybe[Name] = None
    contains: Texts = Field(default=[])
    lacks: Texts = Field(default=[])
    thinking: Maybe[Thinking] = None
    tools: Maybe[Texts] = None


class ToolStub(Closed):
    """What stands in for a tool: what it returns, how it fails, or ``real``: the tool itself."""

    returns: Any = None
    fails: Maybe[str] = None
    real: Maybe[Exactly] = None
    delay: Seconds = 0


class CommandStub(Closed):
    """What stands in for a program, or ``real``: the program itself."""

    exit: Annotated[int, Field(ge=-255, le=255)] = 0
    output: str = ""
    errors: str = ""
    real: Maybe[Exactly] = None
    delay: Seconds = 0


class ExpectFields(Closed):
    """The keys of ``expect``; the entries of the lists are read one by one."""

    reason: Maybe[Reason] = None
    text: Maybe[TextRule] = None
    states: Maybe[Annotated[list[Place], Field(min_length=1)]] = None
    calls: Maybe[list[Any]] = None
    hooks: Maybe[list[Any]] = None
    requests: Maybe[list[Any]] = None


class CaseFields(Closed):
    """The keys of a test; what is inside of most of them is read one by one."""

    name: Name
    approve: Maybe[Approval] = "none"
    files: dict[str, str] = Field(default={})
    prompt: Maybe[Name] = None
    prompts: Maybe[list[Name]] = None
    model: Any = None
    tools: dict[str, Any] = Field(default={})
    commands: dict[str, Any] = Field(default={})
    at: Any = None
    expect: Any = None


@record
class Expect:
    """What must come of a case; None is not asked. Lists are in the order in which things happened.

    Attributes:
        reason: Why the last turn ends; completed where the file does not say.
        text: The last answer.
        states: The walk; ``...`` stands for any part of it.
        calls: Every tool call; None in it stands for any calls.
        hooks: Some of what hooks did, others between them; none: no hook did anything.
        requests: What requests must show, in any order; none: there was no request.
    """

    reason: str = "completed"
    text: TextRule | None = None
    states: tuple[str, ...] | None = None
    calls: tuple[CallRule | None, ...] | None = None
    hooks: tuple[HookRule, ...] | None = None
    requests: tuple[RequestRule, ...] | None = None


@record
class Case:
    """One conversation of a test file.

    Attributes:
        name: Unique in its file.
        node: Where it stands.
        prompts: What is said, a turn each.
        approve: all, reads, none, or rules as in permissions.
        files: Contents of the files of the root, by path.
        scripts: What models answer, by id; ``EVERY_MODEL`` for all; empty where the flow brings a script.
        inputs: What people do meanwhile.
        tools: Stubs by the name of the tool: one a call, the last for all that follow.
        commands: Stubs by how a command line begins, in the same way.
        expect: What must come of it.
    """

    name: str
    node: AnyNode
    prompts: tuple[str, ...] = ()
    approve: str | tuple[str, ...] = "none"
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    scripts: Mapping[str, tuple[ScriptStep, ...]] = field(default_factory=dict[str, tuple[ScriptStep, ...]])
    inputs: tuple[ScriptInput, ...] = ()
    tools: Mapping[str, tuple[ToolStub, ...]] = field(default_factory=dict[str, tuple[ToolStub, ...]])
    commands: Mapping[str, tuple[CommandStub, ...]] = field(
        default_factory=dict[str, tuple[CommandStub, ...]]
    )
    expect: Expect = Expect()

    @property
    def where(self) -> str:
        """``file:line`` of the case."""
        return f"{self.node.source.name}:{self.line}"

    @property
    def line(self) -> int:
        """The line of its name."""
        name = self.node.fields.get("name") if isinstance(self.node, MapNode) else None
        return name[1].line if name is not None else self.node.line

    @property
    def real(self) -> bool:
        """Something real runs, so it plays in a copy of the folder."""
        tools = any(stub.real for stubs in self.tools.values() for stub in stubs)
        return tools or any(stub.real for stubs in self.commands.values() for stub in stubs)

    def at(self, *loc: str | int) -> AnyNode:
        """Return the node at a place below the case."""
        return find(self.node, loc).value


@record
class Suite:
    """A test file.

    Attributes:
        path: Where it is.
        shown: How messages name it.
        flow: The flow that it tests, as it can be loaded: a file, or the name of a shipped flow.
        cases: Its tests, in the order of the file.
    """

    path: Path
    shown: str
    flow: str
    cases: tuple[Case, ...]
