"""Tools (lifecycle I.8): groups, the pool, order of results, argument errors, hooks, contexts, ends of a turn."""

from typing import Any

import pytest
from tests.conformance.toolkit import (
    Seen,
    all_of,
    asks,
    brackets,
    code,
    last,
    ordered,
    outcomes,
    parallels,
    ran,
    reasons,
    results,
    timed,
)
from tests.machine.drive import add, calls, run, scripted, texts, types

from turnchart.hooks.builtin.repeat_guard import repeat_guard
from turnchart.machine import Agent, Limits, Reply, Signal, State, ToolCall, ToolContext, ToolFailed, tool
from turnchart.machine.abort import AbortSignal
from turnchart.machine.points import Block, Deny, PostTool, PreTool, RunTool, ToolOutcome
from turnchart.testing import FakeClock

TOOLS = ("tool/call", "tool/result")


async def test_i149_one_call_is_answered_by_one_result_that_cites_it() -> None:
    agent, (turn,) = await run([calls(("add", {"a": 1, "b": 2})), "three"])
    kinds = types(agent.session)
    at = kinds.index("assistant/message")
    assert kinds[at : at + 4] == ["assistant/message", "tool/call", "tool/result", "step/end"]
    assert agent.session.entries[at + 2].sources == (at + 1,)
    assert (turn.steps, turn.text) == (2, "three")


async def test_i150_two_parallel_bodies_start_before_either_finishes() -> None:
    seen: Seen = []
    await run([asks("a", "b"), "ok"], tools=parallels(seen, a=1, b=2))
    assert ran(seen) == ["a+", "b+", "a-", "b-"]


async def test_i151_an_exclusive_call_between_parallel_ones_makes_three_groups() -> None:
    seen: Seen = []
    tools = [*parallels(seen, a=3, c=1), timed("b", 1, seen)]
    agent, _ = await run([asks("a", "a", "b", "c", "c"), "ok"], tools=tools)
    assert ran(seen) == ["a+", "a+", "a-", "a-", "b+", "b-", "c+", "c+", "c-", "c-"]
    modes = [entry.data["execution"] for entry in all_of(agent.session, "tool/call")]
    assert modes == ["parallel", "parallel", "exclusive", "parallel", "parallel"]


async def test_i152_results_stand_in_model_order_whoever_settles_first() -> None:
    seen: Seen = []
    agent, _ = await run([asks("a", "b"), "ok"], tools=parallels(seen, a=2, b=1))
    assert ran(seen) == ["a+", "b+", "b-", "a-"]
    assert [entry.data["message"].tool for entry in all_of(agent.session, "tool/result")] == ["a", "b"]


async def test_i153_a_slot_is_refilled_only_after_the_head_was_committed() -> None:
    seen: Seen = []
    tools = parallels(seen, a=3, b=1, c=1)
    agent, _ = await run([asks("a", "b", "c"), "ok"], tools=tools, limits=Limits(parallel_tools=2))
    assert ran(seen) == ["a+", "b+", "b-", "a-", "c+", "c-"]
    assert brackets(agent.session, *TOOLS) == [
        "call a", "call b", "result a", "result b", "call c", "result c",
    ]  # fmt: skip


async def test_i154_a_cap_of_one_runs_everything_one_by_one() -> None:
    seen: Seen = []
    await run(
        [asks("a", "b", "c"), "ok"], tools=parallels(seen, a=2, b=1, c=1), limits=Limits(parallel_tools=1)
    )
    assert seen == ["a+", "a-", "b+", "b-", "c+", "c-"]


@pytest.mark.parametrize("cap", [0, -1, 1.5, float("nan"), float("inf"), True, "2", None])
def test_i154_a_cap_that_is_no_whole_number_from_one_is_refused(cap: Any) -> None:
    with pytest.raises(ValueError, match=r"limits\.parallel_tools is .*; it must be a whole number from 1"):
        Limits(parallel_tools=cap)


async def test_i154_the_default_pool_holds_ten() -> None:
    seen: Seen = []
    await run([asks(*"a" * 12), "ok"], tools=parallels(seen, a=1), limits=Limits())
    assert seen.index("a-") == 10


