"""I.12 of the lifecycle: when a conversation is made shorter, what the log says of it, and what it must not."""

from typing import Any

import pytest
from tests.conformance.asking import (
    Board,
    all_of,
    asked,
    headers,
    in_step,
    nodes,
    said,
    since,
)
from tests.conformance.compacting import (
    BIG,
    OVERFLOW,
    big,
    check,
    compacting,
    conversation,
    error_of,
    summary_of,
)
from tests.machine.drive import calls

from turnchart.machine import (
    Agent,
    Compaction,
    CompactionFailed,
    Entry,
    Failure,
    Reply,
    ScriptedModel,
    UserMessage,
)
from turnchart.machine.entries import Frozen
from turnchart.machine.scripted import Scripted

# -- pressure ------------------------------------------------------------------------------------------


async def test_i219_below_the_threshold_nothing_happens() -> None:
    model = ScriptedModel([BIG, "a", "b"], context_window=10_000)
    async with asked(model, tools=[big(9000)]) as agent:
        await agent.prompt("x")
        await agent.prompt("y")
    assert compacting(agent.session) == []


async def test_i220_where_shortening_a_result_is_enough_nothing_is_summarised() -> None:
    model = ScriptedModel([BIG, "a", "b"], context_window=4000)
    async with asked(model, tools=[big(13_000)]) as agent:
        await agent.prompt("x")
        before = len(agent.session.entries)
        await agent.prompt("y")
    assert since(agent.session, before)[3:8] == [
        "compaction/start", "compaction/prune", "tool/result", "compaction/end", "step/start",
    ]  # fmt: skip
    prune, result = all_of(agent.session, "compaction/prune", "tool/result")[-2:]
    text = result.data["message"].text
    assert text == "r" * 4096 + "\n[7880 characters left out]\n" + "r" * 1024
    assert prune.data["chars"] == 13_000 - len(text)
    first = all_of(agent.session, "tool/result")[0]
    assert (result.replaces, result.sources) == ((first.seq, first.seq), (first.seq,))
    assert headers(agent.session) == ["initial", "series"]
    check(agent, conversation(model))


async def test_i221_where_it_is_not_the_shortened_conversation_is_summarised() -> None:
    model = ScriptedModel([BIG, "a", "sum", "b"], context_window=1400)
    async with asked(model, tools=[big(8500)], compaction=Compaction(keep_last=1)) as agent:
        await agent.prompt("x")
        await agent.prompt("y")
        assert compacting(agent.session) == [
            "compaction/start", "compaction/prune", "tool/result", "compaction", "compaction/end",
        ]  # fmt: skip
    assert "characters truncated" in model.requests[-2].messages[0].text
    check(agent, conversation(model))


async def test_a_turn_that_is_too_long_is_cut_behind_an_answer() -> None:
    """One turn of many steps: its beginning is summarised, and what it was asked for is part of that."""
    model = ScriptedModel(
        [calls(("big", {})), calls(("big", {})), calls(("big", {})), "the beginning", "done"],
        context_window=1300,
    )
    async with asked(model, tools=[big(1500)]) as agent:
        turn = await agent.prompt("do it")
    assert turn.text == "done"
    (entry,) = all_of(agent.session, "compaction")
    assert "[User]: do it" in model.requests[3].messages[0].text
    assert "## Original Request" in model.requests[3].messages[0].text
    assert entry.data["summary"] == "## The beginning of the turn that goes on\n\nthe beginning"
    roles = [message.role for message in model.requests[4].messages]
    assert roles == ["user", "assistant", "tool_result"]
    check(agent, conversation(model))


async def test_the_last_turns_stay_word_for_word() -> None:
    model = ScriptedModel(["a" * 600, "b" * 200, "c" * 200, "sum", "d"], context_window=300)
    async with asked(model) as agent:
        for text in ("one", "two", "three", "four"):
            await agent.prompt(text)
    shown = said(model.requests[-1].messages)
    assert shown[1:] == ["two", "b" * 200, "three", "c" * 200, "four"]
    assert "sum" in shown[0]
    (entry,) = all_of(agent.session, "compaction")
    assert entry.data["retained_tail"] == tuple(node.seq for node in agent.session.view.nodes[1:5])
    assert entry.data["first_kept"] == entry.data["retained_tail"][0]


