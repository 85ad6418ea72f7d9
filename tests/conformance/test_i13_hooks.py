"""Hooks and listeners (lifecycle I.13): order, short circuits, snapshots, and that no listener can break a turn."""

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from tests.conformance.toolkit import Seen, all_of, reasons
from tests.machine.drive import ADD, calls, run, scripted, texts, types

from turnchart.machine import (
    Agent,
    AppendRefused,
    Failure,
    Reply,
    ScriptedModel,
    Signal,
    ToolContext,
    UserMessage,
    tool,
)
from turnchart.machine.abort import AbortSignal
from turnchart.machine.points import (
    Deny,
    PreStep,
    PreTool,
    Stream,
    TurnStopping,
)
from turnchart.testing import FakeClock

Next = Callable[[Any], Awaitable[Any]]


def around(name: str, seen: Seen) -> Callable[..., Any]:
    """Return a wrapper that adds a message before and after the rest of the list."""

    async def wrapper(payload: PreStep, next: Next) -> PreStep:
        seen.append(f"{name} in")
        rest = await next(payload.replace(messages=(*payload.messages, UserMessage(f"{name} in"))))
        seen.append(f"{name} out")
        after: PreStep = rest.payload
        return after.replace(messages=(*after.messages, UserMessage(f"{name} out")))

    wrapper.__name__ = name
    return wrapper


async def test_i237_the_first_listed_is_outermost() -> None:
    seen: Seen = []
    hooks = {"pre_step": [around("C", seen), around("A", seen), around("B", seen)]}
    agent, _ = await run(["ok"], hooks=hooks)
    assert seen == ["C in", "A in", "B in", "B out", "A out", "C out"]
    assert texts(agent.session, "user/message") == ["x", *seen]


async def test_i237_plain_hooks_and_wrappers_share_one_order() -> None:
    seen: Seen = []

    def plain(payload: PreStep) -> PreStep:
        seen.append("plain")
        return payload.replace(messages=(*payload.messages, UserMessage("plain")))

    agent, _ = await run(["ok"], hooks={"pre_step": [around("A", seen), plain, around("B", seen)]})
    assert texts(agent.session, "user/message") == ["x", "A in", "plain", "B in", "B out", "A out"]


async def test_i238_a_wrapper_that_does_not_go_on_skips_the_rest_and_its_value_holds() -> None:
    seen: Seen = []

    async def alone(payload: PreStep, next: Next) -> PreStep:
        del next
        return payload.replace(messages=(UserMessage("mine"),))

    agent, _ = await run(["ok"], hooks={"pre_step": [alone, around("B", seen)]})
    assert seen == []
    assert texts(agent.session, "user/message") == ["mine"]


async def test_i238_a_stream_hook_that_does_not_go_on_answers_instead_of_the_model() -> None:
    async def chunks() -> Any:
        for chunk in Reply("canned").stream():
            yield chunk

    async def instead(payload: Stream, next: Next) -> Any:
        del payload, next
        return chunks()

    agent, (turn,) = await run([], hooks={"stream": [instead]})
    assert turn.text == "canned"
    assert not agent.model.requests  # type: ignore[union-attr]  # scripted


async def test_i238_on_pre_tool_not_going_on_is_honoured_with_a_denial_only() -> None:
    seen: Seen = []

    async def silent(payload: PreTool, next: Next) -> None:
        del payload, next

    async def deny(payload: PreTool, next: Next) -> Deny:
        del payload, next
        return Deny("closed")

    def gate(_: PreTool) -> None:
        seen.append("gate")

    await run([ADD, "ok"], hooks={"pre_tool": [silent, gate]})
    assert seen == ["gate"]
    agent, _ = await run([ADD, "ok"], hooks={"pre_tool": [deny, gate]})
    assert seen == ["gate"]
    assert [entry.data["outcome"] for entry in all_of(agent.session, "tool/result")] == ["denied"]


