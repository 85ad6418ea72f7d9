"""I.12 of the lifecycle: compactions by hand, what hooks say of them, and the prompts behind an overflow."""

from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from tests.conformance.asking import (
    Board,
    Route,
    all_of,
    asked,
    headers,
    in_step,
    nodes,
    reloaded,
    resumed,
    said,
    since,
    systems,
)
from tests.conformance.compacting import BIG, OVERFLOW, big, check, compacting, conversation, error_of
from tests.machine.histories import Kept

from turnchart.machine import (
    Agent,
    AgentBusy,
    AppendRefused,
    Compaction,
    CompactionFailed,
    Failure,
    Reply,
    ScriptedModel,
    Session,
    State,
)
from turnchart.machine.entries import Frozen
from turnchart.machine.models import BlockEnd, BlockStart, Finish, TextDelta
from turnchart.machine.points import Compact, Summary, Veto

# -- by hand -------------------------------------------------------------------------------------------


async def test_i234_a_compaction_in_its_time_makes_the_agent_busy() -> None:
    model = ScriptedModel(["a" * 100, "b" * 100, Reply("sum", delay=3)])
    async with asked(model) as agent, anyio.create_task_group() as group:
        await agent.prompt("one")
        await agent.prompt("two")
        group.start_soon(agent.compact)
        while agent.state is not State.MAINTENANCE:
            await checkpoint()
        with pytest.raises(AgentBusy):
            await agent.compact()
        await agent.idle()
    assert len(all_of(agent.session, "compaction/start")) == 1


async def test_i234_a_start_that_a_crash_left_is_ignored() -> None:
    async with asked(ScriptedModel(["a" * 100, "b" * 100])) as agent:
        await agent.prompt("one")
        await agent.prompt("two")
        agent.session.append("compaction/start", Frozen(turn=None, trigger="manual"))
    session, model = resumed(agent.session), ScriptedModel(["sum", "c"])
    async with asked(model, session=session) as agent:
        assert (await agent.compact()).summary == "sum"
        assert (await agent.prompt("three")).ok
    check(agent, conversation(model))


@pytest.mark.parametrize("window", [1400, None])
async def test_i234_a_crash_at_any_entry_leaves_a_log_that_goes_on(window: int | None) -> None:
    """With a window under pressure in a turn, without one by hand."""
    model = ScriptedModel([BIG, "a", "sum", *["b"] * bool(window)], context_window=window)
    async with asked(model, tools=[big(8500)], compaction=Compaction(keep_last=1)) as agent:
        await agent.prompt("x")
        await (agent.prompt("y") if window else agent.compact())
    begins = all_of(agent.session, "compaction/start")[0].seq
    ends = all_of(agent.session, "compaction/end")[0].seq
    for length in range(begins + 1, ends + 2):
        session = Session(Kept(reloaded(agent.session.entries[:length])))
        again = ScriptedModel(default="short", context_window=window)
        async with asked(again, session=session, compaction=Compaction(keep_last=1)) as other:
            assert (await other.prompt("z")).ok
        check(other, conversation(again))


async def test_i235_a_compaction_by_hand_belongs_to_no_turn() -> None:
    flushed: list[int] = []

    class Flushed(Session):
        async def flush(self) -> None:
            flushed.append(len(self.entries))

    model = ScriptedModel(["a" * 100, "b" * 100, "sum", "c"])
    async with asked(model, session=Flushed()) as agent:
        await agent.prompt("one")
        await agent.prompt("two")
        before = len(agent.session.entries)
        came = await agent.compact()
        assert since(agent.session, before) == ["compaction/start", "compaction", "compaction/end"]
        assert flushed[-1] == len(agent.session.entries)
        turn = await agent.prompt("three")
    start, entry, end = agent.session.entries[before : before + 3]
    assert (start.data["turn"], end.data["turn"]) == (None, None)
    assert start.data["trigger"] == "manual"
    assert (came.summary, came.seq, came.shortened) == ("sum", entry.seq, 0)
    assert came.tokens_before > came.tokens_after > 0
    assert turn.number == 3
    assert said(model.requests[-1].messages)[1:] == ["two", "b" * 100, "three"]
    check(agent, conversation(model))


async def test_a_prompt_that_comes_meanwhile_waits_and_runs_then() -> None:
    model = ScriptedModel(["a" * 100, "b" * 100, Reply("sum", delay=3), "c"])
    async with asked(model) as agent, anyio.create_task_group() as group:
        await agent.prompt("one")
        await agent.prompt("two")
        group.start_soon(agent.compact)
        while agent.state is not State.MAINTENANCE:
            await checkpoint()
        agent.follow_up("three")
        agent.inject("by the way")
        await agent.idle()
    assert said(model.requests[-1].messages)[-2:] == ["by the way", "three"]
    check(agent, conversation(model))