@pytest.mark.parametrize(("settings", "compacts"), [({}, False), ({"max_tokens": 100}, True)])
async def test_the_tokens_of_the_answer_are_no_room_for_a_request(
    settings: dict[str, Any], compacts: bool
) -> None:
    model = ScriptedModel(["a" * 400, "b" * 400], default="d", context_window=330)
    async with asked(model, settings=settings, compaction=Compaction(keep_last=1)) as agent:
        await agent.prompt("one")
        await agent.prompt("two")
        await agent.prompt("three")
    assert bool(compacting(agent.session)) is compacts


async def test_what_a_provider_counted_goes_before_characters() -> None:
    counted = Reply("a", usage={"input": 700, "output": 100, "cache_read": 50})
    model = ScriptedModel(["a" * 100, counted, "sum", "b"], context_window=1000)
    async with asked(model, compaction=Compaction(keep_last=1)) as agent:
        await agent.prompt("one" * 30)
        await agent.prompt("two")
        await agent.prompt("three")
    assert all_of(agent.session, "compaction")[0].data["tokens_before"] == 850 + 2
    check(agent, conversation(model))


async def test_what_was_counted_before_a_compaction_counts_no_more() -> None:
    big_usage = {"input": 900, "output": 10}
    model = ScriptedModel(["a" * 400, Reply("b", usage=big_usage), "sum", "c", "d"], context_window=1000)
    async with asked(model, compaction=Compaction(keep_last=1)) as agent:
        for text in ("one", "two", "three", "four"):
            await agent.prompt(text)
    assert len(all_of(agent.session, "compaction")) == 1


async def test_i236_pressure_is_measured_against_the_model_that_was_asked_last() -> None:
    small = ScriptedModel(["x" * 400, "sum", "y"], id="a:small", context_window=300)
    large = ScriptedModel(["x" * 400] * 3, id="a:large", context_window=100_000)
    async with asked(large, models={"a:small": small}, compaction=Compaction(keep_last=1)) as agent:
        for text in ("one", "two", "three"):
            await agent.prompt(text)
        agent.set_model("a:small")
        await agent.prompt("four")
        assert compacting(agent.session) == []  # the log knows the window of the large one only
        await agent.prompt("five")
    assert summary_of(agent.session) == "sum"
    small.check()


async def test_a_summary_that_cannot_be_written_is_told_and_the_turn_goes_on() -> None:
    told: list[str] = []
    model = ScriptedModel(["a" * 400, "b" * 400, Failure("auth", message="no key"), "c"], context_window=200)
    async with asked(model, compaction=Compaction(keep_last=1)) as agent:
        agent.on("notice", lambda signal, _: told.append(signal.data["text"]))
        for text in ("one", "two"):
            await agent.prompt(text)
        assert (await agent.prompt("three")).ok
    failed = "no summary could be written: model request failed (auth): no key"
    assert error_of(agent.session) == failed
    assert told == [f"the conversation could not be compacted: {failed}"]
    assert all_of(agent.session, "compaction") == []
    check(agent, conversation(model))


async def test_facts_that_were_compacted_away_are_told_again_with_the_step() -> None:
    board = Board(date="today")
    model = ScriptedModel(["a" * 400, "b" * 400, "sum", "c", "d"], context_window=250)
    async with asked(model, hooks={"assemble": [board]}, compaction=Compaction(keep_last=1)) as agent:
        for text in ("one", "two", "three", "four"):
            await agent.prompt(text)
    assert said(conversation(model)[2].messages)[-2:] == ["three", "date: today"]
    assert said(conversation(model)[3].messages)[-1] == "four"
    check(agent, conversation(model))


# -- overflow ------------------------------------------------------------------------------------------


