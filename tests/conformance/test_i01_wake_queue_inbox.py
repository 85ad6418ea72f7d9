"""I.1 of the lifecycle: what waits, who wakes whom, and what one claim takes."""

from collections.abc import Callable
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from tests.conformance.watching import (
    INBOX,
    Calling,
    count,
    ends,
    hear,
    on_entry,
    refuse,
    splices,
    turns,
    waiting,
    when,
)
from tests.machine.drive import calls, scripted, texts, types
from tests.machine.histories import Kept, put, reopened

from turnchart.machine import (
    Agent,
    AppendRefused,
    ScriptedModel,
    Session,
    SessionCorrupt,
    State,
    UserMessage,
)
from turnchart.machine.entries import Entry, Frozen
from turnchart.testing import FakeClock, record

Send = Callable[[Agent, str], object]
SENDS: dict[str, Send] = {
    "follow_up": lambda agent, text: agent.follow_up(text),
    "steer": lambda agent, text: agent.steer(text),
    "inject": lambda agent, text: agent.inject(text),
    "next_turn": lambda agent, text: agent.next_turn(text),
}
each_send = pytest.mark.parametrize("send", SENDS.values(), ids=SENDS.keys())


async def test_i001_status_turn_start_and_claim_are_there_when_a_follow_up_returns() -> None:
    async with scripted(["hi"]) as agent:
        heard = hear(agent)
        agent.follow_up("x")
        assert types(agent.session) == [INBOX, "turn/start", INBOX]
        assert heard == [
            f"entry {INBOX}", "inserted x", "status running", "entry turn/start", f"entry {INBOX}", "claimed x",
        ]  # fmt: skip
        assert (agent.status, agent.state) == ("running", State.CLAIMING)


async def test_i002_a_steer_wakes_an_idle_agent_and_is_the_prompt() -> None:
    async with scripted(["hi"]) as agent:
        agent.steer("x")
        await agent.idle()
        assert turns(agent.session) == [["x"]]
        assert ends(agent.session) == ["completed"]
        assert splices(agent.session)[0]["target"] == "next-step"


async def test_i003_an_inject_wakes_nobody() -> None:
    async with scripted([]) as agent:
        agent.inject("x")
        assert types(agent.session) == [INBOX]
        assert (agent.state, agent.parked, waiting(agent)) == (State.IDLE, True, (["x"], [], []))


async def test_i004_an_inject_is_read_before_the_prompt_of_the_same_turn() -> None:
    async with scripted(["hi"]) as agent:
        agent.inject("i")
        agent.follow_up("p")
        await agent.idle()
        assert turns(agent.session) == [["i", "p"]]


async def test_i005_i006_three_follow_ups_in_one_tick_are_three_turns_in_one_running_interval() -> None:
    async with scripted(["a", "b", "c"]) as agent:
        heard = hear(agent, "agent/status")
        for text in "xyz":
            agent.follow_up(text)
        await agent.idle()
        assert turns(agent.session) == [["x"], ["y"], ["z"]]
        assert heard == ["status running", "status idle"]
        numbers = [entry.data["turn"] for entry in agent.session.entries if entry.type == "turn/start"]
        assert numbers == [1, 2, 3]


async def test_i007_follow_ups_that_are_waited_for_have_a_pair_of_statuses_each() -> None:
    async with scripted(["a", "b"]) as agent:
        heard = hear(agent, "agent/status")
        for text in "xy":
            agent.follow_up(text)
            await agent.idle()
        assert heard == ["status running", "status idle"] * 2


def parked(*items: tuple[str, Any]) -> Session:
    """Return a session in which these wait: texts, with the call that put them there."""
    session = Session.memory()
    for text, origin in items:
        put(session, text, origin)
    return session


async def test_i008_a_claim_takes_both_for_the_step_and_one_prompt_in_that_order() -> None:
    session = parked(("p1", "follow_up"), ("s1", "steer"), ("p2", "follow_up"), ("s2", "inject"))
    async with scripted(["a", "b"], session=session) as agent:
        heard = hear(agent, "agent/inbox/claimed")
        assert agent.resume() is True
        assert heard == ["claimed s1", "claimed s2", "claimed p1"]
        assert waiting(agent) == ([], ["p2"], [])
        await agent.idle()
        assert turns(session) == [["s1", "s2", "p1"], ["p2"]]