async def test_nobody_moves_in_a_conversation_that_is_being_compacted() -> None:
    model = ScriptedModel(["a" * 100, "b" * 100, Reply("sum", delay=3), "c"])
    async with asked(model) as agent, anyio.create_task_group() as group:
        await agent.prompt("one")
        await agent.prompt("two")
        group.start_soon(agent.compact)
        while len(model.requests) < 3:
            await checkpoint()
        before = len(agent.session.entries)
        with pytest.raises(AppendRefused, match="is being compacted; move when that is over"):
            agent.session.navigate(0)
        assert len(agent.session.entries) == before
        await agent.idle()
        agent.session.navigate(agent.session.leaf)
        assert (await agent.prompt("three")).ok
    assert len(all_of(agent.session, "compaction")) == 1
    check(agent, conversation(model))


async def test_what_is_written_while_a_compaction_runs_is_named_as_kept() -> None:
    model = ScriptedModel(["a" * 100, Reply("sum", delay=3), "b"])
    async with (
        asked(model, compaction=Compaction(keep_last=0)) as agent,
        anyio.create_task_group() as group,
    ):
        await agent.prompt("one")
        group.start_soon(agent.compact)
        while len(model.requests) < 2:
            await checkpoint()
        agent.session.append_custom_message("note", "by the way")
        await agent.idle()
        assert (await agent.prompt("two")).ok
    [entry] = all_of(agent.session, "compaction")
    [written] = [each.seq for each in all_of(agent.session, "custom_message")]
    assert (entry.data["first_kept"], entry.data["retained_tail"]) == (written, (written,))
    assert said(model.requests[-1].messages)[1:] == ["by the way", "two"]
    check(agent, conversation(model))


async def test_g093_an_abort_cuts_a_compaction_off_and_leaves_the_conversation_as_it_was() -> None:
    model = ScriptedModel(["a" * 100, "b" * 100, Reply("sum", delay=100), "c"])
    failed: list[CompactionFailed] = []

    async def compact() -> None:
        with pytest.raises(CompactionFailed) as caught:
            await agent.compact()
        failed.append(caught.value)

    async with asked(model) as agent:
        await agent.prompt("one")
        await agent.prompt("two")
        before = list(agent.session.context())
        async with anyio.create_task_group() as group:
            group.start_soon(compact)
            while len(model.requests) < 3:
                await checkpoint()
            agent.abort("enough")
        assert list(agent.session.context()) == before
        assert (await agent.prompt("three")).ok
    assert (failed[0].code, str(failed[0])) == ("aborted", "the compaction was cut off (enough)")
    assert error_of(agent.session) == "aborted"
    check(agent, conversation(model))


async def test_leaving_the_agent_cuts_a_compaction_off() -> None:
    model = ScriptedModel(["a" * 100, "b" * 100, Reply("sum", delay=100)])

    async def compact(agent: Agent) -> None:
        with pytest.raises(CompactionFailed, match="disposed"):
            await agent.compact()

    async with anyio.create_task_group() as group, asked(model) as agent:
        await agent.prompt("one")
        await agent.prompt("two")
        group.start_soon(compact, agent)
        while len(model.requests) < 3:
            await checkpoint()
        await agent.__aexit__(None, None, None)
    assert error_of(agent.session) == "aborted"


# -- a later system message ----------------------------------------------------------------------------


class Overflows(Route):
    """A capable route whose last stream overflows once."""

    def open(self, request: Any) -> AsyncIterator[Any]:
        """Return the summary for a request of a session of its own, else the next stream."""
        if "." in request.session:
            return self.play(request, [BlockStart("text"), TextDelta("sum"), BlockEnd(), Finish("stop")])
        return super().open(request)


LONG = (BlockStart("text"), TextDelta("x" * 200), BlockEnd(), Finish("stop"))
OVERFLOWS = (Finish("error", OVERFLOW),)


async def overflown(*texts: str, fails: int = 0, keep: bool = False) -> tuple[Agent, Overflows]:
    """Run a turn with each prompt; the request of the last one overflows, and its retries fail so often."""
    board = Board()
    failed = (Finish("error", Failure("timeout")),)
    route = Overflows(
        *[LONG] * (len(texts) - 1), OVERFLOWS, *[failed] * fails, LONG, capabilities=("system_prompt_update",)
    )
    async with asked(route, hooks={"assemble": [board]}) as agent:
        for text in texts:
            board.text = text
            await agent.prompt("x")
    check(agent, [request for request in route.requests if "." not in request.session])
    return agent, route


async def test_i089_an_overflow_over_a_later_node_brings_no_older_prompt_back() -> None:
    agent, route = await overflown("one", "two", "two")
    assert systems(agent.session) == [("one", False), ("two", False), ("two", True)]
    assert nodes(agent.session) == ["two"]
    assert route.requests[-1].system == "two"
    assert said(route.requests[-1].messages)[1:] == ["x"]


async def test_i090_an_overflow_that_leaves_a_later_node_empties_it() -> None:
    agent, route = await overflown("one", "one", "two")
    assert systems(agent.session) == [("one", False), ("two", False), ("", True), ("two", True)]
    last = in_step(agent.session, 3)
    assert last.index("compaction/end") < len(last) - 1 - last[::-1].index("system/message")
    assert last.count("user/message") == 1
    assert route.requests[-1].system == "two"
    assert said(route.requests[-1].messages)[1:] == ["x"]


