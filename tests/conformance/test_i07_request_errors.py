"""lifecycle I.7: which failures are asked about, who answers first, how often and when it is tried again."""

from typing import Any

import pytest
from tests.conformance.asking import DONE, Part, Route, all_of, asked, in_step, reasons, said, since
from tests.machine.drive import add, calls, drop

from turnchart.machine import (
    Agent,
    Entry,
    Failure,
    Limits,
    Reply,
    RequestFailed,
    RetryPolicy,
    ScriptedModel,
    Session,
    Signal,
    State,
    Turn,
    tool,
)
from turnchart.machine.abort import AbortSignal
from turnchart.machine.messages import FAILURE_KINDS, RETRIED_KINDS, FailureKind
from turnchart.machine.models import Finish, RequestConfig, TextDelta
from turnchart.machine.points import GiveUp, Payload, RequestError, Retry
from turnchart.machine.scripted import Scripted
from turnchart.testing import FakeClock


def failed(kind: FailureKind = "timeout", **more: Any) -> tuple[Part, ...]:
    """Return a stream that fails."""
    return (Finish("error", Failure(kind, **more)),)


async def attempted(*replies: Scripted, **settings: Any) -> tuple[Agent, Turn, FakeClock]:
    """Run one turn on a scripted model."""
    clock = FakeClock()
    model = ScriptedModel(replies)
    async with asked(model, clock=clock, **settings) as agent:
        turn = await agent.prompt("x")
    return agent, turn, clock


def retries(session: Session) -> list[tuple[int, str]]:
    """Return number and author of every retry that was announced."""
    return [(entry.data["retry"], entry.data["by"]) for entry in all_of(session, "llm/retry")]


def started(session: Session) -> list[int]:
    """Return the number of every retry that began."""
    return [entry.data["retry"] for entry in all_of(session, "llm/retry-started")]


def silent(_: RequestError) -> None:
    """Say nothing."""


def give_up(_: RequestError) -> GiveUp:
    return GiveUp("no")


# -- the hook ----------------------------------------------------------------------------------------


async def test_i129_where_the_hook_says_nothing_the_failure_is_the_turns_error() -> None:
    failure = Failure("quota", status=429, message="no credit")
    agent, turn, _ = await attempted(failure, hooks={"request_error": [silent]})
    assert isinstance(turn.error, RequestFailed)
    assert (turn.reason, turn.error.failure, turn.error.__cause__) == ("error", failure, None)
    assert agent.session.entries[-1].data["error"] == failure.json()
    assert since(agent.session, -3) == ["assistant/attempt", "step/end", "turn/end"]


async def test_i130_a_hook_that_raises_ends_the_turn_and_both_errors_are_named() -> None:
    def broken(_: RequestError) -> None:
        raise ValueError("boom")

    failure = Failure("timeout", message="late")
    agent, turn, _ = await attempted(failure, hooks={"request_error": [broken]})
    assert turn.reason == "error"
    assert isinstance(turn.error, RequestFailed)
    assert turn.error.failure == failure
    logged = agent.session.entries[-1].data["error"]
    for text in (str(turn.error), logged["message"]):
        assert "late" in text
        assert "boom" in text
        assert "broken" in text
    assert logged["kind"] == "timeout"
    assert retries(agent.session) == []


async def test_the_hook_reads_the_failure_and_its_attempt() -> None:
    seen: list[tuple[Any, ...]] = []

    def look(payload: RequestError) -> Retry:
        seen.append((payload.kind, payload.status, payload.retry_after, payload.message, payload.model))
        seen.append((payload.attempt, payload.step, payload.turn.number))
        return Retry(0)

    await attempted(
        Failure("rate_limit", 7, 429, "slow down"), Failure("auth"), "ok", hooks={"request_error": [look]}
    )
    assert seen == [
        ("rate_limit", 429, 7, "slow down", "test"), (1, 1, 1), ("auth", None, None, "", "test"), (2, 1, 1),
    ]  # fmt: skip


