"""The agent as a program holds it: prompts, the inbox, aborts, waiting, settings."""

from typing import Any

import anyio
import pytest
from tests.machine.drive import calls, drop, run, scripted, texts, types

from turnchart.machine import (
    Agent,
    AgentBusy,
    AppendRefused,
    CustomMessage,
    Failure,
    Queues,
    Reply,
    ScriptedModel,
    Session,
    Signal,
    State,
    Turn,
    TurnFailed,
    UserMessage,
)
from turnchart.machine.abort import AbortSignal
from turnchart.machine.chain import Chain
from turnchart.machine.points import PreStep, Request

ADD = calls(("add", {"a": 1, "b": 2}))


def starts(session: Session) -> int:
    return types(session).count("turn/start")


# -- prompt ----------------------------------------------------------------------------------------


async def test_a_prompt_returns_the_turn_that_took_it() -> None:
    async with scripted(["a", "b"]) as agent:
        agent.follow_up("first")
        await agent.idle()
        turn = await agent.prompt("second")
    assert (turn.number, turn.text, turn.ok) == (2, "b", True)


async def test_a_prompt_behind_parked_ones_waits_for_its_own_turn() -> None:
    async with scripted([Failure("auth"), "a", "b"]) as agent:
        agent.follow_up("one")
        agent.follow_up("two")
        await agent.idle()
        assert agent.parked
        turn = await agent.prompt("three")
        assert (turn.number, turn.text) == (3, "b")
        assert texts(agent.session, "user/message") == ["one", "two", "three"]


async def test_a_prompt_that_no_turn_took_fails_with_the_turn_that_parked_it_and_waits() -> None:
    async with scripted([Failure("auth"), Failure("quota", message="broke")]) as agent:
        agent.follow_up("one")
        agent.follow_up("two")
        await agent.idle()
        with pytest.raises(TurnFailed, match=r"turn 2 ended as error .*it waits in the inbox") as caught:
            await agent.prompt("three")
        assert caught.value.turn is not None
        assert (caught.value.turn.number, caught.value.turn.reason) == (2, "error")
        assert [item.messages[0].text for item in agent.queued.next_turn] == ["three"]


async def test_a_prompt_whose_turn_could_not_begin_fails_without_a_turn() -> None:
    async with scripted(["a"]) as agent:
        stop = agent.session.validate(lambda entry: "no" if entry.type == "turn/start" else None)
        said = r"no turn could begin \(the entry `turn/start` was refused: no\)"
        with pytest.raises(TurnFailed, match=said) as caught:
            await agent.prompt("x")
        assert caught.value.turn is None
        assert isinstance(caught.value.__cause__, AppendRefused)
        assert agent.parked
        stop()
        agent.trace().clear()
        assert agent.resume()
        await agent.idle()
        assert texts(agent.session, "assistant/message") == ["a"]


@pytest.mark.parametrize("empty", ["", []])
async def test_nothing_is_no_input(empty: Any) -> None:
    async with scripted([]) as agent:
        for send in (agent.follow_up, agent.steer, agent.inject, agent.next_turn):
            with pytest.raises(ValueError, match="empty"):
                send(empty)
        with pytest.raises(ValueError, match="empty"):
            await agent.prompt(empty)
        assert types(agent.session) == []


async def test_a_refused_prompt_changes_nothing() -> None:
    async with scripted([]) as agent:
        agent.session.validate(lambda entry: "no")
        with pytest.raises(AppendRefused):
            await agent.prompt("x")
        with pytest.raises(AppendRefused):
            agent.follow_up("x")
        assert (agent.state, agent.parked, types(agent.session)) == ("idle", False, [])


@pytest.mark.parametrize("state", [State.IDLE, State.MAINTENANCE, "toling"])
async def test_a_state_that_no_turn_reaches_is_not_waited_for(state: Any) -> None:
    with pytest.raises(ValueError, match="no state of a turn; they are: claiming, pre_step, requesting, "):
        await Agent(ScriptedModel()).until(state)