async def test_i223_after_an_overflow_the_same_step_is_tried_again_and_users_are_not_repeated() -> None:
    model = ScriptedModel(["a" * 100, "b" * 100, OVERFLOW, "sum", "c"])
    async with asked(model) as agent:
        await agent.prompt("one")
        await agent.prompt("two")
        turn = await agent.prompt("three")
    assert (turn.text, turn.steps) == ("c", 1)
    assert in_step(agent.session, 3) == [
        "user/message", "assistant/attempt", "compaction/start", "compaction", "compaction/end", "llm/retry",
        "llm/retry-started", "request/header", "assistant/message",
    ]  # fmt: skip
    assert said(model.requests[-1].messages)[1:] == ["three"]  # none of the last turns but the running one
    assert all_of(agent.session, "llm/retry")[0].data["by"] == "compaction"
    assert headers(agent.session) == ["initial", "series"]
    check(agent, conversation(model))


async def test_a_result_that_made_a_request_overflow_is_shortened() -> None:
    model = ScriptedModel([BIG, OVERFLOW, "c"], context_window=100_000)
    async with asked(model, tools=[big(500_000)]) as agent:
        turn = await agent.prompt("x")
    assert turn.ok
    assert compacting(agent.session) == [
        "compaction/start",
        "compaction/prune",
        "tool/result",
        "compaction/end",
    ]
    check(agent, conversation(model))


async def test_a_retry_is_allowed_where_only_the_summary_failed() -> None:
    """The results were shortened, so the request is another one."""
    model = ScriptedModel(["a" * 100, BIG, OVERFLOW, Failure("auth"), "c"])
    async with asked(model, tools=[big(50_000)]) as agent:
        await agent.prompt("x")
        turn = await agent.prompt("y")
    assert turn.text == "c"
    assert "no summary could be written" in error_of(agent.session)


async def test_a_second_overflow_of_a_step_fails() -> None:
    model = ScriptedModel(["a" * 100, "b" * 100, OVERFLOW, "sum", OVERFLOW])
    async with asked(model) as agent:
        await agent.prompt("one")
        await agent.prompt("two")
        turn = await agent.prompt("three")
    assert turn.reason == "error"
    assert agent.session.entries[-1].data["error"]["kind"] == "context_window"
    assert len(all_of(agent.session, "compaction")) == 1
    check(agent, conversation(model))


@pytest.mark.parametrize("trigger", ["overflow", "threshold"])
async def test_i225_an_abort_while_a_summary_is_written_ends_the_turn(trigger: str) -> None:
    overflows = trigger == "overflow"
    fails: list[Scripted] = [OVERFLOW] if overflows else []
    model = ScriptedModel(
        ["a" * 400, "b" * 400, *fails, Reply("sum", delay=9)], context_window=None if overflows else 250
    )
    async with asked(model) as agent:
        await agent.prompt("one")
        await agent.prompt("two")
        context = list(agent.session.context())
        agent.on("session/event", lambda signal, _: abort_at(agent, signal.data["entry"]))
        agent.follow_up("three")
        await agent.idle()
    last = agent.session.entries[-1].data
    assert (last["reason"], last["cause"]) == ("aborted", "me")
    assert error_of(agent.session) == "aborted"
    assert list(agent.session.context())[: len(context)] == context
    check(agent, conversation(model))


def abort_at(agent: Agent, entry: Entry) -> None:
    if entry.type == "compaction/start":
        agent.abort("me")


async def test_i226_where_nothing_can_be_compacted_the_failure_stays_and_the_fallback_is_asked_once() -> None:
    model, other = ScriptedModel([OVERFLOW]), ScriptedModel([OVERFLOW], id="a:other")
    async with asked(model, models={"a:other": other}, fallback=["a:other"]) as agent:
        turn = await agent.prompt("x")
    assert turn.reason == "error"
    assert compacting(agent.session) == []
    assert agent.session.entries[-1].data["error"]["kind"] == "context_window"
    assert [entry.data["by"] for entry in all_of(agent.session, "llm/retry")] == ["fallback"]


