"""Tools: typed functions that a model may call.

``@tool`` reads a function once and refuses at once what can never be called. The JSON schema of its
parameters is made by pydantic when it is first asked for, so importing this module stays cheap.
"""

import inspect
import json
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import partial
from math import inf
from pathlib import Path, PurePath
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    Never,
    TypedDict,
    Union,
    Unpack,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    overload,
)

from turnchart.machine.abort import AbortSignal
from turnchart.machine.clock import SYSTEM_CLOCK, Clock
from turnchart.machine.entries import Entry
from turnchart.machine.messages import Content
from turnchart.machine.outcomes import ToolFailed, failed, outcome_of, outcome_of_error
from turnchart.machine.points import ToolOutcome, World
from turnchart.machine.records import record
from turnchart.machine.tool_arguments import ToolArgumentError, json_object

if TYPE_CHECKING:
    from turnchart.machine.entries import Frozen
    from turnchart.machine.json_parameters import JsonParameters
    from turnchart.machine.tool_schema import Parameters

__all__ = [
    "Effects", "Execution", "ExecutionOf", "Replay", "Settings", "SubjectKind", "Tool", "ToolArgumentError",
    "ToolContext", "ToolFailed", "failed", "hints_of", "json_object", "outcome_of",
    "outcome_of_error", "run_tool", "tool", "wants_context",
]  # fmt: skip

