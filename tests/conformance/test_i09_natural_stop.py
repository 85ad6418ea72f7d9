"""Continuation and natural stop (lifecycle I.9): when a turn goes on, and who has the last word."""

from collections.abc import Callable
from typing import Any

import anyio
import pytest
from tests.conformance.toolkit import Seen, after, all_of, asks, brackets, last, reasons, timed
from tests.machine.drive import ADD, add, drop, run, scripted, texts, types

from turnchart.machine import Agent, Failure, HookFailed, Limits, Reply, Signal, State, TurnFailed
from turnchart.machine.abort import AbortSignal
from turnchart.machine.points import AfterStep, Continue, PreStep, Reject, Stop, TurnStopping
from turnchart.testing import FakeClock


def once(act: Callable[[], object]) -> Callable[[TurnStopping], None]:
    """Return a hook that does something at the first natural stop only."""
    left = [act]

    def hook(_: TurnStopping) -> None:
        if left:
            left.pop()()

    return hook


class Reach:
    """Hooks that reach their agent: it is set when there is one."""

    def __init__(self) -> None:
        self.agent: Agent | None = None
        self.stops: list[str] = []

    def count(self, payload: TurnStopping) -> None:
        self.stops.append(payload.text)

    def steer(self, text: str) -> Callable[[], object]:
        return lambda: self._agent.steer(text)

    def follow_up(self, text: str) -> Callable[[], object]:
        return lambda: self._agent.follow_up(text)

    def abort(self) -> None:
        self._agent.abort()

    @property
    def _agent(self) -> Agent:
        assert self.agent is not None
        return self.agent


async def test_i182_steering_in_turn_stopping_makes_another_step_and_it_is_asked_again() -> None:
    reach = Reach()
    hooks = {"turn_stopping": [reach.count, once(reach.steer("more"))]}
    async with scripted(["one", "two"], hooks=hooks) as agent:
        reach.agent = agent
        turn = await agent.prompt("x")
    assert reach.stops == ["one", "two"]
    assert (turn.reason, turn.steps, turn.text) == ("completed", 2, "two")
    assert texts(agent.session, "user/message") == ["x", "more"]


async def test_i182_an_inject_in_turn_stopping_does_so_too() -> None:
    reach = Reach()

    def inject() -> None:
        assert reach.agent is not None
        reach.agent.inject("more")

    async with scripted(["one", "two"], hooks={"turn_stopping": [once(inject)]}) as agent:
        reach.agent = agent
        turn = await agent.prompt("x")
    assert (turn.steps, turn.text) == (2, "two")


async def test_i183_a_follow_up_in_turn_stopping_ends_this_turn_and_opens_the_next() -> None:
    reach = Reach()
    seen: list[str] = []
    async with scripted(
        ["one", "two"], hooks={"turn_stopping": [reach.count, once(reach.follow_up("next"))]}
    ) as agent:
        reach.agent = agent
        agent.on("agent/status", lambda signal, _: seen.append(signal.data["status"]))
        turn = await agent.prompt("x")
    assert (turn.number, turn.steps, turn.text) == (1, 1, "one")
    assert reasons(agent.session) == ["completed", "completed"]
    assert reach.stops == ["one", "two"]
    assert seen == ["running", "idle"]


async def test_i184_a_turn_stopping_that_raises_is_an_error_turn_and_later_turns_work() -> None:
    def broken(payload: TurnStopping) -> None:
        if payload.text == "one":
            raise ValueError("boom")

    errors: list[Any] = []
    async with scripted(["one", "two"], hooks={"turn_stopping": [broken]}) as agent:
        agent.on("agent/error", lambda signal, _: errors.append(signal.data["error"]))
        turn = await agent.prompt("x")
        assert (turn.reason, turn.text) == ("error", "one")
        assert isinstance(turn.error, HookFailed)
        assert len(errors) == 1
        assert (await agent.prompt("y")).text == "two"
    assert reasons(agent.session) == ["error", "completed"]
    assert texts(agent.session, "assistant/message") == ["one", "two"]


