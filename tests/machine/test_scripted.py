"""A model that plays a script."""

from typing import Any

import pytest

from turnchart.machine import Agent, Failure, ModelRequest, Reply, ScriptedModel, ScriptError, ToolCall
from turnchart.machine.abort import AbortSignal
from turnchart.machine.models import (
    BlockEnd,
    BlockStart,
    Chunk,
    Finish,
    RequestConfig,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    UsageReport,
)
from turnchart.machine.scripted import KEPT_REQUESTS
from turnchart.machine.stream import Answer
from turnchart.testing import FakeClock


async def ask(model: ScriptedModel, clock: FakeClock | None = None) -> list[Chunk]:
    """Make one request and return its chunks."""
    config = RequestConfig(model.id)
    prepared = await model.prepare(config, AbortSignal())
    request = ModelRequest(
        model.id, "", (), (), config.settings, None, AbortSignal(), clock or FakeClock()
    )  # fmt: skip
    return [chunk async for chunk in prepared.stream(request)]


async def test_it_answers_in_order_and_an_unexpected_call_says_how_many_there_were() -> None:
    model = ScriptedModel(["a", "b"], id="m")
    assert [(await ask(model))[1] for _ in range(2)] == [TextDelta("a"), TextDelta("b")]
    with pytest.raises(ScriptError, match=r"the script of model 'm' is over after 2 requests.*add a reply"):
        await ask(model)


async def test_a_default_answers_for_ever() -> None:
    model = ScriptedModel(["a"], default=Reply("ok"))
    texts = [(await ask(model))[1] for _ in range(3)]
    assert texts == [TextDelta("a"), TextDelta("ok"), TextDelta("ok")]
    model.check()


async def test_replies_that_nobody_asked_for_raise_unless_they_are_dropped() -> None:
    model = ScriptedModel(["a", "b"], id="m")
    await ask(model)
    with pytest.raises(ScriptError, match="1 reply of the script of model 'm' was not asked for"):
        model.check()
    model.drop()
    model.check()


async def test_preparing_takes_nothing_from_the_script() -> None:
    model = ScriptedModel(["a"])
    await model.prepare(RequestConfig("test"), AbortSignal())
    assert (await ask(model))[1] == TextDelta("a")


async def test_a_reply_may_fail_after_what_it_said() -> None:
    failure = Failure("connection")
    model = ScriptedModel([Reply("x", chunks=["a", "b"], usage={"input": 3}, failure=failure)])
    *said, end = await ask(model)
    assert [each.text for each in said if isinstance(each, TextDelta)] == ["a", "b", "x"]
    assert end == Finish("error", failure)
    with pytest.raises(ValueError, match="a Reply has finish or failure, not both"):
        Reply("x", finish="stop", failure=failure)


async def test_a_failure_is_a_failed_finish_and_an_exception_is_raised() -> None:
    failure = Failure("rate_limit", retry_after=2)
    model = ScriptedModel([failure, ValueError("boom")])
    assert await ask(model) == [Finish("error", failure)]
    with pytest.raises(ValueError, match="boom"):
        await ask(model)


async def test_the_requests_stay_readable_the_last_ones_at_least() -> None:
    model = ScriptedModel(default="ok", id="m")
    for _ in range(KEPT_REQUESTS + 1):
        await ask(model)
    assert len(model.requests) == KEPT_REQUESTS
    assert model.requests[0].model == "m"


def test_a_reply_is_thought_text_calls_usage_and_finish() -> None:
    reply = Reply("hi", [ToolCall("add", {"a": 1}, "c1")], thinking="hm", usage={"input": 1})
    assert reply.stream() == (
        BlockStart("thinking", 0), ThinkingDelta("hm", 0), BlockEnd(0),
        BlockStart("text", 1), TextDelta("hi", 1), BlockEnd(1),
        BlockStart("tool_call", 2, "c1", "add"), ToolCallDelta('{"a": 1}', 2), BlockEnd(2),
        UsageReport({"input": 1}), Finish("tool_calls"),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (Reply("a"), "stop"),
        (Reply(), "stop"),
        (Reply(tool_calls=[ToolCall("add")]), "tool_calls"),
        (Reply("a", finish="max_tokens"), "max_tokens"),
        (Reply(chunks=["a", Finish("aborted")]), "aborted"),
    ],
)
def test_a_reply_has_one_finish(reply: Reply, reason: str) -> None:
    finishes = [part for part in reply.stream() if isinstance(part, Finish)]
    assert [finish.reason for finish in finishes] == [reason]


def test_arguments_that_are_text_are_streamed_as_they_stand() -> None:
    assert ToolCallDelta("{oops", 0) in Reply(tool_calls=[ToolCall("add", "{oops")]).stream()


async def test_delays_are_on_the_clock_of_the_agent() -> None:
    clock = FakeClock()
    chunks = await ask(ScriptedModel([Reply(chunks=["a", 2.0, "b"], delay=1)]), clock)
    assert clock.slept == [1, 2.0]
    assert chunks[:2] == [TextDelta("a"), TextDelta("b")]


def test_text_and_calls_beside_given_chunks_have_blocks_of_their_own() -> None:
    made = Answer()
    for part in Reply("text", [ToolCall("add")], chunks=["chunk"]).stream():
        assert not isinstance(part, float | int)
        made.add(part, 0)
    message = made.message("m", 0, "c")
    assert [block.type for block in message.content] == ["text", "text", "tool_call"]


async def test_a_prepared_call_knows_window_and_capabilities() -> None:
    model = ScriptedModel(context_window=1000, capabilities=["images"])
    prepared = await model.prepare(RequestConfig("test"), AbortSignal())
    assert (prepared.context_window, prepared.capabilities) == (1000, frozenset(("images",)))


@pytest.mark.parametrize("wrong", [3, None, ["a"]])
def test_a_script_holds_replies_only(wrong: Any) -> None:
    with pytest.raises(TypeError, match="a script holds strings, Reply, Failure or exceptions, not"):
        ScriptedModel([wrong])


async def test_leftovers_raise_where_the_agent_ends_and_nothing_else_went_wrong() -> None:
    with pytest.raises(ScriptError, match="was not asked for"):
        async with Agent(ScriptedModel(["a"])):
            pass
    with pytest.raises(ValueError, match="mine"):
        async with Agent(ScriptedModel(["a"])):
            raise ValueError("mine")