@pytest.mark.parametrize("where", ["tool", "pre_step", "assemble", "request", "prepare", "context"])
async def test_i132_other_failures_are_not_asked_about(where: str) -> None:
    def never(_: RequestError) -> None:
        raise AssertionError("no request failed")

    def broken(_: object) -> None:
        raise ValueError("boom")

    hooks: dict[str, list[Any]] = {"request_error": [never]}
    if where in ("pre_step", "assemble", "request"):
        hooks[where] = [broken]
    if where == "context":
        hooks["convert"] = [broken]
    script = ScriptedModel([Reply(tool_calls=calls(("broken", {})).tool_calls), "ok"])
    route = Route(preparing=broken) if where == "prepare" else script
    tools = [tool(lambda: broken(None), name="broken", description="Break.")]
    async with asked(route, tools=tools, hooks=hooks) as agent:
        turn = await agent.prompt("x")
        script.drop()
    assert turn.reason == ("completed" if where == "tool" else "error")
    assert all_of(agent.session, "assistant/attempt", "llm/retry") == []


async def test_the_first_answer_counts_and_the_policy_is_asked_last() -> None:
    order: list[str] = []

    def none(_: RequestError) -> None:
        order.append("none")

    def first(payload: RequestError) -> Retry | None:
        order.append("first")
        return Retry(3) if payload.attempt == 1 else None

    def second(_: RequestError) -> GiveUp | None:
        order.append("second")
        return None

    agent, turn, clock = await attempted(
        Failure("timeout"), Failure("timeout"), "ok", hooks={"request_error": [none, first, second]}
    )
    assert turn.ok
    assert order == ["none", "first", "none", "first", "second"]
    assert retries(agent.session) == [(1, "first"), (2, "policy")]
    assert clock.slept[0] == 3
    assert [(e.data["decision"], e.data["id"]) for e in all_of(agent.session, "hook/result")] == [
        ("retry", "first")
    ]


async def test_a_hook_may_give_up_before_the_policy_and_the_fallback() -> None:
    agent, turn, _ = await attempted(
        Failure("timeout"), hooks={"request_error": [give_up]}, fallback=["other"]
    )
    assert turn.reason == "error"
    assert retries(agent.session) == []


# -- the policy --------------------------------------------------------------------------------------


async def test_i133_a_retried_failure_is_announced_before_the_wait_and_started_after_it() -> None:
    policy = RetryPolicy(base_delay=2, max_delay=5)
    replies: list[Scripted] = [
        Failure("rate_limit"), Failure("overloaded"), Failure("server_error"), "ok",
    ]  # fmt: skip
    agent, turn, clock = await attempted(*replies, retry=policy)
    assert turn.ok
    assert retries(agent.session) == [(1, "policy"), (2, "policy"), (3, "policy")]
    assert started(agent.session) == [1, 2, 3]
    announced = all_of(agent.session, "llm/retry")
    for entry, most in zip(announced, (2, 4, 5), strict=True):
        assert 0 <= entry.data["after"] <= most
    assert clock.slept == [entry.data["after"] for entry in announced]
    for before, after in zip(announced, all_of(agent.session, "llm/retry-started"), strict=True):
        assert after.time == pytest.approx(before.time + before.data["after"])
    assert [entry.data["kind"] for entry in announced] == ["rate_limit", "overloaded", "server_error"]
    assert in_step(agent.session)[4:] == [
        *["assistant/attempt", "llm/retry", "llm/retry-started"] * 3, "assistant/message",
    ]  # fmt: skip


async def test_i134_the_last_failure_of_a_spent_budget_is_the_turns_error() -> None:
    replies = [Failure("timeout", message=str(i)) for i in range(5)]
    agent, turn, _ = await attempted(*replies)
    assert isinstance(turn.error, RequestFailed)
    assert turn.error.failure.message == "4"
    assert len(all_of(agent.session, "assistant/attempt")) == 5
    assert started(agent.session) == [1, 2, 3, 4]


@pytest.mark.parametrize("kind", FAILURE_KINDS)
async def test_i135_only_the_listed_kinds_are_retried(kind: FailureKind) -> None:
    async with asked(ScriptedModel([Failure(kind), "ok"])) as agent:
        turn = await agent.prompt("x")
        drop(agent)
    assert turn.ok is (kind in RETRIED_KINDS)
    assert len(retries(agent.session)) == (kind in RETRIED_KINDS)