async def test_i185_the_first_answer_ends_the_chain() -> None:
    reach = Reach()

    def go_on(payload: TurnStopping) -> Continue | None:
        return Continue("go on") if payload.text == "one" else None

    async with scripted(["one", "two"], hooks={"turn_stopping": [go_on, reach.count]}) as agent:
        turn = await agent.prompt("x")
    assert reach.stops == ["two"]
    assert turn.steps == 2
    assert texts(agent.session, "user/message") == ["x", "go on"]
    assert all_of(agent.session, "user/message")[1].data["message"].source == "hook go_on"


async def test_i186_steering_that_waits_at_the_end_of_a_step_is_claimed_without_asking() -> None:
    reach = Reach()

    async def steer(agent: Agent, _: FakeClock) -> None:
        await agent.until(State.STOPPING)
        agent.steer("more")
        agent.go_on()

    agent, (turn,) = await run(["one", "two"], act=steer, hooks={"turn_stopping": [reach.count]})
    assert reach.stops == ["two"]
    assert turn.steps == 2
    assert brackets(agent.session, "step/start", "step/end", "user/message", "turn/end") == [
        "step/start", "user x", "step/end", "step/start", "user more", "step/end", "turn/end completed",
    ]  # fmt: skip


async def test_i187_steering_whose_step_is_rejected_ends_the_turn_as_blocked() -> None:
    def only_first(payload: PreStep) -> Reject | None:
        return Reject("no more") if payload.step == 2 else None

    async def steer(agent: Agent, _: FakeClock) -> None:
        await agent.until(State.STOPPING)
        agent.steer("more")
        agent.go_on()

    agent, (turn,) = await run(["one"], act=steer, hooks={"pre_step": [only_first]})
    assert (turn.reason, turn.steps, turn.text) == ("blocked", 1, "one")
    assert [item.messages[0].text for item in turn.unadmitted] == ["more"]
    assert not agent.queued


async def test_i187_results_whose_step_is_rejected_end_the_turn_as_blocked() -> None:
    def only_first(payload: PreStep) -> Reject | None:
        return Reject("no more") if payload.step == 2 else None

    agent, (turn,) = await run([ADD], hooks={"pre_step": [only_first]})
    assert (turn.reason, turn.steps) == ("blocked", 1)
    assert types(agent.session)[-3:] == ["step/end", "hook/result", "turn/end"]


async def test_i187b_a_parked_prompt_is_taken_before_a_later_one() -> None:
    async with scripted([Failure("auth"), "to q", "to r"]) as agent:
        agent.follow_up("p")
        agent.follow_up("q")
        await agent.idle()
        assert agent.parked
        agent.follow_up("r")
        await agent.idle()
    assert brackets(agent.session, "user/message", "turn/end") == [
        "user p", "turn/end error", "user q", "turn/end completed", "user r", "turn/end completed",
    ]  # fmt: skip
    assert [entry.data["turn"] for entry in all_of(agent.session, "turn/start")] == [1, 2, 3]


async def test_i187b_a_prompt_behind_a_parked_one_gets_its_own_turn() -> None:
    async with scripted([Failure("auth"), "to q", "to r"]) as agent:
        agent.follow_up("p")
        agent.follow_up("q")
        await agent.idle()
        turn = await agent.prompt("r")
    assert (turn.number, turn.text) == (3, "to r")


async def test_i187b_a_prompt_whose_predecessor_fails_again_says_which_turn_did() -> None:
    async with scripted([Failure("auth"), Failure("quota"), "to r"]) as agent:
        agent.follow_up("p")
        agent.follow_up("q")
        await agent.idle()
        with pytest.raises(TurnFailed, match="turn 2 ended as error") as failed:
            await agent.prompt("r")
        assert failed.value.turn is not None
        assert failed.value.turn.number == 2
        assert agent.resume()
        await agent.idle()
    assert texts(agent.session, "assistant/message") == ["to r"]