async def test_a_busy_agent_says_so_in_every_state_of_a_turn_and_in_maintenance() -> None:
    async with scripted([ADD, "ok"]) as agent:
        agent.follow_up("x")
        assert agent.status == "running"
        for state in (State.CLAIMING, State.PRE_STEP, State.REQUESTING, State.TOOLING, State.STOPPING):
            await agent.until(state)
            with pytest.raises(AgentBusy, match=rf"state `{state}`"):
                await agent.prompt("y")
            agent.go_on()

    async def job(agent: Agent) -> None:
        assert agent.status == "idle"
        with pytest.raises(AgentBusy, match="state `maintenance`"):
            await agent.prompt("y")
        with pytest.raises(AgentBusy):
            await agent.maintain(job)

    async with scripted([]) as agent:
        await agent.maintain(job)


async def test_cancelling_a_prompt_aborts_its_turn_and_returns_when_that_is_closed() -> None:
    async with scripted([Reply("late", delay=5), "b"]) as agent:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(agent.prompt, "x")
                await agent.until(State.REQUESTING)
                agent.go_on()
                scope.cancel()
        end = agent.session.entries[-1]
        assert (end.type, end.data["reason"], end.data["cause"]) == ("turn/end", "aborted", "cancelled")
        drop(agent)


async def test_cancelling_a_prompt_whose_turn_is_over_leaves_the_next_turn_alone() -> None:
    turns: list[Turn] = []
    async with scripted(["a", Reply("late", delay=5)]) as agent:

        async def prompt() -> None:
            turns.append(await agent.prompt("x"))

        async with anyio.create_task_group() as group:
            group.start_soon(prompt)
            await agent.until(State.STOPPING)
            agent.follow_up("y")
            agent.go_on()
            await agent.until(State.CLAIMING)
            assert starts(agent.session) == 2
            group.cancel_scope.cancel()
        agent.go_on()
        await agent.idle()
        assert turns == []
        ends = [entry.data["reason"] for entry in agent.session.entries if entry.type == "turn/end"]
        assert ends == ["completed", "completed"]


async def test_cancelling_a_prompt_that_still_waits_takes_it_back() -> None:
    async with scripted([Failure("auth"), Reply("late", delay=5)]) as agent:
        agent.follow_up("one")
        agent.follow_up("two")
        await agent.idle()
        async with anyio.create_task_group() as group:
            group.start_soon(agent.prompt, "three")
            await agent.until(State.REQUESTING)
            group.cancel_scope.cancel()
        agent.go_on()
        await agent.idle()
        assert not agent.queued
        assert texts(agent.session, "assistant/message") == ["late"]


async def test_a_prompt_that_cannot_be_taken_back_stays_and_the_cancellation_goes_on() -> None:
    async with scripted([Failure("auth"), Reply("late", delay=5)]) as agent:
        agent.follow_up("one")
        agent.follow_up("two")
        await agent.idle()
        stop = agent.session.validate(lambda entry: "no" if "outcome" in entry.data else None)
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(agent.prompt, "three")
                await agent.until(State.REQUESTING)
                scope.cancel()
        assert scope.cancelled_caught
        assert [item.messages[0].text for item in agent.queued.next_turn] == ["three"]
        stop()
        agent.abort()
        await agent.idle()
        drop(agent)


async def test_the_driver_cannot_wait_for_itself() -> None:
    said: list[str] = []
    async with scripted(["a"]) as agent:

        async def hook(payload: PreStep) -> None:
            for wait in (agent.idle(), agent.prompt("y")):
                try:
                    await wait
                except (RuntimeError, AgentBusy) as error:
                    said.append(type(error).__name__)

        async def listener(signal: Signal, abort: AbortSignal) -> None:
            if signal.data["status"] == "idle":
                with pytest.raises(RuntimeError, match=r"would wait for itself.*use follow_up"):
                    await agent.prompt("z")
                said.append("listener")

        agent.on("agent/status", listener)
        agent.chains = {"pre_step": Chain("pre_step", [hook])}
        await agent.prompt("x")
    assert said == ["RuntimeError", "AgentBusy", "listener"]
    assert texts(agent.session, "user/message") == ["x"]


