"""Messages and blocks: what the log stores, typed; and what people may give as a prompt."""

from base64 import b64encode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.machine.histories import JSON

from turnchart.machine.entries import Frozen, decode, encode
from turnchart.machine.kinds import register_message
from turnchart.machine.messages import (
    FAILURE_KINDS,
    RETRIED_KINDS,
    AssistantMessage,
    Block,
    CustomMessage,
    Failure,
    Image,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    block,
    content_blocks,
    message,
    normalize_prompt_input,
    to_llm,
)

DATA = st.binary(max_size=6).map(lambda data: b64encode(data).decode())
BLOCKS = st.one_of(
    st.builds(Text, st.text()),
    st.builds(Thinking, st.text(), st.none() | st.text()),
    st.builds(Image, DATA, st.text()),
    st.builds(ToolCall, st.text(), st.dictionaries(st.text(), JSON, max_size=2) | st.text(), st.text()),
)
CONTENT = st.lists(BLOCKS, max_size=3)
SHOWN = st.lists(st.builds(Text, st.text()) | st.builds(Image, DATA, st.text()), max_size=3)
TIMES = st.floats(0, 1e10)
USAGE = st.none() | st.dictionaries(st.sampled_from(["input", "output"]), st.integers(0))
MESSAGES = st.one_of(
    st.builds(UserMessage, SHOWN, id=st.text(), time=TIMES, source=st.text()),
    st.builds(AssistantMessage, CONTENT, model=st.text(), usage=USAGE, time=TIMES, replay=JSON),
    st.builds(
        ToolResultMessage, st.text(), st.text(), CONTENT,
        is_error=st.booleans(), details=JSON, usage=USAGE, terminate=st.booleans(),
        added_tools=st.lists(st.text()),
    ),
    st.builds(CustomMessage, st.text(), SHOWN, display=st.booleans(), details=JSON, time=TIMES),
)  # fmt: skip


@given(MESSAGES)
def test_a_message_comes_back_from_its_json_as_it_was(said: Message) -> None:
    again = message(decode(encode(said)))
    assert again == said
    assert type(again) is type(said)
    assert [type(part) for part in again.content] == [type(part) for part in said.content]
    assert encode(again) == encode(said)
    assert message(again) is again


def test_a_message_is_the_object_that_is_stored() -> None:
    assert UserMessage("hi", id="m1") == {
        "role": "user", "content": ({"type": "text", "text": "hi"},), "id": "m1",
    }  # fmt: skip
    call = ToolCall("add", {"a": 1}, id="c1")
    answer = AssistantMessage([Thinking("so"), call], model="m", stop_reason="tool_calls", usage={"input": 3})
    assert (answer.role, answer.model, answer.stop_reason, answer.usage) == (
        "assistant",
        "m",
        "tool_calls",
        {"input": 3},
    )
    assert answer.tool_calls == (call,)
    assert (call.type, call.id, call.name, call.arguments) == ("tool_call", "c1", "add", {"a": 1})
    result = ToolResultMessage("c1", "add", "3", is_error=True)
    assert (result.call_id, result.tool, result.is_error, result.text) == ("c1", "add", True, "3")
    thought = answer.content[0]
    assert isinstance(thought, Thinking)
    assert (thought.thinking, thought.signature) == ("so", None)


def test_what_is_not_given_is_not_stored() -> None:
    said = UserMessage("hi")
    assert set(said) == {"role", "content"}
    assert (said.id, said.source, said.time) == ("", "", 0.0)
    assert AssistantMessage("hi").usage == {}
    assert CustomMessage("note", "hi").kind == "note"


def test_text_joins_the_text_blocks() -> None:
    assert UserMessage([Text("a"), Image("data"), Text("b")]).text == "ab"


def test_a_message_can_be_given_other_content() -> None:
    said = UserMessage("hi", id="m1")
    other = said.with_content([Text("ho")])
    assert (type(other), other.text, other["id"], said.text) == (UserMessage, "ho", "m1", "hi")


def test_arguments_are_an_object_or_the_raw_text() -> None:
    assert ToolCall("add").arguments == {}
    assert ToolCall("add", "{broken").arguments == "{broken"
    with pytest.raises(TypeError, match=r"\$\.a is a object"):
        ToolCall("add", {"a": object()})


# -- reading -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "what"),
    [
        ({"content": []}, "message role None is unknown; it must be one of: user, assistant, tool_result, "),
        ({"role": "wizard", "content": []}, "message role 'wizard' is unknown"),
        ({"role": ["user"], "content": []}, "is unknown"),
        ({"role": "user"}, "a message of role 'user' lacks content"),
        ({"role": "assistant", "content": []}, "a message of role 'assistant' lacks model, stop_reason"),
        ({"role": "user", "content": [{"type": "smell"}]}, "type 'smell' is unknown; it must be one of: "),
        ({"role": "user", "content": [{"text": "x"}]}, "content block type None is unknown"),
        ({"role": "user", "content": [{"type": "image"}]}, "content block 'image' lacks data, media_type"),
    ],
)  # fmt: skip
def test_a_malformed_message_says_what_is_wrong(raw: dict[str, Any], what: str) -> None:
    with pytest.raises(ValueError, match=what):
        message(raw)


