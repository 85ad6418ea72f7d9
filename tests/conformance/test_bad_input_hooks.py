"""Bad input: hooks that return nonsense, at every point: a named failure of the hook, the log unharmed."""

import logging
from collections.abc import Callable
from math import inf, nan
from typing import Any

import anyio
import pytest
from tests.conformance.test_bad_input import NO_JSON, circle
from tests.conformance.toolkit import all_of, strict
from tests.machine.drive import calls, scripted

from turnchart.machine import AssistantMessage, Failure, Limits, Text, Thinking, ToolCall, UserMessage
from turnchart.machine.points import (
    POINTS,
    AddContext,
    Allow,
    Ask,
    Block,
    Continue,
    Decision,
    Deny,
    Enter,
    GiveUp,
    OnSignal,
    Payload,
    Reject,
    Retry,
    Stop,
    ToolOutcome,
)

BROKEN = {
    "assemble",
    "pre_step",
    "request",
    "convert",
    "stream",
    "request_error",
    "after_step",
    "turn_stopping",
}
"""The points where a failing hook ends the turn."""
POINTED = [point for point in POINTS if point != "compact"]


async def tried(point: str, hook: Callable[..., Any]) -> tuple[str, str, list[str]]:
    """Run a turn with one hook; return the reason, what is said to have failed, and the outcomes of the call."""
    replies: list[Any] = [calls(("add", {"a": 1, "b": 2})), *["ok"] * 4]
    if point == "request_error":
        replies = [Failure("auth"), *replies]
    limits = Limits(max_continues=1, max_steps=4)
    async with scripted(replies, session=strict(), hooks={point: [hook]}, limits=limits) as agent:
        turn = await agent.prompt("x")
        failed = [entry.data.get("error", "") for entry in all_of(agent.session, "hook/result")]
        outcomes = [entry.data["outcome"] for entry in all_of(agent.session, "tool/result")]
        said = f"{turn.error or ''} {' '.join(failed)}"
        assert not agent.session.read_only
        agent.model.drop()  # type: ignore[union-attr]  # scripted
    return turn.reason, said, outcomes


def held(point: str, reason: str, outcomes: list[str]) -> None:
    """Assert what the contract says of a failure at a point."""
    assert reason == ("error" if point in BROKEN else "completed")
    if point in ("pre_tool", "tool"):
        assert outcomes == ["denied" if point == "pre_tool" else "error"]
    elif reason == "completed":
        assert outcomes == ["ok"]


NONSENSE: dict[str, object] = {
    "a number": 5, "text": "deny", "an object": NO_JSON, "a class": Deny, "true": True, "a list": [Deny()],
    "a dict": {"decision": "deny"}, "nan": nan, "another payload": OnSignal(),
    "an exception": ValueError("x"), "another decision": Decision(),
}  # fmt: skip


@pytest.mark.parametrize("point", [point for point in POINTED if point not in ("on_signal", "session_end")])
@pytest.mark.parametrize("name", NONSENSE)
async def test_a_hook_that_returns_nonsense_has_failed_and_is_told_what_it_may_return(
    point: str, name: str
) -> None:
    value = NONSENSE[name]
    reason, said, outcomes = await tried(point, lambda _: value)
    if point == "on_signal":
        return
    held(point, reason, outcomes)
    assert "returned a" in said or "returned the class" in said
    assert f"{point} takes nothing, or one of {POINTS[point].payload.__name__}" in said or "not a" in said


@pytest.mark.parametrize("point", ["on_signal", "session_end"])
@pytest.mark.parametrize("name", NONSENSE)
async def test_where_a_failure_is_only_reported_it_changes_nothing(
    point: str, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL + 1)
    value = NONSENSE[name]
    reason, _, outcomes = await tried(point, lambda _: value)
    assert (reason, outcomes) == ("completed", ["ok"])


async def later(value: object) -> object:
    return value


@pytest.mark.parametrize("point", [point for point in POINTED if point not in ("on_signal", "session_end")])
async def test_what_an_async_hook_returns_is_read_in_the_same_way(point: str) -> None:
    reason, said, outcomes = await tried(point, lambda _: later(5))
    held(point, reason, outcomes)
    assert "returned a int" in said


