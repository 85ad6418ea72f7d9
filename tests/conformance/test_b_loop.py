"""data-flow A and B between the scenarios 1 to 35: blocks, batches, queues, updates."""

from typing import Any

import pytest
from tests.conformance.hearing import said, users, watched
from tests.conformance.toolkit import (
    asks,
)
from tests.machine.drive import ADD, drop, slow, slows, texts

from turnchart.machine import (
    AgentBusy,
    Image,
    Queues,
    Reply,
    State,
    ToolCall,
    ToolContext,
    tool,
)
from turnchart.machine.messages import block
from turnchart.machine.points import (
    Deny,
    PreTool,
)
from turnchart.machine.ui import (
    MessageEnd,
    MessageStart,
    ToolExecutionEnd,
    ToolExecutionStart,
    TurnEnd,
)
from turnchart.testing import FakeClock


async def test_b5_arguments_of_a_denied_call_reach_no_body_and_its_end_says_so() -> None:
    def refuse(_: PreTool) -> Deny:
        return Deny("not today")

    async with watched([ADD, "ok"], hooks={"pre_tool": [refuse]}) as (agent, heard):
        await agent.prompt("x")
    (end,) = heard.of(ToolExecutionEnd)
    assert end.is_error
    assert "not today" in end.result.text


async def test_b5_results_are_heard_in_the_order_of_the_model() -> None:
    async with watched([slows(0, 1, 2), "done"]) as (agent, heard):
        await agent.prompt("x")
    assert [event.result.text for event in heard.of(ToolExecutionEnd)] == ["0", "1", "2"]
    (first, _) = heard.of(TurnEnd)
    assert said(first.tool_results) == ["0", "1", "2"]


async def test_b6_calls_of_an_answer_that_was_cut_by_its_limit_do_not_run() -> None:
    cut = Reply("half", tool_calls=ADD.tool_calls, finish="max_tokens")
    async with watched([cut]) as (agent, heard):
        turn = await agent.prompt("x")
    assert turn.reason == "max_tokens"
    assert heard.of(ToolExecutionStart) == []
    assert agent.view.messages[-1].content[-1].type == "text"


async def test_b7_steering_enters_right_before_the_next_answer_inside_its_step() -> None:
    async with watched([ADD, "done"]) as (agent, heard):
        agent.follow_up("x")
        await agent.until(State.TOOLING)
        agent.steer("also")
        agent.go_on()
        await agent.idle()
    names = heard.names("queue_update", "save_point", "after_provider_response")
    second = names.index("turn_start", names.index("turn_start") + 1)
    assert names[second : second + 4] == ["turn_start", "ms user", "me user", "ms assistant"]


async def test_b7_steering_skips_no_call_of_the_batch() -> None:
    async with watched([slows(0, 1), "done"]) as (agent, _):
        agent.follow_up("x")
        await agent.until(State.TOOLING)
        agent.steer("also")
        agent.go_on()
        await agent.idle()
    assert texts(agent.session, "tool/result") == ["0", "1"]


@pytest.mark.parametrize("mode", ["all", "one-at-a-time"])
async def test_b7_modes_are_read_at_the_claim(mode: Any) -> None:
    async with watched(["a", "b", "c"][: 2 if mode == "all" else 3]) as (agent, _):
        agent.follow_up("x")
        await agent.until(State.REQUESTING)
        agent.steer("one")
        agent.steer("two")
        agent.queues = Queues(steering=mode)
        agent.go_on()
        await agent.idle()
    want = [["x"], ["x", "one", "two"]]
    assert users(agent) == (want if mode == "all" else [["x"], ["x", "one"], ["x", "one", "two"]])


async def test_b8_a_busy_agent_says_what_to_use() -> None:
    async with watched([Reply("late", delay=1)]) as (agent, _):
        agent.follow_up("x")
        with pytest.raises(AgentBusy, match=r"steer\(\)"):
            await agent.prompt("y")


async def test_b5_updates_reach_the_listeners_while_an_exclusive_tool_runs() -> None:
    clock = FakeClock()

    @tool
    async def far(ctx: ToolContext) -> str:
        """Say how far it is."""
        for n in ("half", "most"):
            ctx.progress(n)
            await ctx.clock.sleep(1)
        return "all"

    heard_at: list[tuple[str, float]] = []
    async with watched([asks("far"), "done"], tools=[far, slow], clock=clock) as (agent, _):
        agent.ui(lambda event, _: heard_at.append((event.type, clock.now() - 1_000_000)))
        await agent.prompt("x")
    assert [each for each in heard_at if each[0].startswith("tool_execution")] == [
        ("tool_execution_start", 0), ("tool_execution_update", 0), ("tool_execution_update", 1),
        ("tool_execution_end", 2),
    ]  # fmt: skip


async def test_a15_message_end_is_the_object_that_the_log_holds() -> None:
    async with watched([ADD, "done"]) as (agent, heard):
        await agent.prompt("x")
    logged = [
        entry.data["message"]
        for entry in agent.session.entries
        if entry.type in ("user/message", "assistant/message", "tool/result")
    ]
    ended = [event.message for event in heard.of(MessageEnd)]
    assert all(one is other for one, other in zip(logged, ended, strict=True))
    starts = [event.message for event in heard.of(MessageStart) if event.message.role == "assistant"]
    assert [start.content for start in starts] == [(), ()]
    drop(agent)


def test_a1_images_are_taken_by_each_name_of_their_media_type() -> None:
    for name in ("media_type", "mediaType", "mimeType"):
        assert block({"type": "image", "data": "QQ==", name: "image/gif"}) == Image("QQ==", "image/gif")


def test_a1_a_call_names_its_tool_and_holds_an_object() -> None:
    assert ToolCall("add", {"a": 1}, "c1") == {
        "type": "tool_call", "id": "c1", "name": "add", "arguments": {"a": 1},
    }  # fmt: skip