async def test_i009_what_is_empty_is_not_spliced() -> None:
    async with scripted(["hi"]) as agent:
        await agent.prompt("x")
        assert splices(agent.session) == [
            {"target": "next-turn", "start": 0, "inserted": ["x"]},
            {"target": "next-turn", "start": 0, "removed_count": 1},
        ]


async def test_i010_claimed_is_told_after_every_splice_of_the_claim() -> None:
    async with scripted(["hi"]) as agent:
        agent.inject("i")
        agent.next_turn("r")
        heard = hear(agent)
        agent.follow_up("p")
        claim = heard[heard.index("entry turn/start") + 1 :]
        assert claim == [*[f"entry {INBOX}"] * 3, "claimed i", "claimed r", "claimed p"]


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


async def test_i018_a_watcher_of_the_splice_cannot_send_and_the_message_is_unharmed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with scripted(["hi"]) as agent:
        stop = on_entry(agent.session, INBOX, lambda _: agent.follow_up("again"))
        agent.follow_up("x")
        stop()
        await agent.idle()
        assert turns(agent.session) == [["x"]]
    assert "must not append to the session that it watches" in caplog.text


@pytest.mark.parametrize("wanted", [f"entry {INBOX}", "inserted x", "status running", "claimed x", "entry turn/start"])
async def test_i018_a_listener_can_send_and_each_message_gets_its_turn(wanted: str) -> None:
    async with scripted(["hi", "ho"]) as agent:
        when(agent, wanted, lambda: agent.follow_up("again"))
        first, second = hear(agent), hear(agent)
        agent.follow_up("x")
        await agent.idle()
        assert turns(agent.session) == [["x"], ["again"]]
        assert ends(agent.session) == ["completed"] * 2
        assert first == second
        assert first.index("inserted x") < first.index("inserted again")
        assert first.count("status running") == 1


def test_i019_a_log_with_a_splice_outside_its_list_is_refused_with_its_seq() -> None:
    session = Session(Kept())
    put(session, "a", "steer")
    put(session, "b", "steer")
    entries = [*session.entries, Entry(2, 1, INBOX, 0.0, Frozen(target="next-step", start=1, removed_count=2))]
    with pytest.raises(SessionCorrupt, match=r"entry 2 `agent/inbox/spliced`: the splice \[1:3\] is outside"):
        Session(Kept(entries))


BAD: list[Any] = [
    "", [], None, 7, object(), {"role": "user"}, {"role": "user", "content": [{"type": "text"}]},
    {"role": "user", "content": [{"type": "text", "text": "x"}], "time": float("nan")},
    {"role": "user", "content": [{"type": "text", "text": "x"}], "more": {1, 2}},
]  # fmt: skip


@each_send
@pytest.mark.parametrize("content", BAD, ids=range(len(BAD)))
async def test_i020_what_is_no_message_is_refused_before_it_is_queued(
    send: Callable[[Agent, Any], object], content: Any
) -> None:
    async with scripted([]) as agent:
        with pytest.raises((ValueError, TypeError)):
            send(agent, content)
        assert agent.session.entries == []
        with pytest.raises((ValueError, TypeError)):
            await agent.prompt(content)
        assert (agent.session.entries, agent.state) == ([], State.IDLE)


async def test_i022_a_turn_whose_message_was_removed_before_the_claim_has_no_steps() -> None:
    async with scripted([]) as agent:
        when(agent, "inserted x", agent.clear)
        agent.follow_up("x")
        await agent.idle()
        assert (ends(agent.session), turns(agent.session)) == (["completed"], [[]])
        assert count(agent.session, "turn/start", "step/start") == (1, 0)


async def test_i023_a_follow_up_to_a_running_turn_is_the_next_turn_of_the_same_interval() -> None:
    async with scripted(["a", "b"]) as agent:
        heard = hear(agent, "agent/status")
        agent.follow_up("x")
        await agent.until(State.REQUESTING)
        agent.follow_up("y")
        agent.go_on()
        await agent.idle()
        assert turns(agent.session) == [["x"], ["y"]]
        assert heard == ["status running", "status idle"]


async def test_i024_a_follow_up_from_the_adapter_is_the_following_turn() -> None:
    sends = ["y"]
    model = Calling(["a", "b"], lambda: sends and agent.follow_up(sends.pop()))
    async with Agent(model, clock=FakeClock()) as agent:
        recording = record(agent)
        turn = await agent.prompt("x")
        recording.check()
        assert (turn.number, turn.text) == (1, "a")
        assert turns(agent.session) == [["x"], ["y"]]


