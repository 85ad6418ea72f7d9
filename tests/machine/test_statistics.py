"""What a session came to."""

from typing import Any

import pytest
from tests.machine.drive import calls, scripted

from turnchart.machine import Reply
from turnchart.machine.entries import Entry, Frozen
from turnchart.machine.messages import AssistantMessage
from turnchart.machine.statistics import Spent, statistics


def answered(seq: int, usage: Any, model: str = "m") -> Entry:
    said = AssistantMessage("a", model=model)
    return Entry(
        seq, seq - 1 if seq else None, "assistant/message", 0.0, Frozen(message=Frozen(said, usage=usage))
    )


async def test_everything_that_was_said_and_called_is_counted() -> None:
    asks = calls(("add", {"a": 1, "b": 2}), ("add", {"a": 3, "b": 4}))
    async with scripted([asks, Reply("done", usage={"input": 5, "output": 2}), "other"]) as agent:
        agent.session.append_custom_message("note", "n")
        await agent.prompt("x")
        agent.session.navigate(0)
        await agent.prompt("y")
        found = agent.session.statistics()
    assert found.roles == {"custom": 1, "user": 2, "assistant": 3, "tool_result": 2}
    assert (found.messages, found.tools, found.entries["leaf"]) == (8, {"add": 2}, 1)
    assert (found.input, found.output, found.total, found.cost) == (5, 2, 7, None)


def test_what_took_the_place_of_a_message_is_not_counted_again() -> None:
    entries = [answered(0, None), answered(1, None)._replace(replaces=(0, 0))]
    assert statistics(entries).messages == 1


def test_each_model_has_its_share() -> None:
    entries = [
        answered(0, Frozen(input=1, output=2)),
        answered(1, Frozen(input=4, output=8, total=20), "other"),
        answered(2, Frozen(input=1, cache_read=3, cache_write=6)),
    ]
    found = statistics(entries, {"m": {"input": 1e6, "cache_read": 5e5}})
    assert found.models == {
        "m": Spent(input=2, output=2, cache_read=3, cache_write=6, total=13, cost=3.5),
        "other": Spent(input=4, output=8, total=20),
    }
    assert found.total == 33
    assert found.cost == 3.5


@pytest.mark.parametrize(
    ("cost", "found"),
    [(0.5, 0.5), (2, 2.0), (Frozen(total=1), 1.0), (-1, 7.0), ("x", 7.0), (True, 7.0), (None, 7.0)],
)
def test_what_an_answer_says_of_its_cost_goes_before_prices(cost: Any, found: float) -> None:
    assert statistics([answered(0, Frozen(input=7, cost=cost))], {"m": {"input": 1e6}}).cost == found


@pytest.mark.parametrize(
    "usage", [5, "many", Frozen(input=-1), Frozen(output="2"), Frozen(total=True), Frozen(input=1.5)]
)
def test_a_malformed_usage_is_passed_over(usage: Any) -> None:
    found = statistics([answered(0, usage), answered(1, Frozen(input=1))])
    assert (found.messages, found.total) == (2, 1)
