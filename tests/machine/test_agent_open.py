"""Opening and closing an agent, maintenance, observers, and what a session keeps for the next one."""

import logging
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from tests.machine.drive import always, calls, drop, scripted, texts, types

from turnchart.machine import (
    Agent,
    AppendRefused,
    HookFailed,
    InternalError,
    Reply,
    ScriptedModel,
    Session,
    SessionLocked,
    Signal,
    State,
    UserMessage,
)
from turnchart.machine.abort import AbortSignal
from turnchart.machine.bound import bind
from turnchart.machine.entries import Frozen
from turnchart.machine.points import AddContext, OnSignal, PreStep, SessionEnd, SessionStart
from turnchart.machine.verify import verify

ADD = calls(("add", {"a": 1, "b": 2}))


# -- session_start and session_end -------------------------------------------------------------------


async def test_both_run_once_per_open_and_say_why() -> None:
    said: list[str] = []

    async def start(payload: SessionStart) -> None:
        said.append(f"start {payload.source} {payload.session}")

    def end(payload: SessionEnd) -> None:
        said.append(f"end {payload.reason}")

    session = Session.memory("s")
    hooks: dict[str, list[Any]] = {"session_start": [start, start], "session_end": [end]}
    async with Agent(ScriptedModel(["a"]), hooks=hooks, session=session) as agent:
        await agent.prompt("x")
        assert said == ["start new s", "start new s"]
    assert said[2:] == ["end closed"]
    with pytest.raises(ValueError, match="mine"):
        async with Agent(ScriptedModel(), hooks=hooks, session=session):
            raise ValueError("mine")
    assert said[3:] == ["start resumed s", "start resumed s", "end error"]


async def test_context_is_added_to_a_new_session_only() -> None:
    session = Session.memory()
    hooks: dict[str, list[Any]] = {"session_start": [always(AddContext("the facts"))]}
    async with scripted(["a"], session=session, hooks=hooks) as agent:
        assert agent.state == "idle"
        assert types(session) == ["hook/result", "agent/inbox/spliced"]
        await agent.prompt("x")
    async with scripted(["b"], session=session, hooks=hooks) as agent:
        await agent.prompt("y")
    assert texts(session, "user/message") == ["the facts", "x", "y"]


async def test_a_failing_start_is_reported_unless_it_says_that_nothing_starts() -> None:
    def broken(payload: SessionStart) -> None:
        raise ValueError("boom")

    async with scripted(["a"], hooks={"session_start": [broken]}) as agent:
        assert (await agent.prompt("x")).ok
    session = Session.memory()
    stop = bind("session_start", broken, on_error="stop")
    with pytest.raises(HookFailed, match="boom"):
        async with Agent(ScriptedModel(["a"]), hooks={"session_start": [stop]}, session=session):
            raise AssertionError("it must not start")
    async with scripted(["a"], session=session) as agent:  # the session was given back
        assert (await agent.prompt("x")).ok


async def test_what_is_sent_while_it_opens_is_read_when_it_is_open() -> None:
    made: list[Agent] = []

    async def start(payload: SessionStart) -> None:
        made[0].follow_up("early")
        await checkpoint()
        assert made[0].state == "idle"
        with pytest.raises(RuntimeError, match="works inside"):
            await made[0].prompt("too early")

    agent = Agent(ScriptedModel(["a"]), hooks={"session_start": [start]})
    made.append(agent)
    async with agent:
        assert agent.state == "claiming"
        await agent.idle()
    assert texts(agent.session, "user/message") == ["early"]
    assert verify(agent.session.entries).ok


async def test_what_is_sent_while_it_closes_waits_for_the_next_open() -> None:
    made: list[Agent] = []

    async def end(payload: SessionEnd) -> None:
        made[0].follow_up("late")
        await checkpoint()

    session = Session.memory()
    async with Agent(ScriptedModel(), hooks={"session_end": [end]}, session=session) as agent:
        made.append(agent)
    assert "turn/start" not in types(session)
    async with scripted(["a"], session=session) as agent:
        assert agent.parked
        agent.resume()
        await agent.idle()
    assert texts(session, "user/message") == ["late"]


