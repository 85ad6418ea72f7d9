"""One hook, bound to one point. How it is called is decided here, once, and not looked at again."""

import inspect
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Literal, NamedTuple

from turnchart.machine.points import POINTS, OnError, Point
from turnchart.machine.records import record

HOOK_TIMEOUT = 30.0
"""Seconds that an async hook may take unless something else was said."""

Second = Literal["", "next", "verdict"]
_SECOND: dict[str, Second] = {"next": "next", "verdict": "verdict"}

MARKS = "__turnchart_hook__"
"""The attribute in which ``@hook`` leaves its ``Marks``."""


class Marks(NamedTuple):
    """What ``@hook`` says of a function or a class; binding it anywhere keeps to that."""

    name: str
    points: tuple[str, ...]
    timeout: float | None = None
    on_error: OnError | None = None
    observes: bool = False


@record
class BoundHook:
    """A hook of one chain; ``bind`` makes it.

    Attributes:
        call: Takes the payload, and ``next`` or ``verdict`` as a second argument where the flags say so.
        id: Its name in logs, pictures and ``--disable-hook``.
        where: ``file:line`` of its entry in a flow, or of its code; empty where unknown.
        wraps: It takes ``next``, the rest of the list.
        observes: It runs after the others and can change or break nothing.
        wants_verdict: It observes and takes the ``verdict``.
        is_async: It is a coroutine function.
        timeout: In seconds; None for none. Only what is awaited can be timed out.
        on_error: What its failure does where the point lets it say; None keeps to the point's default.
        tools: Globs; it runs only for the tools that one of them matches. Empty for all.
        max_continues: How often it may send a turn on, at ``turn_stopping``.
    """

    call: Callable[..., Any]
    id: str
    where: str = ""
    wraps: bool = False
    observes: bool = False
    wants_verdict: bool = False
    is_async: bool = False
    timeout: float | None = HOOK_TIMEOUT
    on_error: OnError | None = None
    tools: tuple[str, ...] = ()
    max_continues: int | None = None

    @property
    def named(self) -> str:
        """Its id and line, as people and models read them."""
        return f"hook `{self.id}` ({self.where})" if self.where else f"hook `{self.id}`"


class Remarked(NamedTuple):
    """What a hook that is a program answered, and what it wrote to stderr beside that."""

    answer: Any
    stderr: str


def bind(
    point: str,
    fn: object,
    *,
    id: str | None = None,
    where: str | None = None,
    timeout: float | None = None,
    on_error: OnError | None = None,
    observes: bool = False,
    tools: Iterable[str] = (),
    max_continues: int | None = None,
) -> BoundHook:
    """Bind a function, a callable object, or an object with a method named as the point.

    What is not given comes from ``@hook``, else: the id is the function's name, the place is where its code
    stands, and the timeout is 30 seconds. A hook that takes ``next`` has no timeout unless one is given,
    because the rest of the list runs inside it.

    Raises:
        TypeError: If the point cannot call it, or does not take one of the settings; the message names it.
        ValueError: If there is no such point.
    """
    contract = point_named(point)
    call = _leg(point, fn)
    marks = _marks(call)
    name = id or (marks.name if marks else _name(call))
    who = f"hook `{name}` on {point}"
    observes = observes or contract.kind == "observer" or (marks is not None and marks.observes)
    second = second_parameter(call, who)
    _check_second(second, observes, who)
    _check_settings(contract, who, on_error, tools, max_continues)
    if marks and point not in marks.points:
        raise TypeError(f"{who} cannot run there; it runs on {', '.join(marks.points)}")
    if timeout is None and marks:
        timeout = marks.timeout
    if timeout is None and second != "next":
        timeout = HOOK_TIMEOUT
    if on_error is None and marks and contract.on_error:
        on_error = marks.on_error
    return BoundHook(
        call=call,
        id=name,
        where=place_of(call) if where is None else where,
        wraps=second == "next",
        observes=observes,
        wants_verdict=second == "verdict",
        is_async=inspect.iscoroutinefunction(_code_of(call)),
        timeout=timeout,
        on_error=on_error,
        tools=tuple(tools),
        max_continues=max_continues,
    )


