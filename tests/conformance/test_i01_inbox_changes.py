"""I.1 of the lifecycle, 11 to 17: ids, splices, and what waits is removed, replaced or cleared."""

from collections.abc import Callable
from typing import Any

import anyio
import pytest
from tests.conformance.watching import (
    INBOX,
    SENDS,
    Send,
    ends,
    hear,
    parked,
    refuse,
    splices,
    turns,
    waiting,
)
from tests.machine.drive import scripted, types

from turnchart.machine import (
    Agent,
    AppendRefused,
    State,
    UserMessage,
)
from turnchart.machine.entries import Frozen

each_send = pytest.mark.parametrize("send", SENDS.values(), ids=SENDS.keys())


@each_send
async def test_i011_a_message_whose_id_waits_already_is_refused_before_anything_is_written(
    send: Callable[[Agent, Any], object],
) -> None:
    async with scripted([]) as agent:
        agent.inject(UserMessage("one", id="u1"))
        agent.next_turn(UserMessage("two", id="u2"))
        before = (types(agent.session), agent.queued)
        for id in ("u1", "u2"):
            with pytest.raises(ValueError, match=f"a message '{id}' is here already"):
                send(agent, UserMessage("again", id=id))
            with pytest.raises(ValueError, match="is here already"):
                send(agent, [UserMessage("fine"), UserMessage("again", id=id)])
        with pytest.raises(ValueError, match="a message 'new' is here already"):
            send(agent, [UserMessage("a", id="new"), UserMessage("b", id="new")])
        assert (types(agent.session), agent.queued) == before
        assert agent.state is State.IDLE


async def test_i011_so_is_one_that_is_claimed_or_in_the_conversation() -> None:
    async with scripted(["hi", "ho"]) as agent:
        agent.follow_up(UserMessage("one", id="u1"))
        with pytest.raises(ValueError, match="is here already"):
            agent.steer(UserMessage("again", id="u1"))
        await agent.idle()
        with pytest.raises(ValueError, match="is here already"):
            await agent.prompt(UserMessage("again", id="u1"))
        await agent.prompt(UserMessage("again", id="u2"))
        assert turns(agent.session) == [["one"], ["again"]]


def test_i011_the_log_itself_refuses_it_too() -> None:
    session = parked(("a", "steer"), ("b", "follow_up"))
    for item in (*session.inbox.next_step, *session.inbox.next_turn):
        for target in ("next-step", "next-turn", "rider"):
            with pytest.raises(AppendRefused, match="waits already"):
                session.append(INBOX, Frozen(target=target, start=0, inserted=(item,)))
    assert len(session.entries) == 2


@pytest.mark.parametrize(
    "numbers",
    [
        {"start": -1}, {"start": float("nan")}, {"start": 3}, {"start": 10**30},
        {"start": 0, "removed_count": -1}, {"start": 0, "removed_count": 3},
        {"start": 1, "removed_count": 2}, {"start": 0, "removed_count": float("nan")},
    ],
)  # fmt: skip
def test_i012_a_splice_outside_its_list_is_refused_and_changes_nothing(numbers: dict[str, Any]) -> None:
    session = parked(("a", "steer"), ("b", "steer"))
    with pytest.raises(AppendRefused, match="outside the 2 items waiting"):
        session.append(INBOX, Frozen(target="next-step", **numbers))
    assert len(session.entries) == 2
    assert [item.id for item in session.inbox.next_step] == ["a", "b"]


async def test_i012_the_numbers_that_are_logged_are_those_of_the_lists() -> None:
    async with scripted(["a"]) as agent:
        first = agent.inject("a")
        agent.inject("b")
        agent.replace(agent.inject("c").id, "d")
        agent.remove(first.id)
        agent.follow_up("p")
        await agent.idle()
        assert splices(agent.session) == [
            {"target": "next-step", "start": 0, "inserted": ["a"]},
            {"target": "next-step", "start": 1, "inserted": ["b"]},
            {"target": "next-step", "start": 2, "inserted": ["c"]},
            {"target": "next-step", "start": 2, "removed_count": 1, "inserted": ["d"], "outcome": "replaced"},
            {"target": "next-step", "start": 0, "removed_count": 1, "outcome": "discarded"},
            {"target": "next-turn", "start": 0, "inserted": ["p"]},
            {"target": "next-step", "start": 0, "removed_count": 2},
            {"target": "next-turn", "start": 0, "removed_count": 1},
        ]


async def test_i013_clearing_what_is_empty_writes_nothing() -> None:
    async with scripted([]) as agent:
        heard = hear(agent)
        assert agent.clear() == ()
        assert agent.abort() == ()
        assert agent.abort(keep_inbox=True) == ()
        assert agent.resume() is False
        assert (agent.session.entries, heard) == ([], [])


async def test_i014_replacing_is_one_splice_in_the_same_place() -> None:
    async with scripted(["hi"]) as agent:
        for text in "abc":
            agent.inject(text)
        heard = hear(agent)
        old = agent.queued.next_step[1]
        new = agent.replace(old.id, "B")
        assert heard == [f"entry {INBOX}", "discarded b", "inserted B"]
        assert waiting(agent)[0] == ["a", "B", "c"]
        assert (new.id, new.origin) == (old.id, "inject")
        assert new.messages[0]["id"] != old.messages[0]["id"]
        assert agent.replace(old.id, [UserMessage("B1"), UserMessage("B2")]).id == old.id
        agent.steer("s")
        await agent.idle()
        assert turns(agent.session) == [["a", "B1", "B2", "c", "s"]]


