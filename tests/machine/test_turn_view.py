"""The running turn, read from the log."""

from typing import Any

from tests.machine.drive import calls, run

from turnchart.machine import Agent, Failure, Limits, Reply, Session, ToolCall
from turnchart.machine.points import Call, Continue, Deny, PreTool, Request, TurnStopping
from turnchart.machine.turn_view import NO_TURN, TurnView


def of(session: Session, turn: int) -> TurnView:
    """Return the view of a turn as hooks had it at its end."""
    start = next(e.seq for e in session.entries if e.type == "turn/start" and e.data["turn"] == turn)
    return TurnView(turn, session.entries, start)


async def test_it_says_what_was_prompted_done_and_used() -> None:
    asks = Reply(tool_calls=[ToolCall("add", {"a": 1, "b": 2})], usage={"input": 3, "output": 1})
    agent, _ = await run([asks, Reply("done", usage={"input": 5, "cache_read": 2})], "hello")
    view = of(agent.session, 1)
    assert (view.number, view.prompt, view.steps, view.continues) == (1, "hello", 2, 0)
    assert view.calls == (Call("c1.1.0", "add", {"a": 1, "b": 2}, "ok", 1),)  # type: ignore[arg-type]  # equal
    assert view.usage == {"input": 8, "output": 1, "cache_read": 2}


async def test_it_begins_with_its_own_turn() -> None:
    agent, _ = await run([calls(("add", {"a": 1, "b": 2})), "one", "two"], "first", "second")
    view = of(agent.session, 2)
    assert (view.prompt, view.steps, view.calls) == ("second", 1, ())


async def test_a_call_that_runs_has_no_outcome_yet_and_denied_ones_say_so() -> None:
    seen: list[tuple[Call, ...]] = []

    def deny_second(payload: PreTool) -> Deny | None:
        seen.append(payload.turn.calls)
        return Deny("no") if payload.args["a"] == 2 else None

    agent, _ = await run(
        [calls(("add", {"a": 1, "b": 1}), ("add", {"a": 2, "b": 2})), "ok"], hooks={"pre_tool": [deny_second]}
    )
    assert [[call.outcome for call in each] for each in seen] == [[None], ["ok", None]]
    assert [call.outcome for call in of(agent.session, 1).calls] == ["ok", "denied"]


async def test_the_same_call_id_in_two_steps_is_two_calls() -> None:
    agent, _ = await run([
        Reply(tool_calls=[ToolCall("add", {"a": 1, "b": 1}, id="c")]),
        Reply(tool_calls=[ToolCall("add", {"a": "x", "b": 1}, id="c")]),
        "ok",
    ])  # fmt: skip
    assert [(call.step, call.outcome) for call in of(agent.session, 1).calls] == [(1, "ok"), (2, "error")]


async def test_continues_are_counted_for_all_and_for_each_hook() -> None:
    def one(payload: TurnStopping) -> Continue | None:
        return Continue("on") if payload.continues == 0 else None

    def two(payload: TurnStopping) -> Continue | None:
        return Continue("on") if payload.continues in (1, 2) else None

    agent, _ = await run(["a", "b", "c", "d"], hooks={"turn_stopping": [one, two]}, limits=Limits())
    view = of(agent.session, 1)
    assert (view.continues, view.continues_of("one"), view.continues_of("two")) == (3, 1, 2)


async def test_a_failed_attempt_uses_nothing_and_is_no_step() -> None:
    agent, _ = await run([Failure("overloaded"), Reply("ok", usage={"input": 1})])
    assert of(agent.session, 1).steps == 1
    assert of(agent.session, 1).usage == {"input": 1}


async def test_hooks_get_the_view_of_the_running_turn() -> None:
    seen: list[tuple[int, str, int]] = []

    def look(payload: Request) -> None:
        seen.append((payload.turn.number, payload.turn.prompt, payload.turn.steps))

    await run([calls(("add", {"a": 1, "b": 2})), "ok", "next"], "x", "y", hooks={"request": [look]})
    assert seen == [(1, "", 1), (1, "x", 2), (2, "", 1)]


def test_without_a_turn_there_is_nothing() -> None:
    assert (NO_TURN.number, NO_TURN.prompt, NO_TURN.steps, NO_TURN.calls) == (0, "", 0, ())
    assert NO_TURN.usage == {}


async def test_it_is_the_same_from_a_log_that_was_read_again(tmp_path: Any) -> None:
    session = Session.jsonl(tmp_path / "s.jsonl")
    agent: Agent
    agent, _ = await run([calls(("add", {"a": 1, "b": 2})), "ok"], "hello", session=session)
    live, again = of(agent.session, 1), of(Session.jsonl(tmp_path / "s.jsonl"), 1)
    assert (live.prompt, live.calls, live.usage, live.steps) == (
        again.prompt,
        again.calls,
        again.usage,
        again.steps,
    )
