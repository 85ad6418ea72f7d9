"""What of a pi message becomes one of ours, and what of ours pi gets to read."""

from typing import Any

import pytest

from turnchart.machine.interchange.fields import Malformed
from turnchart.machine.interchange.pi_messages import (
    message_of,
    message_to,
    model_id,
    model_parts,
    usage_of,
    usage_to,
)
from turnchart.machine.messages import (
    AssistantMessage,
    CustomMessage,
    Image,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)

COST = {"input": 1.0, "output": 2.0, "cacheRead": 0, "cacheWrite": 0, "total": 3.0}
PAIRS: list[tuple[dict[str, Any], Message]] = [
    (
        {"role": "user", "content": [{"type": "text", "text": "hi"}], "timestamp": 1500},
        UserMessage("hi", time=1.5),
    ),
    (
        {
            "role": "user",
            "content": [{"type": "image", "data": "AAAA", "mimeType": "image/gif"}],
            "timestamp": 1500,
        },
        UserMessage(Image("AAAA", "image/gif"), time=1.5),
    ),
    (
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "thinkingSignature": "sig"},
                {"type": "text", "text": "see"},
                {"type": "toolCall", "id": "c1", "name": "read", "arguments": {"path": "a"}},
            ],
            "api": "anthropic",
            "provider": "anthropic",
            "model": "claude",
            "usage": {
                "input": 1,
                "output": 2,
                "cacheRead": 3,
                "cacheWrite": 4,
                "totalTokens": 10,
                "cost": COST,
            },
            "stopReason": "toolUse",
            "timestamp": 1500,
        },
        AssistantMessage(
            (Thinking("hm", "sig"), Text("see"), ToolCall("read", {"path": "a"}, "c1")),
            model="anthropic:claude",
            stop_reason="tool_calls",
            time=1.5,
            usage={
                "input": 1,
                "output": 2,
                "cache_read": 3,
                "cache_write": 4,
                "total": 10,
                "cost": COST,  # type: ignore[dict-item]  # what an answer cost stands beside its tokens
            },
        ),
    ),
    (
        {
            "role": "toolResult",
            "toolCallId": "c1",
            "toolName": "read",
            "content": [{"type": "text", "text": "x"}],
            "isError": True,
            "details": {"n": 1},
            "timestamp": 1500,
        },
        ToolResultMessage("c1", "read", "x", is_error=True, details={"n": 1}, time=1.5),
    ),
    (
        {
            "role": "custom",
            "customType": "mine",
            "content": [{"type": "text", "text": "x"}],
            "display": False,
            "details": {"n": 1},
            "timestamp": 1500,
        },
        CustomMessage("mine", "x", display=False, details={"n": 1}, time=1.5),
    ),
]


@pytest.mark.parametrize(("theirs", "ours"), PAIRS, ids=lambda each: each["role"])
def test_a_message_is_the_same_on_both_sides(theirs: dict[str, Any], ours: Message) -> None:
    read = message_of(theirs)
    assert (type(read), read) == (type(ours), ours)
    assert message_to(ours) == theirs


def test_both_names_of_the_type_of_an_image_are_read() -> None:
    image = {"type": "image", "data": "AAAA", "mediaType": "image/gif"}
    assert message_of({"role": "user", "content": [image]}) == UserMessage(Image("AAAA", "image/gif"))


def test_content_may_be_one_string() -> None:
    assert message_of({"role": "user", "content": "hi"}) == UserMessage("hi")
    with pytest.raises(Malformed, match='`content` is "hi"; it must be a list') as error:
        message_of({"role": "assistant", "content": "hi", "stopReason": "stop"})
    assert error.value.path == ("content",)


@pytest.mark.parametrize("time", [None, "now", -1, 2**60, True])
def test_a_message_without_a_time_has_that_of_its_entry(time: object) -> None:
    read = message_of({"role": "user", "content": "hi", "timestamp": time}, 7.0)
    assert read is not None
    assert read.time == 7.0
    assert message_to(UserMessage("hi"), 7.0)["timestamp"] == 7000


def test_arguments_that_are_no_object_stay_readable() -> None:
    said = AssistantMessage(ToolCall("read", "{broken", "c1"), model="claude", stop_reason="tool_calls")
    [call] = message_to(said)["content"]
    assert call["arguments"] == {"text": "{broken"}


@pytest.mark.parametrize(
    ("id", "parts"),
    [
        ("anthropic:claude", ("anthropic", "claude")),
        ("test", ("", "test")),
        ("", ("", "")),
        ("a:b:c", ("a", "b:c")),
    ],
)
def test_the_id_of_a_model_has_two_parts(id: str, parts: tuple[str, str]) -> None:
    assert model_parts(id) == parts
    assert model_id(*parts) == id


@pytest.mark.parametrize("usage", [None, [], {}, {"input": "many"}, {"cost": {"total": 1}}])
def test_a_usage_without_tokens_is_none(usage: object) -> None:
    assert usage_of(usage) is None


def test_a_total_and_a_cost_are_filled_in() -> None:
    made = usage_to({"input": 1, "output": 2, "cost": 0.5})
    assert made["totalTokens"] == 3
    assert made["cost"] == {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0.5}
