"""One streamed answer: put together into a message, and recorded so that every chunk can be had again."""

from collections.abc import Sequence
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnchart.machine import Failure, Text, Thinking, ToolCall
from turnchart.machine.entries import Frozen, freeze
from turnchart.machine.models import (
    BlockEnd,
    BlockStart,
    Chunk,
    Finish,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    UsageReport,
)
from turnchart.machine.stream import Answer, expand

NOW = 1_790_000_000.0


def answer(*chunks: Chunk) -> Answer:
    """Return an answer that took these chunks, a second apart."""
    made = Answer()
    for i, chunk in enumerate(chunks):
        made.add(chunk, NOW + i)
    return made


def content(*chunks: Chunk, interrupted: bool = False) -> Sequence[Any]:
    return answer(*chunks).message("m", NOW, "c1.1", interrupted=interrupted).content


def test_deltas_of_a_block_are_joined_and_blocks_stand_in_the_order_of_their_numbers() -> None:
    found = content(
        BlockStart("text", 1),
        ThinkingDelta("hm", 0),
        TextDelta("a", 1),
        TextDelta("b", 1),
        BlockEnd(0, "sig"),
    )
    assert found == (Thinking("hm", "sig"), Text("ab"))


def test_a_block_needs_no_start_and_an_empty_one_is_left_out() -> None:
    assert content(BlockStart("text", 0), BlockStart("thinking", 1), TextDelta("a", 2)) == (Text("a"),)


def test_the_first_end_closes_a_block_and_later_deltas_of_it_are_ignored() -> None:
    chunks: list[Chunk] = [TextDelta("a"), BlockEnd(), TextDelta("b"), BlockEnd(0, "late")]
    assert content(*chunks) == (Text("a"),)
    assert answer(*chunks).count == 4


def test_a_tool_call_is_parsed_and_gets_a_positional_id_where_it_has_none() -> None:
    chunks: list[Chunk] = [
        BlockStart("tool_call", 2, "", "add"),
        ToolCallDelta('{"a":', 2),
        ToolCallDelta("1}", 2),
    ]
    message = answer(*chunks).message("m", NOW, "c1.1")
    assert message.tool_calls == (ToolCall("add", {"a": 1}, "c1.1.2"),)
    assert message.stop_reason == "tool_calls"


def test_a_repeated_id_becomes_a_positional_one() -> None:
    message = answer(BlockStart("tool_call", 0, "x", "add"), BlockStart("tool_call", 1, "x", "add")).message(
        "m", NOW, "c1.1"
    )
    assert [call.id for call in message.tool_calls] == ["x", "c1.1.1"]


@pytest.mark.parametrize("raw", ["[1]", "five", '{"a": ', "null", "[" * 100_000])
def test_arguments_that_are_no_object_stay_text(raw: str) -> None:
    (call,) = content(BlockStart("tool_call", 0, "x", "add"), ToolCallDelta(raw))
    assert call.arguments == raw


@pytest.mark.parametrize("raw", ["", " \n"])
def test_no_arguments_are_an_empty_object(raw: str) -> None:
    (call,) = content(BlockStart("tool_call", 0, "x", "add"), ToolCallDelta(raw))
    assert call.arguments == {}


def test_a_missing_finish_means_stop() -> None:
    made = answer(TextDelta("a"))
    assert made.failure is None
    assert made.message("m", NOW, "c").stop_reason == "stop"


def test_max_tokens_drops_tool_calls_and_keeps_what_was_said() -> None:
    message = answer(TextDelta("half"), BlockStart("tool_call", 1, "x", "add"), Finish("max_tokens")).message(
        "m", NOW, "c"
    )
    assert (message.text, message.tool_calls, message.stop_reason) == ("half", (), "max_tokens")


def test_usage_and_replay_are_kept_and_the_last_usage_counts() -> None:
    usage = {"input": 3, "output": 2}
    message = answer(
        UsageReport({"input": 1}), TextDelta("a"), UsageReport(usage), Finish("stop", replay={"id": [1]})
    ).message("m", NOW, "c")
    assert message.usage == usage
    assert message["replay"] == {"id": (1,)}
    assert message.model == "m"


def test_an_interrupted_answer_keeps_text_and_thoughts_that_are_not_blank() -> None:
    chunks: list[Chunk] = [
        ThinkingDelta(" \n", 0), TextDelta("par", 1), BlockStart("tool_call", 2, "x", "add"),
        ToolCallDelta("{}", 2), UsageReport({"output": 1}),
    ]  # fmt: skip
    message = answer(*chunks).message("m", NOW, "c", interrupted=True)
    assert message.content == (Text("par"),)
    assert (message.stop_reason, message.usage) == ("aborted", {"output": 1})


