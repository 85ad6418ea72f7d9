"""lifecycle I.6: frames, settlement, and the stream inside it that expands to every chunk and its time."""

import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.conformance.asking import (
    DONE,
    Frames,
    Part,
    Route,
    all_of,
    asked,
    in_step,
    reasons,
    rebuilt,
    resumed,
    said,
    seen,
)
from tests.machine.drive import add, calls, drop

from turnchart.machine import (
    Agent,
    AppendRefused,
    Failure,
    Reply,
    RequestFailed,
    ScriptedModel,
    Signal,
    State,
)
from turnchart.machine.abort import AbortSignal
from turnchart.machine.models import (
    BlockEnd,
    BlockStart,
    Chunk,
    Finish,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    UsageReport,
)
from turnchart.machine.points import RequestError, Retry, Stream, TurnStopping
from turnchart.machine.stream import Answer, expand
from turnchart.testing import FakeClock

FAILED = Finish("error", Failure("server_error", status=503, message="down"))
ASKS_TO_ADD = calls(("add", {"a": 1, "b": 2})).stream()


def answered(*parts: Part | str) -> tuple[Part, ...]:
    """Return a stream: text, then what else is given."""
    return tuple(TextDelta(part) if isinstance(part, str) else part for part in parts)


def abort_at(agent: Agent, count: int) -> None:
    """Abort as soon as so many chunks of an attempt were told."""

    def hear(signal: Signal, _: AbortSignal) -> None:
        if signal.data["frame"] == "chunk" and signal.data["index"] == count - 1:
            agent.abort("user")

    agent.on("agent/assistant-stream", hear)


# -- what settles an attempt ---------------------------------------------------------------------------


async def test_i108_an_empty_answer_is_logged_and_not_shown() -> None:
    route = Route(DONE, answered("hi"))
    async with asked(route) as agent:
        turn = await agent.prompt("x")
        await agent.prompt("y")
    assert (turn.reason, turn.text) == ("completed", "")
    assert all_of(agent.session, "assistant/message")[0].data["message"]["content"] == ()
    assert said(route.requests[1].messages) == ["x", "y"]


async def test_i109_max_tokens_without_usage() -> None:
    async with asked(Route(answered("half", Finish("max_tokens")))) as agent:
        turn = await agent.prompt("x")
    assert (turn.reason, turn.text) == ("max_tokens", "half")
    (answer,) = all_of(agent.session, "assistant/message")
    assert "usage" not in answer.data["message"]
    assert reasons(agent.session) == ["max_tokens"]


async def test_i111_max_tokens_stays_the_reason_after_a_steered_step() -> None:
    def steer(signal: Signal, _: AbortSignal) -> None:
        if signal.data["frame"] == "start" and signal.data["step"] == 1:
            agent.steer("go on")

    async with asked(ScriptedModel([Reply("half", finish="max_tokens"), "whole"])) as agent:
        agent.on("agent/assistant-stream", steer)
        turn = await agent.prompt("x")
    assert (turn.reason, turn.steps, turn.text) == ("max_tokens", 2, "whole")


async def test_i112_results_of_a_step_after_max_tokens_reach_the_model() -> None:
    def steer(signal: Signal, _: AbortSignal) -> None:
        if signal.data["frame"] == "start" and signal.data["step"] == 1:
            agent.steer("use the tool")

    model = ScriptedModel([Reply("half", finish="max_tokens"), calls(("add", {"a": 1, "b": 2})), "three"])
    async with asked(model, tools=[add]) as agent:
        agent.on("agent/assistant-stream", steer)
        turn = await agent.prompt("x")
    assert (turn.reason, turn.steps, turn.text) == ("max_tokens", 3, "three")
    assert said(model.requests[2].messages)[-1] == "3"


async def test_max_tokens_drops_the_calls_and_no_tool_runs() -> None:
    parts = (*(part for part in ASKS_TO_ADD if not isinstance(part, Finish)), Finish("max_tokens"))
    async with asked(Route(answered("half", *parts)), tools=[add]) as agent:
        turn = await agent.prompt("x")
    assert turn.message is not None
    assert (turn.reason, turn.message.tool_calls) == ("max_tokens", ())
    assert all_of(agent.session, "tool/call") == []