async def test_i155_a_call_is_classified_by_what_holds_right_before_it_starts() -> None:
    seen: Seen = []
    mode = ["exclusive"]

    async def change() -> str:
        mode[0] = "parallel"
        return "changed"

    tools = [
        tool(change, description="x"),
        *(timed(name, 2 - (name == "a"), seen, execution=lambda _: mode[0]) for name in "ab"),
    ]
    agent, _ = await run([asks("change", "a", "b"), "ok"], tools=tools)
    assert ran(seen) == ["a+", "b+", "a-", "b-"]
    assert [entry.data["execution"] for entry in all_of(agent.session, "tool/call")] == [
        "exclusive", "parallel", "parallel",
    ]  # fmt: skip


async def test_i156_a_call_that_became_exclusive_waits_until_the_pool_is_empty() -> None:
    seen: Seen = []
    mode = ["parallel"]
    tools = [timed(name, 2 if name == "b" else 1, seen, execution=lambda _: mode[0]) for name in "abcd"]

    def at_first_result(signal: Signal, _: AbortSignal) -> None:
        if signal.data["entry"].type == "tool/result":
            mode[0] = "exclusive"

    async with scripted([asks("a", "b", "c", "d"), "ok"], tools=tools) as agent:
        agent.on("session/event", at_first_result)
        await agent.prompt("x")
    assert ran(seen) == ["a+", "b+", "a-", "b-", "c+", "c-", "d+", "d-"]
    assert brackets(agent.session, *TOOLS)[2:5] == ["result a", "result b", "call c"]


def _raises(_: dict[str, Any]) -> str:
    raise ValueError("no idea")


@pytest.mark.parametrize(
    "predicate",
    [lambda _: 1, lambda _: True, lambda _: "PARALLEL", lambda _: None, lambda _: ["parallel"], _raises],
)
async def test_i157_what_is_not_plainly_parallel_runs_alone(predicate: Any) -> None:
    seen: Seen = []
    agent, _ = await run([asks("a", "a"), "ok"], tools=[timed("a", 1, seen, execution=predicate)])
    assert seen == ["a+", "a-", "a+", "a-"]
    assert {entry.data["execution"] for entry in all_of(agent.session, "tool/call")} == {"exclusive"}


async def test_i157_a_call_with_wrong_arguments_or_of_an_unknown_tool_is_exclusive() -> None:
    agent, _ = await run([calls(("slow", {"n": "q"}), ("nope", {}), ("slow", {})), "ok"])
    assert [entry.data["execution"] for entry in all_of(agent.session, "tool/call")] == ["exclusive"] * 3


async def test_i158_a_predicate_that_changes_its_mind_is_asked_once_for_each_start() -> None:
    seen: Seen = []
    told: list[str] = []

    def wavering(_: dict[str, Any]) -> str:
        told.append("exclusive" if told and told[-1] == "parallel" else "parallel")
        return told[-1]

    agent, _ = await run([asks("a", "a", "a", "a"), "ok"], tools=[timed("a", 1, seen, execution=wavering)])
    assert outcomes(agent.session) == ["ok"] * 4


async def test_i159_a_denied_call_does_not_run_and_passes_post_tool() -> None:
    seen: Seen = []

    def deny(_: PreTool) -> Deny:
        return Deny("not today")

    def post(payload: PostTool) -> PostTool:
        seen.append(payload.outcome)
        return payload.replace(content=f"{payload.text}!")

    agent, _ = await run(
        [asks("a"), "ok"], tools=[timed("a", 0, seen)], hooks={"pre_tool": [deny], "post_tool": [post]}
    )
    assert seen == ["denied"]
    assert results(agent.session) == [("denied", "Denied: not today (hook deny)!")]


async def test_i160_a_pre_tool_that_raises_denies_and_post_tool_is_not_asked() -> None:
    seen: Seen = []

    def broken(_: PreTool) -> None:
        raise ValueError("boom")

    def post(payload: PostTool) -> None:
        seen.append(payload.outcome)

    agent, (turn,) = await run(
        [asks("a"), "ok"], tools=[timed("a", 0, seen)], hooks={"pre_tool": [broken], "post_tool": [post]}
    )
    assert seen == []
    ((outcome, text),) = results(agent.session)
    assert outcome == "denied"
    assert "hook `broken`" in text
    assert "boom" in text
    assert (turn.reason, turn.steps) == ("completed", 2)


