"""Scripts: YAML files that a model plays, so that a flow runs without a key: ``model: script:FILE``.

A file is a list of answers, or a map with the list as ``model`` and with ``at``: what people say meanwhile.
A ``follow_up`` in the state ``idle`` is a prompt: with one, the flow runs although nobody gives it a prompt.
Reading gives plain dataclasses; only ``to_model`` needs the machine.
"""

import os
from collections.abc import Iterable
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple, TypeAlias

from pydantic import BeforeValidator, Field, model_validator

from turnchart.flows.problems import FlowError, Problem
from turnchart.flows.schema import Closed, Count, FromZero, Maybe, Name, Seconds, says
from turnchart.flows.source import AnyNode, Document, ListNode, MapNode, Scalar, read_file
from turnchart.flows.validate import Loc, Reading, bad_value, dotted, unknown_key
from turnchart.machine.messages import FailureKind
from turnchart.machine.records import record
from turnchart.machine.states import State

if TYPE_CHECKING:
    from turnchart.machine.models import Chunk
    from turnchart.machine.scripted import Reply, ScriptedModel

Finish = Literal["stop", "tool_calls", "max_tokens", "error", "aborted"]
Action = Literal["steer", "follow_up", "inject", "abort"]
ACTIONS: Final[tuple[Action, ...]] = ("steer", "follow_up", "inject", "abort")
_HELP: Final = "a script is a list: - {text: Hello.}"


@record
class ScriptCall:
    """A tool call of an answer."""

    tool: str
    args: dict[str, Any] = field(default_factory=dict[str, Any])
    id: str = ""


class ScriptStep(NamedTuple):
    """One answer of a script; where ``fail`` names a kind, the request fails after it. Times in seconds."""

    text: str = ""
    calls: tuple[ScriptCall, ...] = ()
    thinking: str = ""
    chunks: tuple[str | float, ...] | None = None
    usage: dict[str, int] | None = None
    finish: Finish | None = None
    delay: float = 0
    fail: FailureKind | None = None
    retry_after: float | None = None
    status: int | None = None
    message: str = ""


class ScriptInput(NamedTuple):
    """What a person does when the agent is in a state; ``step`` None: the first time."""

    state: State
    action: Action
    text: str = ""
    step: int | None = None


class Script(NamedTuple):
    """A script file: what the model answers, and what people say meanwhile."""

    steps: tuple[ScriptStep, ...] = ()
    at: tuple[ScriptInput, ...] = ()


# -- the format -----------------------------------------------------------------------------------


class _Call(Closed):
    call: Name
    args: dict[str, Any] = Field(default={})
    id: str = ""


class _Usage(Closed):
    input: FromZero = 0
    output: FromZero = 0
    cache_read: FromZero = 0
    cache_write: FromZero = 0


