"""One call of a tool on its way, and the outcomes that the driver itself gives."""

from turnchart.machine import ToolCall, tool
from turnchart.machine.calls import (
    aborted,
    denied,
    error_outcome,
    planned,
    shown_arguments,
    time_limit,
    too_late,
)
from turnchart.machine.entries import Frozen


@tool(timeout=2)
async def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


@tool(inline=True, timeout=2)
def fast(a: int) -> int:
    """Return it."""
    return a


def test_a_plan_holds_the_arguments_or_what_is_wrong_with_them() -> None:
    assert planned(add, ToolCall("add", {"a": 1})).args == {"a": 1, "b": 2}
    wrong = planned(add, ToolCall("add", {"a": "x"}))
    assert (wrong.tool, wrong.args) == (add, None)
    assert "`a`: Input should be a valid integer" in str(wrong.error)
    assert planned(None, ToolCall("sub")) == (None, None, None)


def test_hooks_see_arguments_as_json_or_as_the_model_gave_them() -> None:
    call = ToolCall("add", {"a": 1})
    assert shown_arguments(call, {"a": 1, "b": 2}) == {"a": 1, "b": 2}
    assert shown_arguments(call, {"a": object()}) == {"a": 1}
    assert shown_arguments(ToolCall("add", "no JSON"), {"a": object()}) == Frozen()


def test_a_function_that_blocks_the_loop_has_no_time_limit() -> None:
    assert (time_limit(add), time_limit(fast)) == (2, None)


def test_outcomes_of_the_driver_say_what_happened_to_people_and_programs() -> None:
    made = [too_late(add), error_outcome("odd", "ODD"), denied("no"), aborted("cut")]
    assert [(each.outcome, each.content[0]["text"], each.details) for each in made] == [
        ("error", "add took longer than 2 seconds and was stopped.", {"code": "TIMEOUT"}),
        ("error", "odd", {"code": "ODD"}),
        ("denied", "Denied: no", {"code": "DENIED"}),
        ("aborted", "cut", {"code": "ABORTED"}),
    ]
    assert all(each.is_error for each in made)