async def test_a_failing_end_does_not_keep_the_session(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def end(payload: SessionEnd) -> None:
        raise ValueError("boom")

    session = Session.jsonl(tmp_path / "s.jsonl")
    async with Agent(ScriptedModel(["a"]), hooks={"session_end": [end]}, session=session) as agent:
        await agent.prompt("x")
        session.validate(lambda entry: "no" if entry.type == "hook/result" else None)
    assert "could not be logged" in caplog.text
    Session.jsonl(tmp_path / "s.jsonl").attach()


# -- leaving -----------------------------------------------------------------------------------------


async def test_leaving_cuts_a_running_turn_off_and_closes_it() -> None:
    async with scripted_without_check([Reply("late", delay=5)]) as agent:
        agent.follow_up("x")
        await agent.until(State.REQUESTING)
        agent.go_on()
        drop(agent)
    end = agent.session.entries[-1]
    assert (end.data["reason"], end.data["cause"]) == ("aborted", "disposed")
    assert agent.state == "idle"


def scripted_without_check(replies: list[Any], **settings: Any) -> Agent:
    return Agent(ScriptedModel(replies), **settings)


async def test_leaving_waits_for_listeners_and_nothing_begins_any_more() -> None:
    heard: list[str] = []
    agent = scripted_without_check(["a"])

    async def hear(signal: Signal, abort: AbortSignal) -> None:
        await checkpoint()
        heard.append(signal.data["status"])
        if signal.data["status"] == "idle":
            agent.follow_up("more")

    agent.on("agent/status", hear)
    async with agent:
        agent.follow_up("x")
        await agent.until(State.CLAIMING)
        drop(agent)
    assert heard == ["running", "idle"]
    assert types(agent.session).count("turn/start") == 1


async def test_an_error_of_the_body_goes_on_as_it_is() -> None:
    class Mine(Exception):
        pass

    agent = scripted_without_check([Reply("late", delay=5)])

    async def fail() -> None:
        async with agent:
            agent.follow_up("x")
            raise Mine

    with pytest.raises(Mine):
        await fail()
    assert verify(agent.session.entries).open is False
    drop(agent)


async def test_a_bug_of_ours_closes_the_turn_and_is_raised_again() -> None:
    agent = scripted_without_check(["a"])
    agent.poll_steering = lambda: agent.did("post_tool")
    with pytest.raises(InternalError, match="does not declare `post_tool`"):
        async with agent:
            await agent.prompt("x")
    end = agent.session.entries[-1]
    assert (end.type, end.data["reason"]) == ("turn/end", "error")
    drop(agent)


async def test_an_agent_may_be_opened_again() -> None:
    agent = scripted_without_check([])
    heard: list[str] = []
    agent.on("agent/status", lambda signal, _: heard.append(signal.data["status"]))
    for answer in ("a", "b"):
        agent.model = ScriptedModel([answer])
        async with agent:
            assert (await agent.prompt("x")).ok
    assert heard == ["running", "idle"] * 2
    assert texts(agent.session, "assistant/message") == ["a", "b"]


async def test_one_agent_at_a_time_writes_a_session() -> None:
    session = Session.memory()
    async with Agent(ScriptedModel(), session=session):
        with pytest.raises(SessionLocked):
            async with Agent(ScriptedModel(), session=session):
                pass


# -- two agents --------------------------------------------------------------------------------------


async def test_two_agents_at_once_do_not_hear_each_other() -> None:
    heard: dict[str, list[str]] = {"one": [], "two": []}

    async def work(name: str) -> None:
        def hook(payload: OnSignal) -> None:
            heard[name].append(f"hook {payload.agent}")

        async with scripted([ADD, name], name=name, hooks={"on_signal": [hook]}) as agent:
            agent.on("session/event", lambda signal, _: heard[name].append(_text(signal)))
            for _ in range(2):
                agent.follow_up(f"to {name}")
            await agent.until(State.TOOLING)
            agent.steer(f"steer {name}")
            agent.go_on()
            await agent.idle()

    def _text(signal: Signal) -> str:
        entry = signal.data["entry"]
        return entry.data["message"].text if entry.type == "user/message" else ""

    async with anyio.create_task_group() as group:
        group.start_soon(work, "one")
        group.start_soon(work, "two")
    for name, other in (("one", "two"), ("two", "one")):
        assert {"to " + name, "steer " + name, f"hook {name}"} <= set(heard[name])
        assert not [each for each in heard[name] if other in each]


# -- on_signal ---------------------------------------------------------------------------------------


async def test_observers_hear_every_signal_and_may_write_to_the_inbox() -> None:
    kinds: list[str] = []
    made: list[Agent] = []

    async def hear(payload: OnSignal) -> None:
        kinds.append(payload.signal)
        if payload.signal == "agent/status" and payload.data["status"] == "running":
            made[0].inject("seen")

    async with scripted([ADD, "b"], hooks={"on_signal": [hear]}) as agent:
        made.append(agent)
        await agent.prompt("x")
    assert {"agent/status", "session/event", "agent/inbox/claimed", "agent/assistant-stream"} <= set(kinds)
    assert texts(agent.session, "user/message") == ["x", "seen"]


async def test_a_failing_observer_is_reported_once_and_still_called(caplog: pytest.LogCaptureFixture) -> None:
    calls: list[str] = []

    def broken(payload: OnSignal) -> None:
        calls.append(payload.signal)
        raise ValueError("boom")

    with caplog.at_level(logging.ERROR):
        async with scripted(["a"], hooks={"on_signal": [broken]}) as agent:
            assert (await agent.prompt("x")).ok
    assert len(calls) > 5
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 1
    assert "hook `broken`" in said[0]
    assert "ValueError: boom" in said[0]
    assert "hook/result" not in types(agent.session)


# -- memory ------------------------------------------------------------------------------------------


async def test_what_a_hook_remembers_survives_a_reopen(tmp_path: Path) -> None:
    seen: list[int] = []

    def count(payload: PreStep) -> None:
        payload.memory["n"] = payload.memory.get("n", 0) + 1
        seen.append(payload.memory["n"])

    async def look(payload: PreStep) -> None:
        assert payload.memory == {}

    session = Session.memory()
    for _ in range(2):
        session = Session.jsonl(tmp_path / "s.jsonl")
        async with scripted(["a", "b"], session=session, hooks={"pre_step": [count, look]}) as agent:
            await agent.prompt("x")
            await agent.prompt("y")
    assert seen == [1, 2, 3, 4]
    kept = [entry.data for entry in session.entries if entry.type == "custom"]
    assert [each["data"] for each in kept] == [{"id": "count", "memory": {"n": n}} for n in (1, 2, 3, 4)]


async def test_memory_that_did_not_change_is_not_written_again() -> None:
    def remember(payload: PreStep) -> None:
        payload.memory["n"] = 1

    async with scripted(["a", "b"], hooks={"pre_step": [remember]}) as agent:
        await agent.prompt("x")
        await agent.prompt("y")
        assert types(agent.session).count("custom") == 1


async def test_memory_that_is_no_json_is_forgotten_and_the_user_is_told() -> None:
    seen: list[dict[str, Any]] = []

    def remember(payload: PreStep) -> None:
        seen.append(dict(payload.memory))
        payload.memory["set"] = {1, 2} if len(seen) == 2 else len(seen)

    async with scripted(["a", "b", "c"], hooks={"pre_step": [remember]}) as agent:
        told: list[str] = []
        agent.on("notice", lambda signal, _: told.append(signal.data["text"]))
        for text in ("x", "y", "z"):
            assert (await agent.prompt(text)).ok
    assert seen == [{}, {"set": 1}, {"set": 1}]
    assert len(told) == 1
    assert "hook `remember` keeps in its memory what is no JSON" in told[0]


# -- maintenance -------------------------------------------------------------------------------------


async def test_a_job_returns_what_it_gives_and_no_turn_runs_meanwhile() -> None:
    async with scripted(["a"]) as agent:

        async def job(agent: Agent) -> int:
            assert (agent.state, agent.status) == ("maintenance", "idle")
            agent.follow_up("wait")
            await checkpoint()
            assert agent.state == "maintenance"
            return 7

        assert await agent.maintain(job) == 7
        assert agent.status == "running"
        await agent.idle()
        assert texts(agent.session, "user/message") == ["wait"]


async def test_a_job_that_fails_leaves_the_agent_idle() -> None:
    async with scripted(["a"]) as agent:

        async def job(agent: Agent) -> None:
            raise ValueError("mine")

        with pytest.raises(ValueError, match="mine"):
            await agent.maintain(job)
        assert agent.state == "idle"
        assert (await agent.prompt("x")).ok


async def test_a_wake_whose_message_is_gone_is_dropped_also_where_riders_wait() -> None:
    async with scripted([]) as agent:

        async def job(agent: Agent) -> None:
            agent.next_turn("rider")
            agent.follow_up("wait")
            agent.abort()

        await agent.maintain(job)
        assert agent.state == "idle"
        assert "turn/start" not in types(agent.session)


async def test_an_abort_only_sets_the_signal_of_the_job() -> None:
    async with scripted([]) as agent:

        async def job(agent: Agent) -> str:
            agent.abort("enough", keep_inbox=True)
            return await agent.turning.abort.wait()

        assert await agent.maintain(job) == "enough"


async def test_what_is_written_meanwhile_is_in_the_log_when_the_job_is_over() -> None:
    async with scripted([]) as agent:

        async def job(agent: Agent) -> None:
            agent.set_thinking_level("high")
            agent.append_message(UserMessage("noted"))
            assert types(agent.session) == []

        await agent.maintain(job)
        assert types(agent.session) == ["thinking_level_change", "user/message"]


async def test_a_wake_that_cannot_be_honoured_after_it_leaves_the_agent_idle() -> None:
    async with scripted([]) as agent:
        errors: list[object] = []
        agent.on("agent/error", lambda signal, _: errors.append(signal.data["error"]))
        agent.session.validate(lambda entry: "no" if entry.type == "turn/start" else None)

        async def job(agent: Agent) -> None:
            agent.follow_up("wait")

        await agent.maintain(job)
        with anyio.fail_after(5):
            await agent.idle()
        assert agent.state == "idle"
        assert agent.parked
        assert [type(error) for error in errors] == [AppendRefused]
        agent.trace().clear()


async def test_leaving_tells_a_job_and_waits_for_it() -> None:
    over: list[str] = []
    agent = Agent(ScriptedModel())

    async def job(agent: Agent) -> None:
        over.append(await agent.turning.abort.wait())
        agent.session.append("session_info", Frozen(name="tidied"))

    async with anyio.create_task_group() as group:
        async with agent:
            group.start_soon(agent.maintain, job)
            while agent.state != "maintenance":
                await checkpoint()
        assert over == ["disposed"]
    assert types(agent.session) == ["session_info"]
