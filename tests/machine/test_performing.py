"""How rows perform what they say: the entries of a turn, and what they hold."""

from typing import Any

import pytest
from tests.machine.drive import calls, drop, run, scripted, types

from turnchart.machine import (
    Agent,
    Entry,
    Failure,
    PreparedCall,
    Reply,
    ScriptedModel,
    Session,
    Signal,
    State,
)
from turnchart.machine.abort import AbortSignal
from turnchart.machine.entries import Frozen
from turnchart.machine.models import RequestConfig
from turnchart.machine.performing import PERFORM
from turnchart.machine.points import AfterStep, PreStep, Reject, Request
from turnchart.machine.stores import Durability
from turnchart.machine.table import LIFECYCLE
from turnchart.machine.turning import Turning

ADD = calls(("add", {"a": 1, "b": 2}))


def of(session: Session, kind: str) -> list[Entry]:
    return [entry for entry in session.entries if entry.type == kind]


def test_everything_that_a_row_says_can_be_performed_and_nothing_else() -> None:
    said = {name for row in LIFECYCLE.rows for name in row.does}
    assert said == set(PERFORM)


# -- turns and steps -------------------------------------------------------------------------------------


async def test_turns_and_steps_are_numbered_and_say_how_they_ended() -> None:
    agent, _ = await run([ADD, "b", "c"], "x", "y")
    assert [e.data["turn"] for e in of(agent.session, "turn/start")] == [1, 2]
    assert [(e.data["turn"], e.data["step"]) for e in of(agent.session, "step/start")] == [
        (1, 1),
        (1, 2),
        (2, 1),
    ]
    assert [dict(e.data) for e in of(agent.session, "turn/end")] == [
        {"turn": 1, "reason": "completed", "steps": 2}, {"turn": 2, "reason": "completed", "steps": 1},
    ]  # fmt: skip


async def test_numbers_go_on_where_the_log_ended() -> None:
    session = Session.memory()
    for text in ("a", "b"):
        async with scripted([text], session=session) as agent:
            await agent.prompt("x")
    assert [e.data["turn"] for e in of(session, "turn/start")] == [1, 2]


async def test_a_turn_that_was_cut_off_says_by_what() -> None:
    async with scripted([]) as agent:
        agent.follow_up("x")
        agent.abort("enough")
        await agent.idle()
    (end,) = of(agent.session, "turn/end")
    assert dict(end.data) == {"turn": 1, "reason": "aborted", "steps": 0, "cause": "enough"}


class Unreadable(Exception):
    """Its text cannot be read."""

    def __str__(self) -> str:
        raise ValueError("no text")


def _chained() -> Exception:
    try:
        try:
            raise KeyError("inner")
        except KeyError as error:
            raise ValueError("outer") from error
    except ValueError as error:
        return error


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (_chained(), "ValueError", "outer: 'inner'"),
        (ValueError(), "ValueError", "ValueError"),
        (Unreadable(), "Unreadable", "Unreadable (its text cannot be read)"),
        (ExceptionGroup("many", [KeyError("first"), ValueError("second")]), "KeyError", "'first'"),
    ],
)
async def test_an_error_is_written_with_its_causes(error: Exception, kind: str, message: str) -> None:
    class Broken:
        id = "test"

        async def prepare(self, config: RequestConfig, abort: AbortSignal) -> PreparedCall:
            raise error

    async with scripted([]) as agent:
        agent.model = Broken()
        turn = await agent.prompt("x")
    (end,) = of(agent.session, "turn/end")
    assert end.data["error"] == {"kind": "unknown", "type": kind, "message": message}
    assert turn.reason == "error"


async def test_a_failed_request_is_written_as_its_failure() -> None:
    failure = Failure("quota", status=402, message="pay", retry_after=9)
    agent, _ = await run([failure])
    (end,) = of(agent.session, "turn/end")
    assert end.data["error"] == {"kind": "quota", "status": 402, "message": "pay", "retry_after": 9}


async def test_the_error_is_told_once_between_the_end_of_the_step_and_of_the_turn() -> None:
    told: list[tuple[int, int, str]] = []

    def broken(payload: AfterStep) -> None:
        raise ValueError("boom")

    async with scripted(["a"], hooks={"after_step": [broken]}) as agent:
        agent.on(
            "agent/error",
            lambda signal, _: told.append(
                (signal.data["turn"], signal.data["step"], str(signal.data["error"]))
            ),
        )
        await agent.prompt("x")
        names = list(agent.trace())
    assert len(told) == 1
    assert told[0][:2] == (1, 1)
    assert "boom" in told[0][2]
    at = names.index("agent/error")
    assert names[at + 1] == "turn/end error"
    assert "step/end" in names[:at]


async def test_an_aborted_turn_tells_no_error() -> None:
    told: list[Signal] = []
    async with scripted([]) as agent:
        agent.on("agent/error", lambda signal, _: told.append(signal))
        agent.follow_up("x")
        agent.abort()
        await agent.idle()
    assert told == []


async def test_a_blocked_turn_takes_no_step() -> None:
    def no(payload: PreStep) -> Reject:
        return Reject("no")

    agent, _ = await run([], hooks={"pre_step": [no]})
    assert dict(of(agent.session, "turn/end")[0].data) == {"turn": 1, "reason": "blocked", "steps": 0}
    assert "step/start" not in types(agent.session)


