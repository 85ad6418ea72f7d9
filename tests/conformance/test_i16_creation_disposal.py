"""I.16 of the lifecycle: an agent is opened whole or not at all, and left when everything is closed."""

import logging
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from tests.conformance.watching import count, ends, hear, turns, waiting, when
from tests.machine.drive import calls, drop, slows, types
from tests.machine.histories import Kept, put, reopened

from turnchart.machine import (
    Agent,
    AppendRefused,
    HookFailed,
    Reply,
    ScriptedModel,
    ScriptError,
    Session,
    SessionLocked,
    State,
    tool,
)
from turnchart.machine.abort import AbortSignal
from turnchart.machine.bound import bind
from turnchart.machine.entries import Frozen
from turnchart.machine.models import Chunk, Finish, ModelRequest, PreparedCall, RequestConfig
from turnchart.machine.points import PreStep, SessionEnd, SessionStart
from turnchart.machine.verify import verify
from turnchart.testing import FakeClock

LATE = Reply("late", delay=5)


def made(*replies: Any, **settings: Any) -> Agent:
    return Agent(ScriptedModel(replies), clock=FakeClock(autojump=False), **settings)


def legal(session: Session) -> bool:
    verdict = verify(session.entries)
    assert verdict.ok, verdict.message
    return not verdict.open


async def test_i278_recovery_then_session_start_then_what_was_asked_for() -> None:
    order: list[str] = []

    def start(payload: SessionStart) -> None:
        order.append(f"{payload.source} {types(session)[-1]}")

    session = Session(Kept())
    put(session, "q", "follow_up")
    session.append("turn/start", Frozen(turn=1))
    session = reopened(session)
    async with made("a", session=session, hooks={"session_start": [start]}) as agent:
        assert order == ["resumed turn/end"]
        assert (agent.state, agent.parked) == (State.IDLE, True), "nothing wakes by itself"
        agent.resume()
        await agent.idle()
        assert turns(session) == [[], ["q"]]
    assert legal(session)


async def test_i279_a_start_hook_that_must_not_fail_undoes_the_opening() -> None:
    def broken(_: SessionStart) -> None:
        raise ValueError("boom")

    ended: list[object] = []
    session = Session.memory()
    hooks = {"session_start": [bind("session_start", broken, on_error="stop")], "session_end": [ended.append]}
    agent = made("never", session=session, hooks=hooks)
    with pytest.raises(HookFailed, match="boom"):
        async with agent:
            raise AssertionError("it was opened")
    assert (ended, count(session, "turn/start")) == ([], (0,))
    with pytest.raises(RuntimeError, match="async with"):
        agent.follow_up("x")
    async with made("a", session=session) as again:
        assert (await again.prompt("x")).ok


async def test_i279_one_that_may_fail_is_reported_and_the_agent_works() -> None:
    def broken(_: SessionStart) -> None:
        raise ValueError("boom")

    async with made("a", hooks={"session_start": [broken]}) as agent:
        assert (await agent.prompt("x")).ok
        [failed] = [entry.data for entry in agent.session.entries if entry.type == "hook/result"]
        assert "boom" in failed["error"]


async def test_i280_an_opening_that_is_cancelled_leaves_nothing_behind() -> None:
    async def slow(_: SessionStart) -> None:
        began.set()
        await anyio.sleep_forever()

    async def enter() -> None:
        async with made("never", session=session, hooks={"session_start": [slow]}):
            raise AssertionError("it was opened")

    began, session = anyio.Event(), Session.memory()
    async with anyio.create_task_group() as group:
        group.start_soon(enter)
        await began.wait()
        group.cancel_scope.cancel()
    assert session.entries == []
    async with made("a", session=session) as again:
        assert (await again.prompt("x")).ok


