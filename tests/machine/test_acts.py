"""What one agent can do inside its chart: log, tell, ask, claim, write; what is not declared is refused."""

from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from tests.machine.drive import calls, drop, run, scripted, types

from turnchart.machine import (
    Agent,
    AppendRefused,
    InternalError,
    Limits,
    Queues,
    Reply,
    ScriptedModel,
    Session,
    SessionReadOnly,
    Signal,
    State,
    UserMessage,
)
from turnchart.machine.abort import AbortSignal
from turnchart.machine.acts import ARRIVALS, Acts, turn_of
from turnchart.machine.bound import Remarked
from turnchart.machine.entries import ENTRIES, SIGNALS, Frozen
from turnchart.machine.points import POINTS, Deny, PreStep, PreTool, Request
from turnchart.machine.stores import Durability
from turnchart.machine.table import LIFECYCLE
from turnchart.machine.turning import Turning

ADD = calls(("add", {"a": 1, "b": 2}))
NAMES = sorted({*ENTRIES, *POINTS, *SIGNALS, "prepare", "poll_steering"})


def made(**settings: Any) -> Agent:
    return Agent(ScriptedModel(), **settings)


# -- only what is declared -------------------------------------------------------------------------------


@pytest.mark.parametrize("state", list(State))
def test_a_state_performs_what_it_declares_and_what_may_happen_always(state: State) -> None:
    agent = made()
    agent.state = state
    for name in NAMES:
        if name in LIFECYCLE.does[state] or name in ARRIVALS:
            agent.did(name)
        else:
            with pytest.raises(InternalError, match=rf"state {state} does not declare `{name}`"):
                agent.did(name)


def test_an_entry_that_the_state_does_not_declare_is_not_written() -> None:
    agent = made()
    with pytest.raises(InternalError, match="state idle does not declare the entry `tool/call`"):
        agent.log("tool/call", Frozen())
    assert agent.session.entries == []


def test_a_trace_begins_when_somebody_asks_for_it() -> None:
    agent = made()
    agent.did("session_start")
    assert not agent.tracing
    names = agent.trace()
    agent.did("session_end")
    assert agent.trace() is names
    assert (names, agent.tracing) == (["session_end"], True)


# -- telling ---------------------------------------------------------------------------------------------


async def test_without_listeners_nothing_is_kept_for_them() -> None:
    agent, _ = await run(["a"])
    assert not agent.signals.waiting


async def test_while_the_agent_is_idle_plain_listeners_hear_at_once_and_others_in_a_task() -> None:
    async with scripted([]) as agent:
        heard: list[str] = []

        async def hear(signal: Signal, abort: AbortSignal) -> None:
            heard.append("async")

        agent.on("agent/inbox/inserted", lambda signal, _: heard.append("plain"))
        agent.on("agent/inbox/inserted", hear)
        agent.inject("x")
        assert heard == ["plain"]
        await anyio.wait_all_tasks_blocked()
        assert heard == ["plain", "async"]


async def test_listeners_of_a_wake_hear_when_all_of_it_is_in_the_log() -> None:
    seen: list[tuple[str, list[str]]] = []
    async with scripted(["a"]) as agent:

        def hear(signal: Signal, _: AbortSignal) -> None:
            if signal.kind == "agent/status":
                seen.append((agent.state, types(agent.session)))

        agent.on("agent/status", hear)
        agent.follow_up("x")
        assert seen == [("claiming", ["agent/inbox/spliced", "turn/start", "agent/inbox/spliced"])]
        await agent.idle()
        assert seen[1][0] == "idle"


async def test_an_abort_waits_for_a_listener_that_hears_something_right_now() -> None:
    heard: list[str] = []
    async with scripted([Reply(chunks=["a", "b"])]) as agent:

        async def hear(signal: Signal, abort: AbortSignal) -> None:
            if signal.data["frame"] == "start":
                agent.abort()
                await checkpoint()
                heard.append(f"went on, aborted: {abort.aborted}")

        agent.on("agent/assistant-stream", hear)
        agent.on("agent/assistant-stream", lambda signal, _: heard.append(signal.data["frame"]))
        turn = await agent.prompt("x")
        drop(agent)
    assert turn.reason == "aborted"
    assert heard == ["went on, aborted: True", "start", "end"]