Execution = Literal["exclusive", "parallel"]
"""Alone, as a barrier; or beside other parallel calls."""
ExecutionOf = Callable[[dict[str, Any]], object]
"""Says for the arguments of one call which of the two it is."""
SubjectKind = Literal["text", "path", "shell"]
"""How permissions compare the subject: as it stands, as a path below the root, or as a shell command."""
Effects = Literal["read"]
Replay = Literal["idempotent", "keyed", "unsafe"]
"""What happens to a call whose process died while it ran, where turns outlive their process: it runs again;
it runs again with the same ``ToolContext.key``, by which the tool knows it; or a person is asked first."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")


class ToolContext:
    """What a tool knows of its call, where it asks for it with the parameter ``ctx: ToolContext``.

    Attributes:
        call_id: The id of the call.
        tool: The name of the tool, as the model knows it.
        abort: Set when the turn is cut off; a function in a worker thread has to look at it.
        log: The entries so far; do not keep it.
        session_id: The id of the session.
        root: The folder that relative paths start from.
        clock: Where time is read from.
        world: Programs, files and models, as hooks reach them; None outside an agent.
        settled: The call is over, and nobody hears its progress any more.
    """

    __slots__ = (
        "_report", "_thread", "abort", "call_id", "clock", "log", "root", "session_id", "settled", "tool",
        "world",
    )  # fmt: skip

    def __init__(
        self,
        call_id: str = "",
        tool: str = "",
        *,
        abort: AbortSignal | None = None,
        report: Callable[[Content], object] | None = None,
        log: Sequence[Entry] = (),
        session_id: str = "",
        root: Path = Path(),
        clock: Clock = SYSTEM_CLOCK,
        world: World | None = None,
    ) -> None:
        self.call_id = call_id
        self.tool = tool
        self.abort = abort or AbortSignal()
        self.log = log
        self.session_id = session_id
        self.root = root
        self.clock = clock
        self.world = world
        self.settled = False
        self._report = report
        self._thread = threading.get_ident()

    @property
    def key(self) -> str:
        """The same for every try of this call, and for no other one: an idempotency key."""
        called = (entry.seq for entry in reversed(self.log) if entry.type == "tool/call"
                  and entry.data["call_id"] == self.call_id)  # fmt: skip
        return f"{self.session_id}:{next(called, '')}:{self.call_id}"

    def progress(self, content: Content) -> None:
        """Tell those who watch how far the call is. May be called in the worker thread of a tool too."""
        if self.settled or self._report is None:
            return
        if threading.get_ident() == self._thread:
            self._report(content)
        else:
            from anyio import from_thread  # loaded where it is used: a tool that nobody runs needs no loop

            from_thread.run_sync(self._report, content)


@record
class Tool:
    """A function that a model may call. Made by ``tool``; still callable as the function that it was.

    Attributes:
        name: What the model calls it.
        description: What the model reads about it.
        fn: The function.
        execution: exclusive, parallel, or a function of the arguments that returns one of these.
        subject: The parameter that permissions match.
        subject_kind: How they match it.
        effects: ``read`` where it changes nothing anywhere.
        replay: See ``Replay``; None: idempotent where ``effects`` is ``read``, else unsafe.
        inline: Runs on the event loop although it is no ``async def``.
        timeout: Seconds that the driver gives one call; None where the tool itself sees to it.
        takes_ctx: It has the parameter ``ctx: ToolContext``.
        is_async: It is an ``async def``.
        input_schema: The JSON Schema of its parameters, where the function does not say them. It is async
            then, and called with two values: the arguments as a dict, and the ``ToolContext``.
        at_provider: It runs at the provider, which takes it by its name: the function is never called, and
            no hook and no permission sees a call.
        options: What the provider is asked to keep to there, as JSON.
    """

    name: str
    description: str
    fn: Callable[..., Any]
    execution: Execution | ExecutionOf = "exclusive"
    subject: str | None = None
    subject_kind: SubjectKind = "text"
    effects: Effects | None = None
    replay: Replay | None = None
    inline: bool = False
    timeout: float | None = 120
    takes_ctx: bool = False
    is_async: bool = False
    input_schema: Mapping[str, Any] | None = field(default=None, repr=False, compare=False)
    at_provider: bool = False
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    _read: "list[Parameters | JsonParameters]" = field(
        default_factory=lambda: cast("list[Parameters | JsonParameters]", []),
        init=False,
        repr=False,
        compare=False,
    )

    def __post_init__(self) -> None:
        if not callable(self.execution) and self.execution not in get_args(Execution):
            self._refuse(f"execution is {self.execution!r}", "it must be exclusive, parallel or a function")
        if self.subject_kind not in get_args(SubjectKind):
            self._refuse(f"subject_kind is {self.subject_kind!r}", "it must be text, path or shell")
        if self.effects not in (None, *get_args(Effects)):
            self._refuse(f"effects is {self.effects!r}", 'it must be "read", or left out')
        if self.replay not in (None, *get_args(Replay)):
            self._refuse(f"replay is {self.replay!r}", "it must be idempotent, keyed or unsafe")
        if self.timeout is not None and not self.timeout > 0:
            self._refuse(f"timeout is {self.timeout!r}", "it must be more than 0 seconds, or None")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function itself: no schema, no permissions, no thread."""
        return self.fn(*args, **kwargs)

    @property
    def schema(self) -> Mapping[str, Any]:
        """The JSON schema of the parameters: an object, frozen, the same at every call."""
        return self._parameters().schema

    @property
    def spec(self) -> "Frozen":
        """Name, description and schema, as the model is told of them; the same at every call."""
        spec = self._parameters().spec(self.name, self.description)
        if not self.at_provider:
            return spec
        options = {"options": self.options} if self.options else {}
        return type(spec)({**spec, "at_provider": True, **options})

    @property
    def replayed(self) -> Replay:
        """What happens to a call whose process died while it ran."""
        return self.replay or ("idempotent" if self.effects == "read" else "unsafe")

    def parse(self, arguments: Mapping[str, Any] | str) -> dict[str, Any]:
        """Return checked arguments to call the function with.

        Raises:
            ToolArgumentError: If they are no JSON object, or do not fit the parameters.
        """
        return self._parameters().parse(json_object(self.name, arguments))

    def subject_of(self, args: Mapping[str, Any]) -> str | None:
        """Return the argument that permissions match, as text; None where the tool declares none."""
        if self.subject is None:
            return None
        if self.subject in args:
            value = args[self.subject]
        else:
            default = inspect.signature(self.fn).parameters[self.subject].default
            value = None if default is inspect.Parameter.empty else default
        if isinstance(value, str | PurePath):
            return str(value)
        return "" if value is None else json.dumps(value, ensure_ascii=False, default=str)

    def classify(self, arguments: Mapping[str, Any] | str) -> Execution:
        """Return how a call runs: parallel only where that is certain."""
        if self.execution == "exclusive":
            return "exclusive"
        try:
            args = self.parse(arguments)
            said = self.execution(args) if callable(self.execution) else self.execution
            return "parallel" if type(said) is str and said == "parallel" else "exclusive"
        except Exception:  # noqa: BLE001  # whatever the user's function does, alone is always right
            return "exclusive"

    def _parameters(self) -> "Parameters | JsonParameters":
        if not self._read and self.input_schema is not None:
            from turnchart.machine.json_parameters import JsonParameters

            self._read.append(JsonParameters(self.name, self.input_schema))
        elif not self._read:
            from turnchart.machine.tool_schema import Parameters

            self._read.append(Parameters(self.name, self.fn))
        return self._read[0]

    def _refuse(self, wrong: str, cure: str) -> Never:
        raise TypeError(f"tool `{self.name}`: {wrong}; {cure}")