@pytest.mark.parametrize(
    "state", [State.CLAIMING, State.PRE_STEP, State.REQUESTING, State.TOOLING, State.STOPPING]
)
async def test_i281_leaving_mid_turn_aborts_it_clears_the_queue_and_tells_of_it(state: State) -> None:
    ended: list[str] = []

    def end(payload: SessionEnd) -> None:
        ended.append(f"{payload.reason} {agent.state}")

    session = Session(Kept())
    async with made(slows(0, 1), "b", session=session, hooks={"session_end": [end]}) as agent:
        heard = hear(agent, "agent/status", "agent/inbox/discarded", "agent/error")
        agent.follow_up("x")
        await agent.until(state)
        agent.follow_up("y")
        agent.steer("s")
        agent.next_turn("r")
        agent.go_on()
        drop(agent)
    assert ends(session) == ["aborted"]
    assert [e.data["cause"] for e in session.entries if e.type == "turn/end"] == ["disposed"]
    early = state in (State.CLAIMING, State.PRE_STEP, State.REQUESTING)
    assert heard == [
        "status running", "discarded s", "discarded y", *(["discarded x"] if early else []), "status idle",
    ]  # fmt: skip
    assert (turns(session), ended) == ([[] if early else ["x"]], ["closed idle"])
    assert [len(items) for items in reopened(session).inbox.queued()] == [0, 0, 1]
    assert legal(session)


async def test_i281_what_is_parked_when_an_idle_agent_is_left_stays() -> None:
    session = Session(Kept())
    async with made(ValueError("no"), session=session) as agent:
        agent.follow_up("x")
        agent.follow_up("y")
        await agent.idle()
        assert agent.parked
    async with made("b", session=reopened(session)) as again:
        assert again.parked
        again.resume()
        await again.idle()
        assert turns(again.session) == [["x"], ["y"]]


async def test_i282_leaving_twice_is_leaving_once() -> None:
    ended: list[object] = []
    agent = made("a", hooks={"session_end": [ended.append]})
    async with agent:
        await agent.prompt("x")
    log = types(agent.session)
    await agent.__aexit__(None, None, None)
    assert (len(ended), types(agent.session)) == (1, log)


async def test_i283_leaving_right_after_the_send_asks_no_model() -> None:
    async with made("never") as agent:
        agent.follow_up("x")
        drop(agent)
    assert ends(agent.session) == ["aborted"]
    assert count(agent.session, "turn/start", "step/start") == (1, 0)
    assert isinstance(agent.model, ScriptedModel)
    assert not agent.model.requests


class Blocked:
    """A model whose ``prepare`` ends only when it is cut off, and then takes its time."""

    id = "blocked"

    def __init__(self) -> None:
        self.began = anyio.Event()
        self.seen: list[str] = []

    async def prepare(self, config: RequestConfig, abort: AbortSignal) -> PreparedCall:
        """Wait for the abort."""
        self.began.set()
        with anyio.CancelScope(shield=True):
            self.seen.append(await abort.wait())
            await checkpoint()
            self.seen.append("cleaned up")
        return PreparedCall(config, self._stream)

    async def _stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        yield Finish("stop")


async def test_i284_leaving_while_prepare_is_blocked_sets_the_signal_and_waits() -> None:
    model = Blocked()
    async with Agent(model, clock=FakeClock()) as agent:
        agent.follow_up("x")
        await model.began.wait()
    assert model.seen == ["disposed", "cleaned up"]
    discarded = ["agent/inbox/spliced"] * 2
    assert types(agent.session)[-5:] == ["step/start", *discarded, "step/end", "turn/end"]
    assert (ends(agent.session), legal(agent.session)) == (["aborted"], True)


@pytest.mark.parametrize("kind", ["memory", "jsonl", "sqlite"])
async def test_i285_a_second_agent_on_a_session_is_refused_until_the_first_is_left(
    kind: str, tmp_path: Any
) -> None:
    def opened() -> Session:
        if kind == "memory":
            return session
        path = tmp_path / f"log.{kind}"
        return Session.jsonl(path) if kind == "jsonl" else Session.sqlite(path, "one")

    session = Session.memory()
    session = opened()
    first = made("a", session=session)
    async with first:
        for other in (session, opened()):
            with pytest.raises(SessionLocked, match="is being written by another"):
                async with made("never", session=other):
                    raise AssertionError("it was opened")
        with pytest.raises(SessionLocked, match="is being written by another"):
            async with first:
                raise AssertionError("it was opened twice")
        assert (await first.prompt("x")).ok, "the first is unharmed"
    async with made("b", session=opened()) as second:
        assert (await second.prompt("y")).number == 2


