"""G of the data flow: the context behind a compaction, the summaries, and that nothing of either is ever lost."""

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import anyio
import pytest
from tests.conformance.asking import all_of, asked, said
from tests.conformance.compacting import BIG, OVERFLOW, big, check, compacting, conversation
from tests.machine.drive import calls

from turnchart.machine import (
    AssistantMessage,
    Compaction,
    CompactionFailed,
    Entry,
    Failure,
    Message,
    Reply,
    ScriptedModel,
    Session,
    UserMessage,
    tool,
)
from turnchart.machine.entries import Frozen
from turnchart.machine.points import Summary

pytestmark = pytest.mark.anyio


def imported(*messages: Message) -> Session:
    """A conversation of another system: its entries stand outside of turns."""
    session = Session()
    session.copy(
        Entry(i, i - 1 if i else None, f"{each.role}/message", 0.0, Frozen(message=each), foreign_id=f"e{i}")
        for i, each in enumerate(messages)
    )
    return session


ONE = (
    UserMessage("one"),
    AssistantMessage("1", model="m"),
    UserMessage("two"),
    AssistantMessage("2", model="m"),
)


def roles(messages: Iterable[Message]) -> list[str]:
    return [message.role for message in messages]


# -- the context ---------------------------------------------------------------------------------------


def test_g105_a_tail_that_the_entry_brings_along_stands_behind_its_summary() -> None:
    session = imported(*ONE)
    tail = (UserMessage("two"), AssistantMessage("2", model="m"))
    session.append(
        "compaction", Frozen(summary="so far", first_kept=None, retained_tail=tail, tokens_before=9)
    )
    session.append("user/message", Frozen(message=UserMessage("three")))
    assert roles(session.context()) == ["user", "user", "assistant", "user"]
    assert "so far" in session.context()[0].text
    assert said(session.context())[1:] == ["two", "2", "three"]


def test_g106_an_entry_that_only_names_its_first_kept_shows_the_same() -> None:
    session = imported(*ONE)
    session.append("compaction", Frozen(summary="so far", first_kept=2, tokens_before=9))
    session.append("user/message", Frozen(message=UserMessage("three")))
    assert said(session.context())[1:] == ["two", "2", "three"]
    assert "so far" in session.context()[0].text
    again = imported(*ONE)
    again.append("compaction", Frozen(summary="so far", first_kept=2), replaces=(0, 1), sources=(0, 1))
    assert said(again.context())[1:] == ["two", "2"]


def test_an_entry_that_names_nothing_stands_for_everything() -> None:
    session = imported(*ONE)
    session.append("compaction", Frozen(summary="so far", first_kept=None))
    assert len(session.context()) == 1
    empty = Session()
    empty.append("compaction", Frozen(summary="so far", first_kept=None))
    assert len(empty.context()) == 1


async def test_g123_what_was_set_before_a_compaction_still_holds() -> None:
    model = ScriptedModel(["a" * 100, "b" * 100, "sum", "c"])
    async with asked(model) as agent:
        agent.set_thinking_level("high")
        await agent.prompt("one")
        await agent.prompt("two")
        await agent.compact()
        await agent.prompt("three")
    assert model.requests[-1].thinking == "high"
    assert agent.session.view.thinking == "high"


# -- what is summarised --------------------------------------------------------------------------------


async def test_g133_a_later_summary_is_made_from_the_earlier_one() -> None:
    model = ScriptedModel(["a" * 100, "b" * 100, "first summary", "c" * 100, "second summary"])
    async with asked(model) as agent:
        await agent.prompt("one")
        await agent.prompt("two")
        first = await agent.compact()
        await agent.prompt("three")
        before = agent.session.entries
        second = await agent.compact(focus="file names")
        assert before is agent.session.entries
    prompt = model.requests[-1].messages[0].text
    assert "<previous-summary>\nfirst summary\n</previous-summary>" in prompt
    assert "was replaced by this summary" not in prompt  # the summary itself is no part of the conversation
    assert "[User]: two" in prompt
    assert "[User]: one" not in prompt
    assert prompt.endswith("Additional focus: file names")
    assert (first.summary, second.summary) == ("first summary", "second summary")
    one, two = all_of(agent.session, "compaction")
    assert two.replaces is not None
    assert two.replaces[0] == one.seq
    assert one.data["retained_tail"]
    check(agent, conversation(model))