def point_named(name: str) -> Point:
    """Return the contract of a point.

    Raises:
        ValueError: If there is no such point.
    """
    found = POINTS.get(name)
    if found is None:
        meant = name.replace("-", "_")
        hint = f"did you mean {meant}? " if meant in POINTS else ""
        raise ValueError(f"there is no hook point {name!r}; {hint}the points are {', '.join(POINTS)}")
    return found


def second_parameter(call: Callable[..., Any], who: str) -> Second:
    """Return what a hook takes besides the payload.

    Raises:
        TypeError: If it takes no payload, or needs more than a hook is given.
    """
    try:
        parameters = list(inspect.signature(call).parameters.values())
    except ValueError as error:
        raise TypeError(f"{who} has no signature that Python can read: wrap it in a function") from error
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if not positional and not any(p.kind is p.VAR_POSITIONAL for p in parameters):
        raise TypeError(f"{who} takes no payload: write it as f(payload) or f(payload, next)")
    second = _SECOND.get(positional[1].name, "") if len(positional) > 1 else ""
    extra = positional[2 if second else 1 :] + [p for p in parameters if p.kind is p.KEYWORD_ONLY]
    needed = [p.name for p in extra if p.default is p.empty]
    if needed:
        raise TypeError(
            f"{who} needs {', '.join(needed)}, which nobody gives it: a hook takes (payload) or"
            " (payload, next), and functools.partial can fill in the rest"
        )
    return second


def place_of(call: Callable[..., Any]) -> str:
    """Return ``file:line`` of the code of a callable; empty where Python does not say."""
    code = getattr(inspect.unwrap(_code_of(call)), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code else ""


def _check_second(second: str, observes: bool, who: str) -> None:
    if observes and second == "next":
        raise TypeError(
            f"{who} observes, so it cannot take `next`; it may take (payload) or (payload, verdict)"
        )
    if second == "verdict" and not observes:
        raise TypeError(f"{who} takes `verdict`, which only observers get: say observes=True, or take `next`")


def _check_settings(
    point: Point, who: str, on_error: OnError | None, tools: Iterable[str], max_continues: int | None
) -> None:
    if on_error and not point.on_error:
        raise TypeError(f"{who} cannot say on_error: what a failure means there is fixed ({point.failure})")
    if tools and not point.tools:
        raise TypeError(f"{who} cannot say tools: no tool is called there")
    if max_continues is not None and point.name != "turn_stopping":
        raise TypeError(f"{who} cannot say max_continues: only turn_stopping sends a turn on")


def _leg(point: str, fn: object) -> Callable[..., Any]:
    if isinstance(fn, type):
        raise TypeError(f"{fn.__name__} is a class: give an instance of it to {point}")
    if callable(fn) and not hasattr(type(fn), MARKS):
        return fn
    leg = getattr(fn, point, None)
    if not callable(leg):
        raise TypeError(f"{type(fn).__name__} cannot be called, and has no method named {point}")
    return leg  # type: ignore[no-any-return]  # getattr is untyped


def _function_of(call: Callable[..., Any]) -> Callable[..., Any]:
    while isinstance(call, partial):
        call = call.func  # pyright: ignore[reportUnknownMemberType]  # the class is generic, the check is not
    return call  # pyright: ignore[reportUnknownVariableType]  # as above


def _code_of(call: Callable[..., Any]) -> Callable[..., Any]:
    function = _function_of(call)
    return function if inspect.isroutine(function) else getattr(function, "__call__", function)  # noqa: B004


def _marks(call: Callable[..., Any]) -> Marks | None:
    function = _function_of(call)
    owner: object = getattr(function, "__self__", None)
    return getattr(function, MARKS, None) or getattr(type(owner), MARKS, None)


def _name(call: Callable[..., Any]) -> str:
    function = _function_of(call)
    return getattr(function, "__name__", type(function).__name__).strip("<>")
