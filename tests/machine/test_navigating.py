"""What a summary of a branch is asked with, and what comes of it."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from tests.machine.drive import scripted

from turnchart.machine import Agent, Reply, ScriptedModel, ToolCall, tool
from turnchart.machine.abort import AbortSignal
from turnchart.machine.entries import Frozen
from turnchart.machine.errors import UnknownModel
from turnchart.machine.messages import UserMessage
from turnchart.machine.models import Chunk, ModelRequest, PreparedCall, RequestConfig, TextDelta
from turnchart.machine.navigating import RESERVE
from turnchart.testing import FakeClock


class Route:
    """A model with a window, whose streams are nothing but what is told.

    Attributes:
        asked: What it was asked.
        closed: How many streams were closed.
    """

    id = "route"

    def __init__(self, window: int | None, *streams: Sequence[Any]) -> None:
        self.asked: list[ModelRequest] = []
        self.closed = 0
        self._window = window
        self._streams = list(streams)

    async def prepare(self, config: RequestConfig, abort: AbortSignal) -> PreparedCall:
        del abort
        return PreparedCall(config, self._open, context_window=self._window)

    async def _open(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        self.asked.append(request)
        try:
            for part in self._streams.pop(0):
                if isinstance(part, Exception):
                    raise part
                yield part
        finally:
            self.closed += 1


def user_texts(request: Any) -> str:
    return "\n".join(each.text for each in request.messages)


def say(agent: Agent, *texts: str) -> None:
    for text in texts:
        agent.append_message(text)


@tool
async def read_file(path: str) -> str:
    """Read."""
    return path


@tool
async def write_file(path: str) -> str:
    """Write."""
    if path == "bad":
        raise ValueError("no")
    return path


async def test_files_are_followed_through_nested_summaries() -> None:
    asks = Reply(
        tool_calls=[
            ToolCall("read_file", {"path": "a"}), ToolCall("write_file", {"path": "b"}),
            ToolCall("write_file", {"path": "bad"}),
        ]
    )  # fmt: skip
    async with scripted(
        [asks, "done", Reply("First."), Reply("Second.")], tools=[read_file, write_file]
    ) as agent:
        say(agent, "start")
        await agent.prompt("x")
        moved = await agent.navigate(0, summarize=True)
        assert moved.summary is not None
        assert moved.summary.data["details"] == {"read_files": ("a",), "modified_files": ("b",)}
        again = await agent.navigate(None, summarize=True)
        assert again.summary is not None
        assert again.summary.data["details"] == moved.summary.data["details"]


async def test_the_newest_messages_that_fit_are_summed_up() -> None:
    route = Route(RESERVE + 100, [TextDelta("Summed up.")])
    async with Agent(route, clock=FakeClock()) as agent:
        say(agent, "first", "a" * 300, "b" * 200, "c" * 100)
        await agent.navigate(0, summarize=True)
        prompt = user_texts(route.asked[0])
        assert "[User]: " + "b" * 200 + "\n\n[User]: " + "c" * 100 in prompt
        assert "aaa" not in prompt


@pytest.mark.parametrize(("before", "kept"), [(89, True), (90, False)])
async def test_a_summary_may_be_a_little_over(before: int, kept: bool) -> None:
    route = Route(RESERVE + 100, [TextDelta("Summed up.")])
    async with Agent(route, clock=FakeClock()) as agent:
        agent.session.append_custom("mine", 1)
        agent.session.append_custom("mine", 2)
        agent.session.navigate(0, summary="Nested. " + "n" * 100)
        say(agent, "c" * 4 * before)
        await agent.navigate(None, summarize=True)
        assert ("Nested." in user_texts(route.asked[0])) is kept


async def test_model_and_thinking_are_those_of_the_conversation() -> None:
    other = Route(None, [TextDelta("Summed up.")])
    async with scripted([], models={"route": other}, settings={"temperature": 0.5}) as agent:
        agent.set_model("route")
        agent.set_thinking_level("high")
        say(agent, "a", "b")
        moved = await agent.navigate(2, summarize=True)
        request = other.asked[0]
        assert (request.model, request.thinking) == ("route", "high")
        assert request.settings == {"temperature": 0.5, "max_tokens": 2048}
        assert request.session.startswith(f"{agent.session.id}/")
        assert moved.summary is not None
        assert (moved.summary.data["summary"], other.closed) == ("Summed up.", 1)


async def test_what_an_adapter_raises_is_a_failed_request_and_a_bug_is_raised_as_it_is() -> None:
    route = Route(None, [ConnectionError("gone")], [TextDelta("Summed up.")], [UnknownModel("our own")])
    async with Agent(route, clock=FakeClock(), seed=1) as agent:
        say(agent, "a", "b")
        moved = await agent.navigate(0, summarize=True)
        assert moved.summary is not None
        assert len(route.asked) == 2
        say(agent, "c")
        leaf = agent.session.leaf
        with pytest.raises(UnknownModel, match="our own"):
            await agent.navigate(None, summarize=True)
        assert agent.session.leaf == leaf
        assert agent.state == "idle"


async def test_a_summary_that_is_given_asks_no_model() -> None:
    async with scripted([]) as agent:
        say(agent, "a", "b")
        moved = await agent.navigate(0, summarize=True, summary="Mine.")
        assert moved.summary is not None
        assert moved.summary.data == Frozen({"summary": "Mine.", "from": 1})
        assert isinstance(agent.model, ScriptedModel)
        assert not agent.model.requests


async def test_what_is_shown_to_be_said_again_is_text_only() -> None:
    async with scripted([]) as agent:
        say(agent, "a")
        agent.append_message(UserMessage([{"type": "text", "text": "b"}, {"type": "text", "text": "c"}]))
        assert (await agent.navigate(0)).text == "a"
        assert (await agent.navigate(1)).text == "bc"