def _chunk(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise says("it must be text, or a number of seconds to wait")
    return value


_Chunk: TypeAlias = Annotated[Any, BeforeValidator(_chunk)]


class _Answer(Closed):
    text: str = ""
    call: Maybe[Name] = None
    args: dict[str, Any] = Field(default={})
    calls: list[_Call] = Field(default=[])
    thinking: str = ""
    chunks: Maybe[list[_Chunk]] = None
    usage: Maybe[_Usage] = None
    finish: Maybe[Finish] = None
    delay: Seconds = 0
    fail: Maybe[FailureKind] = None
    retry_after: Maybe[Seconds] = None
    status: Maybe[Annotated[int, Field(ge=100, le=599)]] = None
    message: str = ""

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        return {"text": value} if isinstance(value, str) else value


class _Input(Closed):
    state: Annotated[State, Field(strict=False)]
    step: Maybe[Count] = None
    steer: Maybe[Name] = None
    follow_up: Maybe[Name] = None
    inject: Maybe[Name] = None
    abort: Maybe[str] = None


# -- reading --------------------------------------------------------------------------------------


def load_script(path: str | os.PathLike[str], name: str | None = None) -> Script:
    """Read a script.

    Raises:
        FlowError: If something is wrong with the file; it holds every problem.
    """
    script, problems = read_script(path, name)
    if problems:
        raise FlowError(problems)
    return script


def read_script(path: str | os.PathLike[str], name: str | None = None) -> tuple[Script, list[Problem]]:
    """Return what can be read of a script, and everything that is wrong with it."""
    return script_of(read_file(Path(path), name if name is not None else os.fspath(path), empty_help=_HELP))


def script_of(document: Document) -> tuple[Script, list[Problem]]:
    """Return the script in a document that was read already, and everything that is wrong with it."""
    reading = Reading(env=None, problems=list(document.problems), references=False)
    root, at = document.root, None
    if isinstance(root, MapNode):
        for key, (node, _) in root.fields.items():
            if key not in ("model", "at"):
                reading.problems.append(unknown_key(node, (), ("model", "at")))
        at = root.get("at")
        answers = root.get("model")
        if answers is None:
            reading.problems.append(
                root.problem("missing-key", "the list of answers, model, is missing", help=_HELP)
            )
        root = answers
    steps = steps_of(root, ("model",), reading)
    return Script(tuple(steps), tuple(inputs_of(at, ("at",), reading))), reading.problems


def steps_of(node: AnyNode | None, loc: Loc, reading: Reading) -> list[ScriptStep]:
    """Read a list of answers; what is wrong goes to ``reading.problems``."""
    steps: list[ScriptStep] = []
    for i, item in enumerate(_items(node, loc, reading)):
        answer = reading.valid(_Answer, item, (*loc, i), reading.plain(item))
        if answer is not None and _sensible(answer, item, (*loc, i), reading):
            steps.append(_step(answer))
    return steps


def inputs_of(node: AnyNode | None, loc: Loc, reading: Reading) -> list[ScriptInput]:
    """Read an ``at`` list; what is wrong goes to ``reading.problems``."""
    inputs: list[ScriptInput] = []
    for i, item in enumerate(_items(node, loc, reading)):
        given = reading.valid(_Input, item, (*loc, i), reading.plain(item))
        if given is None:
            continue
        does: list[Action] = [action for action in ACTIONS if getattr(given, action) is not None]
        if len(does) == 1:
            inputs.append(ScriptInput(given.state, does[0], getattr(given, does[0]), given.step))
        elif isinstance(item, MapNode) and item.fields.keys() <= {"state", "step", *does}:
            message = f"{dotted((*loc, i))} needs exactly one of: {', '.join(ACTIONS)}"
            reading.problems.append(item.problem("missing-key", message))
    return inputs


def _items(node: AnyNode | None, loc: Loc, reading: Reading) -> tuple[AnyNode, ...]:
    if isinstance(node, ListNode):
        return node.items
    if node is not None and not (isinstance(node, Scalar) and node.broken):
        problem = bad_value(node, loc, "list_type", "", {})
        reading.problems.append(node.problem(problem.code, problem.message, help=_HELP))
    return ()


def _sensible(answer: _Answer, node: AnyNode, loc: Loc, reading: Reading) -> bool:
    """Refuse keys that contradict each other."""
    given = answer.model_fields_set
    if answer.fail is not None and "finish" in given:
        message, wrong = "an answer that fails has no {}", ["finish"]
    elif answer.call is not None and answer.calls:
        message, wrong = "an answer has call, or {}, not both", ["calls"]
    elif answer.call is None and "args" in given:
        message, wrong = "{} belongs to call", ["args"]
    else:
        failing = set[str]() if answer.fail is not None else {"retry_after", "status", "message"}
        message, wrong = "{} belongs to fail", sorted(given & failing)
    for key in wrong:
        at = node.fields[key][0] if isinstance(node, MapNode) and key in node.fields else node
        reading.problems.append(at.problem("key-not-here", f"{dotted(loc)}: {message.format(key)}"))
    if isinstance(node, MapNode) and not node.fields:
        reading.problems.append(
            node.problem("missing-key", f"{dotted(loc)} says nothing", help="write {text: ''}")
        )
    return not wrong


def _step(answer: _Answer) -> ScriptStep:
    calls = [ScriptCall(each.call, each.args, each.id) for each in answer.calls]
    if answer.call is not None:
        calls = [ScriptCall(answer.call, answer.args)]
    return ScriptStep(
        answer.text, tuple(calls), answer.thinking,
        None if answer.chunks is None else tuple(answer.chunks),
        answer.usage.model_dump(exclude_defaults=True) if answer.usage else None,
        answer.finish, answer.delay, answer.fail, answer.retry_after, answer.status, answer.message,
    )  # fmt: skip


# -- playing --------------------------------------------------------------------------------------


def to_model(steps: Iterable[ScriptStep], id: str = "test") -> "ScriptedModel":
    """Return a model that plays the steps in order."""
    from turnchart.machine.scripted import ScriptedModel  # reading a script needs no machine

    return ScriptedModel([_reply(step) for step in steps], id=id)


def _reply(step: ScriptStep) -> "Reply":
    from turnchart.machine.messages import Failure, ToolCall
    from turnchart.machine.scripted import Reply

    failure = Failure(step.fail, step.retry_after, step.status, step.message) if step.fail else None
    chunks: list[Chunk | str | float] | None = None if step.chunks is None else list(step.chunks)
    calls = [ToolCall(call.tool, call.args, call.id) for call in step.calls]
    return Reply(step.text, calls, step.thinking, chunks, step.usage, step.finish, step.delay, failure)