@pytest.mark.parametrize("late", [False, True])
async def test_i239_a_listener_that_raises_breaks_neither_its_peers_nor_the_turn(
    late: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL + 1)
    seen: Seen = []

    def raises(_signal: Signal, _: AbortSignal) -> None:
        raise ValueError("boom")

    async def raises_later(_signal: Signal, _: AbortSignal) -> None:
        await anyio.lowlevel.checkpoint()
        raise ValueError("boom")

    async with scripted([ADD, "ok"]) as agent:
        agent.on("*", raises_later if late else raises)
        agent.on("session/event", lambda signal, _: seen.append(signal.data["entry"].type))
        turn = await agent.prompt("x")
        await agent.idle()
    assert (turn.reason, turn.text) == ("completed", "ok")
    assert seen == types(agent.session)


async def test_i239_its_failure_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    def raises(_signal: Signal, _: AbortSignal) -> None:
        raise ValueError("boom")

    async with scripted(["ok"]) as agent:
        agent.on("*", raises)
        await agent.prompt("x")
    assert len([record for record in caplog.records if "raises" in record.getMessage()]) == 1


async def test_i240_a_dispatch_keeps_the_list_that_it_began_with() -> None:
    seen: Seen = []
    listed: list[Callable[..., Any]] = []

    def first(_: PreStep) -> None:
        seen.append("first")
        listed.append(second)

    def second(_: PreStep) -> None:
        seen.append("second")

    listed.append(first)
    await run(["ok", "ok"], "x", "y", hooks={"pre_step": listed})
    assert seen == ["first", "first"]


async def test_i240_a_listener_added_or_dropped_while_one_signal_is_told_counts_from_the_next() -> None:
    seen: Seen = []
    async with scripted(["ok"]) as agent:

        def first(signal: Signal, _: AbortSignal) -> None:
            if signal.data["status"] == "running":
                stop_second()
                agent.on("agent/status", lambda signal, _: seen.append(f"third {signal.data['status']}"))

        agent.on("agent/status", first)
        stop_second = agent.on(
            "agent/status", lambda signal, _: seen.append(f"second {signal.data['status']}")
        )
        await agent.prompt("x")
    assert seen == ["second running", "third idle"]


async def test_i241_a_listener_of_one_agent_hears_nothing_of_another() -> None:
    seen: dict[str, list[str]] = {"a": [], "b": []}
    async with scripted(["one"], name="a") as a, scripted(["two"], name="b") as b:
        a.on("*", lambda signal, _: seen["a"].append(_id(signal, a)))
        b.on("*", lambda signal, _: seen["b"].append(_id(signal, b)))
        async with anyio.create_task_group() as group:
            group.start_soon(a.prompt, "x")
            group.start_soon(b.prompt, "y")
    assert {each for each in seen["a"] if each} == {"x", "one"}
    assert {each for each in seen["b"] if each} == {"y", "two"}


def _id(signal: Signal, _agent: Agent) -> str:
    entry = signal.data.get("entry")
    return (
        entry.data["message"].text
        if entry is not None and entry.type in ("user/message", "assistant/message")
        else ""
    )


async def test_i242_no_hook_can_say_that_it_is_another_agent() -> None:
    seen: list[str] = []

    def lie(payload: PreStep) -> PreStep:
        return PreStep(messages=payload.messages, agent="somebody else", session="s", step=9)

    def look(payload: PreStep) -> None:
        seen.extend([payload.agent, payload.session, str(payload.step)])

    agent, (turn,) = await run(["ok"], name="me", hooks={"pre_step": [lie, look]})
    assert seen == ["me", agent.session.id, "1"]
    assert turn.ok


async def test_i242_saying_so_by_replace_is_refused() -> None:
    def lie(payload: PreStep) -> PreStep:
        return payload.replace(agent="somebody else")

    _, (turn,) = await run([], hooks={"pre_step": [lie]})
    assert turn.reason == "error"
    assert "PreStep.agent cannot be changed by a hook" in str(turn.error)


async def test_i243_a_status_listener_that_raises_leaves_the_statuses_balanced(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.CRITICAL + 1)
    seen: Seen = []

    def raises(signal: Signal, _: AbortSignal) -> None:
        seen.append(signal.data["status"])
        raise ValueError("boom")

    async with scripted(["one", "two"]) as agent:
        agent.on("agent/status", raises)
        await agent.prompt("x")
        await agent.prompt("y")
    assert seen == ["running", "idle", "running", "idle"]


