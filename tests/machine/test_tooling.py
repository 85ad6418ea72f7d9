"""The state tooling: barriers and a rolling pool, permissions, one result for every call."""

from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from tests.machine.drive import add, always, calls, drop, results, run, scripted, slow, slows, texts, types

from turnchart.machine import (
    AppendRefused,
    Entry,
    Limits,
    Permissions,
    Reply,
    Session,
    Signal,
    State,
    Text,
    ToolCall,
    ToolContext,
    tool,
)
from turnchart.machine.abort import AbortSignal
from turnchart.machine.points import Allow, Block, Deny, PostTool, PreTool, RunTool, ToolOutcome
from turnchart.machine.tooling import CUT_BEFORE_START, CUT_WHILE_RUNNING

ADDS = calls(("add", {"a": 1, "b": 1}), ("add", {"a": 2, "b": 2}))


# -- what the calls leave -------------------------------------------------------------------------------


async def test_a_tool_that_ends_the_turn_leaves_max_tokens_the_reason() -> None:
    def bye() -> ToolOutcome:
        return ToolOutcome((Text("bye"),), terminate=True)

    asked = [Reply("half", finish="max_tokens"), calls(("bye", {}))]
    async with scripted(asked, tools=[tool(bye, description="Say goodbye.")]) as agent:
        agent.follow_up("x")
        await agent.until(State.STOPPING)
        agent.steer("say goodbye")
        agent.go_on()
        await agent.idle()
        turn = agent.last_turn
    assert turn is not None
    assert (turn.reason, turn.steps) == ("max_tokens", 2)
    assert results(agent.session) == [("ok", "bye")]


# -- pools and barriers --------------------------------------------------------------------------------


async def test_a_pool_is_as_large_as_the_limit_and_results_stand_in_model_order() -> None:
    running: list[int] = []
    most: list[int] = []

    @tool(execution="parallel")
    async def work(n: int, ctx: ToolContext) -> int:
        """Work."""
        running.append(n)
        most.append(len(running))
        await ctx.clock.sleep(10 - n)
        running.remove(n)
        return n

    asks = calls(*(("work", {"n": n}) for n in range(6)))
    agent, _ = await run([asks, "ok"], tools=[work], limits=Limits(parallel_tools=3))
    assert max(most) == 3
    assert [text for _, text in results(agent.session)] == [str(n) for n in range(6)]


async def test_each_call_is_classified_by_its_arguments_right_before_it_starts() -> None:
    @tool(execution=lambda args: "parallel" if args["n"] < 2 else "exclusive")
    async def work(n: int, ctx: ToolContext) -> int:
        """Work."""
        await ctx.clock.sleep(1)
        return n

    agent, _ = await run([calls(*(("work", {"n": n}) for n in (0, 1, 2, 0))), "ok"], tools=[work])
    order = [
        e.data["execution"] if e.type == "tool/call" else "result"
        for e in agent.session.entries
        if e.type in ("tool/call", "tool/result")
    ]
    assert order == ["parallel", "parallel", "result", "result", "exclusive", "result", "parallel", "result"]


async def test_what_a_tool_adds_may_be_called_from_the_next_step() -> None:
    @tool
    def more() -> ToolOutcome:
        """Add a tool."""
        return ToolOutcome(added_tools=("add",))

    session = Session.memory()
    async with scripted([calls(("more", {})), ADDS, "ok"], tools=[more, add], session=session) as agent:
        agent.set_active_tools(["more"])
        turn = await agent.prompt("x")
    assert turn.ok
    assert [text for _, text in results(session)] == ["", "2", "4"]


# -- hooks ---------------------------------------------------------------------------------------------


