"""Moving a conversation: where it goes on, the text that comes back, the summary of what is left (data-flow D, F)."""

from collections.abc import Sequence
from typing import Any

import anyio
import pytest
from tests.conformance.places import texts
from tests.machine.drive import calls, scripted
from tests.machine.histories import Kept

from turnchart.machine import (
    Agent,
    AgentBusy,
    AppendRefused,
    Entry,
    Failure,
    Reply,
    RequestFailed,
    RetryPolicy,
    ScriptedModel,
    Session,
    State,
)
from turnchart.machine.entries import decode
from turnchart.machine.errors import SessionError
from turnchart.machine.rebuild import rebuild
from turnchart.testing import FakeClock

SUMMARY = Reply("We tried A.", usage={"input": 30, "output": 4})


def first(session: Session, type: str) -> int:
    return next(entry.seq for entry in session.entries if entry.type == type)


def last(session: Session, type: str) -> int:
    return next(entry.seq for entry in reversed(session.entries) if entry.type == type)


def script(agent: Agent) -> ScriptedModel:
    assert isinstance(agent.model, ScriptedModel)
    return agent.model


def asked(agent: Agent) -> Sequence[Any]:
    return script(agent).requests


async def test_g146_from_the_message_of_a_user_the_conversation_goes_on_before_it() -> None:
    async with scripted(["one", "two", "three"]) as agent:
        session = agent.session
        await agent.prompt("x")
        await agent.prompt("y")
        entries = len(session.entries)
        assert await agent.navigate(session.leaf) == (session.leaf, "", None, False)
        assert len(session.entries) == entries
        second = last(session, "user/message")
        moved = await agent.navigate(second)
        assert (moved.leaf, moved.text) == (session.entries[second].parent, "y")
        assert texts(session) == ["x", "one"]
        answered = first(session, "assistant/message")
        assert await agent.navigate(answered) == (answered, "", None, False)
        await agent.prompt("z")
        assert texts(session) == ["x", "one", "z", "three"]
        with pytest.raises(IndexError, match="there is no entry 999"):
            await agent.navigate(999)


async def test_g146_a_session_that_was_opened_again_is_moved_in_as_before() -> None:
    """Every place of one, with the text that comes back, the labels and the summary."""
    replies: list[Reply | str] = [calls(("add", {"a": 1, "b": 2})), "one", "two"]
    async with scripted(replies) as agent:
        await agent.prompt("x")
        agent.session.append_custom_message("note", "by the way")
        await agent.prompt("y")
    moves: list[list[object]] = []
    lines = [entry.line() for entry in agent.session.entries]
    for again in (False, True):
        made: list[object] = []
        entries = [Entry.of(decode(line)) for line in lines] if again else agent.session.entries
        for place in range(len(lines)):
            async with scripted([SUMMARY], session=Session(Kept(entries))) as other:
                moved = await other.navigate(place, summarize=True, label="here")
                made.append((moved.leaf, moved.text, texts(other.session), other.session.labels()))
                script(other).drop()  # from where nothing is left, no summary is asked for
        moves.append(made)
    assert moves[0] == moves[1]


async def test_g146_before_a_message_at_the_root_there_is_nothing() -> None:
    async with scripted(["one"]) as agent:
        agent.append_message("noted")
        agent.append_message("more")
        moved = await agent.navigate(0)
        assert (moved.leaf, moved.text) == (None, "noted")
        await agent.prompt("x")
        assert texts(agent.session) == ["x", "one"]
        assert (await agent.navigate(None)).leaf is None


async def test_g147_a_summary_follows_the_place_and_takes_the_label() -> None:
    async with scripted(["one", "two", SUMMARY, "three"]) as agent:
        session = agent.session
        await agent.prompt("x")
        await agent.prompt("y")
        left, answered = session.leaf, first(session, "assistant/message")
        moved = await agent.navigate(answered, summarize=True, label="tried A")
        summary = moved.summary
        assert summary is not None
        assert (summary.type, summary.parent, summary.data["from"]) == ("branch_summary", answered, left)
        assert session.labels() == {summary.seq: "tried A"}
        assert moved.leaf == session.leaf
        await agent.prompt("z")
        shown = texts(session)
        assert (shown[:2], shown[3:]) == (["x", "one"], ["z", "three"])
        assert "We tried A." in shown[2]
        header = [entry.data for entry in session.entries if entry.type == "request/header"][-1]
        assert header["reason"] == "series"
        assert [each.text for each in list(rebuild(session.entries))[-1].messages] == shown[:-1]


async def test_g147_only_what_is_left_is_summed_up() -> None:
    replies: list[Reply | str] = [calls(("add", {"a": 1, "b": 2})), "one", "two", SUMMARY]
    async with scripted(replies) as agent:
        await agent.prompt("x")
        await agent.prompt("y")
        await agent.navigate(last(agent.session, "user/message"), summarize=True, instructions="the tests")
        [said] = asked(agent)[-1].messages
        conversation, _, asks = said.text.partition("</conversation>")
        assert "[User]: y\n\n[Assistant]: two" in conversation
        assert "one" not in conversation
        assert asks.endswith("Additional focus: the tests")
        assert (asked(agent)[-1].tools, asked(agent)[-1].settings) == ((), {"max_tokens": 2048})