# -- abort -----------------------------------------------------------------------------------------


async def test_an_abort_returns_what_it_discarded_and_tells_it() -> None:
    told: list[tuple[str, str]] = []
    async with scripted(["a"]) as agent:
        agent.on(
            "agent/inbox/discarded",
            lambda signal, _: told.append((signal.data["message"].text, signal.data["target"])),
        )
        agent.follow_up("claimed")
        agent.follow_up("waiting")
        agent.steer("steered")
        agent.next_turn("rider")
        discarded = agent.abort()
        await agent.idle()
        assert [item.messages[0].text for item in discarded] == ["steered", "waiting", "claimed"]
        assert told == [("steered", "next-step"), ("waiting", "next-turn"), ("claimed", "next-turn")]
        assert [item.messages[0].text for item in agent.queued.riders] == ["rider"]
        assert types(agent.session)[-1] == "turn/end"
        assert agent.session.entries[-1].data["cause"] == "user"
        drop(agent)


async def test_keeping_the_inbox_puts_a_claimed_batch_back_to_the_front() -> None:
    async with scripted(["a", "b"]) as agent:
        agent.follow_up("one")
        agent.follow_up("two")
        assert agent.abort("pause", keep_inbox=True) == ()
        await agent.idle()
        assert agent.parked
        assert agent.last_turn is not None
        assert agent.last_turn.unadmitted == ()
        agent.resume()
        await agent.idle()
        assert texts(agent.session, "user/message") == ["one", "two"]


async def test_what_was_admitted_is_not_discarded() -> None:
    async with scripted([Reply("late", delay=5)]) as agent:
        agent.follow_up("one")
        await agent.until(State.REQUESTING)
        agent.go_on()
        while "request/context" not in types(agent.session):
            await anyio.lowlevel.checkpoint()
        assert agent.abort() == ()
        await agent.idle()
        assert agent.last_turn is not None
        assert agent.last_turn.unadmitted == ()
        assert texts(agent.session, "user/message") == ["one"]


async def test_aborting_an_idle_agent_only_empties_its_inbox() -> None:
    async with scripted(["a"]) as agent:
        agent.inject("one")
        assert [item.messages[0].text for item in agent.abort()] == ["one"]
        assert agent.abort() == ()
        assert (await agent.prompt("x")).ok
        assert texts(agent.session, "user/message") == ["x"]


@pytest.mark.parametrize("late", ["follow_up", "steer"])
async def test_a_wake_after_an_abort_is_kept_and_becomes_a_turn_of_its_own(late: str) -> None:
    async with scripted([Reply("late", delay=5), "b"]) as agent:
        agent.follow_up("one")
        await agent.until(State.REQUESTING)
        agent.go_on()
        agent.abort()
        getattr(agent, late)("two")
        await agent.idle()
        drop(agent)
        ends = [entry.data["reason"] for entry in agent.session.entries if entry.type == "turn/end"]
        assert ends == ["aborted", "completed"]
        assert texts(agent.session, "user/message") == ["two"]


async def test_a_kept_wake_is_dropped_with_its_message_and_riders_do_not_replace_it() -> None:
    async with scripted(["a"]) as agent:
        agent.follow_up("one")
        agent.next_turn("rider")
        agent.abort("first")
        agent.follow_up("two")
        agent.abort("second")
        await agent.idle()
        assert starts(agent.session) == 1
        assert agent.session.entries[-1].data["cause"] == "first"
        drop(agent)


async def test_whoever_hears_of_an_abort_and_sends_something_comes_after_it() -> None:
    async with scripted(["b"]) as agent:

        def again(signal: Signal, _: AbortSignal) -> None:
            if signal.data["message"].text == "two":
                agent.follow_up("instead")

        agent.on("agent/inbox/discarded", again)
        agent.follow_up("one")
        agent.follow_up("two")
        agent.abort()
        await agent.idle()
        assert starts(agent.session) == 2
        assert texts(agent.session, "user/message") == ["instead"]