async def test_a_notice_reaches_the_user() -> None:
    async with scripted(["a"]) as agent:
        heard: list[tuple[str, str]] = []
        agent.on("notice", lambda signal, _: heard.append((signal.data["text"], signal.data["source"])))

        def hook(payload: PreStep) -> None:
            payload.notice("mind it")

        agent.chains = {**made(hooks={"pre_step": [hook]}).chains}
        await agent.prompt("x")
    assert heard == [("mind it", "")]


# -- telling ---------------------------------------------------------------------------------------------


async def test_outside_of_async_with_only_plain_listeners_hear() -> None:
    plain: list[str] = []
    waiting: list[str] = []

    async def hear(signal: Signal, _: AbortSignal) -> None:
        await checkpoint()
        waiting.append(signal.data["text"])

    agent = made()
    agent.on("notice", lambda signal, _: plain.append(signal.data["text"]))
    agent.on("notice", hear)
    agent.notice("mind the gap")
    await checkpoint()
    assert (plain, waiting) == (["mind the gap"], [])


# -- asking hooks ----------------------------------------------------------------------------------------


async def test_without_hooks_no_payload_is_made() -> None:
    agent = made()
    agent.state = State.PRE_STEP
    assert await agent.ask("pre_step", _never) is None
    assert await agent.dispatch("pre_step", _never) is None
    assert agent.decided(None) is None


def _never() -> PreStep:
    raise AssertionError


async def test_what_every_payload_has() -> None:
    seen: list[PreStep] = []
    agent, _ = await run(["a"], name="me", flow="demo", hooks={"pre_step": [seen.append]})
    (payload,) = seen
    assert (payload.agent, payload.flow, payload.session) == ("me", "demo", agent.session.id)
    assert (payload.turn.number, payload.step, payload.id) == (1, 1, "append")
    assert payload.log is agent.session.entries
    assert payload.abort is not None
    assert payload.now == 1_000_000.0


async def test_a_dispatch_that_decided_changed_or_failed_is_an_entry_and_others_are_not() -> None:
    def nothing(payload: PreTool) -> None:
        return None

    def change(payload: PreTool) -> PreTool:
        return payload.replace(args={"a": 5, "b": 5})

    def deny(payload: PreTool) -> Deny:
        return Deny("not today")

    agent, _ = await run([ADD, "ok"], hooks={"pre_tool": [nothing, change, deny]})
    written = [dict(e.data) for e in agent.session.entries if e.type == "hook/result"]
    said = [(each["id"], each.get("changed"), each.get("decision"), each.get("reason")) for each in written]
    assert said == [
        ("change", ("args",), None, None), ("deny", None, "deny", "not today"),
    ]  # fmt: skip
    assert all(each["turn"] == each["step"] == 1 and "test_acts.py" in each["where"] for each in written)


async def test_a_failure_that_ends_the_turn_is_written_too() -> None:
    def broken(payload: Request) -> None:
        raise ValueError("boom")

    agent, (turn,) = await run([], hooks={"request": [broken]})
    (written,) = [e.data for e in agent.session.entries if e.type == "hook/result"]
    assert (written["id"], written["error"]) == ("broken", "ValueError: boom")
    assert turn.reason == "error"


async def test_what_a_program_wrote_to_stderr_is_in_the_entry() -> None:
    async def program(payload: PreTool) -> Remarked:
        return Remarked(None, "looked")

    agent, _ = await run([ADD, "ok"], hooks={"pre_tool": [program]})
    (written,) = [dict(e.data) for e in agent.session.entries if e.type == "hook/result"]
    assert (written["id"], written["stderr"]) == ("program", "looked")
    assert written.keys().isdisjoint(("decision", "error", "changed", "reason"))


# -- the inbox -------------------------------------------------------------------------------------------