async def test_hooks_judge_in_order_bodies_run_and_results_pass_in_order() -> None:
    order: list[str] = []

    def pre(payload: PreTool) -> None:
        order.append(f"pre {payload.args['n']}")

    async def around(payload: RunTool, next: Any) -> Any:
        order.append(f"tool {payload.args['n']}")
        return await next(payload)

    def post(payload: PostTool) -> None:
        order.append(f"post {payload.text}")

    await run([slows(0, 1), "ok"], hooks={"pre_tool": [pre], "tool": [around], "post_tool": [post]})
    assert order[:2] == ["pre 0", "pre 1"]
    assert sorted(order[2:4]) == ["tool 0", "tool 1"]
    assert order[4:] == ["post 0", "post 1"]


async def test_a_tool_hook_may_answer_and_one_that_fails_is_an_error_result() -> None:
    async def around(payload: RunTool, next: Any) -> ToolOutcome:
        if payload.args["a"] == 1:
            return ToolOutcome((), outcome="ok")
        raise ValueError("boom")

    agent, _ = await run([ADDS, "ok"], hooks={"tool": [around]})
    (first, second) = results(agent.session)
    assert first == ("ok", "")
    assert second[0] == "error"
    assert "boom" in second[1]


async def test_a_block_withholds_the_result_and_its_context() -> None:
    def post(payload: PostTool) -> PostTool | Block:
        return payload.replace(context="secret") if payload.text == "2" else Block("withheld")

    agent, _ = await run([ADDS, "ok"], hooks={"post_tool": [post]})
    assert [text for _, text in results(agent.session)] == ["2", "withheld"]
    assert texts(agent.session, "user/message") == ["x", "secret"]


async def test_contexts_wait_for_the_next_step_in_model_order() -> None:
    def post(payload: PostTool) -> PostTool:
        return payload.replace(context=f"after {payload.text}")

    agent, _ = await run([slows(0, 1), "ok"], hooks={"post_tool": [post]})
    assert texts(agent.session, "user/message") == ["x", "after 0", "after 1"]


# -- permissions ---------------------------------------------------------------------------------------


async def test_the_stricter_of_hooks_and_permissions_holds() -> None:
    permissions = Permissions(default="allow", deny=["add"])
    agent, _ = await run([ADDS, "ok"], permissions=permissions, hooks={"pre_tool": [always(Allow())]})
    assert [outcome for outcome, _ in results(agent.session)] == ["denied", "denied"]
    agent, _ = await run([ADDS, "ok"], hooks={"pre_tool": [always(Deny("no"))]})
    assert all("Denied: no" in text for _, text in results(agent.session))


# -- limits --------------------------------------------------------------------------------------------


async def test_a_tool_that_takes_too_long_is_an_error_result() -> None:
    @tool(timeout=5)
    async def late(ctx: ToolContext) -> str:
        """Be late."""
        await ctx.clock.sleep(6)
        return "never"

    agent, (turn,) = await run([calls(("late", {})), "ok"], tools=[late])
    assert turn.ok
    assert results(agent.session) == [("error", "late took longer than 5 seconds and was stopped.")]


async def test_calls_over_the_limit_say_so_and_did_not_run() -> None:
    agent, (turn,) = await run([slows(0, 1, 2)], limits=Limits(max_tool_calls=1))
    assert turn.reason == "max_tool_calls"
    assert [text[:30] for _, text in results(agent.session)] == [
        "0", "Not run: the turn may call 1 t", "Not run: the turn may call 1 t",
    ]  # fmt: skip


# -- one result for every call ---------------------------------------------------------------------------


async def test_a_tool_may_shield_itself_and_its_result_is_kept() -> None:
    begun = anyio.Event()

    @tool(execution="parallel")
    async def drain(n: int, ctx: ToolContext) -> str:
        """Drain before it stops."""
        with anyio.CancelScope(shield=True):
            begun.set()
            await ctx.abort.wait()
        return f"drained {n}"

    async with scripted([calls(("drain", {"n": 1}), ("slow", {"n": 0}))], tools=[drain, slow]) as agent:
        agent.follow_up("x")
        await begun.wait()
        agent.abort()
        await agent.idle()
        assert results(agent.session)[0] == ("ok", "drained 1")
        assert results(agent.session)[1][0] == "aborted"