async def test_i161_an_unknown_tool_is_an_error_result_that_names_the_known_ones() -> None:
    agent, (turn,) = await run([calls(("nope", {})), "ok"])
    (result,) = all_of(agent.session, "tool/result")
    assert (result.data["outcome"], code(result)) == ("error", "UNKNOWN_TOOL")
    assert result.data["message"].text == "There is no tool 'nope'. The tools are: add, slow."
    assert turn.steps == 2


@pytest.mark.parametrize("raw", ["", "  \n"])
async def test_i162_no_arguments_at_all_are_an_empty_object(raw: str) -> None:
    seen: Seen = []
    reply = Reply(tool_calls=[ToolCall("a", raw)])
    agent, _ = await run([reply, "ok"], tools=[timed("a", 0, seen)])
    assert seen == ["a+", "a-"]
    (call,) = all_of(agent.session, "tool/call")
    assert call.data["arguments"] == {}


@pytest.mark.parametrize("raw", ['{"n": 1', "five", "[1]", "null", '"text"', '{"n": NaN}', '{"n": 1e999}'])
async def test_i162_arguments_that_are_no_json_object_stay_text_and_are_shown_again(raw: str) -> None:
    agent, (turn,) = await run([Reply(tool_calls=[ToolCall("slow", raw)]), "ok"])
    (call,) = all_of(agent.session, "tool/call")
    assert call.data["arguments"] == raw
    (result,) = all_of(agent.session, "tool/result")
    assert (result.data["outcome"], code(result)) == ("error", "INVALID_ARGUMENTS")
    assert result.data["message"].text.endswith(f"received: {raw}")
    assert turn.steps == 2


async def test_i163_what_a_body_raises_is_a_result_and_the_step_goes_on() -> None:
    seen: Seen = []
    tools = [
        timed("a", 0, seen, outcome=ToolFailed("no such row", name="NotFound", code="E7")),
        timed("b", 0, seen, outcome=KeyError("k")),
    ]
    agent, (turn,) = await run([asks("a", "b"), "ok"], tools=tools)
    assert results(agent.session) == [("error", "no such row"), ("error", "KeyError: 'k'")]
    typed, plain = (entry.data["message"] for entry in all_of(agent.session, "tool/result"))
    assert typed["details"] == {"name": "NotFound", "code": "E7"}
    assert "details" not in plain
    assert (turn.reason, turn.steps) == ("completed", 2)


async def test_i164_contexts_of_two_calls_enter_the_next_step_in_model_order_after_all_results() -> None:
    seen: Seen = []

    def post(payload: PostTool) -> PostTool:
        return payload.replace(context=f"about {payload.tool}")

    agent, _ = await run([asks("a", "b"), "ok"], tools=parallels(seen, a=2, b=1), hooks={"post_tool": [post]})
    order = brackets(agent.session, *TOOLS, "user/message", "step/start")
    assert order[2:] == [
        "call a", "call b", "result a", "result b", "step/start", "user about a", "user about b",
    ]  # fmt: skip
    sources = [entry.data["message"].source for entry in all_of(agent.session, "user/message")]
    assert sources == ["", "post_tool a", "post_tool b"]


async def test_i165_a_blocked_result_is_an_error_with_the_reason_and_without_contexts() -> None:
    def context(payload: PostTool) -> PostTool:
        return payload.replace(context="never told")

    def block(_: PostTool) -> Block:
        return Block("secret")

    agent, _ = await run([calls(("add", {"a": 1, "b": 2})), "ok"], hooks={"post_tool": [context, block]})
    (result,) = all_of(agent.session, "tool/result")
    assert (result.data["message"].text, result.data["message"].is_error) == ("secret", True)
    assert texts(agent.session, "user/message") == ["x"]


async def test_i167_a_batch_that_asks_to_end_gets_no_further_request() -> None:
    agent, (turn,) = await run([asks("last", "last")], tools=[last()])
    assert (turn.reason, turn.steps) == ("completed", 1)
    assert reasons(agent.session) == ["completed"]


async def test_i167_one_result_that_does_not_ask_to_end_keeps_the_turn_going() -> None:
    _, (turn,) = await run([calls(("last", {}), ("add", {"a": 1, "b": 2})), "on"], tools=[last(), add])
    assert (turn.steps, turn.text) == (2, "on")


