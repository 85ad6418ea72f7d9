"""Of ours, beside I.10: an abort makes no ghosts, and whatever is sent around it comes to rest."""

from typing import Any

import anyio
import pytest
from tests.conformance.watching import (
    INBOX,
    LATE,
    Calling,
    at,
    count,
    ends,
    hear,
    last,
    on_entry,
    refuse,
    requests,
    turns,
    waiting,
    when,
)
from tests.machine.drive import ADD, drop, scripted, texts, types
from tests.machine.histories import Kept

from turnchart.machine import Agent, AppendRefused, Session, State, UserMessage
from turnchart.machine.points import PreStep, PreTool
from turnchart.machine.verify import verify
from turnchart.testing import FakeClock, record

STATES = [State.CLAIMING, State.PRE_STEP, State.REQUESTING, State.TOOLING, State.STOPPING]
EARLY = [State.CLAIMING, State.PRE_STEP, State.REQUESTING]


@pytest.mark.parametrize("state", EARLY)
async def test_own_a_message_that_was_claimed_and_not_admitted_is_discarded(state: State) -> None:
    async with scripted(["b"]) as agent:
        agent.inject("i")
        agent.next_turn("r")
        await at(agent, state)
        heard = hear(agent, "agent/inbox/discarded")
        assert [item.messages[0].text for item in agent.abort()] == ["i", "r", "x"]
        agent.go_on()
        await agent.idle()
        assert heard == ["discarded i", "discarded r", "discarded x"]
        assert (ends(agent.session), turns(agent.session)) == (["aborted"], [[]])
        assert not agent.queued
        assert (await agent.prompt("y")).ok
        assert turns(agent.session) == [[], ["y"]]


@pytest.mark.parametrize("state", EARLY)
async def test_own_or_put_back_to_the_front_of_where_it_waited(state: State) -> None:
    async with scripted(["b", "c"]) as agent:
        agent.inject("i")
        agent.next_turn("r")
        await at(agent, state)
        agent.follow_up("z")
        agent.inject("i2")
        assert agent.abort(keep_inbox=True) == ()
        assert waiting(agent) == (["i", "i2"], ["x", "z"], ["r"])
        agent.go_on()
        await agent.idle()
        assert (ends(agent.session), last(agent).unadmitted, agent.parked) == (["aborted"], (), True)
        agent.resume()
        await agent.idle()
        assert turns(agent.session) == [[], ["i", "i2", "r", "x"], ["z"]]


@pytest.mark.parametrize("state", EARLY)
async def test_own_what_an_abort_reported_as_discarded_does_not_come_back_after_a_crash(state: State) -> None:
    async with scripted([LATE]) as agent:
        agent.inject("i")
        agent.next_turn("r")
        await at(agent, state)
        assert [item.messages[0].text for item in agent.abort()] == ["i", "r", "x"]
        log = list(agent.session.entries)
        agent.go_on()
        await agent.idle()
        drop(agent)
    assert log[-1].type != "turn/end", "the driver has not closed the turn yet"
    crashed = Session(Kept(log))
    crashed.attach()
    assert not crashed.inbox.queued()
    assert not crashed.inbox.claimed
    assert (crashed.entries[-1].data["reason"], verify(crashed.entries).ok) == ("interrupted", True)


async def test_own_a_steer_that_a_later_step_claimed_is_no_ghost_either() -> None:
    for keep in (False, True):
        async with scripted([ADD, "b"]) as agent:
            await at(agent, State.TOOLING)
            agent.steer("s")
            agent.go_on()
            await agent.until(State.PRE_STEP)
            assert [item.messages[0].text for item in agent.abort(keep_inbox=keep)] == ([] if keep else ["s"])
            agent.go_on()
            await agent.idle()
            assert ends(agent.session) == ["aborted"]
            assert waiting(agent)[0] == (["s"] if keep else [])
            assert turns(agent.session)[0] == ["x"]
            drop(agent)


async def test_own_what_was_discarded_can_be_sent_again_as_it_is() -> None:
    async with scripted(["b"]) as agent:
        await at(agent, State.PRE_STEP)
        (item,) = agent.abort()
        agent.go_on()
        await agent.idle()
        assert (await agent.prompt(list(item.messages))).ok
        assert turns(agent.session) == [[], ["x"]]
        said = [entry.data["message"] for entry in agent.session.entries if entry.type == "user/message"]
        assert said == list(item.messages)


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("keep", [False, True])
async def test_own_one_abort_with_a_steer_waiting_is_one_aborted_turn_and_no_second_request(
    state: State, keep: bool
) -> None:
    async with scripted([ADD, "b", "c"]) as agent:
        await at(agent, state)
        asked = requests(agent)
        agent.steer("s")
        agent.abort(keep_inbox=keep)
        agent.go_on()
        await agent.idle()
        assert ends(agent.session) == ["aborted"]
        assert requests(agent) == asked
        assert ("s" in waiting(agent)[0], agent.parked) == (keep, keep)
        assert "s" not in texts(agent.session, "user/message")
        drop(agent)


