"""I.10 of the lifecycle: what an abort leaves in the log, and which wakes are kept while a turn is closed."""

from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from tests.conformance.watching import (
    INBOX,
    LATE,
    Send,
    at,
    count,
    cut,
    each_wake,
    ends,
    hear,
    last,
    on_entry,
    splices,
    turns,
    waiting,
    when,
)
from tests.machine.drive import ADD, calls, drop, scripted, types

from turnchart.machine import Reply, State
from turnchart.machine.models import TextDelta, ThinkingDelta
from turnchart.machine.points import PreStep, Request, TurnStopping
from turnchart.testing import FakeClock


async def test_i191_an_abort_while_idle_writes_nothing_and_arms_nothing() -> None:
    async with scripted(["hi"]) as agent:
        heard = hear(agent)
        assert agent.abort() == ()
        assert (heard, agent.session.entries) == ([], [])
        assert (await agent.prompt("x")).ok


async def test_i192_an_abort_while_idle_discards_what_waits_and_leaves_riders() -> None:
    async with scripted(["hi"]) as agent:
        agent.inject("i")
        agent.next_turn("r")
        heard = hear(agent)
        assert [item.messages[0].text for item in agent.abort()] == ["i"]
        assert heard == [f"entry {INBOX}", "discarded i"]
        assert splices(agent.session)[-1] == {
            "target": "next-step", "start": 0, "removed_count": 1, "outcome": "discarded",
        }  # fmt: skip
        await agent.prompt("x")
        assert turns(agent.session) == [["r", "x"]]


async def test_i193_an_abort_with_keep_inbox_while_idle_does_nothing() -> None:
    async with scripted([]) as agent:
        agent.inject("i")
        log = types(agent.session)
        assert agent.abort(keep_inbox=True) == ()
        assert (types(agent.session), waiting(agent)[0]) == (log, ["i"])


async def test_i194_an_abort_discards_all_that_waits_durably_next_step_first() -> None:
    async with scripted([LATE]) as agent:
        await at(agent, State.REQUESTING)
        agent.follow_up("f1")
        agent.steer("s")
        agent.follow_up("f2")
        agent.go_on()
        heard = hear(agent, "agent/inbox/discarded")
        assert [item.messages[0].text for item in agent.abort()] == ["s", "f1", "f2", "x"]
        assert heard == ["discarded s", "discarded f1", "discarded f2", "discarded x"]
        gone = [(each["target"], each["removed_count"]) for each in splices(agent.session)
                if each.get("outcome") == "discarded"]  # fmt: skip
        assert gone == [("next-step", 1), ("next-turn", 2), ("next-turn", 1)]
        await agent.idle()
        assert (ends(agent.session), agent.parked) == (["aborted"], False)
        drop(agent)


@each_wake
async def test_i195_i196_a_wake_after_the_abort_is_kept_for_a_turn_of_its_own(send: Send) -> None:
    async with scripted([LATE, "b"]) as agent:
        heard = hear(agent, "agent/status")
        await cut(agent)
        send(agent, "y")
        assert waiting(agent) == ([], ["y"], []), "a steer is no input of a turn that is over"
        await agent.idle()
        assert (ends(agent.session), turns(agent.session)) == (["aborted", "completed"], [["x"], ["y"]])
        assert heard == ["status running", "status idle"] * 2
        assert last(agent).number == 2


@each_wake
async def test_i197_a_kept_wake_whose_message_is_gone_opens_no_turn(send: Send) -> None:
    async with scripted([LATE]) as agent:
        agent.next_turn("r")
        await cut(agent)
        agent.next_turn("r2")
        assert agent.remove(send(agent, "y").id) is True
        await agent.idle()
        assert (ends(agent.session), waiting(agent)) == (["aborted"], ([], [], ["r2"]))
        agent.inject("i")
        await agent.maintain(lambda _: checkpoint())
        assert (agent.state, count(agent.session, "turn/start")) == (State.IDLE, (1,)), "nor later"
        drop(agent)


@each_wake
async def test_i198_a_second_abort_takes_the_message_and_the_wake(send: Send) -> None:
    async with scripted([LATE]) as agent:
        await cut(agent)
        send(agent, "y")
        assert [item.messages[0].text for item in agent.abort("again")] == ["y"]
        agent.inject("i")
        await agent.idle()
        assert (ends(agent.session), waiting(agent)) == (["aborted"], (["i"], [], []))
        assert agent.session.entries[-1].data.get("cause", "user") == "user"
        drop(agent)