@pytest.mark.parametrize("kind", ["auth", "timeout", "refused"])
async def test_i229_other_failures_compact_nothing(kind: Any) -> None:
    model = ScriptedModel(["a" * 100, "b" * 100, *[Failure(kind)] * 5])
    async with asked(model) as agent:
        for text in ("one", "two", "three"):
            await agent.prompt(text)
        model.drop()
    assert compacting(agent.session) == []


@pytest.mark.parametrize("strategy", ["none"])
async def test_without_a_strategy_nothing_is_compacted(strategy: Any) -> None:
    model = ScriptedModel(["a" * 400, "b" * 400, OVERFLOW], context_window=200)
    async with asked(model, compaction=Compaction(strategy)) as agent:
        for text in ("one", "two", "three"):
            turn = await agent.prompt(text)
        with pytest.raises(CompactionFailed, match="strategy is none") as caught:
            await agent.compact()
    assert turn.reason == "error"
    assert caught.value.code == "off"
    assert compacting(agent.session) == []


# -- what is cut, and what is refused ------------------------------------------------------------------


async def test_i230_a_cut_never_parts_a_call_from_its_result() -> None:
    two = calls(("big", {}), ("big", {}))
    model = ScriptedModel([two, two, "sum", "done"], context_window=1400)
    async with asked(model, tools=[big(1500)]) as agent:
        await agent.prompt("x")
    shown = conversation(model)[-1].messages
    assert [message.role for message in shown] == ["user", "assistant", "tool_result", "tool_result"]


async def test_i230_a_lone_pair_is_left_alone() -> None:
    model = ScriptedModel([BIG, OVERFLOW])
    async with asked(model, tools=[big(500)]) as agent:
        turn = await agent.prompt("x")
    assert turn.reason == "error"
    assert compacting(agent.session) == []


async def test_i231_a_conversation_that_changes_meanwhile_is_not_replaced() -> None:
    model = ScriptedModel(["a" * 400, "b" * 400, Reply("sum", delay=2), "c"], context_window=250)
    async with asked(model, checked=False) as agent:
        await agent.prompt("one")
        await agent.prompt("two")
        agent.on("session/event", lambda signal, _: _say_more(agent, signal.data["entry"], "user/message"))
        turn = await agent.prompt("three")
    assert turn.ok
    assert error_of(agent.session) == "the conversation changed while it was summarised"
    assert all_of(agent.session, "compaction") == []


async def test_i231_what_is_only_logged_does_not_matter() -> None:
    model = ScriptedModel(["a" * 400, "b" * 400, Reply("sum", delay=2), "c"], context_window=250)
    async with asked(model, checked=False) as agent:
        await agent.prompt("one")
        await agent.prompt("two")
        agent.on("session/event", lambda signal, _: _say_more(agent, signal.data["entry"], "custom"))
        await agent.prompt("three")
    assert summary_of(agent.session).endswith("sum")


def _say_more(agent: Agent, entry: Entry, type: str) -> None:
    if entry.type == "compaction/start":
        data = Frozen(kind="k", data=1) if type == "custom" else Frozen(message=UserMessage("by the way"))
        agent.session.append(type, data)


async def test_i232_a_summary_that_is_not_shorter_is_refused() -> None:
    model = ScriptedModel(["a" * 400, "b" * 400, "s" * 2000, "c"], context_window=250)
    async with asked(model) as agent:
        for text in ("one", "two"):
            await agent.prompt(text)
        before = list(agent.session.context())
        await agent.prompt("three")
    assert "not shorter" in error_of(agent.session)
    assert list(agent.session.context())[: len(before)] == before
    check(agent, conversation(model))


async def test_i233_the_prompt_at_the_head_is_never_replaced() -> None:
    model = ScriptedModel(["a" * 100, "b" * 100, "sum"])
    async with asked(model, prompt="Be brief.") as agent:
        await agent.prompt("one")
        await agent.prompt("two")
        await agent.compact()
    (head,) = all_of(agent.session, "system/message")
    (entry,) = all_of(agent.session, "compaction")
    assert entry.replaces is not None
    assert head.seq < entry.replaces[0]
    assert head.seq not in (entry.sources or ())
    assert nodes(agent.session) == ["Be brief."]