async def failing(*parts: Part, **hooks: Any) -> tuple[Agent, Frames, list[str]]:
    """Run a turn whose stream fails, and return what was asked of request_error."""
    kinds: list[str] = []

    def ask(payload: RequestError) -> None:
        kinds.append(f"{payload.kind} {payload.status}")

    async with asked(Route(parts), hooks={"request_error": [ask], **hooks}) as agent:
        frames = Frames(agent)
        await agent.prompt("x")
    return agent, frames, kinds


@pytest.mark.parametrize("by", ["in-band", "raised", "raised below a stream hook"])
async def test_i113_i114_a_failure_in_band_and_a_raised_one_are_the_same(by: str) -> None:
    async def around(payload: Stream, next: Any) -> Any:
        return await next(payload)

    last: Part = FAILED if by == "in-band" else RequestFailed(FAILED.failure or Failure("unknown"))
    hooks = {"stream": [around]} if by.endswith("hook") else {}
    agent, frames, kinds = await failing(TextDelta("par"), 1.0, last, **hooks)
    assert kinds == ["server_error 503"]
    (attempt,) = all_of(agent.session, "assistant/attempt")
    assert attempt.data["failure"] == {"kind": "server_error", "message": "down", "status": 503}
    assert [chunk for chunk, _ in expand(attempt.data["stream"])] == [TextDelta("par"), FAILED]
    assert frames.kinds()[:4] == ["start", "chunk", "chunk", "end"]
    frames.check(agent.session)


async def test_i113_without_an_answer_the_failure_is_the_turns_error() -> None:
    failure = Failure("auth", status=401, message="no")
    agent, frames, kinds = await failing(Finish("error", failure))
    assert kinds == ["auth 401"]
    assert in_step(agent.session)[-1] == "assistant/attempt"
    assert agent.session.entries[-1].data["error"] == failure.json()
    frames.check(agent.session)


@pytest.mark.parametrize("raised", [TimeoutError("late"), ConnectionResetError("gone"), ValueError("odd")])
async def test_i114_what_an_adapter_raises_has_a_kind(raised: Exception) -> None:
    kinds = {"TimeoutError": "timeout", "ConnectionResetError": "connection", "ValueError": "unknown"}
    _, _, asked_about = await failing(raised)
    assert asked_about[0] == f"{kinds[type(raised).__name__]} None"


async def test_a_finish_that_says_aborted_is_an_ordinary_failure() -> None:
    agent, _, kinds = await failing(Finish("aborted"))
    assert kinds == ["aborted None"]
    assert reasons(agent.session) == ["error"]


async def test_i117_a_stream_that_cannot_be_made_is_no_attempt() -> None:
    asked_about: list[str] = []

    def ask(payload: RequestError) -> None:
        asked_about.append(payload.kind)

    async with asked(Route(ConnectionError("refused")), hooks={"request_error": [ask]}) as agent:
        frames = Frames(agent)
        turn = await agent.prompt("x")
    assert (turn.reason, asked_about, frames.all) == ("error", [], [])
    assert in_step(agent.session)[-1] == "request/context"


async def test_a_stream_hook_that_fails_before_the_start_is_no_attempt() -> None:
    def fail(_: Stream) -> None:
        raise ValueError("no")

    agent, frames, kinds = await failing(*DONE, stream=[fail])
    assert (frames.all, kinds, reasons(agent.session)) == ([], [], ["error"])
    assert in_step(agent.session)[-2:] == ["request/context", "hook/result"]


async def test_a_stream_hook_that_fails_in_the_stream_is_an_attempt_and_no_failed_request() -> None:
    async def cut(chunks: AsyncIterator[Chunk]) -> AsyncIterator[Chunk]:
        async for chunk in chunks:
            yield chunk
            raise ValueError("no")

    async def around(payload: Stream, next: Any) -> Any:
        return cut(await next(payload))

    agent, frames, kinds = await failing(*answered("a", "b"), stream=[around])
    assert (kinds, reasons(agent.session)) == ([], ["error"])
    assert in_step(agent.session)[-1] == "assistant/attempt"
    assert agent.session.entries[-1].data["error"]["message"] == "no"
    frames.check(agent.session)


