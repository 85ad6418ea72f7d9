from typing import Any, cast

import pytest

from turnchart.machine import AssistantMessage, CustomMessage, Image, Session, Text, Thinking, UserMessage
from turnchart.machine.context import Node
from turnchart.machine.entries import Entry, Frozen
from turnchart.machine.messages import Message, ToolCall, ToolResultMessage
from turnchart.machine.tokens import Gauge, message_tokens, reported, text_tokens, usage_tokens

BROKEN = ToolCall.of_fields({"type": "tool_call", "id": "c", "name": "add", "arguments": "{"})


def said(text: str, usage: dict[str, int] | None = None, stop: str = "stop") -> AssistantMessage:
    return AssistantMessage(text, model="m", usage=usage, stop_reason=stop)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # one of them


def session(*messages: Message) -> Session:
    """A conversation outside of turns, as an import has it."""
    made = Session()
    add(made, *messages)
    return made


def add(to: Session, *messages: Message) -> None:
    for each in messages:
        if each.role == "assistant":
            entry = Entry(
                len(to.entries), to.leaf, "assistant/message", 0.0, Frozen(message=each), foreign_id="f"
            )
            to.copy([entry])
        else:
            to.append("user/message", Frozen(message=each))


@pytest.mark.parametrize(
    ("message", "tokens"),
    [
        (UserMessage("12345678"), 2),
        (UserMessage("123456789"), 3),
        (UserMessage([Text("1234"), Image("aGk=", "image/png")]), 1201),
        (AssistantMessage([Thinking("1234"), Text("1234")], model="m"), 2),
        (AssistantMessage([ToolCall("add", {"a": 1}, "c")], model="m"), 3),  # add and {"a":1}
        (AssistantMessage([BROKEN], model="m"), 1),
        (ToolResultMessage("c", "t", "12345"), 2),
        (CustomMessage("note", "1234"), 1),
    ],
)  # fmt: skip
def test_a_message_is_a_quarter_of_its_characters(message: Message, tokens: int) -> None:
    assert message_tokens(message) == tokens


def test_what_a_provider_counted() -> None:
    assert usage_tokens({"input": 1000, "output": 500, "cache_read": 200, "cache_write": 100}) == 1800
    assert usage_tokens({"total": 7, "input": 1}) == 7
    assert usage_tokens({}) == usage_tokens({"input": 0}) == 0
    assert text_tokens("12345") == 2


@pytest.mark.parametrize(
    ("message", "tokens"),
    [
        (said("a", {"input": 10, "output": 2}), 12),
        (said("a", {"input": 10}, "aborted"), 0),
        (said("a", {"input": 10}, "error"), 0),
        (said("a", {"input": 0, "output": 0}), 0),
        (said("a"), 0),
        (UserMessage("a"), 0),
    ],
)
def test_an_answer_that_was_cut_off_or_counted_nothing_reports_nothing(message: Message, tokens: int) -> None:
    assert reported(message) == tokens


def test_before_the_first_report_characters_count_with_the_prompt_and_the_tools() -> None:
    log = session(UserMessage("1234"))
    log.view.system = ((0, "12345678"),)
    assert Gauge().measure(log) == 3
    log.view.header = Frozen(tools=(Frozen(name="t"),))
    assert Gauge().measure(log) == 3 + text_tokens('[{"name":"t"}]')


def test_a_report_counts_for_everything_before_it() -> None:
    log, gauge = session(UserMessage("1" * 400)), Gauge()
    assert gauge.measure(log) == 100
    add(log, said("b" * 40, {"input": 50, "output": 10}))
    assert gauge.measure(log) == 60
    add(log, UserMessage("1" * 40), said("c", {"input": 1}, "aborted"))
    assert gauge.measure(log) == Gauge().measure(log) == 60 + 10 + 1


def test_a_report_from_before_a_replacement_counts_no_more() -> None:
    log, gauge = session(UserMessage("1" * 400), said("b" * 40, {"input": 900})), Gauge()
    assert gauge.measure(log) == 900
    log.append("user/message", Frozen(message=UserMessage("12345678")), replaces=(0, 0), sources=(0,))
    assert gauge.measure(log) == Gauge().measure(log) == 2 + 10
    add(log, said("c", {"input": 33}))
    assert gauge.measure(log) == Gauge().measure(log) == 33


class Nodes(list[Node]):
    """Nodes that count how many of them are looked at."""

    looked = 0

    def __getitem__(self, index: Any) -> Any:
        self.looked += 1
        return cast(Any, super()).__getitem__(index)


def test_a_measure_looks_only_at_what_is_new() -> None:
    log, gauge = session(*[UserMessage("1234") for _ in range(50)]), Gauge()
    log.view.nodes = nodes = Nodes(log.view.nodes)
    assert gauge.measure(log) == 50
    assert nodes.looked == 50
    assert gauge.measure(log) == 50
    add(log, UserMessage("1234"))
    assert gauge.measure(log) == 51
    assert nodes.looked == 51