async def test_i285_also_while_the_first_is_being_left() -> None:
    async def stubborn(payload: PreStep) -> None:
        with anyio.CancelScope(shield=True):
            reached.set()
            await go.wait()

    async def first() -> None:
        async with made("never", session=session, hooks={"pre_step": [stubborn]}) as agent:
            agent.follow_up("x")
            await reached.wait()
            drop(agent)

    reached, go, session = anyio.Event(), anyio.Event(), Session.memory()
    async with anyio.create_task_group() as group:
        group.start_soon(first)
        await reached.wait()
        for _ in range(5):
            await checkpoint()
        with pytest.raises(SessionLocked, match="leave that one first"):
            async with made("never", session=session):
                raise AssertionError("it was opened")
        go.set()
    assert ends(session) == ["aborted"]
    async with made("b", session=session) as second:
        assert (await second.prompt("y")).number == 2


async def test_i286_what_a_start_hook_sends_waits_until_the_agent_is_open() -> None:
    seen: list[int] = []

    def send(_: SessionStart) -> None:
        agent.follow_up("x")
        agent.steer("s")

    def look(_: SessionStart) -> None:
        seen.append(count(agent.session, "turn/start")[0])

    agent = made("a", hooks={"session_start": [send, look]})
    async with agent:
        assert seen == [0]
        await agent.idle()
        assert turns(agent.session) == [["s", "x"]]


async def test_i286_an_inject_of_a_start_hook_wakes_nobody() -> None:
    def send(_: SessionStart) -> None:
        agent.inject("i")

    agent = made("a", hooks={"session_start": [send]})
    async with agent:
        await agent.idle()
        assert (count(agent.session, "turn/start"), agent.parked) == ((0,), True)
        await agent.prompt("x")
        assert turns(agent.session) == [["i", "x"]]


async def test_i287_several_agents_are_all_closed_when_their_program_is_cancelled() -> None:
    async def live(session: Session, start: anyio.Event) -> None:
        async with made(LATE, session=session) as agent:
            agent.follow_up("x")
            await agent.until(State.REQUESTING)
            agent.go_on()
            start.set()
            await anyio.sleep_forever()

    sessions = [Session.memory() for _ in range(5)]
    async with anyio.create_task_group() as group:
        for session in sessions:
            started = anyio.Event()
            group.start_soon(live, session, started)
            await started.wait()
        group.cancel_scope.cancel()
    for session in sessions:
        assert (ends(session), legal(session)) == (["aborted"], True)


# -- I.10 204: a send after disposal began -----------------------------------------------------------


@pytest.mark.parametrize("send", ["follow_up", "steer", "inject"])
async def test_i204_what_is_sent_while_an_agent_is_left_opens_no_turn(send: str) -> None:
    def sends(*_: object) -> None:
        getattr(agent, send)("y")

    async with made("never") as agent:
        agent.follow_up("x")
        await agent.until(State.PRE_STEP)
        when(agent, "entry turn/end", sends)
        agent.go_on()
        drop(agent)
    assert (ends(agent.session), agent.state) == (["aborted"], State.IDLE)
    assert len(waiting(agent)[1]) + len(waiting(agent)[0]) == 1, "it is in the log, for whoever opens it next"
    assert legal(agent.session)


async def test_i204_so_does_what_an_end_hook_sends() -> None:
    def send(_: SessionEnd) -> None:
        agent.follow_up("y")

    agent = made("a", hooks={"session_end": [send]})
    async with agent:
        await agent.prompt("x")
    assert (ends(agent.session), waiting(agent)[1]) == (["completed"], ["y"])