async def test_i025_a_follow_up_from_a_listener_right_after_the_claim_is_the_following_turn() -> None:
    async with scripted(["a", "b"]) as agent:
        when(agent, "claimed x", lambda: agent.follow_up("y"))
        await agent.prompt("x")
        assert turns(agent.session) == [["x"], ["y"]]


@pytest.mark.parametrize("rounds", range(4))
async def test_i026_sends_next_to_each_other_are_not_merged(rounds: int) -> None:
    async def later(text: str) -> None:
        for _ in range(rounds):
            await checkpoint()
        agent.follow_up(UserMessage(text, source=text))

    async with scripted(["a", "b"]) as agent:
        agent.follow_up(UserMessage("x", source="x"))
        async with anyio.create_task_group() as group:
            group.start_soon(later, "y")
        await agent.idle()
        said = [entry.data["message"] for entry in agent.session.entries if entry.type == "user/message"]
        assert [(each.text, each["source"]) for each in said] == [("x", "x"), ("y", "y")]
        assert turns(agent.session) == [["x"], ["y"]]


@pytest.mark.parametrize("rounds", range(12))
@pytest.mark.parametrize("slow", [False, True])
async def test_i027_no_wake_is_lost_around_the_end_of_a_turn(rounds: int, slow: bool) -> None:
    async def listener(*_: object) -> None:
        for _ in range(4):
            await checkpoint()

    async def send() -> None:
        for _ in range(rounds):
            await checkpoint()
        agent.follow_up("y")

    async with scripted(["a", "b"]) as agent, anyio.create_task_group() as group:
        if slow:
            agent.on("agent/status", listener)
        stop = on_entry(agent.session, "turn/end", lambda _: (stop(), group.start_soon(send)))
        await agent.prompt("x")
        with anyio.fail_after(5):
            while len(ends(agent.session)) < 2:
                await checkpoint()
        await agent.idle()
        assert turns(agent.session) == [["x"], ["y"]]


@pytest.mark.parametrize("send", [SENDS["follow_up"], SENDS["steer"]], ids=["follow_up", "steer"])
@pytest.mark.parametrize("wanted", ["entry turn/end", "status idle"])
async def test_i027_nor_one_that_a_listener_of_the_end_sends(wanted: str, send: Send) -> None:
    async with scripted(["a", "b"]) as agent:
        when(agent, wanted, lambda: send(agent, "y"))
        await agent.prompt("x")
        assert turns(agent.session) == [["x"], ["y"]]


async def test_i027_nor_one_at_the_end_of_a_turn_that_failed() -> None:
    async with scripted([ValueError("no"), "b"]) as agent:
        when(agent, "entry turn/end", lambda: agent.follow_up("y"))
        turn = await agent.prompt("x")
        assert turn.reason == "error"
        assert ends(agent.session) == ["error", "completed"]
        assert not agent.parked


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


async def test_ten_thousand_messages_wait_and_are_read_in_order() -> None:
    async with Agent(ScriptedModel(["hi"]), clock=FakeClock()) as agent:
        for i in range(10_000):
            agent.inject(str(i))
        agent.steer("now")
        await agent.idle()
        assert texts(agent.session, "user/message") == [*map(str, range(10_000)), "now"]
        assert count(agent.session, INBOX) == (10_002,)


async def test_what_waits_survives_its_agent() -> None:
    session = Session(Kept())
    async with scripted([], session=session) as agent:
        agent.inject("i")
        agent.next_turn("r")
    again = reopened(session)
    async with scripted(["hi"], session=again) as agent:
        assert waiting(agent) == (["i"], [], ["r"])
        assert agent.state is State.IDLE
        agent.steer("s")
        await agent.idle()
    assert turns(again) == [["i", "s", "r"]]


async def test_steering_inside_a_turn_is_claimed_by_the_next_step() -> None:
    async with scripted([calls(("add", {"a": 1, "b": 2})), "done"]) as agent:
        agent.follow_up("x")
        await agent.until(State.TOOLING)
        agent.steer("s1")
        agent.inject("i1")
        agent.next_turn("r1")
        agent.go_on()
        await agent.idle()
        assert turns(agent.session) == [["x", "s1", "i1"]]
        assert waiting(agent) == ([], [], ["r1"])
        agent.remove(agent.queued.riders[0].id)
