"""Recordings hold what an agent performed against the declarations."""

import pytest

from turnchart.machine import Agent, Reply, ScriptedModel, State, ToolCall, tool
from turnchart.machine.entries import Frozen
from turnchart.testing import WalkDiffers, record


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def test_it_writes_down_entries_points_calls_and_signals_in_order() -> None:
    model = ScriptedModel([Reply(tool_calls=[ToolCall("add", {"a": 1, "b": 2})]), "3"])
    async with Agent(model, tools=[add]) as agent:
        recording = record(agent)
        await agent.prompt("1 + 2?")
        recording.check()
    performed = [name for name in recording.names if not name.startswith("agent/assistant-stream chunk")]
    assert performed[:8] == [
        "agent/inbox/inserted", "agent/status running", "turn/start", "agent/inbox/spliced",
        "agent/inbox/claimed", "assemble", "pre_step", "step/start",
    ]  # fmt: skip
    assert performed[-5:] == [
        "step/end",
        "after_step",
        "turn_stopping",
        "turn/end completed",
        "agent/status idle",
    ]
    assert [name for name in performed if "tool" in name] == [
        "tool/call", "pre_tool", "tool", "post_tool", "tool/result",
    ]  # fmt: skip


async def test_it_may_begin_between_two_turns_and_go_on_over_several() -> None:
    async with Agent(ScriptedModel(["a", "b", "c"])) as agent:
        await agent.prompt("x")
        recording = record(agent)
        assert recording.names == []
        await agent.prompt("y")
        await agent.prompt("z")
        recording.check()
        assert recording.names.count("agent/status idle") == 2


async def test_what_the_chart_does_not_declare_is_named_with_what_it_does() -> None:
    async with Agent(ScriptedModel(["a"])) as agent:
        recording = record(agent)
        await agent.prompt("x")
        recording.names.insert(recording.names.index("assemble"), "post_tool")
        with pytest.raises(
            AssertionError, match=r"`post_tool`, cannot come in claiming; it could be: .*assemble"
        ):
            recording.check()


async def test_a_trace_that_ends_inside_a_turn_is_not_over() -> None:
    async with Agent(ScriptedModel(["a"])) as agent:
        recording = record(agent)
        agent.follow_up("x")
        await agent.until(State.REQUESTING)
        with pytest.raises(AssertionError, match="its end"):
            recording.check()
        agent.go_on()
        await agent.idle()
        recording.check()


async def test_the_log_is_judged_too() -> None:
    async with Agent(ScriptedModel(["a"])) as agent:
        recording = record(agent)
        await agent.prompt("x")
        entry = agent.session.entries[-1]
        agent.session.entries[-1] = entry._replace(data=Frozen(entry.data | {"turn": 7}))
        with pytest.raises(AssertionError, match="turn") as wrong:
            recording.check()
    assert "the walk up to there:\n  idle to claiming: wake\n" in str(wrong.value)


async def test_a_walk_is_compared_state_by_state() -> None:
    model = ScriptedModel([Reply(tool_calls=[ToolCall("add", {"a": 1, "b": 2})]), "3"])
    async with Agent(model, tools=[add]) as agent:
        recording = record(agent)
        assert recording.states == (State.IDLE,)
        await agent.prompt("1 + 2?")
    assert [row.event for row in recording.rows][:2] == ["wake", "claimed"]
    recording.assert_walk(
        "idle", "claiming", "pre-step", "requesting", "tooling", "stopping",
        "claiming", "pre_step", "requesting", "stopping", "idle",
    )  # fmt: skip
    recording.assert_walk("idle>...>tooling>stopping>...>idle")
    with pytest.raises(WalkDiffers) as differs:
        recording.assert_walk("idle > claiming > pre_step > requesting > stopping > idle")
    assert str(differs.value).splitlines() == [
        "the walk is another one:",
        "    expected    actual",
        "    idle        idle",
        "    claiming    claiming",
        "    pre_step    pre_step",
        "    requesting  requesting",
        "  >             tooling",
        "    stopping    stopping",
        "  >             claiming",
        "  >             pre_step",
        "  >             requesting",
        "  >             stopping",
        "    idle        idle",
    ]
    with pytest.raises(ValueError, match=r"there is no state 'thinking'; the states are: idle, .* or '...'"):
        recording.assert_walk("thinking")


async def test_what_was_walked_before_does_not_count() -> None:
    async with Agent(ScriptedModel(["a", "b"])) as agent:
        agent.walk()
        await agent.prompt("x")
        recording = record(agent)
        await agent.prompt("y")
    recording.assert_walk("idle", "claiming", "pre_step", "requesting", "stopping", "idle")