async def test_i119_an_attempt_that_the_log_refuses_tells_of_both_errors() -> None:
    failure = Failure("auth", message="no key")
    async with asked(Route((Finish("error", failure),)), checked=False) as agent:
        refused: list[int] = []

        def refuse(entry: Any) -> str | None:
            if entry.type != "assistant/attempt" or refused:
                return None
            refused.append(entry.seq)
            return "not now"

        agent.session.validate(refuse)
        frames = Frames(agent)
        turn = await agent.prompt("x")
    assert turn.reason == "error"
    assert isinstance(turn.error, RequestFailed)
    assert isinstance(turn.error.__cause__, AppendRefused)
    said_in_log = agent.session.entries[-1].data["error"]
    assert said_in_log["kind"] == "auth"
    assert "no key" in said_in_log["message"]
    assert "not now" in said_in_log["message"]
    frames.check(agent.session)


async def test_i119_a_settlement_that_the_log_never_takes_abandons_the_frames() -> None:
    async with asked(Route(answered("hi", *DONE)), checked=False) as agent:
        stop = agent.session.validate(lambda entry: "no" if entry.type.startswith("assistant/") else None)
        frames = Frames(agent)
        turn = await agent.prompt("x")
        assert turn.reason == "error"
        assert agent.state is State.IDLE
        stop()
    assert frames.kinds() == ["start", "chunk", "chunk", "end"]
    assert frames.all[-1]["outcome"] == "abandoned"


# -- what the record keeps -----------------------------------------------------------------------------


async def test_i121_the_durable_stream_expands_to_the_live_chunks_and_their_times() -> None:
    script: list[Part] = [
        BlockStart("thinking", 0), ThinkingDelta("h", 0), 0.1, ThinkingDelta("m", 0), BlockEnd(0, "sig"),
        BlockStart("text", 1), TextDelta("a", 1), 0.3, TextDelta("b", 1), TextDelta("", 1), 1 / 3,
        BlockEnd(1, ""), BlockStart("tool_call", 2, "id", "add"), ToolCallDelta('{"a": 1,', 2), 1e-7,
        ToolCallDelta(' "b": 2}', 2), BlockEnd(2), UsageReport({"input": 3, "output": 4}), 2.0,
        Finish("tool_calls", replay={"id": "r", "parts": [1, 2]}),
    ]  # fmt: skip
    for start in (1_000_000.0, 1_790_000_000.123456789, 0.1):
        route = Route(script, answered("done", *DONE))
        async with asked(route, tools=[add], clock=FakeClock(start)) as agent:
            frames = Frames(agent)
            assert (await agent.prompt("x")).ok
        frames.check(agent.session)
        assert len(frames.chunks("a1.1.1")) == 15
        times = [time for _, time in frames.chunks("a1.1.1")]
        assert times == sorted(times)
        assert times[0] == pytest.approx(start, abs=1e-6)
        assert times[-1] - times[0] == pytest.approx(0.1 + 0.3 + 1 / 3 + 1e-7 + 2, abs=1e-5)


async def test_i121_a_record_that_comes_back_from_a_file_expands_the_same() -> None:
    parts = answered("a", 0.1, "b", UsageReport({"input": 1}), FAILED)
    agent, frames, _ = await failing(*parts)
    frames.check(resumed(agent.session))


async def test_i122_usage_that_came_before_a_cancel_is_kept() -> None:
    usage = {"input": 3, "output": 4}
    route = Route(answered("par", UsageReport(usage), "tial", *DONE))
    async with asked(route) as agent:
        frames = Frames(agent)
        abort_at(agent, 3)
        turn = await agent.prompt("x")
    (answer,) = all_of(agent.session, "assistant/message")
    assert (turn.reason, turn.text) == ("aborted", "partial")
    assert answer.data["interrupted"] is True
    assert answer.data["message"]["usage"] == usage
    frames.check(agent.session)