# -- what lies between -------------------------------------------------------------------------------


async def test_an_exception_of_the_body_comes_out_as_it_is() -> None:
    def end(payload: SessionEnd) -> None:
        reasons.append(payload.reason)

    async def live() -> None:
        async with agent:
            agent.follow_up("x")
            raise ZeroDivisionError

    reasons: list[str] = []
    agent = made(LATE, hooks={"session_end": [end]})
    with pytest.raises(ZeroDivisionError):
        await live()
    assert (ends(agent.session), reasons) == (["aborted"], ["error"])


async def test_an_agent_can_be_opened_again() -> None:
    agent = made("a", "b")
    async with agent:
        await agent.prompt("x")
        drop(agent)
    agent.model = ScriptedModel(["b"])
    async with agent:
        assert (await agent.prompt("y")).number == 2
    assert turns(agent.session) == [["x"], ["y"]]
    assert legal(agent.session)


async def test_a_wake_while_listeners_hear_of_rest_and_the_program_is_cancelled_is_closed() -> None:
    async def slow(*_: object) -> None:
        if agent.state is State.IDLE:
            reached.set()
            await anyio.sleep_forever()

    async def live() -> None:
        async with agent:
            agent.on("agent/status", slow)
            agent.follow_up("x")
            await reached.wait()
            agent.follow_up("y")
            group.cancel_scope.cancel()
            await anyio.sleep_forever()

    reached = anyio.Event()
    agent = made("a", "never")
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(live)
    assert (agent.state, legal(agent.session)) == (State.IDLE, True)
    assert ends(agent.session)[0] == "completed"


async def test_leaving_while_a_job_runs_sets_its_signal_and_waits_for_it() -> None:
    async def job(agent: Agent) -> None:
        began.set()
        seen.append(await agent.turning.abort.wait())
        await checkpoint()
        seen.append("cleaned up")

    began, seen = anyio.Event(), list[str]()
    agent = made()
    async with anyio.create_task_group() as group, agent:
        group.start_soon(agent.maintain, job)
        await began.wait()
        agent.follow_up("x")
    assert seen == ["disposed", "cleaned up"]
    assert (agent.state, count(agent.session, "turn/start")) == (State.IDLE, (0,))


async def test_a_tool_that_waits_for_its_own_turn_is_told_so() -> None:
    @tool
    async def wait() -> str:
        """Wait for the end of the turn."""
        await agent.idle()
        return "never"

    async with made(calls(("wait", {})), "ok", tools=[wait]) as agent:
        turn = await agent.prompt("x")
        assert turn.ok
        [result] = [entry.data for entry in agent.session.entries if entry.type == "tool/result"]
        assert "would wait for itself" in result["message"].text


async def test_a_recovery_that_is_refused_lets_the_session_go() -> None:
    session = Session(Kept())
    session.append("turn/start", Frozen(turn=1))
    session = reopened(session)
    stop = session.validate(lambda _: "no")
    with pytest.raises(AppendRefused):
        async with made(session=session):
            raise AssertionError("it was opened")
    stop()
    async with made("a", session=session) as agent:
        assert (await agent.prompt("x")).ok
    assert ends(session) == ["interrupted", "completed"]


async def test_leaving_closes_the_turn_even_where_the_log_refuses_to_say_what_goes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with made("never") as agent:
        agent.follow_up("x")
        agent.follow_up("y")
        agent.session.validate(lambda entry: "no" if entry.type == "agent/inbox/spliced" else None)
        drop(agent)
    assert (ends(agent.session), waiting(agent)[1]) == (["aborted"], ["y"])
    assert "what waits could not be discarded" in caplog.text


async def test_leftover_replies_are_told_only_where_nothing_else_went_wrong(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with pytest.raises(ScriptError, match="1 reply"):
        async with made("never"):
            pass
    with pytest.raises(KeyError):
        async with made("never"):
            raise KeyError
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []
