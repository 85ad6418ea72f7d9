"""A session while a worker works on it: what is wanted of it, in order; questions; what cannot even begin."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

pytest.importorskip("dbos")

from tests.machine.durable.conftest import Desk, Makes, Stand

from turnchart.machine import Agent, Permissions, Queues, Reply, ScriptedModel, ToolCall, tool
from turnchart.machine.durable import DurableAgent, attending
from turnchart.machine.durable.attending import portions
from turnchart.machine.durable.mailbox import LARGEST
from turnchart.machine.entries import Entry
from turnchart.machine.errors import SessionLocked
from turnchart.machine.points import Reject
from turnchart.machine.session import Session, info
from turnchart.machine.verify import verify


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """DBOS knows asyncio only."""
    return "asyncio"


def test_pieces_are_told_in_portions_that_fit() -> None:
    small, large = "x" * 900, "y" * (LARGEST + 1)
    told = portions([small] * 20 + [large] + [small])
    assert [piece for each in told for piece in each] == [small] * 21
    assert all(sum(map(len, each)) <= LARGEST for each in told)
    assert portions([]) == []


@tool(replay="idempotent")
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def answering(*replies: str | Reply, at: str, hook: Stand) -> Callable[[Session], Agent]:
    return lambda session: Agent(
        ScriptedModel(replies, default=Reply("ok")), session=session, tools=[add], hooks={at: [hook]},
        permissions=Permissions(default="ask"),
    )  # fmt: skip


async def until(is_so: Callable[[], object]) -> None:
    while not is_so():  # noqa: ASYNC110  # it is in the file
        await asyncio.sleep(0.001)


async def left_open(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    """Leave a turn that waits before its request."""
    stand = Stand()
    desk.wish("prompt", "hi")
    at_work, working = desk.begin(answering(at="request", hook=stand), 1)
    await stand.reached.wait()
    waits = desk.wish("inject", "later")
    at_work.ring()
    await until(lambda: waits not in desk.open())
    await desk.leave(at_work, working)
    assert [each.message for each in caplog.records] == [], "leaving a turn is nothing to be warned of"


async def test_a_turn_that_is_left_stays_open_without_a_word(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    await left_open(desk, caplog)
    at_work, working = desk.begin(answering(at="request", hook=Stand()), 1)
    types = [entry.type for entry in at_work.session.entries]
    assert "turn/start" in types
    assert "turn/end" not in types
    await desk.leave(at_work, working)


async def test_a_question_that_is_left_is_asked_by_the_next_one(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    asks = Reply(tool_calls=[ToolCall("add", {"a": 1, "b": 2}, id="c1")])
    desk.wish("prompt", "1 + 2?")
    at_work, working = desk.begin(answering(asks, "three", at="post_tool", hook=Stand()), 1)
    await until(lambda: [each for each in at_work.session.entries if each.type == "approval/asked"])
    await desk.leave(at_work, working)
    assert [each.message for each in caplog.records] == []
    hook = Stand()
    hook.go.set()
    desk.wish("decide", {"call_id": "c1", "answer": "approve"})
    at_work, working = desk.begin(answering(asks, "three", at="post_tool", hook=hook), 1)
    assert (await working)["text"] == "three"
    types = [entry.type for entry in at_work.session.entries]
    assert (types.count("approval/asked"), types.count("approval/decided")) == (1, 1)
    assert desk.open() == []


async def test_a_steer_that_a_turn_took_which_goes_on_is_not_taken_again(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    await left_open(desk, caplog)
    stand, steer = Stand(), desk.wish("steer", "be quick")
    at_work, working = desk.begin(answering(at="request", hook=stand), 1)
    await stand.reached.wait()
    at_work.ring()
    await until(lambda: steer not in desk.open())
    stand.go.set()
    await working
    assert desk.result(steer) is None, "it was refused, as here already"
    assert said(list(at_work.session.entries)) == ["hi", "later", "be quick"]


async def test_what_was_wanted_while_nobody_worked_on_a_turn_is_heard_at_once(
    desk: Desk, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attending, "TICK", 3600)
    await left_open(desk, caplog)
    steer = desk.wish("steer", "be quick")
    stand = Stand()
    at_work, working = desk.begin(answering(at="request", hook=stand), 1)
    await until(lambda: steer not in desk.open())
    stand.go.set()
    await working
    assert said(list(at_work.session.entries)) == ["hi", "later", "be quick"]
    assert [e.data["turn"] for e in at_work.session.entries if e.type == "user/message"] == [1, 1, 1]


async def test_an_abort_that_cut_a_turn_off_which_goes_on_discards_nothing_later(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    await left_open(desk, caplog)
    abort, inject = desk.wish("abort", {"reason": "user"}), desk.wish("inject", "keep this")
    at_work, working = desk.begin(answering(at="request", hook=Stand()), 1)
    await working
    assert at_work.session.inbox.knows(f"w{inject}")
    assert abort not in desk.open()


async def test_an_answer_too_many_is_no_answer_to_a_later_question(desk: Desk) -> None:
    asks, stand = Reply(tool_calls=[ToolCall("add", {"a": 1, "b": 2}, id="c1")]), Stand()
    for text in ("1 + 2?", "again"):
        desk.wish("prompt", text)
    at_work, working = desk.begin(answering(asks, "three", asks, "not", at="post_tool", hook=stand), 2)
    entries = at_work.session.entries

    def asked() -> int:
        return sum(entry.type == "approval/asked" for entry in entries)

    await until(lambda: asked() == 1)
    approves = {"call_id": "c1", "answer": "approve"}
    for _ in range(2):
        desk.wish("decide", approves)
    at_work.ring()
    await stand.reached.wait()
    desk.wish("decide", approves)
    at_work.ring()
    await until(lambda: len(desk.open()) == 1)
    stand.go.set()
    await until(lambda: asked() == 2)
    desk.wish("decide", {"call_id": "c1", "answer": "refuse"})
    at_work.ring()
    await working
    assert [e.data["outcome"] for e in entries if e.type == "approval/decided"] == ["approved", "refused"]
    assert desk.open() == []


async def test_who_lost_the_session_while_reading_says_nothing_of_its_turns(desk: Desk, other: Desk) -> None:
    hook, wish = Stand(), desk.wish("prompt", "hi")
    stale = desk.attend(answering("never", at="request", hook=hook))
    desk.lose()
    _, working = other.begin(answering("done", at="request", hook=hook), 1)
    await until(lambda: desk.open() == [])
    with pytest.raises(SessionLocked):
        await desk.work(stale, 1)
    assert desk.result(wish) is None, "it is the other's to say"
    hook.go.set()
    assert (await working)["text"] == "done"
    assert desk.result(wish)["text"] == "done"


async def test_who_lost_the_session_refuses_and_discards_nothing(desk: Desk, other: Desk) -> None:
    def picky(session: Session) -> Agent:
        session.validate(lambda e: "not this" if "bad" in json.dumps(e.data, default=str) else None)
        return Agent(ScriptedModel([], default=Reply("ok")), session=session)

    for body, more in (("bad", []), ("good", [("abort", {"reason": "user"})])):
        wish = desk.wish("prompt", body)
        for kind, what in more:
            desk.wish(kind, what)
        stale = desk.attend(picky)
        desk.lose()
        other.store().release()
        with pytest.raises(SessionLocked):
            await desk.work(stale, wish)
        assert (desk.result(wish), wish in desk.open()) == (None, True)
        desk.db.beat(desk.db.key, "me", 60)


async def test_a_turn_that_took_a_prompt_says_how_it_ended_also_where_no_model_read_it(desk: Desk) -> None:
    async def block(payload: Any) -> Reject | None:
        return Reject("not today") if payload.turn.number == 1 else None

    async def fail(payload: Any) -> None:
        if payload.turn.number == 2:
            raise LookupError("no such thing")

    def make(session: Session) -> Agent:
        model = ScriptedModel([], default=Reply("ok"))
        return Agent(model, session=session, hooks={"pre_step": [block], "request": [fail]})

    wishes = [desk.wish("prompt", text) for text in ("one", "two", "three")]
    _, working = desk.begin(make, 3)
    await working
    found = [desk.result(wish) for wish in wishes]
    assert [came["turn"] for came in found] == [1, 2, 3]
    assert [came["reason"] for came in found] == ["blocked", "error", "completed"]
    assert "no such thing" in found[1]["error"]


async def test_prompts_open_a_turn_together_also_where_the_last_of_them_is_refused(desk: Desk) -> None:
    def picky(session: Session) -> Agent:
        session.validate(lambda e: "not this" if "bad" in json.dumps(e.data, default=str) else None)
        model = ScriptedModel([], default=Reply("ok"))
        return Agent(model, session=session, queues=Queues(follow_up="all"))

    wishes = [desk.wish("prompt", text) for text in ("one", "two", "bad")]
    for ticket in (1, 3):
        _, working = desk.begin(picky, ticket)
        await working
    reasons = [desk.result(wish)["reason"] for wish in wishes]
    assert reasons == ["completed", "completed", "refused"]


def said(entries: list[Entry]) -> list[str]:
    return [e.data["message"]["content"][0]["text"] for e in entries if e.type == "user/message"]


async def judged(agent: DurableAgent) -> Session:
    session = await agent.session()
    assert verify(session.entries).ok
    return session


@pytest.mark.slow
async def test_a_session_says_which_flow_it_is_used_with_once(works: Makes, dsn: str) -> None:
    works.how = lambda session: Agent(ScriptedModel([], default=Reply("ok")), session=session)
    async with DurableAgent(dsn, "flow") as agent:
        for _ in range(2):
            assert (await agent.prompt("hi")).ok
        session = await judged(agent)
    assert info(session)["flow"] == "tests"
    assert sum(entry.type == "session_info" for entry in session.entries) == 1


@pytest.mark.slow
async def test_a_script_goes_on_where_the_last_turn_ended(works: Makes, dsn: str) -> None:
    works.how = lambda session: Agent(ScriptedModel(["one", "two", "three"]), session=session)
    async with DurableAgent(dsn, "script") as agent:
        assert [(await agent.prompt("next")).text for _ in range(3)] == ["one", "two", "three"]


@pytest.mark.slow
async def test_prompts_that_wait_may_open_one_turn_together(works: Makes, dsn: str) -> None:
    began, holds = asyncio.Event(), asyncio.Event()

    async def wait(payload: Any) -> None:
        del payload
        began.set()
        await holds.wait()

    works.how = lambda session: Agent(
        ScriptedModel([], default=Reply("ok")), session=session, queues=Queues(follow_up="all"),
        hooks={"assemble": [wait]},
    )  # fmt: skip
    async with DurableAgent(dsn, "all") as agent:
        first = await agent.follow_up("one")
        await began.wait()
        wishes = [first, *[await agent.follow_up(text) for text in ("two", "three")]]
        await agent.inject("by the way")
        holds.set()
        turns = [await agent.result(wish) for wish in wishes]
        session = await judged(agent)
    assert {each.number for each in turns[1:]} == {turns[1].number}, "what waited is one turn"
    assert [text for text in said(session.entries) if text != "by the way"] == ["one", "two", "three"]


@pytest.mark.slow
async def test_a_person_approves_through_the_session(works: Makes, dsn: str) -> None:
    asks = Reply(tool_calls=[ToolCall("add", {"a": 1, "b": 2}, id="c1")])
    works.how = lambda session: Agent(
        ScriptedModel([asks, "three", asks, "not"]), tools=[add], session=session,
        permissions=Permissions(default="ask"),
    )  # fmt: skip
    async with DurableAgent(dsn, "ask") as agent:
        for answer in (agent.approve, agent.refuse):
            turn = asyncio.create_task(agent.prompt("1 + 2?"))
            while not (questions := await agent.questions()):  # noqa: ASYNC110  # they are in the database
                await asyncio.sleep(0.02)
            assert (questions[0].tool, dict(questions[0].arguments)) == ("add", {"a": 1, "b": 2})
            await answer("c1")
            assert (await turn).ok
        session = await judged(agent)
    outcomes = [e.data["outcome"] for e in session.entries if e.type == "approval/decided"]
    assert outcomes == ["approved", "refused"]


@pytest.mark.slow
async def test_a_turn_that_cannot_even_begin_says_why(works: Makes, dsn: str) -> None:
    def fails(session: Session) -> Agent:
        raise LookupError("no such model")

    works.how = fails
    async with DurableAgent(dsn, "fails") as agent:
        turn = await agent.prompt("hi")
        assert (turn.reason, turn.number) == ("error", 0)
        assert "no such model" in turn.error
        works.how = lambda session: Agent(ScriptedModel(["ok"]), session=session)
        assert (await agent.prompt("again")).ok


@pytest.mark.slow
async def test_a_turn_goes_on_whose_session_somebody_took_who_is_no_worker(works: Makes, dsn: str) -> None:
    stand = Stand()
    works.how = lambda session: Agent(
        ScriptedModel([], default=Reply("ok")), session=session, hooks={"request": [stand]}
    )
    async with DurableAgent(dsn, "taken") as agent:
        wish = await agent.follow_up("hi")
        await stand.reached.wait()
        with psycopg.connect(dsn, autocommit=True) as db:  # as a program that found the worker silent
            db.execute("UPDATE turnchart.sessions SET epoch = epoch + 1, holder = NULL WHERE id = 'taken'")
        stand.go.set()
        assert (await asyncio.wait_for(agent.result(wish), 60)).text == "ok"
        await judged(agent)


@pytest.mark.slow
async def test_what_is_refused_takes_no_other_with_it(works: Makes, dsn: str) -> None:
    def picky(session: Session) -> Agent:
        session.validate(lambda e: "not this" if "bad" in json.dumps(e.data, default=str) else None)
        return Agent(ScriptedModel([], default=Reply("ok")), session=session)

    works.how = picky
    async with DurableAgent(dsn, "picky") as agent:
        turn = await agent.prompt("bad")
        assert (turn.reason, "not this" in turn.error) == ("refused", True)
        assert (await agent.prompt("good")).ok
        assert said((await judged(agent)).entries) == ["good"]


@pytest.mark.slow
async def test_an_abort_of_a_session_at_rest_discards_what_came_before(works: Makes, dsn: str) -> None:
    works.how = lambda session: Agent(ScriptedModel([], default=Reply("ok")), session=session)
    async with DurableAgent(dsn, "rests") as agent:
        await agent.inject("forget this")
        await agent.abort()
        assert (await agent.prompt("hi")).ok
        assert said((await judged(agent)).entries) == ["hi"]


@pytest.mark.slow
async def test_chunks_reach_whoever_listens(works: Makes, dsn: str) -> None:
    works.how = lambda session: Agent(
        ScriptedModel([Reply(chunks=["one ", 0.01, "two ", 0.01, "three"])]), session=session
    )
    heard: list[dict[str, Any]] = []

    async def listen(agent: DurableAgent) -> None:
        async for piece in agent.chunks():
            heard.append(piece)
            if piece["frame"] == "end":
                return

    async with DurableAgent(dsn, "chunks") as writer, DurableAgent(dsn, "chunks") as reader:
        listening = asyncio.create_task(listen(reader))
        await asyncio.sleep(0)
        assert (await writer.prompt("count")).text == "one two three"
        await asyncio.wait_for(listening, 60)
    assert "".join(piece.get("text", "") for piece in heard) == "one two three"
    assert {piece["attempt"] for piece in heard} == {"a1.1.1"}
    numbers = [piece["n"] for piece in heard if piece["frame"] == "chunk"]
    assert numbers == list(range(len(numbers)))