async def test_what_came_before_a_cancel_behind_the_finish_is_kept_but_for_the_calls() -> None:
    call = calls(("add", {"a": 1, "b": 2})).tool_calls
    parts = Reply(chunks=["text", " "], tool_calls=call).stream()
    stream = (*parts[:-1], Finish("tool_calls", replay="r"))
    async with asked(Route(stream), tools=[add]) as agent:
        abort_at(agent, len(stream))
        turn = await agent.prompt("x")
    assert turn.message is not None
    assert (turn.reason, turn.text, turn.message.tool_calls) == ("aborted", "text ", ())
    assert turn.message["replay"] == "r"
    assert all_of(agent.session, "tool/call") == []


@pytest.mark.parametrize(
    ("parts", "settled"),
    [
        (answered("shown", 5.0), "assistant/message"),
        ((ThinkingDelta("hm"), 5.0), "assistant/message"),
        (answered(" \n", 5.0), "assistant/attempt"),
        ((ToolCallDelta("{"), 5.0), "assistant/attempt"),
        ((5.0,), "assistant/attempt"),
    ],
)
async def test_a_cancel_keeps_what_was_shown_and_else_an_attempt(
    parts: tuple[Part, ...], settled: str
) -> None:
    clock = FakeClock()
    async with asked(Route(parts), clock=clock) as agent:
        frames = Frames(agent)
        agent.follow_up("x")
        await clock.sleep(1)
        agent.abort()
        await agent.idle()
    assert in_step(agent.session)[-1] == settled
    assert all_of(agent.session, "llm/retry") == []
    frames.check(agent.session)


async def test_i123_a_stream_without_a_finish_is_a_stop() -> None:
    async with asked(Route(answered("hi"))) as agent:
        turn = await agent.prompt("x")
    assert turn.message is not None
    assert (turn.reason, turn.message.stop_reason) == ("completed", "stop")


async def test_i124_the_first_end_of_a_block_closes_it() -> None:
    parts = answered("a", BlockEnd(0, "first"), "b", BlockEnd(0, "second"), *DONE)
    async with asked(Route(parts)) as agent:
        frames = Frames(agent)
        turn = await agent.prompt("x")
    assert turn.text == "a"
    frames.check(agent.session)


async def test_chunks_after_the_finish_are_not_asked_for() -> None:
    async with asked(Route(answered("a", Finish("stop"), "b", Finish("error")))) as agent:
        frames = Frames(agent)
        turn = await agent.prompt("x")
    assert (turn.reason, turn.text) == ("completed", "a")
    assert len(frames.chunks("a1.1.1")) == 2


async def test_i126_a_stream_that_a_crash_cuts_off_leaves_nothing() -> None:
    route = Route(answered("a", 5.0, *DONE))
    async with asked(route) as agent:
        agent.follow_up("x")
        await agent.clock.sleep(1)
        killed = resumed(agent.session)
        agent.abort()
    assert rebuilt(killed.entries) == []
    killed.attach()
    assert [entry.type for entry in killed.entries][-3:] == ["request/context", "step/end", "turn/end"]
    assert killed.entries[-1].data["reason"] == "interrupted"


async def test_i127_replay_state_stands_beside_the_model_that_made_it() -> None:
    first, second = Route(answered("a", Finish("stop", replay={"id": 1})), id="first"), Route(id="second")
    async with asked("first", models={"first": first, "second": second}) as agent:
        await agent.prompt("x")
        agent.set_model("second")
        await agent.prompt("y")
    answer = second.requests[0].messages[1]
    assert (answer["model"], answer["replay"]) == ("first", {"id": 1})


# -- frames ------------------------------------------------------------------------------------------


async def test_frames_name_their_attempt_and_revisions_only_rise() -> None:
    failed: tuple[Part, ...] = (TextDelta("x"), Finish("error", Failure("timeout")))
    route = Route(failed, failed, ASKS_TO_ADD, answered("done", *DONE), answered("again", *DONE))
    async with asked(route, tools=[add]) as agent:
        frames = Frames(agent)
        await agent.prompt("x")
        await agent.prompt("y")
    frames.check(agent.session)
    starts = [each for each in frames.all if each["frame"] == "start"]
    assert [each["attempt_id"] for each in starts] == ["a1.1.1", "a1.1.2", "a1.1.3", "a1.2.1", "a2.1.1"]
    assert [(each["turn"], each["step"]) for each in starts] == [(1, 1)] * 3 + [(1, 2), (2, 1)]