async def test_the_kinds_are_those_of_the_model_unless_the_policy_names_its_own() -> None:
    for policy, ok in (
        (None, True), (RetryPolicy(), True), (RetryPolicy(retry_on=["timeout"]), False),
        (RetryPolicy(retry_on=["refused"]), True),
    ):  # fmt: skip
        route = Route(failed("refused"), retry_kinds=["refused"])
        async with asked(route, retry=policy) as agent:
            assert (await agent.prompt("x")).ok is ok
    async with asked(Route(failed("timeout"), retry_kinds=[])) as agent:
        assert not (await agent.prompt("x")).ok


async def test_i136_a_retry_after_is_exact_up_to_the_longest_wait_and_above_it_ends_the_retries() -> None:
    agent, turn, clock = await attempted(Failure("rate_limit", retry_after=60), "ok")
    assert (turn.ok, clock.slept) == (True, [60])
    agent, turn, clock = await attempted(Failure("rate_limit", retry_after=60.5))
    assert (turn.reason, clock.slept, retries(agent.session)) == ("error", [], [])
    policy = RetryPolicy(honor_retry_after=False)
    agent, turn, clock = await attempted(Failure("rate_limit", retry_after=600), "ok", retry=policy)
    assert turn.ok
    assert 0 <= clock.slept[0] <= 1


async def test_a_retry_after_too_long_goes_to_the_fallback() -> None:
    other = Route(id="other")
    agent, turn, clock = await attempted(
        Failure("rate_limit", retry_after=600), models={"other": other}, fallback=["other"]
    )
    assert (turn.ok, clock.slept) == (True, [])
    assert retries(agent.session) == [(1, "fallback")]


async def test_i139_every_model_has_its_own_budget() -> None:
    def switch(payload: Any) -> Any:
        attempts = all_of(agent.session, "assistant/attempt")
        return payload.replace(model="other") if len(attempts) >= 2 else None

    def look(payload: RequestError) -> None:
        seen.append((payload.model, payload.attempt))

    route, other = Route(failed(), failed()), Route(failed(), failed(), DONE, id="other")
    seen: list[tuple[str, int]] = []
    hooks = {"request": [switch], "request_error": [look]}
    async with asked(route, models={"other": other}, retry=RetryPolicy(max_attempts=3), hooks=hooks) as agent:
        turn = await agent.prompt("x")
    assert turn.ok
    assert seen == [("test", 1), ("test", 2), ("other", 1), ("other", 2)]
    assert [entry.attempt for entry in all_of(agent.session, "assistant/attempt", "assistant/message")] == [
        1, 2, 3, 4, 5,
    ]  # fmt: skip


async def test_fallbacks_are_asked_in_order_each_with_its_own_budget() -> None:
    models = {name: Route(*[failed()] * 2, id=name) for name in ("b", "c")}
    route = Route(*[failed()] * 2)
    policy = RetryPolicy(max_attempts=2)
    async with asked(route, models=models, fallback=["b", "c"], retry=policy) as agent:
        turn = await agent.prompt("x")
    assert turn.reason == "error"
    assert [by for _, by in retries(agent.session)] == ["policy", "fallback", "policy", "fallback", "policy"]
    assert [entry.data["model"] for entry in all_of(agent.session, "assistant/attempt")] == [
        "test", "test", "b", "b", "c", "c",
    ]  # fmt: skip


async def test_i140_a_new_step_counts_anew() -> None:
    fails = [Failure("timeout")] * 2
    agent, turn, _ = await attempted(
        *fails, calls(("add", {"a": 1, "b": 2})), *fails, "ok", tools=[add], retry=RetryPolicy(max_attempts=3)
    )
    assert (turn.ok, turn.steps) == (True, 2)
    assert [(entry.data["step"], entry.data["retry"]) for entry in all_of(agent.session, "llm/retry")] == [
        (1, 1), (1, 2), (2, 1), (2, 2),
    ]  # fmt: skip