async def test_i244_an_error_listener_that_raises_leaves_the_turn_balanced(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.CRITICAL + 1)

    def raises(_signal: Signal, _: AbortSignal) -> None:
        raise ValueError("boom")

    async with scripted([Failure("auth"), "ok"]) as agent:
        agent.on("agent/error", raises)
        assert (await agent.prompt("x")).reason == "error"
        assert (await agent.prompt("y")).ok
    assert reasons(agent.session) == ["error", "completed"]


@pytest.mark.parametrize("kind", ["step/start", "step/end", "turn/start", "turn/end", "user/message"])
async def test_i245_observers_of_entries_that_raise_change_no_outcome(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL + 1)
    plain, _ = await run([ADD, "ok"])

    def raises(entry: Any) -> None:
        if entry.type == kind:
            raise ValueError("boom")

    async with scripted([ADD, "ok"]) as agent:
        agent.session.watch(raises)
        agent.on("session/event", lambda signal, _: raises(signal.data["entry"]))
        turn = await agent.prompt("x")
    assert (turn.reason, turn.steps) == ("completed", 2)
    assert types(agent.session) == types(plain.session)


async def test_i246_a_refused_step_start_leaves_no_step_and_an_error_turn() -> None:
    async with scripted(["ok"]) as agent:
        stop = agent.session.validate(lambda entry: "no" if entry.type == "step/start" else None)
        turn = await agent.prompt("x")
        assert (turn.reason, turn.steps) == ("error", 0)
        assert isinstance(turn.error, AppendRefused)
        assert (turn.error.type, turn.error.reason) == ("step/start", "no")
        assert "step/start" not in types(agent.session)
        assert "step/end" not in types(agent.session)
        stop()
        agent.trace().clear()
        assert (await agent.prompt("y")).ok


async def test_i247_a_refused_end_of_a_step_is_told_once_and_the_agent_rests() -> None:
    errors: list[Any] = []
    async with scripted(["ok", "later"]) as agent:
        agent.on("agent/error", lambda signal, _: errors.append(signal.data["error"]))
        stop = agent.session.validate(lambda entry: "no" if entry.type == "step/end" else None)
        turn = await agent.prompt("x")
        assert turn.reason == "error"
        assert agent.status == "idle"
        assert len(errors) == 1
        stop()
        agent.trace().clear()
        assert (await agent.prompt("y")).ok
    assert reasons(agent.session) == ["interrupted", "completed"]


async def test_i248_overlapping_agents_each_see_themselves() -> None:
    seen: list[tuple[str, str, str]] = []

    def make(name: str, clock: FakeClock) -> dict[str, Any]:
        async def who(ctx: ToolContext) -> str:
            await ctx.clock.sleep(1)
            seen.append((name, "tool", ctx.session_id))
            return name

        async def stop(payload: TurnStopping) -> None:
            await clock.sleep(1)
            seen.append((name, payload.agent, payload.session))
            assert payload.turn.prompt == f"to {name}"

        return {
            "name": name, "clock": clock, "tools": [tool(who, name="who", description="x")],
            "hooks": {"turn_stopping": [stop]},
        }  # fmt: skip

    clock = FakeClock()
    replies: list[Any] = [calls(("who", {})), "ok"]
    async with (
        scripted(replies, **make("a", clock)) as a,
        scripted(replies, **make("b", clock)) as b,
        anyio.create_task_group() as group,
    ):
        group.start_soon(a.prompt, "to a")
        group.start_soon(b.prompt, "to b")
    for name, agent in (("a", a), ("b", b)):
        mine = [each for each in seen if each[0] == name]
        assert mine == [(name, "tool", agent.session.id), (name, name, agent.session.id)]


async def test_i248_an_agent_inside_a_tool_of_another_keeps_them_apart() -> None:
    child: list[Agent] = []

    async def delegate() -> str:
        async with Agent(ScriptedModel(["inner"]), clock=FakeClock(), name="child") as agent:
            child.append(agent)
            return (await agent.prompt("sub")).text

    agent, (turn,) = await run([calls(("delegate", {})), "ok"], tools=[tool(delegate, description="x")])
    assert turn.text == "ok"
    assert texts(agent.session, "tool/result") == ["inner"]
    assert texts(agent.session, "user/message") == ["x"]
    assert texts(child[0].session, "user/message") == ["sub"]


# -- the contract, point by point --------------------------------------------------------------------
