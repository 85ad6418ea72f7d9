"""Binding: what a point accepts as a hook, and what it takes from where."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from turnchart.machine.bound import MARKS, Marks, bind
from turnchart.machine.points import PreTool


def plain(payload: PreTool) -> None:
    del payload


async def waits(payload: PreTool) -> None:
    del payload


class Callable_:
    async def __call__(self, payload: PreTool) -> None:
        del payload


class Legs:
    def pre_tool(self, payload: PreTool, next: Any) -> None:
        del payload, next


anything: Callable[..., None] = lambda *payload: None  # noqa: E731  # a hook without a name


def with_parameter(payload: PreTool, *, weekday: str) -> None:
    del payload, weekday


def test_a_plain_function_is_bound_with_its_name_and_line() -> None:
    bound = bind("pre_tool", plain)
    assert (bound.call, bound.id, bound.timeout, bound.on_error) == (plain, "plain", 30.0, None)
    assert bound.where == f"{__file__}:{plain.__code__.co_firstlineno}"
    assert (bound.wraps, bound.observes, bound.is_async, bound.wants_verdict) == (False,) * 4
    assert bound.named == f"hook `plain` ({bound.where})"


def test_what_is_given_wins() -> None:
    bound = bind("pre_tool", plain, id="x", where="", timeout=5, observes=True, tools=["sh*"])
    assert (bound.id, bound.where, bound.timeout, bound.observes, bound.tools) == ("x", "", 5, True, ("sh*",))
    assert bound.named == "hook `x`"
    assert bind("context", plain, on_error="stop").on_error == "stop"
    assert bind("turn_stopping", plain, max_continues=2).max_continues == 2


@pytest.mark.parametrize(
    ("fn", "id", "is_async"),
    [
        (waits, "waits", True),
        (Callable_(), "Callable_", True),
        (partial(with_parameter, weekday="Friday"), "with_parameter", False),
        (partial(partial(waits)), "waits", True),
        (Legs().pre_tool, "pre_tool", False),
        (Legs(), "pre_tool", False),
        (anything, "lambda", False),
    ],
)
def test_all_kinds_of_callables_are_bound(fn: object, id: str, is_async: bool) -> None:
    bound = bind("pre_tool", fn)
    assert (bound.id, bound.is_async) == (id, is_async)
    assert bound.where.startswith(__file__)


def test_a_second_parameter_named_next_wraps_and_has_no_timeout_of_its_own() -> None:
    bound = bind("pre_tool", Legs())
    assert (bound.wraps, bound.timeout) == (True, None)
    assert bind("pre_tool", Legs(), timeout=3).timeout == 3


def test_an_observer_may_take_the_verdict() -> None:
    def sees(payload: Any, verdict: Any) -> None:
        del payload, verdict

    assert bind("context", sees, observes=True).wants_verdict
    assert bind("on_signal", sees).observes


def test_a_python_builtin_has_no_line() -> None:
    assert bind("pre_tool", print).where == ""


def nothing() -> None: ...
def only_keyword(*, payload: PreTool) -> None: ...
def second_unknown(payload: PreTool, rest: Any) -> None: ...
def third(payload: PreTool, next: Any, more: Any) -> None: ...
def verdict(payload: PreTool, verdict: Any) -> None: ...
def wraps(payload: PreTool, next: Any) -> None: ...


@pytest.mark.parametrize(
    ("fn", "options", "message"),
    [
        (nothing, {}, "hook `nothing` on pre_tool takes no payload"),
        (only_keyword, {}, "hook `only_keyword` on pre_tool takes no payload"),
        (second_unknown, {}, "hook `second_unknown` on pre_tool needs rest, which nobody gives it"),
        (third, {}, "hook `third` on pre_tool needs more"),
        (with_parameter, {}, r"needs weekday, .*functools.partial can fill in the rest"),
        (verdict, {}, "takes `verdict`, which only observers get"),
        (wraps, {"observes": True}, "observes, so it cannot take `next`"),
        (type, {}, "type is a class: give an instance of it"),
        (object(), {}, "object cannot be called, and has no method named pre_tool"),
        (max, {}, "hook `max` on pre_tool has no signature that Python can read"),
        (plain, {"on_error": "warn"}, r"cannot say on_error: .* is fixed \(call denied\)"),
        (plain, {"max_continues": 1}, "cannot say max_continues: only turn_stopping"),
    ],
)
def test_what_cannot_be_called_is_refused_at_once(fn: object, options: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        bind("pre_tool", fn, **options)


def test_a_filter_by_tool_needs_a_point_with_tools() -> None:
    with pytest.raises(TypeError, match="cannot say tools: no tool is called there"):
        bind("context", plain, tools=["shell"])


def test_an_unknown_point_is_refused_with_the_list() -> None:
    with pytest.raises(
        ValueError, match=r"no hook point 'pre-tool'; did you mean pre_tool\? the points are "
    ):
        bind("pre-tool", plain)
    with pytest.raises(ValueError, match="no hook point 'x'; the points are session_start"):
        bind("x", plain)


def marked(payload: Any) -> None:
    del payload


setattr(marked, MARKS, Marks("named", ("context", "pre_tool"), timeout=3, on_error="stop"))


class Marked:
    def context(self, payload: Any) -> None:
        del payload

    def __call__(self) -> None: ...


setattr(Marked, MARKS, Marks("legs", ("context",), observes=True))


def test_what_the_decorator_said_holds_wherever_the_hook_is_bound() -> None:
    bound = bind("context", marked)
    assert (bound.id, bound.timeout, bound.on_error) == ("named", 3, "stop")
    assert bind("context", partial(marked), on_error="warn", timeout=1).on_error == "warn"
    assert bind("pre_tool", marked).on_error is None
    with pytest.raises(
        TypeError, match="hook `named` on request cannot run there; it runs on context, pre_tool"
    ):
        bind("request", marked)
    leg = bind("context", Marked())
    assert (leg.id, leg.observes) == ("legs", True)