@pytest.mark.parametrize(
    ("chunks", "shown"),
    [
        ([], False),
        ([TextDelta(" \n")], False),
        ([BlockStart("text"), BlockEnd()], False),
        ([BlockStart("tool_call", 0, "x", "add"), ToolCallDelta("{}")], False),
        ([TextDelta(" "), TextDelta("a")], True),
        ([ThinkingDelta("hm")], True),
    ],
)
def test_it_has_text_once_something_was_shown(chunks: list[Chunk], shown: bool) -> None:
    assert answer(*chunks).has_text is shown


@pytest.mark.parametrize(
    ("finish", "failure"),
    [
        (Finish("stop"), None),
        (Finish("max_tokens"), None),
        (Finish("error"), Failure("unknown")),
        (Finish("aborted"), Failure("aborted")),
        (Finish("error", Failure("timeout", status=504)), Failure("timeout", status=504)),
    ],
)
def test_a_finish_says_whether_the_request_failed(finish: Finish, failure: Failure | None) -> None:
    assert answer(TextDelta("a"), finish).failure == failure


WRONG: Any = "wrong"
NONSENSE: list[Any] = [
    "text", None, TextDelta(cast(Any, None)), TextDelta(cast(Any, b"a")), TextDelta("a", WRONG),
    BlockStart(WRONG), BlockStart("text", WRONG), UsageReport({"input": WRONG}), Finish(WRONG),
    Finish("stop", replay=int), BlockEnd(0, cast(Any, 7)),
]  # fmt: skip


@pytest.mark.parametrize("chunk", NONSENSE, ids=repr)
def test_what_is_no_chunk_is_refused_and_changes_nothing(chunk: Any) -> None:
    made = answer(TextDelta("a"))
    with pytest.raises((TypeError, ValueError)):
        made.add(chunk, NOW)
    assert made.count == 1
    assert made.record() == answer(TextDelta("a")).record()


def test_the_record_folds_deltas_of_one_block_and_keeps_their_times_as_gaps() -> None:
    record = answer(
        TextDelta("a"), TextDelta("b"), TextDelta("c", 1), ThinkingDelta("d", 1), Finish("stop")
    ).record()
    at = int(NOW * 1_000_000)
    assert record == (
        {"type": "text_delta", "block": 0, "time": at, "gaps": (1_000_000,), "parts": ("a", "b")},
        {"type": "text_delta", "block": 1, "time": at + 2_000_000, "gaps": (), "parts": ("c",)},
        {"type": "thinking_delta", "block": 1, "time": at + 3_000_000, "gaps": (), "parts": ("d",)},
        {"type": "finish", "time": at + 4_000_000, "reason": "stop"},
    )


TEXTS = st.text(max_size=4)
BLOCKS = st.integers(0, 3)
CHUNK: st.SearchStrategy[Chunk] = st.one_of(
    st.builds(TextDelta, TEXTS, BLOCKS),
    st.builds(ThinkingDelta, TEXTS, BLOCKS),
    st.builds(ToolCallDelta, TEXTS, BLOCKS),
    st.builds(BlockStart, st.sampled_from(["text", "thinking", "tool_call"]), BLOCKS, TEXTS, TEXTS),
    st.builds(BlockEnd, BLOCKS, st.none() | TEXTS),
    st.builds(UsageReport, st.dictionaries(st.sampled_from(["input", "output"]), st.integers(0, 9))),
    st.builds(
        Finish,
        st.sampled_from(["stop", "tool_calls", "max_tokens", "error", "aborted"]),
        st.none()
        | st.builds(Failure, st.just("timeout"), st.none() | st.just(2.5), st.none() | st.just(504), TEXTS),
        st.none() | st.dictionaries(TEXTS, TEXTS, max_size=2),
    ),
)


@given(st.lists(st.tuples(CHUNK, st.integers(0, 10_000_000)), max_size=12))
def test_the_record_gives_back_every_chunk_with_its_time(told: list[tuple[Chunk, int]]) -> None:
    made, at, live = Answer(), 1_790_000_000_000_000, list[tuple[Chunk, float]]()
    for chunk, gap in told:
        at += gap
        live.append((made.add(chunk, at / 1_000_000), made.time))
    assert list(expand(made.record())) == live
    assert list(expand(freeze([dict(each) for each in made.record()]))) == live


def test_a_record_is_frozen() -> None:
    (only,) = answer(Finish("stop", replay={"a": [1]})).record()
    assert isinstance(only, Frozen)
    assert isinstance(only["replay"], Frozen)
