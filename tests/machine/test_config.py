"""The settings of an agent are checked when they are made."""

from dataclasses import FrozenInstanceError
from math import nan
from random import Random
from typing import Any

import pytest

from turnchart.machine import Compaction, Failure, Limits, Queues, RetryPolicy
from turnchart.machine.messages import FAILURE_KINDS


def test_the_defaults_are_those_of_the_design() -> None:
    assert Queues() == Queues(steering="all", follow_up="one-at-a-time")
    retry = RetryPolicy()
    assert (retry.max_attempts, retry.base_delay, retry.max_delay, retry.honor_retry_after) == (
        5,
        1,
        60,
        True,
    )
    assert retry.retry_on == (
        "rate_limit", "overloaded", "server_error", "timeout", "connection", "incomplete_stream",
        "empty_response",
    )  # fmt: skip
    limits = Limits()
    assert (limits.max_steps, limits.max_continues, limits.max_retries, limits.parallel_tools) == (
        100, 8, 20, 10,
    )  # fmt: skip
    assert (limits.max_tool_calls, limits.max_seconds) == (None, None)


@pytest.mark.parametrize("name", ["steering", "follow_up"])
def test_a_queue_mode_that_does_not_exist_is_named_with_those_that_do(name: str) -> None:
    with pytest.raises(ValueError, match=rf"queues\.{name} is 'some'; it must be one of: all, one-at-a-time"):
        Queues(**{name: "some"})  # type: ignore[arg-type]  # on purpose


COUNTS = ("max_steps", "max_tool_calls", "parallel_tools")
WRONG_LIMITS: list[tuple[str, Any]] = [
    *[(name, value) for name in COUNTS for value in (0, -1, 1.5, nan, True, "3")],
    ("parallel_tools", None),
    *[("max_seconds", value) for value in (0, -1, nan)],
    ("max_continues", -1),
    ("max_retries", -1),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), WRONG_LIMITS)
def test_a_wrong_limit_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=rf"limits\.{name} is "):
        Limits(**{name: value})


@pytest.mark.parametrize(
    "name", ["max_steps", "max_tool_calls", "max_seconds", "max_continues", "max_retries"]
)
def test_none_is_no_limit(name: str) -> None:
    given: dict[str, Any] = {name: None}
    assert getattr(Limits(**given), name) is None


def test_no_continue_at_all_may_be_asked_for() -> None:
    assert Limits(max_continues=0).max_continues == 0


def test_no_retry_of_a_hook_at_all_may_be_asked_for() -> None:
    assert Limits(max_retries=0).max_retries == 0


@pytest.mark.parametrize("value", [0, -1, 1.5, nan, None, True])
def test_a_step_has_a_whole_number_of_attempts_from_one(value: Any) -> None:
    with pytest.raises(ValueError, match=r"retry\.max_attempts is .*; it must be a whole number from 1"):
        RetryPolicy(max_attempts=value)


@pytest.mark.parametrize(("base", "most"), [(-1, 60), (2, 1), (nan, 60), (1, nan)])
def test_the_longest_wait_is_not_below_the_first(base: float, most: float) -> None:
    with pytest.raises(ValueError, match="retry: base_delay must not be negative, and max_delay not below"):
        RetryPolicy(base_delay=base, max_delay=most)


def test_a_failure_kind_that_does_not_exist_is_named_with_those_that_do() -> None:
    with pytest.raises(ValueError, match=r"retry\.retry_on has 'slow'; the kinds are: rate_limit, "):
        RetryPolicy(retry_on=["slow"])  # type: ignore[list-item]  # on purpose
    assert RetryPolicy(retry_on=FAILURE_KINDS).retry_on == FAILURE_KINDS


@pytest.mark.parametrize(
    ("settings", "name"), [(Queues(), "steering"), (RetryPolicy(), "max_attempts"), (Limits(), "max_steps")]
)
def test_settings_are_frozen(settings: object, name: str) -> None:
    with pytest.raises(FrozenInstanceError):
        setattr(settings, name, getattr(settings, name))


@pytest.mark.parametrize(
    ("name", "value", "right"),
    [
        ("strategy", "some", "one of: none, drop_oldest, summarize"),
        *[("trigger", value, "more than 0 and at most 1") for value in (0, -1, 1.1, nan, True, "0.8")],
        *[("keep_last", value, "a whole number from 0") for value in (-1, 1.5, True, "2")],
        ("model", 5, "the id of a model"),
    ],
)
def test_a_wrong_compaction_is_refused_by_name(name: str, value: Any, right: str) -> None:
    with pytest.raises(ValueError, match=rf"compaction\.{name} is .*; it must be {right}"):
        Compaction(**{name: value})


def test_the_default_compaction_summarises_and_keeps_two_turns() -> None:
    assert Compaction() == Compaction(strategy="summarize", trigger=0.8, keep_last=2, model=None)
    assert Compaction(trigger=1).trigger == 1


@pytest.mark.parametrize(
    ("failure", "attempts", "wait"),
    [
        (Failure("timeout"), 1, (0, 1)),
        (Failure("timeout"), 3, (0, 4)),
        (Failure("timeout"), 99, None),
        (Failure("auth"), 1, None),
        (Failure("timeout", retry_after=7), 1, (7, 7)),
        (Failure("timeout", retry_after=61), 1, None),
    ],
)
def test_how_long_a_policy_waits(failure: Failure, attempts: int, wait: tuple[float, float] | None) -> None:
    policy = RetryPolicy()
    waits = [policy.wait(failure, attempts, policy.retry_on, Random(seed)) for seed in range(20)]
    if wait is None:
        assert set(waits) == {None}
    else:
        assert all(each is not None and wait[0] <= each <= wait[1] for each in waits)


def test_a_policy_without_kinds_of_its_own_retries_those_of_the_model() -> None:
    assert RetryPolicy().wait(Failure("quota"), 1, ["quota"], Random(1)) is not None
    assert RetryPolicy(retry_on=["timeout"]).wait(Failure("quota"), 1, ["quota"], Random(1)) is None