class Settings(TypedDict, total=False):
    """What ``tool`` takes beside the function; ``Tool`` says what each is for."""

    name: str
    description: str
    execution: Execution | ExecutionOf
    subject: str | None
    subject_kind: SubjectKind
    effects: Effects | None
    replay: Replay | None
    inline: bool
    timeout: float | None


@overload
def tool(fn: Callable[..., Any], /, **settings: Unpack[Settings]) -> Tool: ...
@overload
def tool(**settings: Unpack[Settings]) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(
    fn: Callable[..., Any] | None = None, /, **settings: Unpack[Settings]
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a tool of a typed function, sync or async: ``@tool``, ``@tool(...)`` or ``tool(fn, ...)``.

    The name is the function's, the description the first paragraph of its docstring; the parameters are
    described by its section ``Args:``. A ``def`` runs in a worker thread.

    Raises:
        TypeError: If no call of the function could succeed, or a setting is wrong; the message says the cure.
    """
    if fn is None:
        return partial(_tool, settings=settings)
    return _tool(fn, settings)


def _tool(fn: Callable[..., Any], settings: Settings) -> Tool:
    name = settings.get("name", getattr(fn, "__name__", ""))
    if not _NAME.fullmatch(name):
        raise TypeError(f"{name!r} is no name for a tool; name it with @tool(name=): letters, digits and _.-")
    for key in settings:
        if key not in Settings.__annotations__:
            _no_setting(name, key)
    first_paragraph = (inspect.getdoc(fn) or "").split("\n\n")[0]
    given: dict[str, Any] = {"description": " ".join(first_paragraph.split()), **settings, "name": name}
    made = Tool(**given, fn=fn, takes_ctx=_takes_ctx(name, fn), is_async=_is_async(fn))
    if made.subject is not None:
        _check_subject(made, made.subject)
    return made


def _no_setting(name: str, unknown: str) -> Never:
    from difflib import get_close_matches  # only a mistake pays for it

    near = get_close_matches(unknown, Settings.__annotations__, n=1)
    hint = f"did you mean `{near[0]}`? " if near else ""
    known = ", ".join(Settings.__annotations__)
    raise TypeError(f"tool `{name}`: there is no setting `{unknown}`; {hint}the settings are: {known}")


def _check_subject(made: Tool, subject: str) -> None:
    hints = {key: hint for key, hint in hints_of(made.name, made.fn).items() if not wants_context(hint)}
    parameters = [each for each in inspect.signature(made.fn).parameters if each in hints]
    if subject not in parameters:
        raise TypeError(
            f"tool `{made.name}`: its subject `{subject}` is no parameter;"
            f" it must be one of: {', '.join(parameters) or 'none, since it has no parameters'}"
        )
    if made.subject_kind != "text" and not _types(hints[subject]) <= {str, Path, PurePath, NoneType}:
        raise TypeError(
            f"tool `{made.name}`: its subject `{subject}` is compared as a {made.subject_kind}; type it str"
        )


def _types(hint: Any) -> set[Any]:
    """Return the types that an annotation joins with ``|``."""
    if get_origin(hint) is Annotated:
        return _types(get_args(hint)[0])
    if get_origin(hint) in (Union, UnionType):
        return {each for part in get_args(hint) for each in _types(part)}
    return {hint}


def _takes_ctx(name: str, fn: Callable[..., Any]) -> bool:
    """Check the parameters, and return whether ``ctx`` is among them."""
    hints = hints_of(name, fn)
    for parameter in inspect.signature(fn).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise TypeError(f"tool `{name}`: `{parameter}` has no schema; name each parameter or take a list")
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise TypeError(f"tool `{name}`: `{parameter.name}` is positional only; take the `/` away")
        if parameter.name not in hints:
            cure = "annotate it, as in `text: str`; a method is given bound, as in tool(thing.method)"
            raise TypeError(f"tool `{name}`: `{parameter.name}` has no type; {cure}")
        if wants_context(hints[parameter.name]) and parameter.name != "ctx":
            raise TypeError(f"tool `{name}`: the parameter with the ToolContext must be named `ctx`")
    return wants_context(hints.get("ctx"))


def wants_context(hint: object) -> bool:
    """Whether a parameter with this annotation gets the ``ToolContext``."""
    return hint is ToolContext or ToolContext in get_args(hint)


def hints_of(name: str, fn: Callable[..., Any]) -> dict[str, Any]:
    """Return the resolved annotations of a tool's function.

    Raises:
        TypeError: If a name in them means nothing.
    """
    while isinstance(fn, partial):
        fn = fn.func
    try:
        return get_type_hints(fn if inspect.isroutine(fn) else type(fn).__call__, include_extras=True)
    except NameError as error:
        raise TypeError(f"tool `{name}`: {error}; its types must be imported or defined above it") from None


def _is_async(fn: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(getattr(fn, "__call__", None))  # noqa: B004  # an object whose call is async counts too


async def run_tool(tool: Tool, args: Mapping[str, Any], ctx: ToolContext | None) -> ToolOutcome:
    """Run a tool with parsed arguments and return what it gave; what it raises is an error outcome.

    A ``def`` runs in a worker thread, which is waited for even when the call is cancelled: nothing that
    started goes on unseen. The time limit of the tool is its caller's to keep.

    Args:
        tool: The tool.
        args: Its arguments, parsed.
        ctx: What it is given as ``ctx``; None for a tool that does not ask for it.
    """
    try:
        if tool.input_schema is None and tool.takes_ctx:
            args = {**args, "ctx": ctx}
        if tool.input_schema is not None:
            value = tool.fn(dict(args), ctx)
        elif tool.is_async or tool.inline:
            value = tool.fn(**args)
        else:
            from anyio import to_thread  # as in ToolContext.progress

            (value,) = await to_thread.run_sync(_wrapped_call, tool.fn, args)
        if tool.is_async or inspect.isawaitable(value):
            value = await value
        return outcome_of(value)
    except (Exception, SystemExit) as error:  # noqa: BLE001  # a tool may raise what it likes
        return outcome_of_error(error)
    except BaseException as error:
        if not _of_its_own(error):
            raise
        return failed("the tool ended in a cancellation that did not come from this turn")
    finally:
        if ctx is not None:
            ctx.settled = True


def _of_its_own(error: BaseException) -> bool:
    """Whether a cancellation came from within the tool, as from an asyncio task that it awaited."""
    from anyio import current_effective_deadline, get_cancelled_exc_class  # as in ToolContext.progress

    return isinstance(error, get_cancelled_exc_class()) and current_effective_deadline() != -inf


def _wrapped_call(fn: Callable[..., Any], args: Mapping[str, Any]) -> tuple[Any]:
    """Call a function in a worker thread; trio would refuse a bare awaitable from there."""
    return (fn(**args),)