async def test_i168_a_context_beside_a_result_that_ends_still_continues_the_turn() -> None:
    def post(payload: PostTool) -> PostTool:
        return payload.replace(context="one more thing")

    agent, (turn,) = await run([asks("last"), "on"], tools=[last()], hooks={"post_tool": [post]})
    assert (turn.reason, turn.steps, turn.text) == ("completed", 2, "on")
    assert texts(agent.session, "user/message") == ["x", "one more thing"]


async def test_i168_steering_beside_a_result_that_ends_still_continues_the_turn() -> None:
    async def steer(agent: Agent, _: FakeClock) -> None:
        await agent.until(State.TOOLING)
        agent.steer("wait")
        agent.go_on()

    agent, (turn,) = await run([asks("last"), "on"], tools=[last()], act=steer)
    assert (turn.steps, turn.text) == (2, "on")
    assert texts(agent.session, "user/message") == ["x", "wait"]


async def test_i169_steering_among_tools_joins_the_continuation() -> None:
    async def steer(agent: Agent, _: FakeClock) -> None:
        await agent.until(State.TOOLING)
        agent.steer("also")
        agent.go_on()

    agent, (turn,) = await run([calls(("add", {"a": 1, "b": 2})), "ok"], act=steer)
    assert turn.steps == 2
    assert brackets(agent.session, *TOOLS, "user/message", "step/start") == [
        "step/start", "user x", "call add", "result add", "step/start", "user also",
    ]  # fmt: skip


async def test_i176_a_call_that_takes_too_long_is_an_error_result_and_the_step_goes_on() -> None:
    seen: Seen = []
    agent, (turn,) = await run(
        [asks("a", "b"), "ok"], tools=[timed("a", 100, seen, timeout=5), timed("b", 1, seen)]
    )
    first, second = all_of(agent.session, "tool/result")
    assert (first.data["outcome"], code(first)) == ("error", "TIMEOUT")
    assert first.data["message"].text == "a took longer than 5 seconds and was stopped."
    assert second.data["outcome"] == "ok"
    assert seen == ["a+", "b+", "b-"]
    assert turn.steps == 2


async def test_i178_the_third_and_the_fifth_identical_call_bring_a_reminder() -> None:
    same = [asks("a")] * 5
    seen: Seen = []
    agent, _ = await run(
        [*same, "ok"], tools=[timed("a", 0, seen), timed("b", 0, seen)], hooks={"post_tool": [repeat_guard]}
    )
    told = texts(agent.session, "user/message")[1:]
    assert len(told) == 2
    assert len(told[1]) > len(told[0])


async def test_i178_another_call_or_a_new_prompt_starts_the_count_anew() -> None:
    seen: Seen = []
    tools = [timed("a", 0, seen), timed("b", 0, seen)]
    replies: list[Any] = [asks("a"), asks("a"), asks("b"), asks("a"), asks("a"), "ok"]
    agent, _ = await run(replies, tools=tools, hooks={"post_tool": [repeat_guard]})
    assert texts(agent.session, "user/message") == ["x"]
    agent, _ = await run(
        [asks("a"), asks("a"), "ok", asks("a"), asks("a"), "ok"], "x", "y",
        tools=tools, hooks={"post_tool": [repeat_guard]},
    )  # fmt: skip
    assert texts(agent.session, "user/message") == ["x", "y"]


async def test_i179_a_rewritten_result_keeps_the_id_of_the_models_call() -> None:
    def post(payload: PostTool) -> PostTool:
        return payload.replace(content="other", details={"seen": True}, usage={"input": 1})

    asked = Reply(tool_calls=[ToolCall("add", {"a": 1, "b": 2}, id="call_77")])
    agent, _ = await run([asked, "ok"], hooks={"post_tool": [post]})
    (result,) = all_of(agent.session, "tool/result")
    assert (result.data["message"].call_id, result.data["message"].text) == ("call_77", "other")
    assert agent.model.requests[1].messages[-1].call_id == "call_77"  # type: ignore[union-attr]  # scripted


# -- what lies between -------------------------------------------------------------------------------


