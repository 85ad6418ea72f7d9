"""Tools that are cut off (lifecycle I.8): aborts, failures of the pipeline, disposal. No call is ever orphaned."""

from typing import Any

import anyio
import pytest
from tests.conformance.toolkit import (
    Seen,
    abort,
    after,
    all_of,
    asks,
    brackets,
    code,
    outcomes,
    parallels,
    ran,
    reasons,
    results,
    timed,
)
from tests.machine.drive import drop, run, scripted, texts, types

from turnchart.machine import (
    Agent,
    AppendRefused,
    Entry,
    Limits,
    ScriptedModel,
    Session,
    Signal,
    State,
    ToolContext,
    tool,
)
from turnchart.machine.abort import AbortSignal
from turnchart.machine.points import PostTool, PreTool, ToolOutcome
from turnchart.machine.tooling import CUT_BEFORE_POST, CUT_BEFORE_START, CUT_WHILE_RUNNING
from turnchart.testing import FakeClock

TOOLS = ("tool/call", "tool/result")


def noted(payload: PostTool) -> PostTool:
    return payload.replace(context=f"about {payload.tool}")


async def test_i170_an_abort_before_any_start_gives_each_call_a_result_in_order() -> None:
    seen: Seen = []

    async with scripted([asks("a", "b", "c")], tools=parallels(seen, a=1, b=1, c=1)) as agent:

        def hear(signal: Signal, _: AbortSignal) -> None:
            if signal.data["entry"].type == "assistant/message":
                agent.abort()

        agent.on("session/event", hear)
        turn = await agent.prompt("x")
    assert seen == []
    assert (turn.reason, turn.steps) == ("aborted", 1)
    assert brackets(agent.session, *TOOLS) == [
        "call a",
        "result a",
        "call b",
        "result b",
        "call c",
        "result c",
    ]
    assert results(agent.session) == [("aborted", CUT_BEFORE_START)] * 3


async def test_i170_so_does_an_abort_while_the_driver_is_held_before_the_tools() -> None:
    async def cut(agent: Agent, _: FakeClock) -> None:
        await agent.until(State.TOOLING)
        agent.abort()
        agent.go_on()

    seen: Seen = []
    agent, (turn,) = await run([asks("a", "b")], tools=parallels(seen, a=1, b=1), act=cut)
    assert (seen, turn.reason) == ([], "aborted")
    assert results(agent.session) == [("aborted", CUT_BEFORE_START)] * 2


async def test_i171_finished_results_are_kept_running_ones_cut_and_unstarted_ones_said() -> None:
    seen: Seen = []
    agent, (turn,) = await run(
        [asks("a", "b", "c", "d")], tools=parallels(seen, a=5, b=1, c=1, d=1),
        limits=Limits(parallel_tools=2), act=after(2, abort),
    )  # fmt: skip
    assert turn.reason == "aborted"
    assert ran(seen) == ["a+", "b+", "b-"]
    assert results(agent.session) == [
        ("aborted", CUT_WHILE_RUNNING), ("ok", "b"),
        ("aborted", CUT_BEFORE_START), ("aborted", CUT_BEFORE_START),
    ]  # fmt: skip


async def test_i171_contexts_of_committed_results_stay_parked_where_the_inbox_is_kept() -> None:
    seen: Seen = []
    async with scripted(
        [asks("a", "b"), "next"], tools=parallels(seen, a=1, b=9), hooks={"post_tool": [noted]}
    ) as agent:
        agent.follow_up("x")
        await after(2, lambda agent: agent.abort(keep_inbox=True))(agent, _clock(agent))
        await agent.idle()
        assert [item.messages[0].text for item in agent.queued.next_step] == ["about a"]
        assert agent.parked
        assert agent.resume()
        await agent.idle()
    assert texts(agent.session, "user/message") == ["x", "about a"]
    assert reasons(agent.session) == ["aborted", "completed"]


async def test_i171_without_that_the_abort_discards_them_like_everything_that_waits() -> None:
    seen: Seen = []
    async with scripted(
        [asks("a", "b")], tools=parallels(seen, a=1, b=9), hooks={"post_tool": [noted]}
    ) as agent:
        agent.follow_up("x")
        await _clock(agent).sleep(2)
        assert [item.messages[0].text for item in agent.abort()] == ["about a"]
        await agent.idle()
        assert not agent.queued


def _clock(agent: Agent) -> FakeClock:
    assert isinstance(agent.clock, FakeClock)
    return agent.clock


async def test_i171_a_result_that_post_tool_has_not_seen_is_withheld() -> None:
    seen: Seen = []
    agent, _ = await run(
        [asks("a", "b")], tools=parallels(seen, a=5, b=1), hooks={"post_tool": [noted]}, act=after(2, abort)
    )
    assert results(agent.session) == [("aborted", CUT_WHILE_RUNNING), ("aborted", CUT_BEFORE_POST)]


