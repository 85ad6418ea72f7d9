"""The view of a branch: snapshots in O(1), what replaces what, and what the model sees."""

import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnchart.machine.context import RUNTIME_CONTEXT, Context, Prefix, SystemMessage
from turnchart.machine.entries import Entry, Frozen
from turnchart.machine.kinds import register_message
from turnchart.machine.messages import (
    AssistantMessage,
    CustomMessage,
    Message,
    ToolResultMessage,
    UserMessage,
)


def entry(seq: int, type: str, data: Any, replaces: tuple[int, int] | None = None) -> Entry:
    return Entry(seq, seq - 1 if seq else None, type, 1.0, Frozen(data), replaces)


def said(seq: int, message: Message, replaces: tuple[int, int] | None = None) -> Entry:
    types = {"user": "user/message", "assistant": "assistant/message", "tool_result": "tool/result"}
    return entry(seq, types.get(message.role, "custom_message"), {"message": message}, replaces)


def system(seq: int, text: str, replaces: tuple[int, int] | None = None) -> Entry:
    return entry(seq, "system/message", {"message": SystemMessage(text)}, replaces)


def view(*entries: Entry) -> Context:
    made = Context()
    for each in entries:
        made.check(each)
        made.add(each)
    return made


def texts(messages: Any) -> list[str]:
    return [each.text for each in messages]


# -- snapshots ---------------------------------------------------------------------------------


@given(st.lists(st.integers(), max_size=8), st.lists(st.integers(), max_size=4), st.data())
def test_a_prefix_is_the_list_as_it_was(items: list[int], more: list[int], data: st.DataObject) -> None:
    before = tuple(items)
    prefix = Prefix(items, len(items))
    items.extend(more)
    assert tuple(prefix) == before
    assert len(prefix) == len(before)
    assert prefix == before
    assert list(reversed(prefix)) == list(reversed(before))
    bounds = st.none() | st.integers(-10, 10)
    cut = slice(data.draw(bounds), data.draw(bounds), data.draw(bounds.filter(lambda step: step != 0)))
    assert prefix[cut] == before[cut]
    for i in range(-len(before), len(before)):
        assert prefix[i] == before[i]
    for i in (len(before), -len(before) - 1):
        with pytest.raises(IndexError, match=f"index {i} is outside a history of {len(before)}"):
            prefix[i]
    assert all(each in prefix for each in before)


def test_a_prefix_is_compared_as_a_list_is() -> None:
    prefix = Prefix([1, 2, 3], 2)
    assert prefix == [1, 2] == prefix == (1, 2) == prefix == Prefix([1, 2], 2)
    assert prefix != [1, 3]
    assert prefix != [1]
    assert prefix != "12"
    assert prefix != 12
    assert repr(prefix) == "Prefix([1, 2])"
    with pytest.raises(TypeError, match="unhashable"):
        hash(prefix)


def test_a_snapshot_stays_while_the_history_grows_and_is_replaced() -> None:
    made = view(said(0, UserMessage("a")), said(1, AssistantMessage("b")))
    before, llm = made.messages(), made.llm_messages()
    made.add(said(2, UserMessage("c")))
    made.add(said(3, UserMessage("summary"), (0, 1)))
    assert texts(before) == texts(llm) == ["a", "b"]
    assert texts(made.messages()) == ["summary", "c"]


def test_a_snapshot_costs_the_same_however_long_the_history() -> None:
    made = view(*(said(seq, UserMessage("x")) for seq in range(500)))
    assert sys.getsizeof(made.messages()) == sys.getsizeof(Context().messages())


# -- what is shown -----------------------------------------------------------------------------


def test_empty_answers_are_in_the_log_but_not_shown() -> None:
    made = view(said(0, UserMessage(())), said(1, AssistantMessage(())), said(2, AssistantMessage("b")))
    assert [each.role for each in made.messages()] == ["user", "assistant"]
    assert [node.seq for node in made.nodes] == [0, 1, 2]


def test_replacing_hides_nothing_that_was_shown() -> None:
    made = view(said(0, UserMessage(())), said(1, UserMessage("b")), said(2, UserMessage("c"), (1, 1)))
    assert texts(made.messages()) == ["", "c"]


def test_the_model_sees_custom_messages_in_a_form_it_knows() -> None:
    register_message("test-hidden", to_llm=lambda _given: None)
    made = view(
        said(0, UserMessage("a")), said(1, CustomMessage("test-plain", "b")),
        said(2, CustomMessage("test-hidden", "c")), said(3, UserMessage("d")),
    )  # fmt: skip
    assert [each.role for each in made.messages()] == ["user", "custom", "custom", "user"]
    assert [(each.role, each.text) for each in made.llm_messages()] == [
        ("user", "a"),
        ("user", "b"),
        ("user", "d"),
    ]
    made.add(said(4, UserMessage("e"), (1, 1)))
    assert texts(made.llm_messages()) == ["a", "e", "d"]


def test_messages_of_a_file_get_their_types() -> None:
    made = view(
        entry(0, "user/message", {"message": {"role": "user", "content": [{"type": "text", "text": "a"}]}})
    )
    assert type(made.messages()[0]) is UserMessage


