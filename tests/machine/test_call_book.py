from turnchart.machine.call_book import Calls
from turnchart.machine.entries import Entry, Frozen
from turnchart.machine.messages import AssistantMessage, ToolCall


def entry(type: str, **data: object) -> Entry:
    return Entry(0, None, type, 0.0, Frozen(data))


def asked(*ids: str, **more: object) -> Calls:
    book = Calls()
    said = AssistantMessage(tuple(ToolCall("t", {}, id=id) for id in ids), stop_reason="tool_calls")
    assert book.take(entry("assistant/message", message=said, **more)) is None
    return book


def called(id: str, execution: str = "parallel") -> Entry:
    return entry("tool/call", call_id=id, tool="t", execution=execution)


def test_an_interrupted_answer_owes_nothing() -> None:
    assert asked("a", interrupted=True).take(entry("step/end")) is None
    assert asked("a").take(entry("step/end")) is not None


def test_a_call_that_nobody_decides_about_stays_asked() -> None:
    book = asked("a")
    ask = entry("approval/asked", call_id="a")
    assert book.take(ask) == ("call 'a' does not run", "the id of a running call")
    assert book.take(called("a")) is None
    assert book.take(ask) is None
    assert book.take(entry("approval/decided", call_id="b")) == (
        "nobody asked about call 'b'", "approval/asked first",
    )  # fmt: skip
    assert book.take(entry("approval/decided", call_id="a")) is None


def test_the_next_call_is_named() -> None:
    wrong = asked("a", "b").take(called("b"))
    assert wrong == ("call 'b' of `t` is not the next one asked for", "call 'a' of `t`")
    wrong = asked().take(called("b"))
    assert wrong is not None
    assert wrong.expected == "no call: all that were asked for have been"
