"""I.15: what a crash leaves is closed when the session is resumed, in every kind of store.

A crash is the log of a running agent as its store has it at that moment.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import anyio
import pytest
from tests.conformance.places import KINDS
from tests.machine.drive import add, calls, drop, scripted, slow, slows, types
from tests.machine.histories import Kept

from turnchart.machine import Agent, Entry, Failure, Reply, ScriptedModel, Session, SessionLocked, State
from turnchart.machine.entries import Frozen
from turnchart.machine.errors import SessionCorrupt
from turnchart.machine.jsonl import JsonlStore
from turnchart.machine.messages import ToolResultMessage, UserMessage
from turnchart.machine.scripted import Scripted
from turnchart.machine.sqlite import SqliteStore
from turnchart.machine.stores import Store
from turnchart.machine.verify import verify
from turnchart.testing import FakeClock

Crash = Callable[[Sequence[Entry]], Session]


@pytest.fixture(params=KINDS)
def crash(request: pytest.FixtureRequest, tmp_path: Path) -> Crash:
    """Give a function that returns what another program finds of a log after a crash."""

    def store(entries: Sequence[Entry]) -> Store:
        if request.param == "memory":
            return Kept(entries)
        kept: Store = (
            JsonlStore(tmp_path / "s.jsonl")
            if request.param == "jsonl"
            else SqliteStore(tmp_path / "s.db", "s")
        )
        for entry in entries:
            kept.append(entry)
        kept.close()
        return kept

    return lambda entries: Session(store(tuple(entries)))


def recovered(session: Session) -> list[Entry]:
    """Attach a session, and return what that appended."""
    before, last = len(session.entries), session.entries[-1].time
    session.attach()
    new = session.entries[before:]
    assert {entry.time for entry in new} <= {last}, "closers have the time of the last entry"
    judged = verify(session.entries)
    assert judged.ok, judged.message
    session.close()
    return new


def short(entries: Sequence[Entry]) -> list[str]:
    """Return types, with what tells results and ends apart."""
    return [
        f"result {entry.data['message'].call_id} {entry.data['message']['details']['recovered']}"
        if entry.type == "tool/result"
        else f"turn/end {entry.data['reason']}"
        if entry.type == "turn/end"
        else entry.type
        for entry in entries
    ]


async def until(agent: Agent, type: str, count: int = 1) -> list[Entry]:
    """Prompt an agent, and return its log as it is when it has so many entries of a type."""
    log: list[Entry] = []
    reached = anyio.Event()

    def look(entry: Entry) -> None:
        if not log and types(agent.session).count(type) == count:
            log.extend(agent.session.entries)
            reached.set()

    agent.session.watch(look)
    agent.follow_up("x")
    await reached.wait()
    agent.abort()
    await agent.idle()
    drop(agent)
    return log


async def test_i259_a_balanced_log_gets_no_closers(crash: Crash) -> None:
    async with scripted(["a"]) as agent:
        await agent.prompt("x")
    assert recovered(crash(agent.session.entries)) == []


async def test_i260_an_open_turn_without_a_step_is_closed_as_interrupted(crash: Crash) -> None:
    async with scripted(["a"]) as agent:
        log = await until(agent, "turn/start")
    assert short(recovered(crash(log))) == ["turn/end interrupted"]


async def test_i261_an_open_step_is_closed_before_its_turn(crash: Crash) -> None:
    async with scripted(["a"]) as agent:
        log = await until(agent, "user/message")
    assert short(recovered(crash(log))) == ["step/end", "turn/end interrupted"]


async def test_i262_calls_that_did_not_start_get_results_that_say_so_in_order(crash: Crash) -> None:
    async with scripted([slows(1, 2)]) as agent:
        log = await until(agent, "assistant/message")
    session = crash(log)
    new = recovered(session)
    assert short(new) == [
        "result c1.1.0 not_started", "result c1.1.1 not_started", "step/end", "turn/end interrupted",
    ]  # fmt: skip
    assert "safe to call it again" in new[0].data["message"].text
    assert [entry.data["outcome"] for entry in new[:2]] == ["aborted"] * 2


async def test_a_call_that_started_gets_a_result_that_says_its_outcome_is_unknown(crash: Crash) -> None:
    async with scripted([slows(1, 2, 0)]) as agent:
        log = await until(agent, "tool/call", 2)
    new = recovered(crash(log))
    assert short(new)[:3] == ["result c1.1.0 unknown", "result c1.1.1 unknown", "result c1.1.2 not_started"]
    assert "check before you call it again" in new[0].data["message"].text


async def test_i264_only_the_missing_result_is_written(crash: Crash) -> None:
    async with scripted([calls(("add", {"a": 1, "b": 2}), ("add", {"a": 3, "b": 4}))]) as agent:
        log = await until(agent, "tool/result")
    assert short(recovered(crash(log)))[:1] == ["result c1.1.1 not_started"]


async def test_i265_what_an_earlier_turn_left_is_not_touched(crash: Crash) -> None:
    async with scripted([calls(("add", {"a": 1, "b": 2})), "b", "c"]) as agent:
        await agent.prompt("x")
        log = await until(agent, "user/message", 2)
    orphan = [
        entry._replace(type="custom", data=Frozen(kind="was a result", data=None), sources=None)
        if entry.type == "tool/result"
        else entry
        for entry in log
    ]
    session = crash(orphan)
    session.attach()
    assert short(session.entries[len(orphan) :]) == ["step/end", "turn/end interrupted"]
    session.close()


async def test_i270_looking_at_a_turn_that_runs_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    async with scripted([Reply("late", delay=5)], session=Session.jsonl(path)) as agent:
        agent.follow_up("x")
        await agent.until(State.REQUESTING)
        before = path.read_bytes()  # a few bytes
        looked = Session.jsonl(path)
        assert (looked.brackets.turn_open, verify(looked.entries).open) == (True, True)
        with pytest.raises(SessionLocked):
            looked.attach()
        assert path.read_bytes() == before  # as above
        agent.go_on()
        agent.abort()
        await agent.idle()
        drop(agent)


def test_i271_an_unknown_type_is_refused_unless_it_may_be_passed_over(crash: Crash) -> None:
    note = Entry(0, None, "of a newer program", 1.0, Frozen())
    with pytest.raises(
        SessionCorrupt, match=r"entry 0 `of a newer program`: this type of entry is unknown; a newer"
    ):
        crash([note])


def test_i271_an_ignorable_one_is_passed_over(crash: Crash) -> None:
    note = Entry(0, None, "of a newer program", 1.0, Frozen(), ignorable=True)
    session = crash([note])
    assert (session.entries, list(session.context())) == ([note], [])
    assert verify(session.entries).ok


async def test_i274_what_was_claimed_and_not_admitted_goes_back_to_the_front(crash: Crash) -> None:
    async with scripted(["a", "b"]) as agent:
        agent.inject("i")
        agent.next_turn("r")
        agent.follow_up("x")
        log = list(agent.session.entries)
        assert not agent.queued, "the send that wakes an agent claims at once"
        agent.follow_up("y")
        log += agent.session.entries[len(log) :]
        agent.abort()
        await agent.idle()
        drop(agent)
    session = crash(log)
    recovered(session)
    waiting = [[said.text for item in items for said in item.messages] for items in session.inbox.queued()]
    assert waiting == [["i"], ["x", "y"], ["r"]]
    model = ScriptedModel(["a", "b"])
    async with Agent(model, session=session, clock=FakeClock()) as again:
        assert again.parked, "nothing wakes by itself"
        again.resume()
        await again.idle()
    told = [
        [said.text for said in request.messages if isinstance(said, UserMessage)]
        for request in model.requests
    ]
    assert told == [["i", "r", "x"], ["i", "r", "x", "y"]]


async def test_i275_a_retry_is_not_gone_on_with(crash: Crash) -> None:
    async with scripted([Failure("overloaded"), "a"]) as agent:
        log = await until(agent, "llm/retry")
    session = crash(log)
    assert short(recovered(session)) == ["step/end", "turn/end interrupted"]
    async with Agent(ScriptedModel(["b"]), session=session, clock=FakeClock()) as again:
        turn = await again.prompt("y")
    assert (turn.number, turn.text) == (2, "b")
    assert types(session).count("llm/retry-started") == 0


async def test_a_crash_after_any_entry_is_closed_and_gone_on_with() -> None:
    replies: list[Scripted] = [slows(0, 1), Failure("overloaded"), calls(("add", {"a": 1, "b": 2})), "done"]
    async with scripted(replies) as agent:
        agent.next_turn("r")
        agent.inject("i")
        await agent.prompt("x")
    whole = agent.session.entries
    for cut in range(1, len(whole)):
        session = Session(Kept(whole[:cut]))
        async with Agent(
            ScriptedModel(["b", "c"]), tools=[add, slow], session=session, clock=FakeClock()
        ) as again:
            again.resume()
            await again.idle()
            await again.prompt("y")
            assert isinstance(again.model, ScriptedModel)
            again.model.drop()
        judged = verify(session.entries)
        assert judged.ok, (cut, judged.message)
        said = [e.data["message"].text for e in session.entries if e.type == "user/message"]
        assert sorted(said) == sorted([*[each for each in "irx" if _sent(whole[:cut], each)], "y"]), cut
        answered = [each.call_id for each in session.context() if isinstance(each, ToolResultMessage)]
        assert len(set(answered)) == len(answered), "each call has one result"


def _sent(log: Sequence[Entry], text: str) -> bool:
    return any(
        said.text == text
        for entry in log
        for item in entry.data.get("inserted", ())
        for said in item.messages
    )