async def test_progress_of_a_running_tool_is_told_and_of_an_ended_one_is_not() -> None:
    told: list[str] = []
    kept: list[ToolContext] = []

    async def work(ctx: ToolContext) -> str:
        ctx.progress("half")
        kept.append(ctx)
        return "done"

    def hear(signal: Signal, _: AbortSignal) -> None:
        told.append(signal.data["content"][0]["text"])

    async with scripted([asks("work"), "ok"], tools=[tool(work, description="x")]) as agent:
        agent.on("tool/progress", hear)
        await agent.prompt("x")
        kept[0].progress("late")
    assert told == ["half"]


async def test_a_plain_function_runs_in_a_worker_thread_and_an_inline_one_does_not() -> None:
    from threading import get_ident

    threads: list[int] = []

    def where() -> None:
        threads.append(get_ident())

    tools = [tool(where, name="far", description="x"), tool(where, name="near", description="x", inline=True)]
    await run([asks("far", "near"), "ok"], tools=tools)
    assert threads[0] != get_ident()
    assert threads[1] == get_ident()


async def test_added_tools_are_active_from_the_next_step() -> None:
    seen: Seen = []

    def unlock() -> ToolOutcome:
        return ToolOutcome(added_tools=("a",))

    tools = [tool(unlock, description="x", inline=True), timed("a", 0, seen)]
    async with scripted([asks("unlock", "a"), asks("a"), "ok"], tools=tools) as agent:
        agent.set_active_tools(["unlock"])
        await agent.prompt("x")
    first, early, later = all_of(agent.session, "tool/result")
    assert (first.data["outcome"], code(early), later.data["outcome"]) == ("ok", "UNKNOWN_TOOL", "ok")
    assert [header.data["reason"] for header in all_of(agent.session, "request/header")] == [
        "initial",
        "change",
    ]


async def test_excess_calls_get_a_result_that_says_so_and_the_turn_ends() -> None:
    seen: Seen = []
    agent, (turn,) = await run(
        [asks("a", "b", "b")], tools=parallels(seen, a=2, b=1), limits=Limits(max_tool_calls=2)
    )
    assert turn.reason == "max_tool_calls"
    assert ran(seen) == ["a+", "b+", "b-", "a-"]
    assert code(all_of(agent.session, "tool/result")[2]) == "MAX_TOOL_CALLS"


async def test_pre_is_ordered_even_in_the_pool() -> None:
    seen: Seen = []

    async def pre(payload: PreTool) -> None:
        seen.append(f"pre {payload.tool}")

    await run([asks("a", "b"), "ok"], tools=parallels(seen, a=1, b=2), hooks={"pre_tool": [pre]})
    assert ordered(seen, "pre a", "pre b", "a-", "b-")
    assert seen.index("pre b") < seen.index("a-")


async def test_post_is_ordered_even_where_the_second_settles_first() -> None:
    seen: Seen = []

    def post(payload: PostTool) -> None:
        seen.append(f"post {payload.tool}")

    await run([asks("a", "b"), "ok"], tools=parallels(seen, a=2, b=1), hooks={"post_tool": [post]})
    assert seen[2:] == ["b-", "a-", "post a", "post b"]


async def test_a_tool_hook_wraps_the_body_and_its_failure_is_an_error_result() -> None:
    async def double(payload: RunTool, next: Any) -> ToolOutcome:
        once: ToolOutcome = await next(payload)
        return ToolOutcome(content=(*once.content, *once.content))

    def broken(payload: RunTool) -> None:
        raise ValueError("boom")

    asked = calls(("add", {"a": 1, "b": 2}))
    agent, _ = await run([asked, "ok"], hooks={"tool": [double]})
    assert results(agent.session) == [("ok", "33")]
    agent, (turn,) = await run([asked, "ok"], hooks={"tool": [broken]})
    ((outcome, text),) = results(agent.session)
    assert outcome == "error"
    assert "boom" in text
    assert turn.steps == 2


async def test_details_are_for_the_log_and_never_shown_to_the_model() -> None:
    def report() -> ToolOutcome:
        return ToolOutcome(details={"private": 1})

    agent, _ = await run([asks("report"), "ok"], tools=[tool(report, description="x", inline=True)])
    assert all_of(agent.session, "tool/result")[0].data["message"]["details"] == {"private": 1}