async def test_g134_files_are_followed_through_every_compaction_and_a_split_turn() -> None:
    @tool(name="read_file", inline=True)
    def read_file(path: str) -> str:
        """Read."""
        return "r" * 300

    @tool(name="edit_file", inline=True)
    def edit_file(path: str) -> str:
        """Edit."""
        return "done"

    model = ScriptedModel(
        [
            calls(("read_file", {"path": "a.py"}), ("edit_file", {"path": "b.py"})), "ok", "first",
            calls(("read_file", {"path": "b.py"}), ("read_file", {"path": "c.py"})),
            calls(("read_file", {"path": "d.py"})), OVERFLOW, "beginning", "done",
        ]
    )  # fmt: skip
    async with asked(model, tools=[read_file, edit_file]) as agent:
        await agent.prompt("one")
        await agent.compact()
        await agent.prompt("two")
    one, two = all_of(agent.session, "compaction")
    assert one.data["details"] == {"read_files": ("a.py",), "modified_files": ("b.py",)}
    assert two.data["details"] == {"read_files": ("a.py", "c.py"), "modified_files": ("b.py",)}
    assert two.data["summary"] == "first\n\n## The beginning of the turn that goes on\n\nbeginning"
    assert "<read-files>\na.py\nc.py\n</read-files>" in agent.session.context()[0].text
    assert roles(model.requests[-1].messages) == ["user", "assistant", "tool_result"]
    check(agent, conversation(model))


async def test_g142_a_split_turn_takes_two_requests_and_their_usage_is_the_sum() -> None:
    model = ScriptedModel(
        [
            "a" * 4000, *[calls(("big", {}))] * 3, Reply("history", usage={"input": 10, "output": 1}),
            Reply("beginning", usage={"input": 5, "cache_read": 2}), "done",
        ],
        context_window=2600,
    )  # fmt: skip
    async with asked(model, tools=[big(1500)], compaction=Compaction(keep_last=1)) as agent:
        await agent.prompt("one")
        await agent.prompt("two")
    (entry,) = all_of(agent.session, "compaction")
    assert entry.data["summary"] == "history\n\n## The beginning of the turn that goes on\n\nbeginning"
    assert entry.data["usage"] == {"input": 15, "output": 1, "cache_read": 2}
    history, prefix = list(model.requests)[4:6]
    assert "[User]: one" in history.messages[0].text
    assert "[User]: two" not in history.messages[0].text
    assert "[User]: two" in prefix.messages[0].text
    check(agent, conversation(model))


async def test_g149_a_split_turn_behind_a_summary_keeps_the_summary() -> None:
    model = ScriptedModel(["a" * 400, "the old summary", *[calls(("big", {}))] * 3, "beginning", "done"],
                          context_window=1300)  # fmt: skip
    async with asked(model, tools=[big(1500)], compaction=Compaction(keep_last=1)) as agent:
        await agent.prompt("one")
        await agent.compact()
        await agent.prompt("two")
        assert [entry.data["summary"] for entry in all_of(agent.session, "compaction")] == [
            "the old summary", "the old summary\n\n## The beginning of the turn that goes on\n\nbeginning",
        ]  # fmt: skip
    check(agent, conversation(model))


async def test_g135_what_programs_say_is_summarised_too() -> None:
    model = ScriptedModel(["a" * 200, "b" * 200, "sum"])
    async with asked(model) as agent:
        agent.session.append_custom_message("note", "mind the gap")
        await agent.prompt("one")
        await agent.prompt("two")
        await agent.compact()
    assert "[User]: mind the gap" in model.requests[-1].messages[0].text


async def test_g136_where_there_is_nothing_new_there_is_nothing_to_compact() -> None:
    model = ScriptedModel(["a" * 100, "sum"])
    async with asked(model) as agent:
        for _ in range(2):
            with pytest.raises(CompactionFailed, match="nothing in the conversation") as caught:
                await agent.compact()
            assert caught.value.code == "nothing"
            if not model.requests:
                await agent.prompt("one" * 20)
                await agent.compact()
    assert len(all_of(agent.session, "compaction/start")) == 1


async def test_g154_turns_that_fit_are_kept_and_nothing_is_written() -> None:
    model = ScriptedModel(["a" * 100, "b" * 100, "c" * 100], context_window=10_000)
    async with asked(model) as agent:
        for text in ("one", "two", "three"):
            await agent.prompt(text)
    assert compacting(agent.session) == []