async def test_a_refused_discard_aborts_all_the_same() -> None:
    async with scripted([Reply("late", delay=5)]) as agent:
        agent.follow_up("one")
        agent.follow_up("two")
        await agent.until(State.REQUESTING)
        agent.go_on()
        stop = agent.session.validate(lambda entry: "no" if "outcome" in entry.data else None)
        with pytest.raises(AppendRefused):
            agent.abort()
        await agent.idle()
        assert agent.session.entries[-1].data["reason"] == "aborted"
        assert agent.parked
        stop()
        drop(agent)


async def test_one_abort_signal_reaches_the_hooks_of_one_turn() -> None:
    seen: list[AbortSignal | None] = []

    def look(payload: Any) -> None:
        seen.append(payload.abort)

    await run(["a", "b"], "x", "y", hooks={"pre_step": [look], "request": [look], "after_step": [look]})
    assert len({id(each) for each in seen[:3]}) == len({id(each) for each in seen[3:]}) == 1
    assert seen[0] is not seen[3]


# -- settings --------------------------------------------------------------------------------------


async def test_what_is_set_while_a_step_runs_is_written_in_order_at_its_end() -> None:
    async with scripted([ADD, "b"]) as agent:
        agent.follow_up("x")
        await agent.until(State.TOOLING)
        agent.set_thinking_level("high")
        agent.set_active_tools(["slow"])
        agent.append_message(UserMessage("noted"))
        agent.append_message(CustomMessage("mine", "own"))
        assert "thinking_level_change" not in types(agent.session)
        agent.go_on()
        await agent.idle()
        kinds = types(agent.session)
        at = kinds.index("step/end")
        assert kinds[at + 1 : at + 5] == [
            "thinking_level_change", "active_tools_change", "user/message", "custom_message",
        ]  # fmt: skip
        assert isinstance(agent.model, ScriptedModel)
        second = agent.model.requests[1]
        assert second.thinking == "high"
        assert [tool["name"] for tool in second.tools] == ["slow"]


async def test_what_is_set_while_idle_is_written_at_once_and_a_model_counts_from_the_next_step() -> None:
    other = ScriptedModel(["b"], id="other")
    async with scripted(["a"], models={"other": other}) as agent:
        await agent.prompt("x")
        agent.set_model("other")
        assert types(agent.session)[-1] == "model_change"
        assert (await agent.prompt("y")).text == "b"
        assert len(other.requests) == 1


async def test_an_unknown_tool_cannot_be_made_active() -> None:
    async with scripted([]) as agent:
        with pytest.raises(ValueError, match="there is no tool 'nope'; the tools are: add, slow"):
            agent.set_active_tools(["add", "nope"])
        assert types(agent.session) == []


async def test_queue_modes_are_read_at_the_claim() -> None:
    async with scripted(["a"], hooks={"request": [_nothing]}) as agent:
        agent.queues = Queues(follow_up="all")
        agent.inject("one")
        await agent.prompt("two")
        assert texts(agent.session, "user/message") == ["one", "two"]


def _nothing(payload: Request) -> None:
    return None


# -- tests hold the driver ---------------------------------------------------------------------------


async def test_until_holds_the_driver_in_a_state_and_go_on_lets_it_go() -> None:
    async with scripted([ADD, "ok"]) as agent:
        agent.follow_up("x")
        await agent.until(State.TOOLING)
        assert agent.state == "tooling"
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
        assert "tool/call" not in types(agent.session)
        agent.go_on()
        await agent.idle()
        assert "tool/result" in types(agent.session)
        agent.go_on()


async def test_an_abort_lets_go_of_a_held_driver_and_the_next_turn_is_not_held() -> None:
    async with scripted(["a"]) as agent:
        agent.follow_up("x")
        await agent.until(State.REQUESTING)
        agent.abort()
        await agent.idle()
        with anyio.fail_after(5):
            assert (await agent.prompt("y")).ok