async def test_one_item_can_be_claimed_alone_if_it_waits() -> None:
    agent = made()
    agent.session.append("turn/start", Frozen(turn=1))
    agent.turning, agent.state = Turning(1), State.CLAIMING
    one, two = (agent.put([UserMessage(text)], "next-step", "steer") for text in ("one", "two"))
    agent.claim_one(two)
    agent.claim_one(two)
    assert agent.turning.batch == (two,)
    assert agent.session.inbox.next_step == [one]


async def test_a_claim_takes_what_the_queue_modes_say_and_an_empty_one_writes_nothing() -> None:
    agent = made(queues=Queues(follow_up="all"))
    agent.session.append("turn/start", Frozen(turn=1))
    agent.turning, agent.state = Turning(1), State.CLAIMING
    for text in ("one", "two"):
        agent.put([UserMessage(text)], "next-turn", "prompt")
    agent.claim()
    length = len(agent.session.entries)
    agent.claim()
    assert [message.text for message in agent.turning.messages] == ["one", "two"]
    assert len(agent.session.entries) == length


# -- the turn as a whole ---------------------------------------------------------------------------------


def test_what_a_turn_came_to() -> None:
    now = Turning(3)
    now.reason, now.error, now.step = "error", ValueError("boom"), 2
    turn = turn_of(now)
    assert (turn.number, turn.reason, turn.error, turn.steps, turn.text) == (3, "error", now.error, 2, "")


def test_only_the_first_cause_cuts_a_turn_off() -> None:
    acts: Acts = made()
    acts.cut("user")
    acts.cut("max_seconds")
    assert acts.turning.cause == "user"


async def test_the_time_of_a_turn_is_its_own() -> None:
    async with scripted(
        [Reply("a", delay=6), Reply("b", delay=6), Reply("late", delay=6)], limits=Limits(max_seconds=10)
    ) as agent:
        assert (await agent.prompt("x")).ok
        assert (await agent.prompt("y")).ok
        assert (await agent.prompt("z")).ok
    async with scripted([Reply("a", delay=6), Reply("b", delay=60)], limits=Limits(max_seconds=10)) as agent:
        agent.follow_up("x")
        agent.follow_up("y")
        await agent.idle()
        ends = [e.data["reason"] for e in agent.session.entries if e.type == "turn/end"]
        assert ends == ["completed", "max_seconds"]


# -- writes beside the turn ------------------------------------------------------------------------------


async def test_a_refused_write_fails_the_turn_and_is_not_tried_again() -> None:
    async with scripted(["a", "b"]) as agent:
        agent.session.validate(lambda entry: "no" if entry.type == "model_change" else None)
        agent.follow_up("x")
        await agent.until(State.REQUESTING)
        agent.set_model("other")
        agent.set_thinking_level("high")
        agent.go_on()
        await agent.idle()
        assert isinstance(agent.turning.error, AppendRefused)
        kinds = types(agent.session)
        assert kinds[-4:] == ["assistant/message", "step/end", "thinking_level_change", "turn/end"]
        assert kinds.count("step/end") == 1
        assert (await agent.prompt("y")).ok


async def test_while_idle_the_caller_of_a_write_hears_of_a_refusal() -> None:
    async with scripted([]) as agent:
        agent.session.validate(lambda entry: "no")
        with pytest.raises(AppendRefused):
            agent.set_model("other")
        assert types(agent.session) == []


async def test_a_write_that_the_store_refuses_stays_for_whoever_looks() -> None:
    class Full:
        id = where = "full"
        durability: Durability = "flush"
        dropped = ""

        def load(self) -> tuple[()]:
            return ()

        def lock(self) -> None: ...

        def append(self, entry: object) -> None:
            if getattr(entry, "type", "") == "model_change":
                raise OSError(28, "full")

        async def flush(self) -> None: ...

        def close(self) -> None: ...

    async with Agent(ScriptedModel(["a"]), session=Session(Full())) as agent:
        agent.follow_up("x")
        await agent.until(State.REQUESTING)
        agent.set_model("other")
        agent.go_on()
        await agent.idle()
        assert (agent.state, agent.session.read_only) == ("idle", True)
        with pytest.raises(SessionReadOnly, match="full"):
            await agent.prompt("y")