@each_wake
async def test_i198_one_that_keeps_the_inbox_keeps_both(send: Send) -> None:
    async with scripted([LATE, "b"]) as agent:
        await cut(agent)
        send(agent, "y")
        assert agent.abort("again", keep_inbox=True) == ()
        await agent.idle()
        assert (ends(agent.session), turns(agent.session)) == (["aborted", "completed"], [["x"], ["y"]])


async def test_i199_an_inject_after_the_abort_waits_for_the_next_step_and_wakes_nobody() -> None:
    async with scripted([LATE, "b"]) as agent:
        await cut(agent)
        agent.inject("i")
        await agent.idle()
        assert (ends(agent.session), waiting(agent), agent.parked) == (["aborted"], (["i"], [], []), True)
        await agent.prompt("y")
        assert turns(agent.session) == [["x"], ["i", "y"]]


@pytest.mark.parametrize(
    "wanted", ["discarded w", "discarded x", f"entry {INBOX}", "entry turn/end", "status idle"]
)
async def test_i200_who_hears_of_the_abort_may_send_a_replacement(wanted: str) -> None:
    async with scripted(["b"]) as agent:
        await at(agent, State.PRE_STEP)
        agent.follow_up("w")
        when(agent, wanted, lambda: agent.follow_up("y"))
        agent.go_on()
        assert [item.messages[0].text for item in agent.abort()] == ["w", "x"]
        await agent.idle()
        assert (ends(agent.session), turns(agent.session)) == (["aborted", "completed"], [[], ["y"]])


async def test_i200_so_may_who_waits_for_the_signal() -> None:
    async def replace(payload: PreStep) -> None:
        if payload.turn.number == 1:
            assert payload.abort is not None
            with anyio.CancelScope(shield=True):
                await payload.abort.wait()
            agent.follow_up("y")

    async with scripted(["b"], hooks={"pre_step": [replace]}) as agent:
        await cut(agent, State.PRE_STEP)
        await agent.idle()
        assert (ends(agent.session), turns(agent.session)) == (["aborted", "completed"], [[], ["y"]])


@each_wake
async def test_i201_what_comes_while_a_pre_step_is_cut_off_runs_afterwards(send: Send) -> None:
    async def stubborn(payload: PreStep) -> None:
        if payload.turn.number == 1:
            with anyio.CancelScope(shield=True):
                await go.wait()

    go = anyio.Event()
    async with scripted(["b"], hooks={"pre_step": [stubborn]}) as agent:
        assert await cut(agent, State.PRE_STEP) == ("x",)
        send(agent, "y")
        go.set()
        await agent.idle()
        assert (ends(agent.session), turns(agent.session)) == (["aborted", "completed"], [[], ["y"]])


async def test_i202_the_first_cause_stays_also_when_the_agent_is_left() -> None:
    async with scripted([LATE]) as agent:
        await cut(agent, reason="user")
        agent.abort("second")
        drop(agent)
    assert agent.session.entries[-1].data == {"turn": 1, "reason": "aborted", "steps": 1, "cause": "user"}


async def test_i203_the_reason_is_in_the_log_and_in_the_signal_and_nothing_else_is() -> None:
    reasons: list[str] = []

    def look(payload: Request) -> None:
        assert payload.abort is not None
        agent.abort("policy: no more than this")
        reasons.append(payload.abort.reason)

    async with scripted([], hooks={"request": [look]}) as agent:
        turn = await agent.prompt("x")
        assert (turn.reason, turn.error) == ("aborted", None)
        assert agent.session.entries[-1].data == {
            "turn": 1, "reason": "aborted", "steps": 1, "cause": "policy: no more than this",
        }  # fmt: skip
        assert reasons == ["policy: no more than this"]


async def test_i203_a_hook_that_checks_the_signal_ends_as_aborted_too() -> None:
    async def check(payload: PreStep) -> None:
        assert payload.abort is not None
        with anyio.CancelScope(shield=True):
            await payload.abort.wait()
        payload.abort.check()

    async with scripted([], hooks={"pre_step": [check]}) as agent:
        await cut(agent, State.PRE_STEP)
        await agent.idle()
        assert ends(agent.session) == ["aborted"]


