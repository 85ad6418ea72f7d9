"""The driver on both loops: every path of a turn, every trace a legal walk of the declarations."""

import anyio
import pytest
from tests.machine.drive import add, calls, drop, run, scripted, slow, slows, texts, types

from turnchart.machine import (
    AgentBusy,
    AppendRefused,
    Entry,
    Failure,
    Limits,
    Reply,
    RetryPolicy,
    Session,
    SessionReadOnly,
    Signal,
    State,
    TurnFailed,
    UserMessage,
)
from turnchart.machine.abort import AbortSignal
from turnchart.machine.points import (
    AfterStep,
    Allow,
    Context,
    Continue,
    Deny,
    PostTool,
    PreStep,
    PreTool,
    Reject,
    Request,
    RequestError,
    Retry,
    Stop,
    TurnStopping,
)
from turnchart.machine.stores import Durability
from turnchart.testing import FakeClock


def look_on(_: PostTool) -> None:
    """Change nothing."""


def reject(_: PreStep) -> Reject:
    return Reject("no")


def empty(payload: PreStep) -> PreStep:
    return payload.replace(messages=())


def deny(_: PreTool) -> Deny:
    return Deny("not today")


def spoil(payload: PreTool) -> PreTool:
    return payload.replace(args={"a": "six"})


FIRST_TURN = [
    "agent/inbox/spliced", "turn/start", "agent/inbox/spliced", "step/start", "system/message",
    "user/message", "request/header", "request/context", "assistant/message", "step/end", "turn/end",
]  # fmt: skip


async def test_one_answer_is_one_step() -> None:
    agent, (turn,) = await run(["hi"])
    assert (turn.reason, turn.text, turn.steps, turn.number) == ("completed", "hi", 1, 1)
    assert types(agent.session) == FIRST_TURN


async def test_a_second_turn_writes_no_header_again() -> None:
    agent, turns = await run(["hi", "ho"], "x", "y")
    assert [turn.number for turn in turns] == [1, 2]
    assert types(agent.session)[len(FIRST_TURN) :] == [
        each for each in FIRST_TURN if each not in ("system/message", "request/header", "request/context")
    ]


async def test_a_pool_refills_and_results_stand_in_model_order() -> None:
    agent, (turn,) = await run([slows(0, 1, 2), "done"])
    assert turn.steps == 2
    assert texts(agent.session, "tool/result") == ["0", "1", "2"]
    tools = [each.removeprefix("tool/") for each in types(agent.session) if each.startswith("tool/")]
    assert tools == ["call", "call", "result", "result", "call", "result"]


async def test_an_exclusive_call_is_a_barrier() -> None:
    agent, _ = await run([calls(("slow", {"n": 0}), ("add", {"a": 1, "b": 2}), ("slow", {"n": 1})), "done"])
    tools = [each.removeprefix("tool/") for each in types(agent.session) if each.startswith("tool/")]
    assert tools == ["call", "result"] * 3
    assert texts(agent.session, "tool/result") == ["0", "3", "1"]


async def test_a_failed_request_is_retried_in_the_open_step() -> None:
    clock = FakeClock()
    async with scripted(
        [Failure("rate_limit", retry_after=2), Failure("overloaded"), "ok"], clock=clock
    ) as agent:
        turn = await agent.prompt("x")
    assert (turn.reason, turn.steps, turn.text) == ("completed", 1, "ok")
    kinds = types(agent.session)
    assert kinds.count("user/message") == 1
    assert kinds.count("step/start") == 1
    assert kinds.count("assistant/attempt") == 2
    assert clock.slept[0] == 2
    assert 0 <= clock.slept[1] <= 2