async def test_i188_a_step_whose_results_the_model_should_see_asks_nobody() -> None:
    reach = Reach()
    await run([ADD, "done"], hooks={"turn_stopping": [reach.count]})
    assert reach.stops == ["done"]


async def test_i188_a_batch_that_asks_to_end_is_a_natural_stop() -> None:
    reach = Reach()
    await run([asks("last")], tools=[last()], hooks={"turn_stopping": [reach.count]})
    assert reach.stops == [""]


async def test_i189_an_abort_in_turn_stopping_ends_the_turn_and_keeps_the_answer() -> None:
    async def wait(_: TurnStopping) -> Continue:
        await anyio.sleep_forever()
        return Continue("never")

    agent, (turn,) = await run(
        ["one"], hooks={"turn_stopping": [wait]}, act=after(1, lambda agent: agent.abort())
    )
    assert (turn.reason, turn.steps, turn.text) == ("aborted", 1, "one")
    assert types(agent.session)[-3:] == ["assistant/message", "step/end", "turn/end"]


async def test_i189_an_answer_that_comes_after_the_abort_is_not_heard() -> None:
    reach = Reach()

    def too_late(_: TurnStopping) -> Continue:
        reach.abort()
        return Continue("go on")

    async with scripted(["one"], hooks={"turn_stopping": [too_late]}) as agent:
        reach.agent = agent
        turn = await agent.prompt("x")
        assert not agent.queued
    assert (turn.reason, turn.steps, turn.text) == ("aborted", 1, "one")
    assert "hook/result" not in types(agent.session)


async def test_i190_steering_into_a_step_that_fails_waits_for_a_later_wake() -> None:
    async with scripted([Failure("auth"), "ok"]) as agent:

        def steer(signal: Signal, _: AbortSignal) -> None:
            if signal.data["entry"].type == "request/header":
                agent.steer("wait")

        agent.on("session/event", steer)
        turn = await agent.prompt("x")
        assert turn.reason == "error"
        assert [item.messages[0].text for item in agent.queued.next_step] == ["wait"]
        assert agent.parked
        turn = await agent.prompt("y")
    assert turn.text == "ok"
    assert texts(agent.session, "user/message") == ["x", "wait", "y"]


# -- what lies between -------------------------------------------------------------------------------


async def test_after_step_is_asked_at_every_boundary_before_turn_stopping() -> None:
    seen: Seen = []

    def step(payload: AfterStep) -> None:
        seen.append(f"after {payload.step}")

    def stop(payload: TurnStopping) -> None:
        seen.append(f"stop {payload.step}")

    await run([ADD, "done"], hooks={"after_step": [step], "turn_stopping": [stop]})
    assert seen == ["after 1", "after 2", "stop 2"]


async def test_a_stop_of_after_step_ends_the_turn_though_input_and_results_wait() -> None:
    reach = Reach()

    def stop(_: AfterStep) -> Stop:
        return Stop("enough")

    async def steer(agent: Agent, _: FakeClock) -> None:
        await agent.until(State.STOPPING)
        agent.steer("more")
        agent.go_on()

    agent, (turn,) = await run([ADD], act=steer, hooks={"after_step": [stop], "turn_stopping": [reach.count]})
    assert (turn.reason, turn.steps, reach.stops) == ("stopped", 1, [])
    assert [item.messages[0].text for item in agent.queued.next_step] == ["more"]
    assert agent.parked


async def test_continues_are_counted_over_the_turn_and_start_anew_with_the_next() -> None:
    spent: list[tuple[int, int]] = []

    def on(payload: TurnStopping) -> Continue | None:
        spent.append((payload.continues, payload.max_continues))
        return Continue("on") if payload.text in "ac" else None

    await run(["a", "b", "c", "d"], "x", "y", hooks={"turn_stopping": [on]}, limits=Limits(max_continues=3))
    assert spent == [(0, 3), (1, 3), (0, 3), (1, 3)]