async def test_i091_retries_after_an_overflow_write_one_series_header() -> None:
    agent, _ = await overflown("one", "one", "one", fails=2)
    assert headers(agent.session) == ["initial", "series"]
    assert len(all_of(agent.session, "assistant/attempt")) == 3


async def test_i068_facts_that_an_overflow_shadowed_are_told_again_by_the_next_step() -> None:
    board = Board(date="today")
    model = ScriptedModel(["a" * 100, "b" * 100, OVERFLOW, "sum", "c", "d"])
    async with asked(model, hooks={"assemble": [board]}) as agent:
        for text in ("one", "two", "three", "four"):
            await agent.prompt(text)
    assert said(model.requests[-1].messages)[-2:] == ["four", "date: today"]


# -- hooks ---------------------------------------------------------------------------------------------


async def test_a_hook_may_veto_a_compaction() -> None:
    asked_for: list[Compact] = []

    def veto(payload: Compact) -> Veto:
        asked_for.append(payload)
        return Veto("not now")

    model = ScriptedModel(["a" * 400, "b" * 400, "c"], context_window=250)
    async with asked(model, hooks={"compact": [veto]}) as agent:
        for text in ("one", "two", "three"):
            assert (await agent.prompt(text)).ok
        with pytest.raises(CompactionFailed, match="vetoed the compaction: not now") as caught:
            await agent.compact()
    assert caught.value.code == "vetoed"
    assert compacting(agent.session) == []
    first, by_hand = asked_for
    assert (first.trigger, by_hand.trigger) == ("threshold", "manual")
    users = all_of(agent.session, "user/message")
    assert first.range[0] == users[0].seq
    assert first.tokens > 200
    assert [entry.data["decision"] for entry in all_of(agent.session, "hook/result")] == ["veto", "veto"]


async def test_a_hook_may_write_the_summary() -> None:
    model = ScriptedModel(["a" * 400, "b" * 400, "c"], context_window=250)
    async with asked(model, hooks={"compact": [lambda payload: Summary("in short")]}) as agent:
        for text in ("one", "two", "three"):
            await agent.prompt(text)
    (entry,) = all_of(agent.session, "compaction")
    assert (entry.data["summary"], entry.data["from_hook"]) == ("in short", True)
    assert "in short" in said(model.requests[-1].messages)[0]
    check(agent, conversation(model))


async def test_a_hook_that_fails_is_reported_and_compaction_goes_on() -> None:
    def broken(payload: Compact) -> None:
        raise ValueError("no")

    model = ScriptedModel(["a" * 400, "b" * 400, "sum", "c"], context_window=250)
    async with asked(model, hooks={"compact": [broken]}) as agent:
        for text in ("one", "two", "three"):
            assert (await agent.prompt(text)).ok
    assert "ValueError: no" in all_of(agent.session, "hook/result")[0].data["error"]
    assert len(all_of(agent.session, "compaction")) == 1


async def test_dropping_the_oldest_asks_no_model_and_says_that_something_is_missing() -> None:
    model = ScriptedModel(["a" * 400, "b" * 400, "c"], context_window=250)
    async with asked(model, compaction=Compaction("drop_oldest", keep_last=1)) as agent:
        for text in ("one", "two", "three"):
            await agent.prompt(text)
    shown = said(model.requests[-1].messages)
    assert shown == [
        "The earlier part of this conversation was left out to make room for what follows.",
        "two", "b" * 400, "three",
    ]  # fmt: skip
    check(agent, conversation(model))


async def test_a_validator_that_refuses_the_entry_leaves_the_conversation_and_the_turn_goes_on() -> None:
    model = ScriptedModel(["a" * 400, "b" * 400, "sum", "c"], context_window=250)
    async with asked(model) as agent:
        agent.session.validate(lambda entry: "no" if entry.type == "compaction" else None)
        for text in ("one", "two", "three"):
            assert (await agent.prompt(text)).ok
    assert error_of(agent.session) == "the entry `compaction` was refused: no"
    check(agent, conversation(model))


async def test_an_unknown_window_is_told_once_where_somebody_asked_for_compaction() -> None:
    told: list[str] = []
    for given in (None, Compaction()):
        async with asked(ScriptedModel(default="ok"), compaction=given) as agent:
            agent.on("notice", lambda signal, _: told.append(signal.data["text"]))
            await agent.prompt("x")
            await agent.prompt("y")
    (text,) = told
    assert text.startswith("the context window of model 'test' is unknown")


async def test_the_window_that_the_agent_is_given_counts_for_its_own_model() -> None:
    async with asked(ScriptedModel(["a"]), context_window=1234) as agent:
        await agent.prompt("x")
    assert all_of(agent.session, "request/context")[0].data["context_window"] == 1234