@pytest.mark.parametrize("kind", ["auth", "quota", "invalid_request", "refused", "unknown", "context_window"])
async def test_a_failure_that_nobody_retries_ends_the_turn(kind: str) -> None:
    agent, (turn,) = await run([Failure(kind, message="no")])  # type: ignore[arg-type]  # parametrised
    assert turn.reason == "error"
    assert types(agent.session)[-3:] == ["assistant/attempt", "step/end", "turn/end"]
    assert agent.session.entries[-1].data["error"] == {"kind": kind, "message": "no"}
    with pytest.raises(TurnFailed, match="ended as error"):
        turn.check()


async def test_the_retry_budget_is_spent_and_the_last_failure_stays() -> None:
    agent, (turn,) = await run([Failure("timeout")] * 3, retry=RetryPolicy(max_attempts=3))
    assert turn.reason == "error"
    assert types(agent.session).count("llm/retry") == 2


async def test_a_hook_answers_before_the_policy() -> None:
    seen: list[int] = []

    def again(payload: RequestError) -> Retry | None:
        seen.append(payload.attempt)
        return Retry(0) if payload.kind == "auth" and payload.attempt < 3 else None

    _, (turn,) = await run([Failure("auth"), Failure("auth"), "ok"], hooks={"request_error": [again]})
    assert turn.ok
    assert seen == [1, 2]


async def test_a_wait_longer_than_the_policy_allows_ends_the_retries() -> None:
    _, (turn,) = await run([Failure("rate_limit", retry_after=61)])
    assert turn.reason == "error"


async def test_an_abort_in_the_stream_keeps_what_was_shown() -> None:
    async def cut(agent: object, clock: FakeClock) -> None:
        await clock.sleep(0.5)
        agent.abort("user")  # type: ignore[attr-defined]  # an agent

    agent, (turn,) = await run([Reply(chunks=["par", 5.0, "tial"])], act=cut)
    assert (turn.reason, turn.text) == ("aborted", "par")
    assert types(agent.session)[-3:] == ["assistant/message", "step/end", "turn/end"]
    assert agent.session.entries[-3].data["interrupted"] is True


async def test_an_abort_before_anything_was_shown_is_an_attempt() -> None:
    async def cut(agent: object, clock: FakeClock) -> None:
        await clock.sleep(0.5)
        agent.abort("user")  # type: ignore[attr-defined]  # an agent

    agent, (turn,) = await run([Reply("late", delay=5)], act=cut)
    assert turn.reason == "aborted"
    assert types(agent.session)[-3:] == ["assistant/attempt", "step/end", "turn/end"]


async def test_an_abort_from_a_listener_of_a_chunk_stops_at_that_chunk() -> None:
    async with scripted([Reply(chunks=["a", "b", "c"])]) as agent:

        def hear(signal: Signal, _: AbortSignal) -> None:
            if signal.data["frame"] == "chunk" and getattr(signal.data["chunk"], "text", "") == "b":
                agent.abort()

        agent.on("agent/assistant-stream", hear)
        turn = await agent.prompt("x")
    assert (turn.reason, turn.text) == ("aborted", "ab")


async def test_an_abort_among_tools_leaves_no_call_without_result() -> None:
    async def cut(agent: object, clock: FakeClock) -> None:
        await clock.sleep(0.5)
        agent.abort("user")  # type: ignore[attr-defined]  # an agent

    agent, (turn,) = await run([slows(0, 1, 2)], act=cut)
    assert turn.reason == "aborted"
    kinds = types(agent.session)
    assert kinds.count("tool/call") == kinds.count("tool/result") == 3
    assert ["no effect" in text for text in texts(agent.session, "tool/result")] == [False, False, True]


async def test_a_finished_result_is_kept_when_a_sibling_is_cut() -> None:
    async def cut(agent: object, clock: FakeClock) -> None:
        await clock.sleep(2.5)
        agent.abort("user")  # type: ignore[attr-defined]  # an agent

    agent, _ = await run([slows(0, 1)], act=cut)
    assert texts(agent.session, "tool/result")[1] == "1"