def test_content_of_another_form_is_refused() -> None:
    with pytest.raises(TypeError, match="content must be text, a block or a list of blocks, not int"):
        content_blocks(3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # that is the point
    with pytest.raises(TypeError, match=r"^\$\.extra is a object"):
        message({"role": "user", "content": "x", "extra": object()})


def test_content_is_text_a_block_or_a_list() -> None:
    expected = (Text("x"),)
    for given_content in (
        "x",
        Text("x"),
        {"type": "text", "text": "x"},
        [Text("x")],
        [{"type": "text", "text": "x"}],
    ):
        assert content_blocks(given_content) == expected  # pyright: ignore[reportArgumentType]
    assert content_blocks("") == (Text(""),)


def test_the_data_of_an_image_is_base64_as_others_write_it() -> None:
    assert Image("QUJD\nREVG\n").data == "QUJD\nREVG\n"
    assert Image("").data == ""
    for wrong in ("no base64!", "A", "QQ", "QQ=", "é"):
        with pytest.raises(ValueError, match=r"^data must be base64: "):
            Image(wrong)


def test_an_image_that_was_logged_is_read_whatever_it_holds() -> None:
    logged = {"role": "user", "content": [{"type": "image", "data": "no base64!", "media_type": "x"}]}
    assert message(logged).content[0]["data"] == "no base64!"


def test_an_image_may_be_named_as_other_programs_do() -> None:
    for name in ("media_type", "mediaType", "mimeType"):
        found = block({"type": "image", "data": "AA==", name: "image/gif"})
        assert found == Image("AA==", "image/gif")
    assert block({"type": "text", "text": "x", "mediaType": "y"}) == {
        "type": "text",
        "text": "x",
        "mediaType": "y",
    }


# -- prompts -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("hi", [UserMessage("hi")]),
        (Text("hi"), [UserMessage("hi")]),
        (UserMessage("hi", id="m"), [UserMessage("hi", id="m")]),
        ({"role": "user", "content": "hi"}, [UserMessage("hi")]),
        ([UserMessage("a"), {"role": "user", "content": "b"}], [UserMessage("a"), UserMessage("b")]),
        ((AssistantMessage("a"),), [AssistantMessage("a")]),
        (CustomMessage("note", "a"), [CustomMessage("note", "a")]),
    ],
)
def test_a_prompt_becomes_messages(prompt: Any, expected: list[Message]) -> None:
    found = normalize_prompt_input(prompt)
    assert found == expected
    assert [type(each) for each in found] == [type(each) for each in expected]


def test_a_prompt_is_not_changed() -> None:
    raw = {"role": "user", "content": [{"type": "text", "text": "hi"}]}
    before = repr(raw)
    normalize_prompt_input([raw])
    assert repr(raw) == before


@pytest.mark.parametrize("prompt", ["", [], ()])
def test_an_empty_prompt_is_refused(prompt: Any) -> None:
    with pytest.raises(ValueError, match="a prompt must not be empty"):
        normalize_prompt_input(prompt)


def test_what_is_no_prompt_is_refused() -> None:
    with pytest.raises(TypeError, match="a prompt is text, a message or a list of messages, not int"):
        normalize_prompt_input(3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # that is the point


# -- what the model sees -----------------------------------------------------------------------


def test_the_model_sees_plain_messages_as_they_are() -> None:
    for said in (UserMessage("a"), ToolResultMessage("c", "add", "3"), AssistantMessage("a")):
        assert to_llm(said) is said
    assert to_llm(AssistantMessage(())) is None


def test_a_custom_message_is_a_user_message_unless_a_rule_says_otherwise() -> None:
    said = CustomMessage("test-unruled", "look", time=2.0)
    assert to_llm(said) == UserMessage("look", time=2.0, source="test-unruled")

    def shout(given: CustomMessage) -> UserMessage | None:
        return UserMessage(given.text.upper()) if given.text else None

    register_message("test-shouted", to_llm=shout)
    register_message("test-shouted", to_llm=shout)  # the same once more
    assert to_llm(CustomMessage("test-shouted", "look")) == UserMessage("LOOK")
    assert to_llm(CustomMessage("test-shouted", "")) is None
    with pytest.raises(ValueError, match="the message kind 'test-shouted' is registered already"):
        register_message("test-shouted", to_llm=lambda _given: None)


# -- failures ----------------------------------------------------------------------------------


def test_a_failure_has_one_of_the_known_kinds() -> None:
    assert set(RETRIED_KINDS) < set(FAILURE_KINDS)
    with pytest.raises(ValueError, match="'fatigue' is no failure kind; it must be one of: rate_limit, "):
        Failure("fatigue")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # that is the point


def test_a_failure_is_stored_with_what_is_known() -> None:
    assert Failure("quota").json() == {"kind": "quota", "message": ""}
    full = Failure("rate_limit", retry_after=0.0, status=429, message="slow down").json()
    assert full == {"kind": "rate_limit", "message": "slow down", "retry_after": 0.0, "status": 429}
    assert isinstance(full, Frozen)


def test_blocks_are_told_apart_by_their_fields() -> None:
    image = Image("AA==", "image/gif")
    assert (Text("x").text, image.type, image.data, image.media_type) == ("x", "image", "AA==", "image/gif")
    match ToolCall("add", {"a": 1}):
        case ToolCall("add", {"a": a}):
            assert a == 1
        case other:
            pytest.fail(f"{other} did not match")
    assert isinstance(Text("x"), Block)