async def test_g147_a_summary_at_the_root_is_a_root() -> None:
    async with scripted(["one", SUMMARY]) as agent:
        agent.append_message("noted")
        await agent.prompt("x")
        moved = await agent.navigate(0, True, instructions="Say it in one line.", replace_instructions=True)
        assert moved.summary is not None
        assert (moved.summary.parent, moved.text) == (None, "noted")
        assert asked(agent)[-1].messages[0].text.endswith("</conversation>\n\nSay it in one line.")


async def test_g147_without_a_summary_the_label_lands_on_the_place() -> None:
    async with scripted(["one"]) as agent:
        await agent.prompt("x")
        session = agent.session
        answered = first(session, "assistant/message")
        moved = await agent.navigate(answered, label="here")
        assert session.labels() == {answered: "here"}
        assert (moved.leaf, moved.summary) == (session.leaf, None)


async def test_g147_an_abort_while_it_is_summed_up_moves_nothing() -> None:
    for replies, wait in (([Reply("late", delay=5)], 1.0), ([Failure("overloaded", retry_after=9)], 4.0)):
        clock = FakeClock()
        async with scripted(["one", *replies], clock=clock) as agent:
            await agent.prompt("x")
            session = agent.session
            before = (session.leaf, list(session.entries))
            found: list[Any] = []

            async def move(agent: Agent = agent, found: list[Any] = found) -> None:
                found.append(await agent.navigate(first(agent.session, "user/message"), summarize=True))

            async with anyio.create_task_group() as group:
                group.start_soon(move)
                await clock.sleep(wait)
                assert agent.state is State.MAINTENANCE
                with pytest.raises(AgentBusy):
                    await agent.navigate(0)
                agent.abort()
            assert found == [(before[0], "", None, True)]
            assert (session.leaf, session.entries) == before


async def test_g143_what_a_summary_took_and_who_wrote_it_is_in_the_log() -> None:
    async with scripted(["one", SUMMARY]) as agent:
        await agent.prompt("x")
        moved = await agent.navigate(first(agent.session, "user/message"), summarize=True)
        assert moved.summary is not None
        data = moved.summary.data
        assert (data["usage"], data["model"]) == ({"input": 30, "output": 4}, "test")
        assert agent.session.statistics().total == 34
        moved = await agent.navigate(last(agent.session, "turn/end"), summary="by hand")
        assert moved.summary is not None
        assert moved.summary.data == {"summary": "by hand", "from": moved.summary.data["from"]}


async def test_a_summary_that_fails_is_tried_again_and_moves_nothing_in_the_end() -> None:
    async with scripted(
        ["one", Failure("overloaded"), SUMMARY, Failure("auth", message="no key"), " "]
    ) as agent:
        session = agent.session
        await agent.prompt("x")
        assert (await agent.navigate(first(session, "user/message"), summarize=True)).summary is not None
        session.navigate(last(session, "turn/end"))
        before = (session.leaf, len(session.entries))
        for what in (r"\(auth\): no key; the branch was not summarised", "the model wrote no summary"):
            with pytest.raises(RequestFailed, match=what):
                await agent.navigate(first(session, "user/message"), summarize=True)
        assert (session.leaf, len(session.entries)) == before


async def test_where_nothing_was_said_no_model_is_asked() -> None:
    async with scripted(["one"]) as agent:
        await agent.prompt("x")
        answered = first(agent.session, "assistant/message")
        moved = await agent.navigate(answered, summarize=True)
        assert (moved.leaf, moved.summary) == (answered, None)


async def test_a_prompt_that_comes_meanwhile_runs_after_the_move() -> None:
    clock = FakeClock()
    async with scripted(["one", Reply("We tried A.", delay=2), "two"], clock=clock) as agent:
        await agent.prompt("x")

        async def move() -> None:
            await agent.session.navigate(None, summarize=True)

        async with anyio.create_task_group() as group:
            group.start_soon(move)
            await clock.sleep(1)
            agent.follow_up("y")
            assert agent.state is State.MAINTENANCE
        await agent.idle()
        assert [each.partition("\n")[0] for each in texts(agent.session)][1:] == ["y", "two"]


async def test_without_an_agent_a_session_moves_with_a_summary_that_is_given() -> None:
    session = Session(Kept())
    session.append_custom("mine", 1)
    session.append_custom("mine", 2)
    moved = session.navigate(0, summary="We tried A.")
    assert (moved.type, moved.parent, moved.data) == (
        "branch_summary",
        0,
        {"summary": "We tried A.", "from": 1},
    )
    with pytest.raises(SessionError, match="no agent writes this session"):
        await session.navigate(0, summarize=True)

    def no_summaries(entry: Entry) -> str | None:
        return "not here" if entry.type == "branch_summary" else None

    session.validate(no_summaries)
    with pytest.raises(AppendRefused, match="not here"):
        session.navigate(1, summary="again")
    assert session.leaf == moved.seq


async def test_retries_of_a_summary_end_with_the_policy() -> None:
    policy = RetryPolicy(max_attempts=2)
    async with scripted(["one", Failure("overloaded"), Failure("overloaded")], retry=policy) as agent:
        await agent.prompt("x")
        with pytest.raises(RequestFailed, match="overloaded"):
            await agent.navigate(first(agent.session, "user/message"), summarize=True)
        assert len(asked(agent)) == 3
