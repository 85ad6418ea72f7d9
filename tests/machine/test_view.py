"""The view of an agent: one frozen moment, read from log and turn, whether or not somebody listens."""

import dataclasses
from typing import Any

import pytest
from tests.conformance.hearing import Heard, said, watched
from tests.machine.drive import add, calls, scripted, slow

from turnchart.machine import Agent, AgentState, Failure, Reply, ScriptedModel, Signal
from turnchart.machine.abort import AbortSignal
from turnchart.machine.turning import Turning
from turnchart.machine.ui import MessageEnd, MessageStart, MessageUpdate
from turnchart.machine.view import error_message

SUM = calls(("add", {"a": 1, "b": 2}))


def test_a_view_is_frozen_and_has_the_fields_of_the_seed() -> None:
    assert [field.name for field in dataclasses.fields(AgentState)] == [
        "system_prompt", "model", "thinking_level", "tools", "messages", "is_streaming", "streaming_message",
        "pending_tool_calls", "error_message",
    ]  # fmt: skip
    with pytest.raises(dataclasses.FrozenInstanceError):
        AgentState().is_streaming = True  # type: ignore[misc]  # that is the test


@pytest.mark.parametrize("listens", [False, True])
async def test_a_snapshot_does_not_change_any_more(listens: bool) -> None:
    async with scripted(["a", "b"]) as agent:
        if listens:
            Heard(agent)
        await agent.prompt("x")
        before = agent.view
        await agent.prompt("y")
        assert said(before.messages) == ["x", "a"]
        assert said(agent.view.messages) == ["x", "a", "y", "b"]


@pytest.mark.parametrize("listens", [False, True])
async def test_what_streams_is_seen_as_far_as_it_is(listens: bool) -> None:
    seen: list[tuple[str, bool]] = []

    def look(signal: Signal, _: AbortSignal) -> None:
        view = agent.view
        if signal.data["frame"] == "chunk" and view.streaming_message is not None:
            seen.append((view.streaming_message.text, view.is_streaming))

    async with scripted([Reply(chunks=["a", "b"])]) as agent:
        if listens:
            Heard(agent)
        agent.on("agent/assistant-stream", look)
        await agent.prompt("x")
        assert agent.view.streaming_message is None
    texts = [text for text, _ in seen]
    # Somebody who listens makes the view follow the events; one signal earlier than the event it makes.
    assert texts == (["a", "ab"] if listens else ["a", "ab", "ab"])
    assert all(streaming for _, streaming in seen)


@pytest.mark.parametrize("listens", [False, True])
async def test_settings_are_seen_when_they_are_in_the_log(listens: bool) -> None:
    async with scripted([], models={"other": ScriptedModel(id="other")}) as agent:
        if listens:
            Heard(agent)
        agent.set_model("other")
        agent.set_thinking_level("low")
        agent.set_active_tools(["slow"])
        view = agent.view
        assert (view.model, view.thinking_level, view.tools) == ("other", "low", (slow,))
        agent.set_thinking_level(None)
        assert agent.view.thinking_level == "off"


async def test_the_last_error_is_kept_until_the_next_turn() -> None:
    async with scripted([Failure("auth", message="no key"), "hi"]) as agent:
        await agent.prompt("x")
        assert "no key" in (agent.view.error_message or "")
        await agent.prompt("y")
        assert agent.view.error_message is None


async def test_a_view_can_be_taken_outside_of_the_agent_too() -> None:
    agent = Agent(ScriptedModel(["hi"]), tools=[add])
    assert agent.view.tools == (add,)
    async with agent:
        await agent.prompt("x")
    assert said(agent.view.messages) == ["x", "hi"]
    assert not agent.view.is_streaming


async def test_at_every_event_the_view_is_what_the_events_before_it_made() -> None:
    async with watched([SUM, Failure("overloaded"), "done"]) as (agent, heard):
        await agent.prompt("x")
    messages: list[Any] = []
    for event, view in zip(heard.events, heard.views, strict=True):
        streaming: Any = None
        if isinstance(event, MessageStart | MessageUpdate):
            streaming = event.message
        elif isinstance(event, MessageEnd) and event.attempt is None:
            messages.append(event.message)
        assert view.streaming_message == streaming, event.type
        assert list(view.messages) == messages, event.type


class _Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    ("error", "said"), [(ValueError("boom"), "boom"), (ValueError(), "ValueError"), (_Mute(), "_Mute")]
)
def test_the_words_of_an_error(error: Exception, said: str) -> None:
    now = Turning(1)
    assert error_message(now) is None
    now.error = error
    assert error_message(now) is None
    now.reason = "error"
    assert error_message(now) == said