async def test_an_abort_of_the_admission_counts_what_is_in_the_conversation_as_admitted() -> None:
    async with scripted([LATE]) as agent:
        agent.inject("i")
        gone: list[Any] = []
        stop = on_entry(agent.session, "user/message", lambda _: gone.append(agent.abort()))
        turn = await agent.prompt("x")
        stop()
        admitted = turns(agent.session)[0]
        discarded = [item.messages[0].text for items in gone for item in items]
        assert turn.reason == "aborted"
        assert sorted([*admitted, *discarded]) == ["i", "x"]
        assert count(agent.session, "assistant/message", "assistant/attempt") == (0, 0)
        drop(agent)


# -- what lies between -------------------------------------------------------------------------------


async def test_an_abort_right_after_the_send_is_a_turn_without_steps() -> None:
    async with scripted([]) as agent:
        agent.follow_up("x")
        assert [item.messages[0].text for item in agent.abort()] == ["x"]
        await agent.idle()
        assert types(agent.session) == [INBOX, "turn/start", INBOX, INBOX, INBOX, "turn/end"]
        assert ends(agent.session) == ["aborted"]


async def test_an_abort_from_who_hears_that_it_runs_is_such_a_turn_too() -> None:
    async with scripted(["b"]) as agent:
        when(agent, "status running", agent.abort)
        agent.follow_up("x")
        await agent.idle()
        assert types(agent.session) == [INBOX, "turn/start", INBOX, INBOX, INBOX, "turn/end"]
        assert ends(agent.session) == ["aborted"]
        assert (await agent.prompt("y")).ok


@pytest.mark.parametrize("keep", [False, True])
async def test_an_abort_cuts_the_turn_off_even_where_the_log_refuses_to_say_what_goes(keep: bool) -> None:
    async with scripted([LATE]) as agent:
        await at(agent, State.PRE_STEP)
        agent.follow_up("y")
        stop = refuse(agent.session, INBOX)
        with pytest.raises(AppendRefused, match="vetoed"):
            agent.abort(keep_inbox=keep)
        stop()
        agent.go_on()
        await agent.idle()
        assert (ends(agent.session), agent.state) == (["aborted"], State.IDLE)
        assert waiting(agent)[1] == ["y"]
        drop(agent)


async def test_cancelling_a_prompt_leaves_what_others_queued() -> None:
    async with scripted([LATE, "b"]) as agent:
        async with anyio.create_task_group() as group:
            group.start_soon(agent.prompt, "x")
            await agent.until(State.REQUESTING)
            agent.follow_up("y")
            agent.go_on()
            group.cancel_scope.cancel()
        assert ends(agent.session) == ["aborted"]
        assert agent.session.entries[-1].data["cause"] == "cancelled"
        assert (waiting(agent)[1], agent.parked) == (["y"], True)
        drop(agent)


async def test_cancelling_a_prompt_that_is_not_read_yet_tells_that_it_is_discarded() -> None:
    async def wait(payload: PreStep) -> None:
        assert payload.abort is not None
        await payload.abort.wait()

    async with scripted([], hooks={"pre_step": [wait]}) as agent:
        heard = hear(agent, "agent/inbox/discarded")
        async with anyio.create_task_group() as group:
            group.start_soon(agent.prompt, "x")
            await agent.until(State.PRE_STEP)
            agent.go_on()
            group.cancel_scope.cancel()
        assert (ends(agent.session), heard) == (["aborted"], ["discarded x"])
        assert [item.messages[0].text for item in last(agent).unadmitted] == ["x"]


async def test_an_abort_from_the_adapter_sends_nothing() -> None:
    model = Calling(["never"], lambda: agent.abort())
    async with Agent(model, clock=FakeClock()) as agent:
        recording = record(agent)
        turn = await agent.prompt("x")
        recording.check()
        assert (turn.reason, turns(agent.session)) == ("aborted", [[]])
        assert [item.messages[0].text for item in turn.unadmitted] == ["x"]
        drop(agent)


async def test_an_abort_among_pre_tool_hooks_runs_nothing() -> None:
    def stop(_: PreTool) -> None:
        agent.abort()

    async with scripted([ADD], hooks={"pre_tool": [stop]}) as agent:
        turn = await agent.prompt("x")
        assert turn.reason == "aborted"
        assert count(agent.session, "tool/call", "tool/result") == (1, 1)


async def test_a_listener_of_the_abort_that_sends_and_aborts_comes_to_rest() -> None:
    async with scripted(["b"]) as agent:
        await at(agent, State.PRE_STEP)
        when(agent, "discarded x", lambda: (agent.follow_up("y"), agent.abort(), agent.follow_up("z")))
        agent.abort()
        agent.go_on()
        await agent.idle()
        assert (ends(agent.session), turns(agent.session)) == (["aborted", "completed"], [[], ["z"]])


async def test_messages_of_an_item_that_waits_behind_an_aborted_turn_keep_together() -> None:
    async with scripted(["b"]) as agent:
        agent.follow_up([UserMessage("a1"), UserMessage("a2")])
        await agent.until(State.PRE_STEP)
        agent.abort(keep_inbox=True)
        agent.go_on()
        await agent.idle()
        [item] = agent.queued.next_turn
        assert [said.text for said in item.messages] == ["a1", "a2"]
        agent.resume()
        await agent.idle()
        assert turns(agent.session) == [[], ["a1", "a2"]]