# -- a hook that never gives up --------------------------------------------------------------------------


@pytest.mark.parametrize("most", [None, 0, 3])
async def test_a_hook_may_try_again_so_often_in_a_step_and_then_the_turn_ends(most: int | None) -> None:
    def again(payload: RequestError) -> Retry:
        counted.append(payload.attempt)
        return Retry(1)

    counted: list[int] = []
    bound = 20 if most is None else most
    given: dict[str, Any] = {} if most is None else {"limits": Limits(max_retries=most)}
    agent, turn, clock = await attempted(
        *[Failure("auth", message="no key")] * (bound + 1), hooks={"request_error": [again]}, **given
    )
    assert isinstance(turn.error, RequestFailed)
    assert turn.error.failure.kind == "auth"
    assert f"limits.max_retries ({bound})" in str(turn.error)
    assert "again" in str(turn.error)
    assert (counted, clock.slept) == ([*range(1, bound + 2)], [1] * bound)
    assert len(retries(agent.session)) == bound


async def test_the_retries_of_a_hook_are_counted_anew_in_each_step() -> None:
    fails = [Failure("auth")] * 2
    agent, turn, _ = await attempted(
        *fails, calls(("add", {"a": 1, "b": 2})), *fails, "ok",
        tools=[add], hooks={"request_error": [lambda _: Retry(0)]}, limits=Limits(max_retries=2),
    )  # fmt: skip
    assert (turn.ok, turn.steps, len(retries(agent.session))) == (True, 2, 4)


async def test_without_that_limit_a_hook_may_try_again_as_long_as_it_likes() -> None:
    fails = [Failure("auth")] * 100
    hooks = {"request_error": [lambda _: Retry(0)]}
    _, turn, _ = await attempted(*fails, "ok", hooks=hooks, limits=Limits(max_retries=None))
    assert turn.text == "ok"


async def test_the_limit_of_hooks_is_none_of_the_policy() -> None:
    policy = RetryPolicy(max_attempts=4)
    agent, turn, _ = await attempted(
        *[Failure("timeout")] * 3, "ok", retry=policy, limits=Limits(max_retries=1)
    )
    assert (turn.text, len(retries(agent.session))) == ("ok", 3)


# -- cancelling --------------------------------------------------------------------------------------


async def test_i141_a_cancel_in_the_wait_ends_it() -> None:
    clock = FakeClock()
    async with asked(ScriptedModel([Failure("rate_limit", retry_after=30), "ok"]), clock=clock) as agent:
        agent.follow_up("x")
        await clock.sleep(1)
        assert agent.state is State.RETRYING
        agent.abort()
        await agent.idle()
        assert clock.now() == 1_000_001
        drop(agent)
    assert reasons(agent.session) == ["aborted"]
    assert (retries(agent.session), started(agent.session)) == ([(1, "policy")], [])


async def test_i142_leaving_the_agent_in_the_wait_ends_it_too() -> None:
    clock = FakeClock()
    model = ScriptedModel([Failure("rate_limit", retry_after=30)])
    async with Agent(model, clock=clock) as agent:
        agent.follow_up("x")
        await clock.sleep(1)
        assert agent.state is State.RETRYING
    assert clock.now() == 1_000_001
    assert since(agent.session, -3) == ["llm/retry", "step/end", "turn/end"]
    assert agent.session.entries[-1].data["cause"] == "disposed"


async def test_i143_a_cancel_by_who_hears_of_the_retry_waits_for_nothing() -> None:
    def hear(signal: Signal, _: AbortSignal) -> None:
        if signal.data["entry"].type == "llm/retry":
            agent.abort()

    clock = FakeClock()
    async with asked(ScriptedModel([Failure("rate_limit", retry_after=30), "ok"]), clock=clock) as agent:
        agent.on("session/event", hear)
        turn = await agent.prompt("x")
        drop(agent)
    assert (turn.reason, clock.slept, started(agent.session)) == ("aborted", [], [])