CHANGES: dict[str, list[dict[str, object]]] = {
    "assemble": [
        {"sections": 5}, {"sections": "abc"}, {"sections": [5]}, {"sections": None}, {"contexts": 5},
        {"contexts": {1: "a"}}, {"contexts": {"a": NO_JSON}}, {"contexts": {"a": 5}}, {"tools": 5},
        {"tools": [5]},
    ],
    "pre_step": [
        {"messages": 5}, {"messages": "abc"}, {"messages": [5]}, {"messages": None},
        {"messages": [Text("x")]},
        {"messages": [{"role": "user", "content": NO_JSON}]}, {"starts_request_series": 5},
    ],
    "request": [
        {"model": 5}, {"model": None}, {"settings": 5}, {"settings": {"t": nan}},
        {"settings": {"t": NO_JSON}},
        {"settings": circle()}, {"thinking": 5}, {"tools": 5}, {"tools": [5]},
    ],
    "context": [{"messages": 5}, {"messages": [5]}, {"messages": [{"role": "user", "content": nan}]}],
    "convert": [{"llm_messages": 5}, {"llm_messages": [5]}, {"llm_messages": None}],
    "pre_tool": [
        {"args": 5}, {"args": {"a": NO_JSON, "b": 1}}, {"args": {"a": nan, "b": 1}}, {"args": {}},
        {"args": circle()}, {"args": {1: 2}},
    ],
    "post_tool": [
        {"content": 5}, {"content": None}, {"content": [5]}, {"content": [ToolCall("x")]},
        {"content": [Thinking("x")]}, {"details": NO_JSON}, {"details": circle()}, {"details": nan},
        {"is_error": 5}, {"usage": 5}, {"usage": {"a": "b"}}, {"usage": {"a": NO_JSON}}, {"terminate": 5},
        {"context": 5}, {"context": None},
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("point", "change"), [(point, change) for point, changes in CHANGES.items() for change in changes]
)
async def test_a_changed_field_of_a_wrong_form_is_a_failure_that_names_the_field(
    point: str, change: dict[str, object]
) -> None:
    reason, said, outcomes = await tried(point, lambda payload: payload.replace(**change))
    held(point, reason, outcomes)
    assert f"changed {next(iter(change))}: " in said


@pytest.mark.parametrize("point", POINTED)
async def test_a_field_that_no_hook_may_change_is_a_failure_that_names_it(
    point: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL + 1)
    reason, said, outcomes = await tried(point, lambda payload: payload.replace(session="other"))
    held(point, reason, outcomes)
    if point not in ("on_signal", "session_end"):
        assert f"{POINTS[point].payload.__name__}.session cannot be changed by a hook" in said


WRONG: dict[str, list[Callable[[], object]]] = {
    "session_start": [lambda: AddContext(5)],  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    "pre_step": [
        lambda: Reject(NO_JSON),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        lambda: Enter(5),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        lambda: Enter(None),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        lambda: Enter((5,)),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        lambda: Enter((UserMessage("x"),), starts_request_series=5),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    ],
    "request_error": [
        lambda: Retry("soon"),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        lambda: Retry(nan),
        lambda: Retry(inf),
        lambda: Retry(-1),
        lambda: Retry(0, 5),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        lambda: GiveUp(NO_JSON),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    ],
    "pre_tool": [
        lambda: Allow(NO_JSON),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        lambda: Ask(None),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        lambda: Deny(5),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    ],
    "post_tool": [lambda: Block(NO_JSON)],  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    "after_step": [lambda: Stop(NO_JSON)],  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    "turn_stopping": [
        lambda: Continue(NO_JSON),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        lambda: Continue(None),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    ],
}


@pytest.mark.parametrize(
    ("point", "make"), [(point, make) for point, makes in WRONG.items() for make in makes]
)
async def test_a_decision_with_a_wrong_field_is_a_failure_of_the_hook(
    point: str, make: Callable[[], object]
) -> None:
    reason, said, outcomes = await tried(point, lambda _: make())
    held(point, reason, outcomes)
    assert "must be" in said


MEMORIES: dict[str, object] = {"object": NO_JSON, "nan": nan, "set": {1}, "circle": circle()}


@pytest.mark.parametrize("name", MEMORIES)
async def test_a_memory_that_is_no_json_is_forgotten_and_said(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL + 1)
    told: list[str] = []
    kept: list[int] = []

    def remember(payload: Payload) -> None:
        kept.append(payload.memory.get("count", 0))
        payload.memory["count"] = kept[-1] + 1
        if len(kept) == 2:
            payload.memory["bad"] = MEMORIES[name]

    async with scripted(["ok"] * 3, session=strict(), hooks={"pre_step": [remember]}) as agent:
        agent.on("notice", lambda signal, _: told.append(signal.data["text"]))
        for text in "xyz":
            assert (await agent.prompt(text)).ok
    assert kept == [0, 1, 0] or kept == [0, 1, 1]
    assert len(told) == 1
    assert "`remember` keeps in its memory what is no JSON" in told[0]


async def test_a_hook_that_retries_for_ever_leaves_room_for_an_abort() -> None:
    tries = 0

    def again(_: Payload) -> Retry:
        nonlocal tries
        tries += 1
        if tries == 50:
            agent.abort()
        return Retry(0, "nobody has this one")

    hooks, limits = {"request_error": [again]}, Limits(max_retries=None)
    async with scripted([Failure("auth")], session=strict(), hooks=hooks, limits=limits) as agent:
        turn = await agent.prompt("x")
    assert (turn.reason, tries) == ("aborted", 50)


@pytest.mark.parametrize(
    "outcome",
    [
        ToolOutcome(content=5),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        ToolOutcome(details=NO_JSON),
        ToolOutcome(usage=5),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        ToolOutcome(terminate="yes"),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        ToolOutcome(outcome="fine"),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        ToolOutcome(added_tools="abc"),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    ],
)
async def test_a_tool_hook_that_gives_an_outcome_of_a_wrong_form_is_an_error_result(
    outcome: ToolOutcome,
) -> None:
    async def instead(_: Payload, next: Any) -> ToolOutcome:
        del next
        return outcome

    reason, _, outcomes = await tried("tool", instead)
    assert (reason, outcomes) == ("completed", ["error"])


@pytest.mark.parametrize("value", [5, "text", NO_JSON, [Text("x")]])
async def test_a_stream_hook_that_gives_no_stream_is_an_error_turn(value: object) -> None:
    async def instead(_: Payload, next: Any) -> object:
        del next
        return value

    reason, said, _ = await tried("stream", instead)
    assert reason == "error"
    assert "stream takes an async iterator of chunks" in said


async def test_a_stream_hook_that_streams_no_chunks_is_an_error_turn_with_its_attempt() -> None:
    async def words() -> Any:
        yield "word"

    async def instead(_: Payload, next: Any) -> object:
        del next
        return words()

    reason, said, _ = await tried("stream", instead)
    assert reason == "error"
    assert "a model streamed a str, which is no chunk" in said


async def test_a_wrapper_that_calls_next_with_nonsense_has_failed() -> None:
    async def wrapper(_: Payload, next: Any) -> Any:
        return await next(5)

    for point in ("pre_step", "pre_tool", "post_tool", "stream", "tool"):
        reason, said, outcomes = await tried(point, wrapper)
        held(point, reason, outcomes)
        assert "returned a int, not a" in said or "HOOK" in said, point


async def test_a_pre_step_may_enter_with_an_answer_and_the_log_stays_legal() -> None:
    reason, _, _ = await tried("pre_step", lambda payload: payload.replace(messages=[AssistantMessage("x")]))
    assert reason == "completed"


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_hook_that_ends_the_program_ends_it_with_a_closed_log(backend: str) -> None:
    session = strict()

    def leave(_: Payload) -> None:
        raise SystemExit(3)

    async def main() -> None:
        async with scripted(["ok"], session=session, hooks={"pre_step": [leave]}) as agent:
            await agent.prompt("x")

    with pytest.raises(SystemExit):
        anyio.run(main, backend=backend)
    assert [entry.data["reason"] for entry in all_of(session, "turn/end")] == ["aborted"]
