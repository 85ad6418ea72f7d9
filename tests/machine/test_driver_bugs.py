"""Bugs of ours inside the driver: the agent rests, its log can be closed, and the bug is raised again."""

from typing import Any

import pytest
from tests.machine.drive import scripted, texts, types

from turnchart.machine import Agent, Event, InternalError, ScriptedModel, State
from turnchart.machine.points import PreStep, TurnStopping
from turnchart.testing import FakeClock


class Buggy(Agent):
    """An agent in which something of ours is wrong."""

    __slots__ = ("wrong",)
    wrong: str

    def claim(self) -> None:
        if self.wrong == "claim":
            raise InternalError("a bug in claim")
        super().claim()

    def go(self, event: Event) -> None:
        if event == self.wrong:
            raise InternalError(f"a bug in {event}")
        super().go(event)


def buggy(wrong: str, *replies: str, **settings: Any) -> Buggy:
    agent = Buggy(ScriptedModel(replies), clock=FakeClock(), **settings)
    agent.wrong = wrong
    return agent


async def test_a_bug_in_the_start_of_a_turn_closes_it_and_reaches_the_caller() -> None:
    agent = buggy("claim", "ok")
    errors: list[object] = []
    agent.on("agent/error", lambda signal, _: errors.append(signal.data["error"]))
    async with agent:
        with pytest.raises(InternalError, match="a bug in claim"):
            agent.follow_up("x")
        assert agent.state is State.IDLE
        assert types(agent.session) == ["agent/inbox/spliced", "turn/start", "turn/end"]
        assert [str(error) for error in errors] == ["a bug in claim"]
        agent.wrong = ""
        agent.resume()
        await agent.idle()
    assert texts(agent.session, "assistant/message") == ["ok"]


@pytest.mark.parametrize("wrong", ["fail", "cancel"])
async def test_a_bug_in_a_closing_row_leaves_the_agent_at_rest_and_is_raised_again(wrong: str) -> None:
    def act(_: PreStep) -> None:
        if wrong == "cancel":
            agent.abort()
        else:
            raise ValueError("a hook fails")

    agent = buggy(wrong, hooks={"pre_step": [act]})
    with pytest.raises(InternalError, match=f"a bug in {wrong}"):
        async with agent:
            await agent.prompt("x")
    assert agent.state is State.IDLE
    assert "turn/end" not in types(agent.session)
    agent.session.recover()
    assert types(agent.session)[-1] == "turn/end"


async def test_a_row_ends_a_turn_only_with_a_reason_that_it_has() -> None:
    def spoil(_: TurnStopping) -> None:
        agent.turning.reason = "blocked"

    agent = buggy("", "ok", hooks={"turn_stopping": [spoil]})
    with pytest.raises(InternalError, match="row stopping settle cannot end a turn as 'blocked'"):
        async with agent:
            await agent.prompt("x")
    assert types(agent.session)[-1] == "turn/end"
    assert agent.session.entries[-1].data["reason"] == "error"


async def test_the_rows_that_are_taken_can_be_written_down() -> None:
    async with scripted(["ok"]) as agent:
        rows = agent.walk()
        assert agent.walk() is rows
        await agent.prompt("x")
    assert [row.event for row in rows] == ["wake", "claimed", "enter", "respond", "settle"]