async def test_a_finished_result_that_post_tool_has_not_seen_is_withheld_at_an_abort() -> None:
    async def cut(agent: object, clock: FakeClock) -> None:
        await clock.sleep(2.5)
        agent.abort("user")  # type: ignore[attr-defined]  # an agent

    agent, _ = await run([slows(0, 1)], act=cut, hooks={"post_tool": [look_on]})
    assert "had passed the post_tool hooks" in texts(agent.session, "tool/result")[1]


async def test_rejected_steps_spend_nothing() -> None:
    agent, (turn,) = await run([], hooks={"pre_step": [reject]})
    assert (turn.reason, turn.steps) == ("blocked", 0)
    assert [item.messages[0].text for item in turn.unadmitted] == ["x"]
    assert types(agent.session)[-2:] == ["hook/result", "turn/end"]


async def test_an_empty_first_batch_is_a_completed_turn_without_steps() -> None:
    _, (turn,) = await run([], hooks={"pre_step": [empty]})
    assert (turn.reason, turn.steps) == ("completed", 0)


async def test_two_plain_hooks_that_rewrite_both_take_effect() -> None:
    def first(payload: PreStep) -> PreStep:
        return payload.replace(messages=(*payload.messages, UserMessage("one", source="first")))

    def second(payload: PreStep) -> PreStep:
        return payload.replace(messages=(*payload.messages, UserMessage("two", source="second")))

    agent, _ = await run(["ok"], hooks={"pre_step": [first, second]})
    assert texts(agent.session, "user/message") == ["x", "one", "two"]


async def test_a_denied_call_has_a_result_and_did_not_run() -> None:
    agent, (turn,) = await run([calls(("add", {"a": 1, "b": 2})), "ok"], hooks={"pre_tool": [deny]})
    assert turn.steps == 2
    (result,) = [entry for entry in agent.session.entries if entry.type == "tool/result"]
    assert result.data["outcome"] == "denied"
    assert "not today" in result.data["message"].text


async def test_rewriting_before_a_gate_does_not_open_it() -> None:
    def rewrite(payload: PreTool) -> PreTool:
        return payload.replace(args={"a": 6, "b": 6})

    def deny_sixes(payload: PreTool) -> Deny | Allow:
        return Deny("six") if payload.args["a"] == 6 else Allow()

    agent, _ = await run([calls(("add", {"a": 1, "b": 2})), "ok"], hooks={"pre_tool": [rewrite, deny_sixes]})
    assert "six" in texts(agent.session, "tool/result")[0]


async def test_rewritten_arguments_are_validated_at_once() -> None:
    agent, _ = await run(
        [calls(("add", {"a": 1, "b": 2})), "ok"],
        hooks={"pre_tool": [spoil]},
    )
    (result,) = [entry for entry in agent.session.entries if entry.type == "tool/result"]
    assert result.data["outcome"] == "denied"
    assert "`b`: is required" in result.data["message"].text


async def test_argument_errors_name_the_field_and_unknown_tools_the_known_ones() -> None:
    agent, _ = await run([calls(("add", {"a": "q"}), ("nope", {})), "ok"])
    bad, unknown = texts(agent.session, "tool/result")
    assert "`b`: is required" in bad
    assert '"q"' in bad
    assert unknown == "There is no tool 'nope'. The tools are: add, slow."


async def test_post_tool_rewrites_and_tells_the_next_step() -> None:
    def post(payload: PostTool) -> PostTool:
        return payload.replace(content=f"<{payload.text}>", context="remember")

    agent, _ = await run([calls(("add", {"a": 1, "b": 2})), "ok"], hooks={"post_tool": [post]})
    assert texts(agent.session, "tool/result") == ["<3>"]
    assert texts(agent.session, "user/message") == ["x", "remember"]