async def test_i172_an_abort_in_pre_tool_runs_neither_that_body_nor_a_sibling() -> None:
    seen: Seen = []

    async def wait(payload: PreTool) -> None:
        seen.append(f"pre {payload.tool}")
        assert payload.abort is not None
        await payload.abort.wait()

    agent, (turn,) = await run(
        [asks("a", "b")], tools=parallels(seen, a=1, b=1), hooks={"pre_tool": [wait]}, act=after(2, abort)
    )
    assert seen == ["pre a"]
    assert turn.reason == "aborted"
    assert results(agent.session) == [("aborted", CUT_BEFORE_START)] * 2
    assert "hook/result" not in types(agent.session)


async def test_i172_a_pre_tool_hook_that_aborts_the_turn_itself_is_no_denial() -> None:
    seen: Seen = []
    async with scripted(
        [asks("a", "b")], tools=parallels(seen, a=1, b=1), hooks={"pre_tool": [_cutting]}
    ) as agent:
        AGENTS.append(agent)
        turn = await agent.prompt("x")
    assert (seen, turn.reason) == ([], "aborted")
    assert outcomes(agent.session) == ["aborted", "aborted"]


AGENTS: list[Agent] = []


def _cutting(payload: PreTool) -> None:
    AGENTS.pop().abort()
    assert payload.abort is not None
    payload.abort.check()


async def test_i173_a_body_that_asks_the_signal_ends_as_aborted() -> None:
    async def body(ctx: ToolContext) -> str:
        await ctx.abort.wait()
        ctx.abort.check()
        return "never"

    agent, (turn,) = await run([asks("body")], tools=[tool(body, description="x")], act=after(1, abort))
    assert turn.reason == "aborted"
    assert outcomes(agent.session) == ["aborted"]


async def test_i174_a_body_that_shields_itself_is_waited_for_and_its_result_kept() -> None:
    seen: Seen = []

    async def drain(ctx: ToolContext) -> str:
        with anyio.CancelScope(shield=True):
            await ctx.clock.sleep(5)
            seen.append("drained")
        return "whole"

    agent, (turn,) = await run([asks("drain")], tools=[tool(drain, description="x")], act=after(1, abort))
    assert seen == ["drained"]
    assert turn.reason == "aborted"
    assert results(agent.session) == [("ok", "whole")]


async def test_i174_the_failure_of_a_body_after_the_abort_is_kept() -> None:
    async def drain(ctx: ToolContext) -> str:
        with anyio.CancelScope(shield=True):
            await ctx.clock.sleep(5)
        raise ValueError("half written")

    agent, (turn,) = await run([asks("drain")], tools=[tool(drain, description="x")], act=after(1, abort))
    assert turn.reason == "aborted"
    assert results(agent.session) == [("error", "ValueError: half written")]


async def test_i174_a_plain_function_in_its_thread_is_waited_for() -> None:
    from threading import Event

    begun, go = Event(), Event()

    def work() -> str:
        begun.set()
        assert go.wait(10)
        return "whole"

    async with scripted([asks("work")], tools=[tool(work, description="x")]) as agent:
        agent.follow_up("x")
        while not begun.is_set():
            await anyio.lowlevel.checkpoint()
        agent.abort()
        await anyio.wait_all_tasks_blocked()
        assert agent.state is State.TOOLING
        go.set()
        await agent.idle()
    assert outcomes(agent.session) == ["ok"]


@pytest.mark.parametrize("refused", ["tool/call", "tool/result", "hook/result"])
async def test_i175_a_refused_entry_ends_the_turn_and_bodies_are_waited_for(refused: str) -> None:
    seen: Seen = []
    told: list[Any] = []

    async def body() -> str:
        try:
            await anyio.sleep_forever()
        finally:
            seen.append("out")
        return ""

    def refuse(entry: Entry) -> str | None:
        data = entry.data
        about = data.get("tool") or data.get("message", {}).get("tool") or data.get("id")
        return "no" if entry.type == refused and about in ("b", "noted") else None

    tools = [tool(body, name="a", description="x", execution="parallel"), *parallels(seen, b=1)]
    tools = tools if refused == "tool/call" else tools[1:]
    asked = asks("a", "b") if refused == "tool/call" else asks("b")
    async with scripted([asked], tools=tools, hooks={"post_tool": [noted]}) as agent:
        agent.on("agent/error", lambda signal, _: told.append(signal.data["error"]))
        stop = agent.session.validate(refuse)
        turn = await agent.prompt("x")
        assert turn.reason == "error"
        assert isinstance(turn.error, AppendRefused)
        assert len(told) == 1
        assert seen == (["out"] if refused == "tool/call" else ["b+", "b-"])
        stop()
        agent.session.recover()
        agent.trace().clear()
        drop(agent)