async def test_i014_what_does_not_wait_cannot_be_replaced() -> None:
    async with scripted(["hi"]) as agent:
        item = agent.follow_up("x")
        for id in (item.id, "unknown"):
            with pytest.raises(ValueError, match=f"no item '{id}' waits: it was claimed"):
                agent.replace(id, "y")
        kept = agent.inject("z")
        with pytest.raises(ValueError, match="must not be empty"):
            agent.replace(kept.id, "")
        agent.remove(kept.id)
        await agent.idle()
        assert turns(agent.session) == [["x"]]


async def test_i014_a_message_may_keep_its_id_when_its_text_is_replaced() -> None:
    async with scripted(["hi"]) as agent:
        item = agent.inject(UserMessage("tpyo", id="u1"))
        agent.replace(item.id, UserMessage("typo", id="u1"))
        agent.steer("s")
        await agent.idle()
        assert turns(agent.session) == [["typo", "s"]]


async def test_i014_a_prompt_that_waits_can_be_replaced_and_its_turn_is_still_the_answer() -> None:
    answers: list[str] = []
    session = parked(("q", "follow_up"))

    async def prompt() -> None:
        answers.append((await agent.prompt("p")).text)

    async with scripted(["to q", "to P"], session=session) as agent, anyio.create_task_group() as group:
        group.start_soon(prompt)
        await agent.until(State.REQUESTING)
        [item] = agent.queued.next_turn
        agent.replace(item.id, "P")
        agent.go_on()
    assert turns(session) == [["q"], ["P"]]
    assert answers == ["to P"]


async def test_i015_removing_what_does_not_wait_is_false_and_writes_nothing() -> None:
    async with scripted(["hi"]) as agent:
        item = agent.follow_up("x")
        log = types(agent.session)
        assert agent.remove("unknown") is False
        assert agent.remove(item.id) is False
        assert types(agent.session) == log


async def test_i016_removing_takes_one_item_of_any_list_by_its_id_or_a_message_of_it() -> None:
    async with scripted([]) as agent:
        agent.inject("a")
        rider = agent.next_turn([UserMessage("r1"), UserMessage("r2", id="mine")])
        second = agent.inject("b")
        heard = hear(agent)
        assert agent.remove(second.id) is True
        assert agent.remove("mine") is True
        assert agent.remove(rider.id) is False
        assert heard == [f"entry {INBOX}", "discarded b", f"entry {INBOX}", "discarded r1", "discarded r2"]
        assert waiting(agent) == (["a"], [], [])


async def test_i016_clearing_takes_both_lists_and_leaves_riders_and_the_running_turn() -> None:
    async with scripted(["hi"]) as agent:
        agent.follow_up("x")
        agent.follow_up("y")
        agent.steer("s")
        agent.next_turn("r")
        assert [item.messages[0].text for item in agent.clear()] == ["s", "y"]
        assert waiting(agent) == ([], [], ["r"])
        await agent.idle()
        assert turns(agent.session) == [["x"]]
        assert ends(agent.session) == ["completed"]


@each_send
async def test_i017_a_vetoed_insert_raises_changes_nothing_and_wakes_nobody(send: Send) -> None:
    async with scripted(["hi"]) as agent:
        stop = refuse(agent.session, INBOX)
        heard = hear(agent)
        with pytest.raises(AppendRefused, match="vetoed"):
            send(agent, "x")
        assert (agent.session.entries, agent.queued.riders, heard) == ([], (), [])
        assert (agent.state, agent.parked) == (State.IDLE, False)
        stop()
        await agent.prompt("y")
        assert turns(agent.session) == [["y"]]


async def test_i017_so_does_a_vetoed_prompt() -> None:
    async with scripted([]) as agent:
        refuse(agent.session, INBOX)
        with pytest.raises(AppendRefused, match="vetoed"):
            await agent.prompt("x")
        assert (agent.session.entries, agent.waiters) == ([], {})


async def test_i017_a_vetoed_removal_leaves_it_waiting() -> None:
    async with scripted([]) as agent:
        item = agent.inject("x")
        refuse(agent.session, INBOX)
        heard = hear(agent)
        for act in (lambda: agent.remove(item.id), lambda: agent.replace(item.id, "y"), agent.clear):
            with pytest.raises(AppendRefused, match="vetoed"):
                act()
        assert (waiting(agent)[0], heard) == (["x"], [])


# -- what lies between -------------------------------------------------------------------------------


async def test_a_fresh_id_steps_aside_for_one_that_somebody_gave() -> None:
    async with scripted(["hi"]) as agent:
        agent.inject(UserMessage("mine", id="m1"))
        item = agent.inject("fresh")
        assert item.messages[0]["id"] == "m1'"
        agent.follow_up([UserMessage("a"), UserMessage("b", id="m2")])
        await agent.idle()
        assert turns(agent.session) == [["mine", "fresh", "a", "b"]]


async def test_what_was_discarded_can_be_sent_again() -> None:
    async with scripted(["hi"]) as agent:
        agent.inject("x")
        [item] = agent.clear()
        agent.follow_up(list(item.messages))
        await agent.idle()
        assert turns(agent.session) == [["x"]]