async def test_steering_joins_the_continuation_and_a_follow_up_the_next_turn() -> None:
    async def meanwhile(agent: object, _: FakeClock) -> None:
        await agent.until(State.TOOLING)  # type: ignore[attr-defined]  # an agent
        agent.steer("also")  # type: ignore[attr-defined]  # an agent
        agent.follow_up("next")  # type: ignore[attr-defined]  # an agent
        agent.go_on()  # type: ignore[attr-defined]  # an agent

    agent, (turn,) = await run([calls(("add", {"a": 1, "b": 2})), "two", "three"], act=meanwhile)
    assert (turn.number, turn.text, turn.steps) == (1, "two", 2)
    assert texts(agent.session, "user/message") == ["x", "also", "next"]
    kinds = types(agent.session)
    assert kinds.count("turn/start") == kinds.count("turn/end") == 2


async def test_turn_stopping_sends_the_turn_on_until_its_limit() -> None:
    def on(payload: TurnStopping) -> Continue:
        return Continue(f"go on {payload.continues}")

    agent, (turn,) = await run(["a", "b", "c"], hooks={"turn_stopping": [on]}, limits=Limits(max_continues=2))
    assert turn.reason == "max_continues"
    assert texts(agent.session, "user/message") == ["x", "go on 0", "go on 1"]


async def test_limits_end_the_turn_after_a_step() -> None:
    reply = calls(("add", {"a": 1, "b": 2}))
    _, (turn,) = await run([reply, reply], limits=Limits(max_steps=2))
    assert (turn.reason, turn.steps) == ("max_steps", 2)
    agent, (turn,) = await run([calls(*[("add", {"a": 1, "b": 2})] * 3)], limits=Limits(max_tool_calls=2))
    assert turn.reason == "max_tool_calls"
    assert texts(agent.session, "tool/result")[2].startswith("Not run: the turn may call 2 tools")


async def test_max_seconds_cuts_the_turn() -> None:
    _, (turn,) = await run([Reply("late", delay=100)], limits=Limits(max_seconds=10))
    assert turn.reason == "max_seconds"


async def test_after_step_stops_the_turn() -> None:
    def stop(payload: AfterStep) -> Stop:
        assert [result.text for result in payload.results] == ["3"]
        return Stop("enough")

    _, (turn,) = await run([calls(("add", {"a": 1, "b": 2}))], hooks={"after_step": [stop]})
    assert turn.reason == "stopped"


async def test_a_failing_hook_ends_the_turn_and_says_where() -> None:
    def broken(payload: Request) -> None:
        raise ValueError("boom")

    agent, (turn,) = await run([], hooks={"request": [broken]})
    assert turn.reason == "error"
    assert "broken" in str(turn.error)
    assert types(agent.session)[-3:] == ["hook/result", "step/end", "turn/end"]
    assert "test_driver.py" in agent.session.entries[-1].data["error"]["message"]


async def test_what_a_context_hook_shows_is_logged_before_the_stream() -> None:
    def before(payload: Context) -> Context:
        return payload.replace(messages=(UserMessage("pre"), *payload.messages))

    agent, _ = await run(["a", "b"], "x", "y", hooks={"context": [before]})
    rewritten = [entry.data for entry in agent.session.entries if entry.type == "request/rewritten"]
    assert [each["keep"] for each in rewritten] == [0, 2]
    seen = [[message.text for message in request.messages] for request in agent.model.requests]  # type: ignore[union-attr]  # scripted
    assert seen == [["pre", "x"], ["pre", "x", "a", "y"]]


async def test_max_tokens_drops_calls_and_is_sticky() -> None:
    cut = Reply("half", tool_calls=calls(("add", {"a": 1, "b": 2})).tool_calls, finish="max_tokens")
    agent, (turn,) = await run([cut])
    assert (turn.reason, turn.text) == ("max_tokens", "half")
    assert "tool/call" not in types(agent.session)