@pytest.mark.parametrize("state", [State.REQUESTING, State.TOOLING])
async def test_a_turn_that_is_cut_off_behind_the_answer_answers_its_calls(state: State) -> None:
    async with scripted([ADDS]) as agent:

        def cut(signal: Signal, _: AbortSignal) -> None:
            if signal.data["entry"].type == "assistant/message":
                agent.abort()

        if state is State.REQUESTING:
            agent.on("session/event", cut)
        agent.follow_up("x")
        if state is State.TOOLING:
            await agent.until(State.TOOLING)
            agent.abort()
        await agent.idle()
        assert results(agent.session) == [("aborted", CUT_BEFORE_START)] * 2
        assert types(agent.session)[-2:] == ["step/end", "turn/end"]


@pytest.mark.parametrize("kind", ["tool/call", "tool/result"])
@pytest.mark.parametrize("at", [0, 1, 2])
async def test_a_refused_entry_fails_the_turn_and_every_call_has_its_result(kind: str, at: int) -> None:
    asked: list[Entry] = []

    def refuse(entry: Entry) -> str | None:
        if entry.type == kind:
            asked.append(entry)
            return "no" if len(asked) == at + 1 else None
        return None

    async with scripted([slows(0, 1, 2)]) as agent:
        agent.session.validate(refuse)
        turn = await agent.prompt("x")
        assert isinstance(turn.error, AppendRefused)
        kinds = types(agent.session)
        assert kinds.count("tool/call") == kinds.count("tool/result") == 3
        assert kinds[-2:] == ["step/end", "turn/end"]


async def test_a_call_that_is_refused_for_ever_leaves_the_others_with_theirs_and_recovery_answers_it() -> (
    None
):
    def refuse(entry: Entry) -> str | None:
        return "no" if entry.type == "tool/result" and entry.data["message"].text == "2" else None

    async with scripted([ADDS, "ok"]) as agent:
        stop = agent.session.validate(refuse)
        assert isinstance((await agent.prompt("x")).error, AppendRefused)
        stop()
        agent.trace().clear()
        assert (await agent.prompt("y")).ok
        kinds = types(agent.session)
        assert kinds.count("tool/call") == kinds.count("tool/result") == 2


async def test_what_ran_when_it_was_cut_off_says_so() -> None:
    async with scripted([slows(0)]) as agent:
        agent.follow_up("x")
        while "tool/call" not in types(agent.session):
            await checkpoint()
        await checkpoint()
        agent.abort()
        await agent.idle()
        assert results(agent.session) == [("aborted", CUT_WHILE_RUNNING)]
        drop(agent)


async def test_the_same_call_id_twice_in_one_answer_is_two_calls() -> None:
    twice = Reply(tool_calls=[ToolCall("slow", {"n": 0}, id="c"), ToolCall("slow", {"n": 1}, id="c")])
    agent, (turn,) = await run([twice, "ok"])
    assert turn.ok
    assert [text for _, text in results(agent.session)] == ["0", "1"]


# -- progress --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("in_thread", [True, False])
async def test_progress_is_heard_while_the_tool_runs(in_thread: bool) -> None:
    heard: list[str] = []

    def work(ctx: ToolContext) -> str:
        ctx.progress("half")
        heard.append("done")
        return "ok"

    async def work_async(ctx: ToolContext) -> str:
        await checkpoint()
        return work(ctx)

    made = tool(work if in_thread else work_async, name="work", description="Work.")
    async with scripted([calls(("work", {})), "ok"], tools=[made]) as agent:
        agent.on("tool/progress", lambda signal, _: heard.append(signal.data["content"][0]["text"]))
        await agent.prompt("x")
    assert heard == ["half", "done"]