async def test_a_watcher_that_cancels_at_the_retry_waits_for_nothing() -> None:
    def watch(entry: Entry) -> None:
        if entry.type == "llm/retry":
            agent.abort()

    clock = FakeClock()
    async with asked(ScriptedModel([Failure("rate_limit", retry_after=30), "ok"]), clock=clock) as agent:
        agent.session.watch(watch)
        turn = await agent.prompt("x")
        drop(agent)
    assert (turn.reason, clock.slept, started(agent.session)) == ("aborted", [], [])


@pytest.mark.parametrize("answer", [Retry(0), Retry(5), GiveUp("no"), None])
async def test_a_cancel_beats_whatever_the_hook_answers(answer: Retry | GiveUp | None) -> None:
    def cut(_: RequestError) -> Retry | GiveUp | None:
        agent.abort()
        return answer

    async with asked(ScriptedModel([Failure("timeout"), "ok"]), hooks={"request_error": [cut]}) as agent:
        turn = await agent.prompt("x")
        drop(agent)
    assert (turn.reason, turn.error) == ("aborted", None)
    assert in_step(agent.session)[-1] == "assistant/attempt"


# -- what a failed attempt leaves ----------------------------------------------------------------------


async def test_i144_what_a_failed_attempt_said_is_not_sent_and_not_done() -> None:
    partial = Reply("half", tool_calls=calls(("add", {"a": 1, "b": 2})).tool_calls).stream()[:-1]
    route = Route((*partial, *failed()), (TextDelta("whole"), *DONE), DONE)
    async with asked(route, tools=[add]) as agent:
        await agent.prompt("x")
        await agent.prompt("y")
    assert [said(request.messages) for request in route.requests] == [["x"], ["x"], ["x", "whole", "y"]]
    assert all_of(agent.session, "tool/call") == []


async def test_i146_an_empty_response_is_retried_and_leaves_no_empty_message() -> None:
    agent, turn, _ = await attempted(Failure("empty_response"), "ok")
    assert turn.ok
    assert [entry.data["message"].text for entry in all_of(agent.session, "assistant/message")] == ["ok"]


async def test_i147_a_server_that_comes_up_during_the_wait_is_reached() -> None:
    clock = FakeClock()

    def parts() -> tuple[Part, ...]:
        up = clock.now() >= 1_000_003
        return (TextDelta("there"), *DONE) if up else (ConnectionRefusedError("refused"),)

    class Server(Route):
        def open(self, request: Any) -> Any:
            return self.play(request, parts())

    async with asked(Server(), clock=clock, retry=RetryPolicy(base_delay=8)) as agent:
        turn = await agent.prompt("x")
    assert (turn.ok, turn.text) == (True, "there")
    assert {entry.data["kind"] for entry in all_of(agent.session, "llm/retry")} == {"connection"}


async def test_i148_a_stream_that_breaks_off_is_retried() -> None:
    agent, turn, _ = await attempted(Failure("incomplete_stream"), "ok")
    assert turn.ok
    assert retries(agent.session) == [(1, "policy")]


async def test_the_same_config_is_chosen_anew_for_each_attempt() -> None:
    configs: list[RequestConfig] = []
    route = Route(failed(), failed(), DONE, preparing=configs.append)
    async with asked(route, settings={"temperature": 0}, thinking="low") as agent:
        await agent.prompt("x")
    assert len(configs) == 3
    assert len(set(map(repr, configs))) == 1


async def test_waits_are_the_same_for_the_same_seed() -> None:
    waits: list[list[float]] = []
    for _ in range(2):
        _, _, clock = await attempted(Failure("timeout"), Failure("timeout"), "ok")
        waits.append(clock.slept)
    assert waits[0] == waits[1]
    assert waits[0] != [0, 0]


@pytest.mark.parametrize("after", [-1, float("nan"), float("inf"), "1", None])
async def test_a_wait_that_is_no_time_is_the_hooks_failure(after: Any) -> None:
    def wrong(_: RequestError) -> Payload | Retry:
        return Retry(after)

    agent, turn, _ = await attempted(Failure("timeout"), hooks={"request_error": [wrong]})
    assert turn.reason == "error"
    assert "wrong" in str(turn.error)
    assert retries(agent.session) == []