async def test_terminate_ends_the_turn_only_if_every_result_says_so() -> None:
    from turnchart.machine.points import ToolOutcome
    from turnchart.machine.tools import tool

    @tool
    def last() -> ToolOutcome:
        """End here."""
        return ToolOutcome(terminate=True)

    _, (turn,) = await run([calls(("last", {}), ("last", {}))], tools=[last])
    assert (turn.reason, turn.steps) == ("completed", 1)
    _, (turn,) = await run([calls(("last", {}), ("add", {"a": 1, "b": 2})), "on"], tools=[last, add])
    assert turn.steps == 2


async def test_prompting_a_busy_agent_says_what_to_use() -> None:
    async with scripted([Reply("late", delay=1)]) as agent:
        agent.follow_up("x")
        with pytest.raises(AgentBusy, match=r"use steer\(\).*follow_up\(\)"):
            await agent.prompt("y")


async def test_cancelling_a_prompt_closes_its_turn_first() -> None:
    async with scripted([Reply("late", delay=5), "again"]) as agent:
        async with anyio.create_task_group() as group:
            group.start_soon(agent.prompt, "x")
            await agent.until(State.REQUESTING)
            agent.go_on()
            group.cancel_scope.cancel()
        assert agent.state is State.IDLE
        assert types(agent.session)[-1] == "turn/end"
        drop(agent)


@pytest.mark.parametrize("bad", range(2, 11))
async def test_a_store_that_refuses_leaves_the_agent_idle_and_the_session_read_only(bad: int) -> None:
    session = Session.memory()
    errors: list[object] = []
    async with scripted(["hi"], session=session) as agent:
        agent.on("agent/error", lambda signal, _: errors.append(signal.data["error"]))
        session.store = _Full(bad)
        with pytest.raises(SessionReadOnly):
            await agent.prompt("x")
        assert agent.state is State.IDLE, bad
        assert len(session.entries) == bad
        assert len(errors) == 1, bad
        with pytest.raises(SessionReadOnly):
            agent.follow_up("y")
        drop(agent)
        agent.trace().clear()
        session.entries.clear()


class _Full:
    """A store that takes so many entries and then has no space left."""

    id = where = "full"
    durability: Durability = "flush"
    dropped = ""

    def __init__(self, room: int) -> None:
        self._room = room

    def load(self) -> tuple[Entry, ...]:
        return ()

    def lock(self) -> None: ...

    def append(self, entry: Entry) -> None:
        if entry.seq >= self._room:
            raise OSError(28, "No space left on device")

    async def flush(self) -> None: ...

    def close(self) -> None: ...


async def test_a_validator_that_refuses_fails_the_turn_and_not_the_session() -> None:
    refused = ["step/start", "user/message", "request/header", "assistant/message"]
    for kind in refused:
        async with scripted(["hi", "ho"]) as agent:
            stop = agent.session.validate(lambda entry, kind=kind: "no" if entry.type == kind else None)  # type: ignore[misc]  # mypy cannot infer a lambda with a default
            turn = await agent.prompt("x")
            assert turn.reason == "error", kind
            assert isinstance(turn.error, AppendRefused)
            stop()
            agent.trace().clear()
            turn = await agent.prompt("y")
            assert turn.ok, kind
            drop(agent)


async def test_a_refused_turn_end_leaves_the_agent_idle_with_one_error() -> None:
    async with scripted(["hi"]) as agent:
        errors: list[object] = []
        agent.on("agent/error", lambda signal, _: errors.append(signal.data["error"]))
        stop = agent.session.validate(lambda entry: "no" if entry.type == "turn/end" else None)
        turn = await agent.prompt("x")
        assert turn.reason == "error"
        assert agent.state is State.IDLE
        assert len(errors) == 1
        stop()
        agent.trace().clear()
        agent.session.recover()
        assert types(agent.session)[-1] == "turn/end"


async def test_tools_run_in_the_order_asked_even_when_exclusive_ones_wait() -> None:
    assert slow.execution == "parallel"
    _, (turn,) = await run([calls(("add", {"a": 1, "b": 1}), ("add", {"a": 2, "b": 2})), "ok"])
    assert turn.ok