def test_the_facts_are_those_that_the_model_last_read() -> None:
    made = view(said(0, UserMessage("now", source=RUNTIME_CONTEXT)), said(1, UserMessage("a")))
    assert made.facts == "now"
    made.add(said(2, UserMessage("later", source=RUNTIME_CONTEXT)))
    assert made.facts == "later"
    made.add(said(3, UserMessage("all of it"), (0, 2)))
    assert made.facts is None


# -- system messages ---------------------------------------------------------------------------


def test_the_first_system_message_is_the_head_and_later_ones_stand_in_the_history() -> None:
    made = view(system(0, "be brief"), said(1, UserMessage("a")), system(2, "be long"), system(3, ""))
    assert (made.prompt, made.effective_prompt) == ("be brief", "be long")
    assert [(each.role, each.text) for each in made.messages()] == [("user", "a"), ("system", "be long")]
    assert made.system == ((0, "be brief"), (2, "be long"), (3, ""))
    assert (Context().prompt, Context().effective_prompt) == ("", "")


def test_a_system_message_can_be_replaced_where_it_stands() -> None:
    made = view(
        system(0, "be brief"), said(1, UserMessage("a")), system(2, "be long"), system(3, "be kind", (0, 0))
    )
    assert (made.prompt, made.generation, made.messages()[1].text) == ("be kind", 1, "be long")
    shorter = system(4, "be short", (2, 2))
    made.check(shorter)
    made.add(shorter)
    assert texts(made.messages()) == ["a", "be short"]
    assert (made.effective_prompt, made.generation) == ("be short", 2)


# -- replacing ---------------------------------------------------------------------------------


def test_a_range_is_replaced_by_one_message() -> None:
    made = view(*(said(seq, UserMessage(f"{seq}")) for seq in range(5)), said(5, UserMessage("1-3"), (1, 3)))
    assert texts(made.messages()) == ["0", "1-3", "4"]
    assert [node.seq for node in made.nodes] == [0, 5, 4]
    assert made.generation == 1
    made.add(said(6, UserMessage("again"), (5, 4)))
    assert texts(made.messages()) == ["0", "again"]


OTHER = "it replaces something else than one result of the same call"
FAILED = ToolResultMessage("c1", "add", "...", is_error=True)
HISTORY = (
    system(0, "be brief"), said(1, UserMessage("a")), said(2, AssistantMessage("b")),
    said(3, ToolResultMessage("c1", "add", "3" * 100)), said(4, ToolResultMessage("c2", "add", "4")),
)  # fmt: skip


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        (said(5, UserMessage("x"), (7, 8)), "it replaces 7 to 8, which is no part of the conversation"),
        (said(5, UserMessage("x"), (2, 1)), "it replaces 2 to 1, which is no part of the conversation"),
        (said(5, UserMessage("x"), (0, 1)), "it replaces 0 to 1, which is no part of the conversation"),
        (system(5, "x", (1, 1)), "it replaces 1, which is no system message"),
        (said(5, ToolResultMessage("c1", "add", "..."), (3, 4)), OTHER),
        (said(5, ToolResultMessage("c1", "add", "..."), (4, 4)), OTHER),
        (said(5, ToolResultMessage("c1", "add", "..."), (1, 1)), OTHER),
        (said(5, FAILED, (3, 3)), OTHER),
        (entry(5, "user/message", {}), "message"),
        (entry(5, "user/message", {"message": {"role": "wizard"}}), "message role 'wizard' is unknown"),
        (entry(5, "user/message", {"message": "hi"}), "a message is an object"),
        (entry(5, "system/message", {"message": {}}), "content"),
        (entry(5, "model_change", {}), "model"),
        (entry(5, "thinking_level_change", {}), "thinking"),
        (entry(5, "active_tools_change", {"tools": None}), "not iterable"),
    ],
)  # fmt: skip
def test_what_cannot_be_folded_is_found_out_beforehand(wrong: Entry, what: str) -> None:
    made = view(*HISTORY)
    with pytest.raises((ValueError, KeyError, TypeError, AttributeError), match=what):
        made.check(wrong)
    assert texts(made.messages()) == texts(view(*HISTORY).messages())
    assert made.generation == 0


def test_a_result_is_shortened_by_one_of_the_same_call() -> None:
    made = view(*HISTORY, said(5, ToolResultMessage("c1", "add", "..."), (3, 3)))
    assert texts(made.messages()) == ["a", "b", "...", "4"]


# -- what was last said about requests ---------------------------------------------------------


def test_it_keeps_what_was_last_said_about_requests() -> None:
    made = view(
        entry(0, "request/header", {"model": "m", "reason": "initial"}),
        entry(1, "request/context", {"model": "m"}),
        entry(2, "model_change", {"model": "n"}), entry(3, "thinking_level_change", {"thinking": "high"}),
        entry(4, "active_tools_change", {"tools": ["add"]}), entry(5, "custom", {"kind": "mine"}),
    )  # fmt: skip
    assert made.header == {"model": "m", "reason": "initial"}
    assert made.route == {"model": "m"}
    assert (made.model, made.thinking, made.tools) == ("n", "high", ("add",))
    empty = Context()
    assert (empty.header, empty.route, empty.model, empty.thinking, empty.tools) == (None,) * 5