@pytest.mark.parametrize("how", ["watcher", "listener"])
async def test_i205_an_abort_from_who_sees_the_answer_leaves_no_call_without_result(how: str) -> None:
    async with scripted([calls(("add", {"a": 1, "b": 2}), ("slow", {"n": 0}))]) as agent:
        if how == "watcher":
            on_entry(agent.session, "assistant/message", lambda _: agent.abort())
        else:
            when(agent, "entry assistant/message", agent.abort)
        turn = await agent.prompt("x")
        assert turn.reason == "aborted"
        kinds = types(agent.session)
        assert kinds[kinds.index("assistant/message") :] == [
            "assistant/message", *["tool/call", "tool/result"] * 2, "step/end", "turn/end",
        ]  # fmt: skip
        results = [entry.data for entry in agent.session.entries if entry.type == "tool/result"]
        assert [each["outcome"] for each in results] == ["aborted"] * 2
        assert all("no effect" in each["message"].text for each in results)


@pytest.mark.parametrize(
    ("chunks", "type", "text"),
    [
        ([TextDelta("par"), 5.0, TextDelta("tial")], "assistant/message", "par"),
        ([ThinkingDelta("hmm"), 5.0], "assistant/message", ""),
        ([TextDelta(" \n\t "), 5.0], "assistant/attempt", ""),
        ([5.0], "assistant/attempt", ""),
    ],
    ids=["text", "thinking", "blank", "nothing"],
)
async def test_i206_what_was_shown_is_kept_and_what_was_not_is_an_attempt(
    chunks: list[Any], type: str, text: str
) -> None:
    async with scripted([Reply(chunks=chunks)], clock=FakeClock(autojump=False)) as agent:
        await cut(agent)
        await agent.idle()
        assert types(agent.session)[-3:] == [type, "step/end", "turn/end"]
        settled = agent.session.entries[-3].data
        assert settled.get("interrupted", False) is (type == "assistant/message")
        assert last(agent).text == text
        if type == "assistant/message":
            assert settled["message"].stop_reason == "aborted"


@pytest.mark.parametrize("how", ["watcher", "listener"])
async def test_i206b_an_abort_from_who_sees_the_last_answer_leaves_it_whole(how: str) -> None:
    asked: list[object] = []
    async with scripted(["whole"], hooks={"turn_stopping": [asked.append]}) as agent:
        if how == "watcher":
            on_entry(agent.session, "assistant/message", lambda _: agent.abort())
        else:
            when(agent, "entry assistant/message", agent.abort)
        turn = await agent.prompt("x")
        assert (turn.reason, turn.text, asked) == ("aborted", "whole", [])
        assert types(agent.session)[-3:] == ["assistant/message", "step/end", "turn/end"]
        assert "interrupted" not in agent.session.entries[-3].data


async def test_i207_an_abort_at_the_last_word_keeps_the_answer() -> None:
    def stop(_: TurnStopping) -> None:
        agent.abort()

    async with scripted(["whole"], hooks={"turn_stopping": [stop]}) as agent:
        turn = await agent.prompt("x")
        assert (turn.reason, turn.text, turn.steps) == ("aborted", "whole", 1)
        assert count(agent.session, "step/start", "turn/start") == (1, 1)


STATES = [State.CLAIMING, State.PRE_STEP, State.REQUESTING, State.TOOLING, State.STOPPING]


@pytest.mark.parametrize("state", STATES)
async def test_i208_an_aborted_turn_tells_no_error(state: State) -> None:
    async with scripted([ADD, "b", "c"]) as agent:
        heard = hear(agent, "agent/error")
        await at(agent, state)
        agent.abort()
        agent.go_on()
        await agent.idle()
        assert (ends(agent.session), heard, last(agent).error) == (["aborted"], [], None)
        drop(agent)


@pytest.mark.parametrize("state", STATES)
async def test_i209_who_waited_for_rest_before_the_abort_is_let_go(state: State) -> None:
    async def wait() -> None:
        await agent.idle()
        rested.append(agent.state)

    rested: list[State] = []
    async with scripted([ADD, "b", "c"]) as agent:
        await at(agent, state)
        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(wait)
            await checkpoint()
            agent.abort()
            agent.go_on()
        assert rested == [State.IDLE] * 3
        drop(agent)


async def test_i211_who_aborts_when_it_hears_of_rest_disturbs_nobody() -> None:
    async with scripted(["a", "b"]) as agent:
        when(agent, "status idle", agent.abort, times=9)
        for text in "xy":
            assert (await agent.prompt(text)).ok
            await agent.idle()
        assert ends(agent.session) == ["completed"] * 2


@pytest.mark.parametrize("broken", [ValueError("no"), KeyError()])
async def test_i212_rest_is_reached_after_a_failed_turn_too(broken: Exception) -> None:
    async with scripted([broken]) as agent:
        agent.follow_up("x")
        await agent.idle()
        assert (ends(agent.session), agent.state) == (["error"], State.IDLE)