async def test_the_start_is_told_before_the_model_answers() -> None:
    clock = FakeClock(autojump=False)
    async with asked(Route(answered(5.0, "late", *DONE)), clock=clock) as agent:
        frames = Frames(agent)
        agent.follow_up("x")
        await clock.advance(1)
        assert frames.kinds() == ["start"]
        await clock.advance(5)
        await agent.idle()
    assert frames.kinds() == ["start", "chunk", "chunk", "end"]


async def test_an_abort_by_who_hears_the_start_asks_the_model_nothing() -> None:
    def hear(signal: Signal, _: AbortSignal) -> None:
        if signal.data["frame"] == "start":
            agent.abort()

    route = Route()
    async with asked(route) as agent:
        frames = Frames(agent)
        agent.on("agent/assistant-stream", hear)
        turn = await agent.prompt("x")
    assert (turn.reason, route.requests) == ("aborted", [])
    assert in_step(agent.session)[-1] == "assistant/attempt"
    frames.check(agent.session)


async def test_i125_a_listener_of_frames_that_raises_changes_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(_signal: Signal, _: AbortSignal) -> None:
        raise ValueError("no")

    async with asked(Route(answered("a", "b", *DONE))) as agent:
        agent.on("agent/assistant-stream", broken)
        frames = Frames(agent)
        with caplog.at_level(logging.ERROR):
            turn = await agent.prompt("x")
    assert (turn.reason, turn.text) == ("completed", "ab")
    assert len([record for record in caplog.records if "still called" in record.message]) == 1
    frames.check(agent.session)


def wrong(kind: Any, *given: Any, **named: Any) -> Any:
    """Return a chunk that no type checker would let pass."""
    return kind(*given, **named)


# -- nonsense ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "chunk",
    [
        "text", None, wrong(TextDelta, None), wrong(TextDelta, "x", "0"), wrong(BlockStart, "image"),
        wrong(BlockStart, "text", None), wrong(BlockStart, "tool_call", 0, 1, "add"),
        wrong(BlockEnd, 0, b"x"), wrong(BlockEnd, "0"), wrong(UsageReport, {"input": "3"}),
        wrong(UsageReport, {3: 4}), wrong(UsageReport, None), wrong(Finish, "done"),
        wrong(Finish, "stop", "why"), Finish("stop", replay=int), Finish("stop", replay=float("nan")),
    ],
    ids=repr,
)  # fmt: skip
async def test_a_chunk_that_is_nonsense_is_a_failed_request_and_harms_nothing(chunk: Any) -> None:
    asked_about: list[str] = []

    def once(payload: RequestError) -> Retry:
        asked_about.append(f"{payload.kind}: {payload.message}")
        return Retry(0)

    route = Route((TextDelta("par"), chunk), answered("fine", *DONE))
    async with asked(route, hooks={"request_error": [once]}) as agent:
        frames = Frames(agent)
        turn = await agent.prompt("x")
    assert (turn.reason, turn.text) == ("completed", "fine")
    assert len(asked_about) == 1
    assert asked_about[0].startswith("unknown: ")
    frames.check(resumed(agent.session))
    assert rebuilt(agent.session.entries) == [seen(request) for request in route.requests]


def test_nonsense_leaves_an_answer_as_it_was() -> None:
    answer = Answer()
    answer.add(TextDelta("a"), 1.0)
    with pytest.raises(TypeError, match="a model streamed a str, which is no chunk"):
        answer.add("b", 2.0)  # type: ignore[arg-type]  # the point
    with pytest.raises(TypeError, match="a model streamed a TextDelta that holds what none can hold"):
        answer.add(TextDelta(3), 2.0)  # type: ignore[arg-type]  # the point
    assert (answer.count, answer.time) == (1, 1.0)
    assert answer.message("m", 1.0, "c").text == "a"


async def test_turn_stopping_is_not_asked_after_a_failed_request() -> None:
    stopped: list[str] = []

    def look(payload: TurnStopping) -> None:
        stopped.append(payload.reason)

    async with asked(ScriptedModel([Failure("auth")]), hooks={"turn_stopping": [look]}) as agent:
        await agent.prompt("x")
        drop(agent)
    assert stopped == []
