"""I.1 of the lifecycle: what waits, who wakes whom, and what one claim takes."""

from collections.abc import Callable
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from tests.conformance.watching import (
    INBOX,
    SENDS,
    Calling,
    Send,
    count,
    ends,
    hear,
    on_entry,
    parked,
    splices,
    turns,
    waiting,
    when,
)
from tests.machine.drive import calls, scripted, texts, types
from tests.machine.histories import Kept, put, reopened

from turnchart.machine import (
    Agent,
    ScriptedModel,
    Session,
    SessionCorrupt,
    State,
    UserMessage,
)
from turnchart.machine.entries import Entry, Frozen
from turnchart.testing import FakeClock, record

each_send = pytest.mark.parametrize("send", SENDS.values(), ids=SENDS.keys())


async def test_i001_status_turn_start_and_claim_are_there_when_a_follow_up_returns() -> None:
    async with scripted(["hi"]) as agent:
        heard = hear(agent)
        agent.follow_up("x")
        assert types(agent.session) == [INBOX, "turn/start", INBOX]
        assert heard == [
            f"entry {INBOX}", "inserted x", "status running", "entry turn/start", f"entry {INBOX}",
            "claimed x",
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


@pytest.mark.parametrize(
    "wanted", [f"entry {INBOX}", "inserted x", "status running", "claimed x", "entry turn/start"]
)
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
    entries = [
        *session.entries,
        Entry(2, 1, INBOX, 0.0, Frozen(target="next-step", start=1, removed_count=2)),
    ]
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
        for _i in range(4):
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
