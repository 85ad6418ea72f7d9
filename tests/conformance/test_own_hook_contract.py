"""The contract of every hook point, held by the driver: failures, time-outs, records, observers, payloads."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.conformance.toolkit import Seen, all_of, brackets
from tests.machine.drive import ADD, add, drop, run, scripted, texts

from turnchart.hooks import hook, run_chain
from turnchart.hooks.command import Command
from turnchart.machine import (
    Agent,
    Failure,
    Tool,
    UserMessage,
)
from turnchart.machine.chain import bind
from turnchart.machine.points import (
    POINTS,
    AfterStep,
    Assemble,
    Context,
    Convert,
    OnSignal,
    Payload,
    PostTool,
    PreStep,
    PreTool,
    Reject,
    Request,
    RequestError,
    Retry,
    SessionEnd,
    SessionStart,
    TurnStopping,
)
from turnchart.machine.world import AgentWorld, Finished, cut_short
from turnchart.testing import FakeClock


def boom(_: Payload) -> None:
    raise ValueError("boom")


DENIES, ERROR, GOES_ON = "denies the call", "error", "completed"
FAILING = {
    "session_start": GOES_ON, "session_end": GOES_ON, "assemble": ERROR, "pre_step": ERROR, "request": ERROR,
    "context": GOES_ON, "convert": ERROR, "stream": ERROR, "request_error": ERROR, "pre_tool": DENIES,
    "tool": "error", "post_tool": GOES_ON, "after_step": ERROR, "turn_stopping": ERROR, "on_signal": GOES_ON,
}  # fmt: skip


@pytest.mark.parametrize("point", [point for point in POINTS if point != "compact"])
async def test_a_failing_hook_means_what_the_contract_says(
    point: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL + 1)
    replies: list[Any] = [Failure("auth")] if point == "request_error" else [ADD, "ok"]
    async with scripted(replies, hooks={point: [boom]}) as agent:
        turn = await agent.prompt("x")
        failed = [
            entry.data
            for entry in all_of(agent.session, "hook/result")
            if "boom" in entry.data.get("error", "")
        ]
        assert bool(failed) == (point not in ("on_signal", "session_end")), point
        assert {each["point"] for each in failed} <= {point}
        agent.model.drop()  # type: ignore[union-attr]  # scripted
    outcomes = [entry.data["outcome"] for entry in all_of(agent.session, "tool/result")]
    if point in ("pre_tool", "tool"):
        assert (turn.reason, outcomes) == ("completed", ["denied" if point == "pre_tool" else "error"])
    else:
        assert turn.reason == FAILING[point], point
        assert outcomes in ([], ["ok"])
    if turn.reason == "error":
        assert "boom" in str(turn.error)


async def test_a_hook_that_takes_too_long_has_failed_on_the_fake_clock() -> None:
    clock = FakeClock()

    async def stuck(_: Request) -> None:
        await clock.sleep(1000)

    async with scripted([], clock=clock, hooks={"request": [stuck]}) as agent:
        turn = await agent.prompt("x")
    assert turn.reason == "error"
    assert "it took longer than 30 s" in str(turn.error)


async def test_a_dispatch_that_decided_changed_or_failed_is_in_the_log_and_others_are_not() -> None:
    @hook("quiet", on="pre_step")
    def quiet(_: PreStep) -> None: ...

    def changes(payload: PreStep) -> PreStep:
        return payload.replace(messages=(*payload.messages, UserMessage("more")))

    def decides(payload: RequestError) -> Retry:
        return Retry(0)

    agent, _ = await run(
        [Failure("auth"), "ok"], hooks={"pre_step": [quiet, changes], "request_error": [decides]}
    )
    told = [entry.data for entry in all_of(agent.session, "hook/result")]
    assert [(each["point"], each["id"]) for each in told] == [
        ("pre_step", "changes"),
        ("request_error", "decides"),
    ]
    assert told[0]["changed"] == ("messages",)
    assert told[1]["decision"] == "retry"
    assert all("test_own_hook_contract.py:" in each["where"] for each in told)


async def test_an_observer_can_change_and_break_nothing() -> None:
    seen: Seen = []

    @hook("watcher", on="pre_step", observes=True)
    def watcher(payload: PreStep) -> PreStep:
        seen.append(payload.messages[-1].text)
        return payload.replace(messages=())

    def adds(payload: PreStep) -> PreStep:
        return payload.replace(messages=(*payload.messages, UserMessage("added")))

    agent, (turn,) = await run(["ok"], hooks={"pre_step": [watcher, adds]})
    assert seen == ["added"]
    assert turn.ok
    assert texts(agent.session, "user/message") == ["x", "added"]


async def test_a_signal_observer_may_write_to_the_inbox() -> None:
    agents: list[Agent] = []

    def inject(payload: OnSignal) -> None:
        if payload.signal == "session/event" and payload.data["entry"].type == "tool/result":
            agents[0].inject("seen")

    async with scripted([ADD, "ok"], hooks={"on_signal": [inject]}) as agent:
        agents.append(agent)
        await agent.prompt("x")
    assert texts(agent.session, "user/message") == ["x", "seen"]


class Hangs(AgentWorld):
    """Programs that write to stderr and then take an hour."""

    def __init__(self, agent: Agent) -> None:
        super().__init__(Path(), agent.clock, agent.notice, _silent)

    async def run(self, argv: Sequence[str], *, timeout: float = 30, **_: Any) -> Finished:  # noqa: ASYNC109
        try:
            with self._clock.timeout(timeout):
                await self._clock.sleep(3600)
        except BaseException as error:
            cut_short(error, f"{argv[0]} looked")
            raise
        return Finished(0, "", "")


async def _silent(model: str, prompt: str) -> str:
    raise NotImplementedError


@pytest.mark.parametrize(("seconds", "reason"), [(40, "completed"), (3, "aborted")])
async def test_what_a_program_wrote_to_stderr_is_kept_where_it_did_not_end(
    seconds: float, reason: str
) -> None:
    clock = FakeClock()
    hooks = {"pre_tool": [bind("pre_tool", Command("pre_tool", ("guard",)), id="guard", where="f.yaml:9")]}
    async with scripted([ADD, "ok"], clock=clock, hooks=hooks) as agent:
        agent.world = Hangs(agent)
        agent.follow_up("x")
        await clock.sleep(seconds)
        agent.abort("user")
        await agent.idle()
        drop(agent)
    [result] = all_of(agent.session, "hook/result")
    assert result.data["stderr"] == "guard looked"
    assert all_of(agent.session, "turn/end")[0].data["reason"] == reason
    if reason == "aborted":
        assert result.data["reason"] == "the turn was cut off"
        assert result.data.keys().isdisjoint({"decision", "error"})
        assert brackets(agent.session, "hook/result", "turn/end")[-1] == "turn/end aborted"
    else:
        assert (result.data["decision"], result.data["error"]) == ("deny", "it took longer than 30 s")


async def test_payloads_are_frozen_and_say_so() -> None:
    def mutate(payload: PreStep) -> None:
        payload.messages[0]["content"] = ()

    _, (turn,) = await run([], hooks={"pre_step": [mutate]})
    assert turn.reason == "error"
    assert "frozen" in str(turn.error)


async def test_every_point_gets_its_own_payload_in_the_order_of_a_turn() -> None:
    seen: Seen = []

    def note(payload: Payload) -> None:
        if type(payload).__name__ not in seen:
            seen.append(type(payload).__name__)

    hooks = {point: [note] for point in POINTS if point not in ("on_signal", "compact", "stream", "tool")}
    await run([Failure("timeout"), ADD, "ok"], hooks=hooks)
    assert seen == [
        kind.__name__
        for kind in (
            SessionStart, Assemble, PreStep, Request, Context, Convert, RequestError, PreTool, PostTool, AfterStep,
            TurnStopping, SessionEnd,
        )
    ]  # fmt: skip


async def test_a_chain_runs_without_any_agent() -> None:
    def reject(_: PreStep) -> Reject:
        return Reject("no")

    verdict = await run_chain("pre_step", PreStep(messages=(UserMessage("x"),)), [reject])
    assert verdict.decision == Reject("no")
    assert [each.id for each in verdict.trace] == ["reject"]


async def test_hooks_of_a_class_are_one_instance_for_every_point() -> None:
    class Counts:
        def __init__(self) -> None:
            self.count = 0

        def pre_tool(self, _: PreTool) -> None:
            self.count += 1

        def post_tool(self, payload: PostTool) -> PostTool:
            self.count += 1
            return payload.replace(content=str(self.count))

    counts = Counts()
    agent, _ = await run(
        [ADD, ADD, "ok"], tools=_tools(), hooks={"pre_tool": [counts], "post_tool": [counts]}
    )
    assert texts(agent.session, "tool/result") == ["2", "4"]
    assert brackets(agent.session, "turn/end") == ["turn/end completed"]


def _tools() -> list[Tool]:
    return [add]
