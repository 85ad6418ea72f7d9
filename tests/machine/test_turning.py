"""What the running turn knows."""

from turnchart.machine import Item, ToolCall, UserMessage
from turnchart.machine.turning import Turning


def item(*texts: str) -> Item:
    return Item(f"i{texts[0]}", "steer", tuple(UserMessage(text) for text in texts))


def test_what_was_claimed_is_the_input_of_the_next_step_in_order() -> None:
    now = Turning(1)
    one, two = item("a", "b"), item("c")
    now.take((one,))
    now.take((two,))
    assert [message.text for message in now.messages] == ["a", "b", "c"]
    assert now.batch == (one, two)
    assert now.items == ("ia", "ic")


def test_each_step_counts_its_attempts_anew_and_keeps_what_the_turn_knows() -> None:
    now = Turning(1)
    now.take((item("a"),))
    now.enter()
    now.attempt, now.retries, now.attempts, now.fallback = 2, 1, {"m": 2}, "other"
    now.admitted, now.calls, now.tool_calls = True, (ToolCall("add"),), 3
    now.enter()
    assert (now.step, now.attempt, now.retries, now.attempts, now.fallback) == (2, 0, 0, {}, "")
    assert [now.admitted, *now.calls, *now.results] == [False]
    assert (now.tool_calls, now.items) == (3, ("ia",))


def test_the_first_cause_of_an_abort_stays() -> None:
    now = Turning(1)
    assert now.cut("user")
    assert not now.cut("max_seconds")
    assert now.cause == "user"
    assert (now.abort.aborted, now.abort.reason) == (True, "user")


def test_turns_share_nothing() -> None:
    one, two = Turning(1), Turning(2)
    one.take((item("a"),))
    one.cut("user")
    assert (two.batch, two.items, two.cause, two.abort.aborted) == ((), (), None, False)
