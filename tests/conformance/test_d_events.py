"""data-flow D between the scenarios 60 to 97: save points, events, failed attempts."""

import copy

import pytest
from tests.conformance.hearing import admitted, roles, said, users, watched
from tests.conformance.toolkit import all_of, asks
from tests.machine.drive import scripted, slows, texts, types

from turnchart.machine import (
    CustomMessage,
    Failure,
    Reply,
    UserMessage,
    tool,
)
from turnchart.machine.abort import AbortSignal
from turnchart.machine.ui import (
    AgentEnd,
    MessageEnd,
    SavePoint,
    UiEvent,
)
from turnchart.testing import FakeClock


async def test_d4_an_answer_is_in_the_log_before_its_save_point_and_so_are_the_writes() -> None:
    seen: list[tuple[bool, list[str]]] = []

    def look(event: UiEvent, _: AbortSignal) -> None:
        if isinstance(event, SavePoint):
            seen.append((event.had_pending_mutations, types(agent.session)[-2:]))

    @tool
    def note() -> str:
        """Ask for a write."""
        agent.append_message(CustomMessage("note", "n"))
        return "noted"

    async with scripted([asks("note"), "done"], tools=[note]) as agent:
        agent.ui(look)
        await agent.prompt("x")
    assert seen == [(True, ["step/end", "custom_message"]), (False, ["assistant/message", "step/end"])]


async def test_d7_events_are_frozen_and_named() -> None:
    async with watched([slows(0, 1), "done"]) as (agent, heard):
        await agent.prompt("x")
    for event in heard.events:
        assert isinstance(event.type, str)
        with pytest.raises((AttributeError, TypeError)):
            event.anything = 1  # type: ignore[union-attr]  # it is frozen
        assert copy.copy(event) == event


async def test_b9_a_failed_attempt_is_a_message_that_does_not_stay() -> None:
    async with watched([Failure("overloaded", message="busy"), "ok"]) as (agent, heard):
        await agent.prompt("x")
    failed, good = [each for each in heard.of(MessageEnd) if each.message.role == "assistant"]
    assert (failed.attempt, failed.message["stop_reason"]) == (1, "error")
    assert failed.failure is not None
    assert failed.failure.kind == "overloaded"
    assert (good.attempt, good.failure, good.message.text) == (None, None, "ok")
    assert said(agent.view.messages) == ["x", "ok"]
    assert failed.message not in [message for end in heard.of(AgentEnd) for message in end.messages]
    assert all_of(agent.session, "assistant/attempt")[0].attempt == 1


async def test_b9_an_attempt_that_was_cut_off_before_it_showed_anything() -> None:
    async with watched([Reply("late", delay=5)]) as (agent, heard):
        agent.follow_up("x")
        await admitted(agent)
        agent.abort("user")
        await agent.idle()
    (end,) = [each for each in heard.of(MessageEnd) if each.message.role == "assistant"]
    assert (end.attempt, end.message["stop_reason"], end.failure) == (1, "aborted", None)
    assert roles(agent.session) == ["user"]
    assert agent.view.error_message is None


async def test_d10_an_appended_message_is_written_at_once_or_at_the_end_of_the_step() -> None:
    clock = FakeClock()

    @tool
    def note() -> str:
        """Ask for two writes."""
        agent.append_message([UserMessage("by"), UserMessage("the way")])
        assert types(agent.session)[-1] == "tool/call"
        return "noted"

    async with watched([asks("note"), "done"], tools=[note], clock=clock) as (agent, heard):
        with pytest.raises(ValueError, match="must not be empty"):
            agent.append_message("")
        agent.append_message("before")
        (first,) = all_of(agent.session, "user/message")
        assert first.data["message"]["time"] == clock.now()
        assert first.data["message"]["id"]
        await agent.prompt("x")
    assert texts(agent.session, "user/message") == ["before", "x", "by", "the way"]
    assert users(agent) == [["before", "x"], ["before", "x", "by", "the way"]]
    ids = [entry.data["message"]["id"] for entry in all_of(agent.session, "user/message")]
    assert len(set(ids)) == 4
    assert heard.names().count("ms user") == heard.names().count("me user") == 4
