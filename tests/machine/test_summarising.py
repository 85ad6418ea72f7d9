from typing import Any

import pytest
from tests.conformance.asking import DONE, Route, asked

from turnchart.machine import Agent, RequestFailed, RetryPolicy, UserMessage
from turnchart.machine.messages import Failure
from turnchart.machine.models import BlockEnd, BlockStart, Chunk, Finish, TextDelta, UsageReport
from turnchart.machine.summarising import LEAST_CHARS, SUMMARY_TOKENS, Summarised, Summariser

pytestmark = pytest.mark.anyio

TOO_LONG = (Finish("error", Failure("context_window")),)


def text(said: str, **usage: int) -> tuple[Chunk, ...]:
    """Return a stream that says this; what comes behind its finish is not read."""
    counts = (UsageReport(usage),) if usage else ()
    return BlockStart("text"), TextDelta(said), BlockEnd(), *counts, Finish("stop"), TextDelta("more")


async def summarised(
    route: Route, *history: str, prefix: str = "", previous: str = "", **settings: Any
) -> Summarised:
    """Ask for a summary while the agent is in maintenance, where it may be asked for."""

    async def job(agent: Agent) -> Summarised:
        told = [UserMessage(each) for each in history]
        begun = [UserMessage(prefix)] if prefix else []
        return await Summariser(agent, "names").summarise(told, begun, previous)

    async with asked(route, checked=False, **settings) as agent:
        came = await agent.maintain(job)
    assert isinstance(came, Summarised)
    return came


async def test_a_summary_takes_one_request_and_says_what_it_took() -> None:
    route = Route(text("  sum \n", input=3, output=1))
    assert await summarised(route, "one", "two") == Summarised("sum", {"input": 3, "output": 1})
    (request,) = route.requests
    assert request.settings == {"max_tokens": SUMMARY_TOKENS}
    assert request.messages[0].text.endswith("Additional focus: names")


async def test_without_history_the_earlier_summary_stays_as_it_is() -> None:
    route = Route(text("begun", input=1), DONE)
    came = await summarised(route, prefix="p", previous="what was")
    assert came.text == "what was\n\n## The beginning of the turn that goes on\n\nbegun"
    assert len(route.requests) == 1
    assert await summarised(Route(), previous="what was") == Summarised("what was", {})


async def test_usage_is_the_sum_of_all_requests() -> None:
    route = Route(text("a", input=3, output=1), text("b", input=4, cache_read=2))
    came = await summarised(route, "one", prefix="p")
    assert came.usage == {"input": 7, "output": 1, "cache_read": 2}


async def test_the_pieces_become_smaller_until_they_fit() -> None:
    route = Route(TOO_LONG, TOO_LONG, *[text(f"s{i}") for i in range(9)])
    came = await summarised(route, *["x" * 3000] * 4)
    sizes = [len(request.messages[0].text) for request in route.requests]
    assert sizes[0] > 12_000 > sizes[1] > 6000 > sizes[2]
    assert came.text == f"s{len(sizes) - 3}"
    assert "<previous-summary>\ns0\n" in route.requests[3].messages[0].text


async def test_a_window_that_is_known_says_how_large_a_piece_may_be() -> None:
    route = Route(TOO_LONG, *[text("s")] * 9, window=1000)
    await summarised(route, *["x" * 1400] * 8)
    assert len(route.requests) == 1 + 4  # two parts of 1400 characters fit 3000


async def test_what_is_never_short_enough_fails() -> None:
    route = Route(*[TOO_LONG] * 20)
    with pytest.raises(RequestFailed, match="context_window"):
        await summarised(route, "x" * 10_000)
    assert len(route.requests[-1].messages[0].text) < LEAST_CHARS + 2000


@pytest.mark.parametrize(
    ("error", "tries"), [(ConnectionError("gone"), 2), (TimeoutError(), 2), (RuntimeError("odd"), 1)]
)
async def test_what_an_adapter_raises_is_tried_again_like_any_failure(error: Exception, tries: int) -> None:
    route = Route((error,), text("sum"))
    if tries == 1:
        with pytest.raises(RequestFailed, match="odd"):
            await summarised(route, "one")
    else:
        assert (await summarised(route, "one")).text == "sum"
    assert len(route.requests) == tries


async def test_tries_end_with_the_policy() -> None:
    failed = (Finish("error", Failure("timeout")),)
    route = Route(*[failed] * 5)
    with pytest.raises(RequestFailed, match="timeout"):
        await summarised(route, "one", retry=RetryPolicy(max_attempts=3))
    assert len(route.requests) == 3