async def test_g137_results_are_cut_in_what_a_model_summarises() -> None:
    model = ScriptedModel([BIG, "a", "sum"])
    async with asked(model, tools=[big(5000)]) as agent:
        await agent.prompt("x")
        await agent.compact()
    prompt = model.requests[-1].messages[0].text
    assert "r" * 2000 + "\n[... 3000 more characters truncated]" in prompt
    assert "r" * 2001 not in prompt


@pytest.mark.parametrize(
    ("failure", "code"), [(Failure("auth", message="no key"), "summary"), (Failure("aborted"), "aborted")]
)
async def test_g140_a_summary_that_fails_says_why_and_changes_nothing(failure: Failure, code: str) -> None:
    model = ScriptedModel(["a" * 100, "b" * 100, failure])
    async with asked(model) as agent:
        await agent.prompt("one")
        await agent.prompt("two")
        before = list(agent.session.context())
        with pytest.raises(CompactionFailed, match="no summary could be written") as caught:
            await agent.compact()
    assert caught.value.code == code
    assert list(agent.session.context()) == before
    check(agent, conversation(model))


async def test_g141_a_summary_is_asked_for_in_a_session_of_its_own_and_within_the_models_answers() -> None:
    model = ScriptedModel(["a" * 4000, *[BIG] * 3, Failure("timeout"), "history", "beginning", "done"],
                          context_window=2700)  # fmt: skip
    settings = {"max_tokens": 100, "temperature": 1}
    async with asked(
        model, tools=[big(1500)], settings=settings, compaction=Compaction(keep_last=1)
    ) as agent:
        await agent.prompt("one")
        await agent.prompt("two")
    summaries = [request for request in model.requests if "." in request.session]
    assert len(summaries) == 3
    assert len({request.session for request in summaries}) == 3
    assert {tuple(request.settings.items()) for request in summaries} == {(("max_tokens", 100),)}
    assert {request.tools for request in summaries} == {()}
    assert all(request.system.startswith("You write summaries") for request in summaries)


async def test_g143_a_summary_of_a_hook_is_kept_as_one() -> None:
    model = ScriptedModel(["a" * 100, "b" * 100])
    async with asked(model, hooks={"compact": [lambda _: Summary("in short")]}) as agent:
        await agent.prompt("one")
        await agent.prompt("two")
        came = await agent.compact()
    (entry,) = all_of(agent.session, "compaction")
    assert (came.summary, entry.data["from_hook"]) == ("in short", True)
    assert "usage" not in entry.data


# -- again and again -----------------------------------------------------------------------------------


@pytest.mark.parametrize("keep", [1, 2])
@pytest.mark.parametrize("strategy", ["summarize", "drop_oldest"])
async def test_g148_twenty_compactions_lose_no_tail_and_no_earlier_summary(strategy: Any, keep: int) -> None:
    """What one compaction keeps, the next one summarises or keeps; what one summarises, the next one reads."""

    model = ScriptedModel(default="x" * 60)
    async with asked(model, compaction=Compaction(strategy, keep_last=keep)) as agent:
        for i in range(25):
            await agent.prompt(f"number-{i:03}")
            if i > keep:
                before = list(agent.session.view.nodes)
                await agent.compact()
                _nothing_lost(agent.session, before, model, strategy)
    compactions = all_of(agent.session, "compaction")
    assert len(compactions) >= 20
    for earlier, later in pairwise(compactions):
        assert later.replaces is not None
        assert later.replaces[0] == earlier.seq
        gone = set(later.sources or ())
        kept = set(later.data["retained_tail"])
        assert set(earlier.data["retained_tail"]) <= gone | kept
        assert not gone & kept
    check(agent, [])


def _nothing_lost(session: Session, before: list[Any], model: ScriptedModel, strategy: str) -> None:
    entry = all_of(session, "compaction")[-1]
    gone = [node for node in before if node.seq in (entry.sources or ())]
    left = [node for node in before if node.seq not in (entry.sources or ())]
    assert [node.seq for node in session.view.nodes[1:]] == [node.seq for node in left]
    if strategy == "drop_oldest":
        return
    prompt = model.requests[-1].messages[0].text
    for node in gone:
        text = node.message.text
        previous = session.entries[node.seq].data.get("summary")
        assert (f"<previous-summary>\n{previous}\n" if previous else text) in prompt