async def test_i175_a_refused_call_still_leaves_the_calls_before_it_with_results() -> None:
    seen: Seen = []

    def refuse(entry: Entry) -> str | None:
        return "no" if entry.type == "tool/call" and entry.data["tool"] == "c" else None

    async with scripted(
        [asks("a", "b", "c")], tools=parallels(seen, a=1, b=9, c=1), limits=Limits()
    ) as agent:
        stop = agent.session.validate(refuse)
        turn = await agent.prompt("x")
        assert turn.reason == "error"
        assert outcomes(agent.session)[:2] == ["aborted", "aborted"]
        stop()
        agent.session.recover()
        agent.trace().clear()


async def test_i180_leaving_the_agent_while_tools_run_is_an_abort_and_opens_no_turn_for_contexts() -> None:
    seen: Seen = []
    session = Session.memory()
    clock = FakeClock()
    model = ScriptedModel([asks("a", "b")])
    async with Agent(
        model, tools=parallels(seen, a=1, b=9), hooks={"post_tool": [noted]}, session=session, clock=clock
    ) as agent:
        agent.follow_up("x")
        await clock.sleep(2)
    assert reasons(session) == ["aborted"]
    assert session.entries[-1].data["cause"] == "disposed"
    assert outcomes(session) == ["ok", "aborted"]
    assert len(all_of(session, "turn/start")) == 1
    assert agent.state is State.IDLE


async def test_a_host_that_cancels_closes_every_call_before_the_cancellation_goes_on() -> None:
    seen: Seen = []
    session = Session.memory()
    with anyio.CancelScope() as scope:
        async with Agent(
            ScriptedModel([asks("a", "b")]),
            tools=parallels(seen, a=9, b=9),
            session=session,
            clock=FakeClock(),
        ) as agent:
            agent.on("tool/progress", lambda *_: None)
            async with anyio.create_task_group() as group:
                group.start_soon(agent.prompt, "x")
                await agent.until(State.TOOLING)
                agent.go_on()
                while len(seen) < 2:
                    await anyio.lowlevel.checkpoint()
                scope.cancel()
    assert reasons(session) == ["aborted"]
    assert outcomes(session) == ["aborted", "aborted"]


async def test_max_seconds_cuts_tools_as_an_abort_does() -> None:
    seen: Seen = []
    agent, (turn,) = await run(
        [asks("a", "b")], tools=parallels(seen, a=99, b=1), limits=Limits(max_seconds=10)
    )
    assert turn.reason == "max_seconds"
    assert results(agent.session) == [("aborted", CUT_WHILE_RUNNING), ("ok", "b")]


async def test_a_body_that_raises_the_cancellation_of_the_loop_by_itself_ends_only_its_call() -> None:
    async def strange() -> str:
        raise anyio.get_cancelled_exc_class()()

    agent, (turn,) = await run([asks("strange"), "ok"], tools=[tool(strange, description="x")])
    assert outcomes(agent.session) == ["error"]
    assert (turn.reason, turn.steps) == ("completed", 2)


async def test_a_body_that_aborts_its_own_turn_is_cut_where_it_next_waits() -> None:
    async with scripted([asks("own", "own")], tools=[tool(_own, name="own", description="x")]) as agent:
        AGENTS.append(agent)
        turn = await agent.prompt("x")
    assert turn.reason == "aborted"
    assert outcomes(agent.session) == ["aborted", "aborted"]


async def _own() -> ToolOutcome:
    AGENTS.pop().abort()
    await anyio.lowlevel.checkpoint()
    raise AssertionError("it was cut off before this")


async def test_results_of_a_cut_step_carry_a_code_for_programs() -> None:
    seen: Seen = []
    agent, _ = await run([asks("a")], tools=parallels(seen, a=9), act=after(1, abort))
    assert [code(entry) for entry in all_of(agent.session, "tool/result")] == ["ABORTED"]


async def test_an_abort_whose_results_are_refused_still_leaves_no_call_open() -> None:
    seen: Seen = []
    left = ["b"]

    def refuse(entry: Entry) -> str | None:
        return "no" if entry.type == "tool/call" and entry.data["tool"] in left and left.pop() else None

    async with scripted([asks("a", "b", "c")], tools=[timed(name, 5, seen) for name in "abc"]) as agent:
        agent.session.validate(refuse)
        agent.follow_up("x")
        await _clock(agent).sleep(1)
        agent.abort()
        await agent.idle()
    assert seen == ["a+"]
    assert outcomes(agent.session) == ["aborted"] * 3