# -- answers and attempts --------------------------------------------------------------------------------


async def test_an_answer_holds_the_message_and_the_stream_and_an_attempt_the_failure() -> None:
    agent, _ = await run([Failure("overloaded", message="busy"), "ok"])
    (attempt,) = of(agent.session, "assistant/attempt")
    assert attempt.attempt == 1
    assert attempt.data["failure"] == {"kind": "overloaded", "message": "busy"}
    assert attempt.data["stream"][-1]["type"] == "finish"
    (answer,) = of(agent.session, "assistant/message")
    assert answer.attempt == 2
    assert answer.data["message"].text == "ok"
    assert [part["type"] for part in answer.data["stream"]] == [
        "block_start",
        "text_delta",
        "block_end",
        "finish",
    ]


async def test_what_was_shown_of_an_answer_that_was_cut_off_is_kept_without_its_calls() -> None:
    half = Reply("half", ADD.tool_calls)
    parts: list[Any] = [*half.stream()[:-1], 5.0]
    async with scripted([Reply(chunks=parts)]) as agent:
        agent.follow_up("x")
        while not (agent.turning.answer and agent.turning.answer.count == len(parts) - 1):
            await agent.clock.sleep(0)
        agent.abort()
        await agent.idle()
    (answer,) = of(agent.session, "assistant/message")
    assert answer.data["interrupted"] is True
    assert (answer.data["message"].text, answer.data["message"].tool_calls) == ("half", ())
    assert "tool/call" not in types(agent.session)


async def test_the_end_of_a_stream_says_what_settled_it_and_where() -> None:
    ends: list[tuple[int, str, int]] = []
    async with scripted([Failure("overloaded"), "ok"]) as agent:

        def hear(signal: Signal, _: object) -> None:
            if signal.data["frame"] == "end":
                ends.append((signal.data["revision"], signal.data["outcome"], signal.data["seq"]))

        agent.on("agent/assistant-stream", hear)
        await agent.prompt("x")
    assert [end[:2] for end in ends] == [(1, "assistant/attempt"), (2, "assistant/message")]
    assert [agent.session.entries[seq].type for _, _, seq in ends] == [
        "assistant/attempt",
        "assistant/message",
    ]


# -- rows that were refused half-way -----------------------------------------------------------------------


def test_what_a_refused_row_has_closed_is_not_closed_again() -> None:
    agent = Agent(ScriptedModel())
    agent.session.append("turn/start", Frozen(turn=1))
    agent.session.append("step/start", Frozen(turn=1, step=1))
    agent.turning = Turning(1)
    agent.turning.step, agent.turning.reason = 1, "error"
    for _ in range(2):
        PERFORM["step/end"](agent)
        PERFORM["turn/end"](agent)
    assert types(agent.session) == ["turn/start", "step/start", "step/end", "turn/end"]


@pytest.mark.parametrize("refused", ["step/end", "turn/end", "assistant/message"])
async def test_a_row_that_is_refused_once_fails_the_turn_and_the_log_is_closed(refused: str) -> None:
    asked: list[str] = []

    def once(entry: Entry) -> str | None:
        if entry.type == refused:
            asked.append(entry.type)
        return "no" if len(asked) == 1 and entry.type == refused else None

    async with scripted(["a"]) as agent:
        agent.session.validate(once)
        turn = await agent.prompt("x")
        assert turn.reason == "error"
        assert types(agent.session)[-2:] == ["step/end", "turn/end"]
        agent.trace().clear()


async def test_a_next_turn_that_cannot_begin_leaves_the_last_one_as_it_ended() -> None:
    async with scripted(["a", "b"]) as agent:
        stop = agent.session.validate(
            lambda entry: "no" if entry.type == "turn/start" and entry.data["turn"] == 2 else None
        )
        agent.follow_up("x")
        agent.follow_up("y")
        await agent.idle()
        assert agent.state is State.IDLE
        assert agent.parked
        assert of(agent.session, "turn/end")[-1].data["reason"] == "completed"
        stop()
        agent.trace().clear()
        assert agent.resume()
        await agent.idle()
        assert [e.data["turn"] for e in of(agent.session, "turn/end")] == [1, 2]


async def test_the_end_of_a_turn_that_a_store_refuses_is_no_end() -> None:
    def look(payload: Request) -> None:
        agent_of[0].session.store.append = _full  # type: ignore[method-assign]  # on purpose

    class Kept:
        id = where = "kept"
        durability: Durability = "flush"
        dropped = ""

        def load(self) -> tuple[()]:
            return ()

        def lock(self) -> None: ...

        def append(self, entry: Entry) -> None: ...

        async def flush(self) -> None: ...

        def close(self) -> None: ...

    agent_of: list[Agent] = []
    async with Agent(ScriptedModel(["a"]), session=Session(Kept()), hooks={"request": [look]}) as agent:
        agent_of.append(agent)
        agent.follow_up("x")
        await agent.idle()
        assert (agent.state, agent.session.read_only) == ("idle", True)
        assert types(agent.session)[-1] == "step/start"
        drop(agent)


def _full(entry: Entry) -> None:
    raise OSError(28, "No space left on device")