async def test_a_summary_is_kept_when_the_strategy_becomes_to_drop() -> None:
    model = ScriptedModel(["a" * 100, "b" * 100, "what was", "c" * 100])
    async with asked(model) as agent:
        await agent.prompt("one")
        await agent.prompt("two")
        await agent.compact()
        await agent.prompt("three")
        agent.compaction = Compaction("drop_oldest", keep_last=1)
        came = await agent.compact()
    assert came.summary == "what was"
    text = agent.session.context()[0].text
    assert "<summary>\nwhat was\n</summary>" in text
    assert "was left out to make room" in text


# -- overflow ------------------------------------------------------------------------------------------


async def test_g151_a_completed_answer_that_filled_the_window_compacts_before_the_next_request_only() -> None:
    full = Reply("b", usage={"input": 990, "output": 9})
    model = ScriptedModel(["a" * 100, full, "sum", "c"], context_window=1000)
    async with asked(model, compaction=Compaction(keep_last=1)) as agent:
        await agent.prompt("one")
        assert (await agent.prompt("two")).text == "b"
        assert compacting(agent.session) == []
        assert (await agent.prompt("three")).text == "c"
    assert compacting(agent.session) == ["compaction/start", "compaction", "compaction/end"]
    assert all_of(agent.session, "assistant/attempt", "llm/retry") == []


async def test_g152_the_last_good_report_counts_and_none_from_before_a_compaction() -> None:
    model = ScriptedModel(
        [
            Reply("a" * 40, usage={"input": 100, "output": 10}), Reply("b" * 40, usage={"input": 700}),
            Failure("auth"), "sum", "c", "d",
        ],
        context_window=1000,
    )  # fmt: skip
    async with asked(model, compaction=Compaction(keep_last=2)) as agent:
        await agent.prompt("one")
        await agent.prompt("two")
        assert not (await agent.prompt("three")).ok
        await agent.prompt("x" * 400)
        await agent.prompt("five")
    (entry,) = all_of(agent.session, "compaction")
    assert entry.data["tokens_before"] == 700 + 2 + 100
    assert said(model.requests[-1].messages)[1:3] == ["two", "b" * 40]  # its report counts no more
    check(agent, conversation(model))


async def test_a_conversation_too_long_for_one_request_is_summarised_piece_by_piece() -> None:
    """The model that summarises does not take it all; each piece brings the summary up to date."""
    small = ScriptedModel(
        [Failure("context_window"), "one", "two", "three", "four"], id="a:small", context_window=1000
    )
    model = ScriptedModel(["a" * 2500, "b" * 2500, "c"])
    async with asked(
        model, models={"a:small": small}, compaction=Compaction(keep_last=1, model="a:small")
    ) as agent:
        await agent.prompt("first " * 300)
        await agent.prompt("second " * 300)
        await agent.prompt("x")
        came = await agent.compact()
    assert "<previous-summary>\none\n" in small.requests[2].messages[0].text
    assert came.summary == "four"
    assert max(len(request.messages[0].text) for request in list(small.requests)[1:]) < 4500


async def test_a_part_longer_than_a_request_loses_its_middle_and_no_more() -> None:
    model = ScriptedModel(["a", "b", Failure("context_window"), *["s"] * 9])
    async with asked(model, compaction=Compaction(keep_last=1)) as agent:
        await agent.prompt("x" * 20_000)
        await agent.prompt("y")
        await agent.compact()
        model.drop()
    text = model.requests[3].messages[0].text
    assert "characters left out]" in text
    assert len(text) < 13_000


async def test_a_summary_request_that_fails_is_tried_again_as_the_policy_says() -> None:
    model = ScriptedModel(["a" * 100, "b" * 100, Failure("overloaded"), Failure("timeout"), "sum"])
    async with asked(model) as agent:
        await agent.prompt("one")
        await agent.prompt("two")
        with anyio.fail_after(5):
            assert (await agent.compact()).summary == "sum"
    assert all_of(agent.session, "llm/retry") == []


async def test_a_model_that_gives_no_text_gives_no_summary() -> None:
    model = ScriptedModel(["a" * 100, "b" * 100, Reply(thinking="hm")])
    async with asked(model) as agent:
        await agent.prompt("one")
        await agent.prompt("two")
        with pytest.raises(CompactionFailed, match="gave no text"):
            await agent.compact()


async def test_an_unknown_model_for_summaries_is_named() -> None:
    model = ScriptedModel(["a" * 100, "b" * 100])
    async with asked(model, compaction=Compaction(model="a:nobody")) as agent:
        await agent.prompt("one")
        await agent.prompt("two")
        with pytest.raises(CompactionFailed, match="no model 'a:nobody'"):
            await agent.compact()
