"""What happens in claiming, pre-step, retrying and stopping."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.machine.drive import always, calls, run, scripted, texts, types

from turnchart.machine import (
    Failure,
    Limits,
    Queues,
    Reply,
    RequestFailed,
    RetryPolicy,
    ScriptedModel,
    Session,
    UserMessage,
)
from turnchart.machine.effects import NO_FACTS_TEXT
from turnchart.machine.points import (
    AfterStep,
    Assemble,
    Continue,
    Enter,
    GiveUp,
    PreStep,
    RequestError,
    Retry,
    Stop,
    TurnStopping,
)
from turnchart.machine.scripted import Scripted
from turnchart.testing import FakeClock

ADD = calls(("add", {"a": 1, "b": 2}))


def giving(*given: Any) -> Callable[[], Any]:
    """Return a callback that gives these, and then nothing for ever."""
    left = list(given)
    return lambda: left.pop(0) if left else None


def claims(session: Session) -> list[list[str]]:
    """Return the texts of what entered each step."""
    found: list[list[str]] = []
    for entry in session.entries:
        if entry.type == "step/start":
            found.append([])
        elif entry.type == "user/message":
            found[-1].append(entry.data["message"].text)
    return found


# -- claiming --------------------------------------------------------------------------------------


async def test_what_callbacks_give_is_claimed_at_once() -> None:
    async def later() -> list[UserMessage]:
        return steering.pop(0)

    steering = [[UserMessage("left"), UserMessage("right")], [], [UserMessage("up")], []]
    agent, (turn,) = await run([ADD, "b", "c"], poll_steering=later)
    assert claims(agent.session) == [["x", "left", "right"], [], ["up"]]
    assert turn.steps == 3


async def test_a_callback_for_prompts_is_asked_where_the_agent_would_rest() -> None:
    asked: list[str] = []
    given = giving("two", "three")

    def poll() -> Any:
        asked.append("")
        return given()

    agent, turns = await run(["a", "b", "c"], poll_follow_up=poll)
    assert [turn.text for turn in turns] == ["a"]
    assert claims(agent.session) == [["x"], ["two"], ["three"]]
    assert len(asked) == 3
    assert types(agent.session).count("turn/end") == 3


async def test_a_turn_that_opens_without_input_asks_for_a_prompt() -> None:
    async with scripted(["a", "b"], poll_follow_up=giving("polled")) as agent:
        agent.inject("one")
        agent.wake()
        await agent.idle()
        assert claims(agent.session) == [["one"], ["polled"]]
    async with scripted(["a"], poll_follow_up=giving("polled")) as agent:
        agent.wake()
        await agent.idle()
        assert claims(agent.session) == [["polled"]]


@pytest.mark.parametrize("polls", [{"poll_steering": giving()}, {"poll_follow_up": giving()}])
async def test_callbacks_that_give_nothing_change_nothing(polls: dict[str, Any]) -> None:
    async with scripted(["a", "b", "c", "d"], queues=Queues(steering="one-at-a-time"), **polls) as agent:
        for text in ("one", "two"):
            agent.follow_up(text)
        agent.steer("left")
        agent.steer("right")
        await agent.idle()
        assert claims(agent.session) == [["one"], ["left"], ["right"], ["two"]]


async def test_the_parts_of_the_prompt_are_joined_and_hooks_may_change_all_of_it() -> None:
    def more(payload: Assemble) -> Assemble:
        assert payload.sections == ("One.", "Two.")
        return payload.replace(sections=("Zero.", *payload.sections, ""), tools=("add",))

    agent, _ = await run(["a"], prompt=["One.", "Two."], hooks={"assemble": [more]})
    assert isinstance(agent.model, ScriptedModel)
    (request,) = agent.model.requests
    assert request.system == "Zero.\n\nOne.\n\nTwo."
    assert [tool["name"] for tool in request.tools] == ["add"]


async def test_facts_are_told_when_they_change_and_when_they_are_gone() -> None:
    facts: list[dict[str, str]] = [
        {},
        {"day": "Monday"},
        {"day": "Monday"},
        {"day": "Tuesday", "n": "1"},
        {},
        {},
    ]

    def tell(payload: Assemble) -> Assemble:
        return payload.replace(contexts=facts.pop(0))

    agent, _ = await run(["a"] * 6, *"abcdef", hooks={"assemble": [tell]})
    assert claims(agent.session) == [
        ["a"], ["b", "day: Monday"], ["c"], ["d", "day: Tuesday\nn: 1"], ["e", NO_FACTS_TEXT], ["f"],
    ]  # fmt: skip


# -- pre_step --------------------------------------------------------------------------------------


async def test_to_enter_is_to_replace_the_messages() -> None:
    agent, _ = await run(["a"], hooks={"pre_step": [always(Enter((UserMessage("instead"),)))]})
    assert claims(agent.session) == [["instead"]]


async def test_a_step_is_proposed_with_its_number_and_may_start_a_series() -> None:
    seen: list[tuple[int, int]] = []

    def series(payload: PreStep) -> PreStep:
        seen.append((payload.turn.number, payload.step))
        return payload.replace(starts_request_series=payload.step == 2)

    agent, _ = await run([ADD, "b", "c"], "x", "y", hooks={"pre_step": [series]})
    assert seen == [(1, 1), (1, 2), (2, 1)]
    headers = [entry.data["reason"] for entry in agent.session.entries if entry.type == "request/header"]
    assert headers == ["initial", "series"]


async def test_results_enter_a_step_also_without_messages() -> None:
    def nothing(payload: PreStep) -> PreStep | None:
        return payload.replace(messages=()) if payload.step == 2 else None

    agent, (turn,) = await run([ADD, "b"], hooks={"pre_step": [nothing]})
    assert (turn.reason, turn.steps) == ("completed", 2)
    assert claims(agent.session) == [["x"], []]


async def test_an_emptied_step_after_a_good_one_ends_the_turn_as_that_one_did() -> None:
    def nothing(payload: PreStep) -> PreStep | None:
        return payload.replace(messages=()) if payload.step == 2 else None

    def on(payload: TurnStopping) -> Continue:
        return Continue("more")

    _, (turn,) = await run(["a"], hooks={"pre_step": [nothing], "turn_stopping": [on]})
    assert (turn.reason, turn.steps, turn.text) == ("completed", 1, "a")
    assert [item.messages[0].text for item in turn.unadmitted] == ["more"]


# -- retrying --------------------------------------------------------------------------------------


def retries(session: Session) -> list[tuple[int, str]]:
    return [(e.data["retry"], e.data["by"]) for e in session.entries if e.type == "llm/retry"]


async def test_waits_grow_within_their_bounds_and_are_written_before_and_after() -> None:
    clock = FakeClock()
    policy = RetryPolicy(max_attempts=5, base_delay=2, max_delay=5)
    async with scripted([Failure("overloaded")] * 4 + ["ok"], clock=clock, retry=policy) as agent:
        assert (await agent.prompt("x")).ok
    assert [wait <= most for wait, most in zip(clock.slept, (2, 4, 5, 5), strict=True)] == [True] * 4
    assert retries(agent.session) == [(n, "policy") for n in (1, 2, 3, 4)]
    kinds = types(agent.session)
    assert kinds.count("llm/retry-started") == 4
    at = kinds.index("llm/retry")
    assert kinds[at - 1 : at + 2] == ["assistant/attempt", "llm/retry", "llm/retry-started"]


async def test_the_same_seed_waits_the_same() -> None:
    slept: list[list[float]] = []
    for _ in range(2):
        clock = FakeClock()
        async with scripted([Failure("overloaded")] * 3 + ["ok"], clock=clock) as agent:
            await agent.prompt("x")
        slept.append(clock.slept)
    assert slept[0] == slept[1]


@pytest.mark.parametrize(
    ("after", "honor", "waits"), [(7, True, 7), (60, True, 60), (61, True, None), (61, False, 1)]
)
async def test_what_a_provider_asks_for_is_exact_up_to_the_longest_wait(
    after: float, honor: bool, waits: float | None
) -> None:
    clock = FakeClock()
    policy = RetryPolicy(honor_retry_after=honor)
    async with scripted([Failure("rate_limit", retry_after=after), "ok"], clock=clock, retry=policy) as agent:
        turn = await agent.prompt("x")
        agent.model.drop()  # type: ignore[union-attr]  # scripted
    assert turn.ok is (waits is not None)
    if not honor:
        assert clock.slept[0] <= 1
    else:
        assert clock.slept == ([] if waits is None else [waits])


async def test_each_step_has_its_own_budget_and_each_model_too() -> None:
    policy = RetryPolicy(max_attempts=2)
    asks: list[Scripted] = [Failure("timeout"), ADD, Failure("timeout"), "ok"]
    agent, (turn,) = await run(asks, retry=policy)
    assert turn.ok
    assert retries(agent.session) == [(1, "policy"), (1, "policy")]
    other = ScriptedModel([Failure("timeout"), "from the other"], id="other")
    agent, (turn,) = await run(
        [Failure("timeout")] * 2, retry=policy, fallback=["other"], models={"other": other}
    )
    assert (turn.text, retries(agent.session)) == (
        "from the other",
        [(1, "policy"), (2, "fallback"), (3, "policy")],
    )


async def test_fallbacks_are_tried_in_order_for_the_rest_of_the_step_only() -> None:
    models = {"b": ScriptedModel([Failure("auth")], id="b"), "c": ScriptedModel([ADD, "end"], id="c")}
    agent, (turn,) = await run([Failure("auth"), "home again"], fallback=["b", "c"], models=models)
    assert turn.text == "home again"
    tries = [
        e.data["model"] for e in agent.session.entries if e.type in ("assistant/attempt", "request/header")
    ]
    assert tries == ["test", "test", "b", "b", "c", "test"]
    models["c"].drop()


async def test_a_hook_may_choose_the_model_and_the_wait_or_give_up() -> None:
    clock = FakeClock()

    def answer(payload: RequestError) -> Retry | GiveUp:
        return Retry(3, "other") if payload.attempt == 1 and payload.model == "test" else GiveUp("enough")

    other = ScriptedModel([Failure("timeout", message="no")], id="other")
    settings: dict[str, Any] = {"hooks": {"request_error": [answer]}, "models": {"other": other}}
    async with scripted([Failure("auth")], clock=clock, **settings) as agent:
        turn = await agent.prompt("x")
    assert clock.slept == [3]
    assert retries(agent.session) == [(1, "answer")]
    assert isinstance(turn.error, RequestFailed)
    assert turn.error.failure == Failure("timeout", message="no")


async def test_a_failing_hook_ends_the_turn_and_both_failures_are_named() -> None:
    def broken(payload: RequestError) -> None:
        raise ValueError("boom")

    _, (turn,) = await run([Failure("overloaded", message="busy")], hooks={"request_error": [broken]})
    assert turn.reason == "error"
    assert "busy" in str(turn.error)
    assert "boom" in str(turn.error)


# -- stopping --------------------------------------------------------------------------------------


async def test_after_every_step_hooks_see_its_answer_and_results() -> None:
    seen: list[tuple[str, list[str]]] = []

    def look(payload: AfterStep) -> None:
        assert payload.message is not None
        seen.append((payload.message.text, [result.text for result in payload.results]))

    await run([Reply("adding", ADD.tool_calls), "done"], hooks={"after_step": [look]})
    assert seen == [("adding", ["3"]), ("done", [])]


async def test_a_stop_leaves_results_and_prompts_where_they_are() -> None:
    async with scripted([ADD], hooks={"after_step": [always(Stop("enough"))]}) as agent:
        agent.follow_up("one")
        agent.follow_up("two")
        await agent.idle()
        assert agent.parked
        assert agent.session.entries[-1].data["reason"] == "stopped"


async def test_turn_stopping_is_asked_on_a_natural_stop_with_nothing_pending() -> None:
    seen: list[tuple[str, str]] = []

    def look(payload: TurnStopping) -> None:
        seen.append((payload.text, payload.reason))
        if len(seen) == 1:
            agent_of[0].steer("more")

    agent_of: list[Any] = []
    async with scripted([ADD, "two", "three"], hooks={"turn_stopping": [look]}) as agent:
        agent_of.append(agent)
        turn = await agent.prompt("x")
    assert turn.steps == 3
    assert seen == [("two", "completed"), ("three", "completed")]


async def test_a_continue_says_who_sent_the_turn_on() -> None:
    def on(payload: TurnStopping) -> Continue | None:
        return Continue("not yet") if payload.continues == 0 else None

    agent, _ = await run(["a", "b"], hooks={"turn_stopping": [on]})
    said = [e.data["message"] for e in agent.session.entries if e.type == "user/message"]
    assert (said[1].text, said[1]["source"]) == ("not yet", "hook on")


@pytest.mark.parametrize("most", [0, 1, 3])
async def test_continues_are_limited(most: int) -> None:
    agent, (turn,) = await run(
        ["a"] * (most + 1),
        hooks={"turn_stopping": [always(Continue("on"))]},
        limits=Limits(max_continues=most),
    )
    assert (turn.reason, turn.steps) == ("max_continues", most + 1)
    assert claims(agent.session)[1:] == [["on"]] * most


async def test_the_last_step_is_the_last_also_for_what_waits() -> None:
    async with scripted(["a"], limits=Limits(max_steps=1)) as agent:
        agent.follow_up("x")
        await agent.until(agent.state.STOPPING)
        agent.steer("more")
        agent.go_on()
        await agent.idle()
        assert agent.session.entries[-1].data["reason"] == "max_steps"
        assert agent.parked
    agent, (turn,) = await run(["a"], limits=Limits(max_steps=1))
    assert turn.reason == "completed"


async def test_max_tokens_stays_the_reason_whatever_comes_after() -> None:
    async with scripted([Reply("half", finish="max_tokens"), ADD, "whole"]) as agent:
        agent.follow_up("x")
        await agent.until(agent.state.STOPPING)
        agent.steer("go on")
        agent.go_on()
        await agent.idle()
        ends = [e.data for e in agent.session.entries if e.type == "turn/end"]
        assert [(end["reason"], end["steps"]) for end in ends] == [("max_tokens", 3)]
        assert texts(agent.session, "tool/result") == ["3"]