async def test_no_continue_is_allowed_where_the_limit_is_none_at_all() -> None:
    def on(_: TurnStopping) -> Continue:
        return Continue("on")

    agent, (turn,) = await run(["a"], hooks={"turn_stopping": [on]}, limits=Limits(max_continues=0))
    assert (turn.reason, turn.steps) == ("max_continues", 1)
    assert not agent.queued


async def test_no_steering_from_turn_stopping_outlasts_max_steps() -> None:
    reach = Reach()

    def forever(_: TurnStopping) -> None:
        assert reach.agent is not None
        reach.agent.steer("again")

    async with scripted(
        ["a", "b", "c"], hooks={"turn_stopping": [forever]}, limits=Limits(max_steps=3)
    ) as agent:
        reach.agent = agent
        turn = await agent.prompt("x")
        assert (turn.reason, turn.steps) == ("max_steps", 3)
        assert len(agent.queued.next_step) == 1
        agent.abort()


async def test_a_continue_at_the_last_step_ends_as_max_steps_and_its_text_waits() -> None:
    def on(_: TurnStopping) -> Continue:
        return Continue("on")

    agent, (turn,) = await run(["a"], hooks={"turn_stopping": [on]}, limits=Limits(max_steps=1))
    assert (turn.reason, turn.steps) == ("max_steps", 1)
    assert len(agent.queued.next_step) == 1


async def test_polled_steering_goes_on_after_a_natural_stop_and_polled_prompts_open_a_turn() -> None:
    steering, prompts = ["more"], ["next"]

    def poll_steering() -> str | None:
        return steering.pop() if steering and asked else None

    def poll_follow_up() -> str | None:
        return prompts.pop() if prompts and asked else None

    asked: list[int] = []

    def stopping(_: TurnStopping) -> None:
        asked.append(1)

    agent, turns = await run(
        ["one", "two", "three"], hooks={"turn_stopping": [stopping]},
        poll_steering=poll_steering, poll_follow_up=poll_follow_up,
    )  # fmt: skip
    assert texts(agent.session, "user/message") == ["x", "more", "next"]
    assert (turns[0].steps, len(reasons(agent.session))) == (2, 2)


async def test_polled_steering_is_not_asked_beyond_max_steps() -> None:
    def forever() -> str:
        return "again"

    async with scripted(["a", "b"], poll_steering=forever, limits=Limits(max_steps=2)) as agent:
        turn = await agent.prompt("x")
        assert (turn.reason, turn.steps) == ("max_steps", 2)
        agent.abort()


async def test_max_tokens_stays_the_reason_through_further_steps_and_results_reach_the_model() -> None:
    cut = Reply("half", finish="max_tokens")

    async def steer(agent: Agent, _: FakeClock) -> None:
        await agent.until(State.STOPPING)
        agent.steer("go on")
        agent.go_on()

    agent, (turn,) = await run([cut, ADD, "done"], act=steer, tools=[add])
    assert (turn.reason, turn.steps, turn.text) == ("max_tokens", 3, "done")
    seen = agent.model.requests[2].messages[-1]  # type: ignore[union-attr]  # scripted
    assert (seen.role, seen.text) == ("tool_result", "3")


async def test_stops_that_never_end_are_ended_by_max_continues_even_over_tools() -> None:
    seen: Seen = []

    def on(_: TurnStopping) -> Continue:
        return Continue("on")

    replies: list[Any] = [asks("a"), "one", asks("a"), "two"]
    _, (turn,) = await run(
        replies, tools=[timed("a", 0, seen)], hooks={"turn_stopping": [on]}, limits=Limits(max_continues=1)
    )
    assert (turn.reason, turn.steps) == ("max_continues", 4)


async def test_a_turn_stopping_that_asks_for_itself_with_prompt_is_told_to_queue() -> None:
    reach = Reach()

    async def prompt(_: TurnStopping) -> None:
        assert reach.agent is not None
        await reach.agent.idle()

    async with scripted(["one"], hooks={"turn_stopping": [prompt]}) as agent:
        reach.agent = agent
        turn = await agent.prompt("x")
        assert turn.reason == "error"
        assert "would wait for itself" in str(turn.error)
        drop(agent)
