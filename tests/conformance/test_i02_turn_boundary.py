"""I.2 of the lifecycle: where turns begin and end, their numbers, reasons and errors."""

from typing import Any

import pytest
from tests.conformance.watching import INBOX, count, ends, hear, on_entry, refuse, turns, waiting, when
from tests.machine.drive import add, calls, drop, run, scripted, types
from tests.machine.histories import Kept, put, reopened

from turnchart.machine import (
    Agent,
    AppendRefused,
    Failure,
    Queues,
    Reply,
    Session,
    Signal,
    State,
    TurnFailed,
)
from turnchart.machine.abort import AbortSignal
from turnchart.machine.entries import Frozen
from turnchart.machine.points import AfterStep, PreStep, PreTool, Reject, Request, Stop, TurnStopping


def numbers(session: Session) -> list[int]:
    return [entry.data["turn"] for entry in session.entries if entry.type == "turn/start"]


async def test_i028_a_vetoed_turn_start_is_an_error_and_no_turn_and_leaves_the_inbox() -> None:
    async with scripted(["hi"]) as agent:
        stop = refuse(agent.session, "turn/start")
        heard = hear(agent, "agent/status", "agent/error")
        with pytest.raises(TurnFailed, match=r"no turn could begin \(.*vetoed") as failed:
            await agent.prompt("x")
        assert failed.value.turn is None
        assert isinstance(failed.value.__cause__, AppendRefused)
        assert types(agent.session) == [INBOX]
        assert heard == ["status running", "agent/error", "status idle"]
        assert (agent.state, agent.parked, waiting(agent)) == (State.IDLE, True, ([], ["x"], []))
        stop()
        agent.trace().clear()
        agent.resume()
        await agent.idle()


async def test_i029_without_the_veto_the_next_wake_takes_the_same_number() -> None:
    async with scripted(["hi", "ho"]) as agent:
        assert (await agent.prompt("x")).number == 1
        stop = refuse(agent.session, "turn/start")
        with pytest.raises(TurnFailed, match="no turn could begin") as failed:
            await agent.prompt("y")
        assert failed.value.turn is None, "turn 1 did not park it"
        stop()
        agent.trace().clear()
        assert agent.resume() is True
        await agent.idle()
        assert numbers(agent.session) == [1, 2]
        assert turns(agent.session) == [["x"], ["y"]]
        assert ends(agent.session) == ["completed"] * 2


async def test_i029_a_veto_between_two_turns_ends_the_first_as_it_was() -> None:
    async with scripted(["hi", "ho"]) as agent:
        agent.follow_up("x")
        agent.follow_up("y")
        stop = refuse(agent.session, "turn/start")
        errors = hear(agent, "agent/error", "agent/status")
        await agent.idle()
        assert ends(agent.session) == ["completed"]
        assert errors == ["agent/error", "status idle"]
        assert (agent.parked, waiting(agent)) == (True, ([], ["y"], []))
        stop()
        agent.trace().clear()
        agent.resume()
        await agent.idle()
        assert numbers(agent.session) == [1, 2]


@pytest.mark.parametrize("kind", ["turn/start", "turn/end"])
async def test_i030_i031_whoever_looks_on_and_raises_changes_nothing(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("boom")

    async with scripted(["a", "b"]) as agent:
        on_entry(agent.session, kind, broken)
        when(agent, f"entry {kind}", broken, times=99)
        for text in "xy":
            assert (await agent.prompt(text)).ok
        assert ends(agent.session) == ["completed"] * 2
    assert "boom" in caplog.text


async def test_i032_a_refused_turn_end_leaves_the_agent_idle_and_the_next_wake_closes_it() -> None:
    async with scripted(["a", "b"]) as agent:
        stop = refuse(agent.session, "turn/end")
        errors = hear(agent, "agent/error")
        turn = await agent.prompt("x")
        assert (turn.reason, agent.state, errors) == ("error", State.IDLE, ["agent/error"])
        stop()
        agent.trace().clear()
        assert (await agent.prompt("y")).number == 2
        assert ends(agent.session) == ["interrupted", "completed"]
        agent.trace().clear()


async def test_i033_a_session_with_three_turns_goes_on_with_the_fourth() -> None:
    session = Session(Kept())
    async with scripted(["a", "b", "c"], session=session) as agent:
        for text in "xyz":
            await agent.prompt(text)
    async with scripted(["d"], session=reopened(session)) as again:
        assert (await again.prompt("w")).number == 4


def test_i033_a_turn_number_out_of_order_is_refused() -> None:
    session = Session.memory()
    for wrong in (0, 2, -1):
        with pytest.raises(AppendRefused, match="turn 1 comes next"):
            session.append("turn/start", Frozen(turn=wrong))


async def test_i034_the_next_turn_follows_without_idle_and_has_a_fresh_signal() -> None:
    signals: list[object] = []

    def look(payload: PreStep) -> None:
        signals.append(payload.abort)

    async with scripted(["a", "b"], hooks={"pre_step": [look]}) as agent:
        heard = hear(agent, "agent/status")
        agent.follow_up("x")
        agent.follow_up("y")
        await agent.idle()
        kinds = types(agent.session)
        assert kinds[kinds.index("turn/end") + 1] == "turn/start"
        assert heard == ["status running", "status idle"]
        assert signals[0] is not signals[1]


async def test_i035_an_abort_that_keeps_the_inbox_parks_it_until_a_wake() -> None:
    async with scripted([Reply("late", delay=5), "b", "c"]) as agent:
        agent.follow_up("x")
        agent.follow_up("y")
        await agent.until(State.REQUESTING)
        agent.go_on()
        agent.abort(keep_inbox=True)
        await agent.idle()
        assert ends(agent.session) == ["aborted"]
        assert (agent.parked, waiting(agent)) == (True, ([], ["x", "y"], []))
        agent.resume()
        await agent.idle()
        assert numbers(agent.session) == [1, 2, 3]
        drop(agent)


@pytest.mark.parametrize("broken", [Failure("auth"), ValueError("no")], ids=["request", "adapter"])
async def test_i036_an_errored_turn_parks_what_waits(broken: Any) -> None:
    async with scripted([broken, "b", "c"]) as agent:
        agent.follow_up("x")
        agent.follow_up("y")
        agent.steer("s")
        await agent.idle()
        assert ends(agent.session) == ["error"]
        assert agent.parked
        agent.follow_up("z")
        await agent.idle()
        assert turns(agent.session) == [["x"], ["s", "y"], ["z"]]
        assert not agent.parked


async def test_i037_a_blocked_turn_parks_its_neighbours() -> None:
    answers = [Reject("no")]

    def once(_: PreStep) -> Reject | None:
        return answers.pop() if answers else None

    async with scripted(["b", "c"], hooks={"pre_step": [once]}) as agent:
        agent.follow_up("x")
        agent.follow_up("y")
        await agent.idle()
        assert (ends(agent.session), waiting(agent)[1]) == (["blocked"], ["y"])
        agent.follow_up("z")
        await agent.idle()
        assert turns(agent.session) == [[], ["y"], ["z"]]


async def test_i038_steps_are_counted_anew_in_each_turn() -> None:
    one = calls(("add", {"a": 1, "b": 2}))
    agent, _ = await run([one, one, "a", one, "b"], "x", "y")
    steps = [
        (entry.data["turn"], entry.data["step"])
        for entry in agent.session.entries
        if entry.type == "step/start"
    ]
    assert steps == [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2)]
    ended = [entry.data["steps"] for entry in agent.session.entries if entry.type == "turn/end"]
    assert ended == [3, 2]


async def test_i039_max_tokens_does_not_leak_into_the_next_turn() -> None:
    async with scripted([Reply("half", finish="max_tokens"), "b"]) as agent:
        agent.follow_up("x")
        agent.follow_up("y")
        await agent.idle()
        assert ends(agent.session) == ["max_tokens", "completed"]


async def test_i040_every_hook_of_a_turn_sees_the_same_signal_and_the_next_turn_another() -> None:
    seen: dict[int, set[int]] = {}
    kept: list[object] = []

    def look(payload: Any) -> None:
        kept.append(payload.abort)
        seen.setdefault(payload.turn.number, set()).add(id(payload.abort))

    def listen(_: Signal, abort: AbortSignal) -> None:
        if agent.turning.number and agent.state is not State.IDLE:
            kept.append(abort)
            seen[agent.turning.number].add(id(abort))

    points = ("assemble", "pre_step", "request", "context", "convert", "pre_tool", "post_tool", "after_step",
              "turn_stopping")  # fmt: skip
    hooks = {point: [look] for point in points}
    async with scripted([calls(("add", {"a": 1, "b": 2})), "a", "b"], hooks=hooks) as agent:
        agent.follow_up("x")
        agent.follow_up("y")
        agent.on("agent/assistant-stream", listen)
        await agent.idle()
    assert [len(ids) for ids in seen.values()] == [1, 1]
    assert not seen[1] & seen[2]


async def test_i041_an_error_is_logged_with_its_causes_in_one_line() -> None:
    def broken(_: Request) -> None:
        try:
            raise KeyError("deep")
        except KeyError as cause:
            raise ValueError("shallow") from cause

    agent, (turn,) = await run([], hooks={"request": [broken]})
    assert turn.reason == "error"
    error = agent.session.entries[-1].data["error"]
    assert error["kind"] == "unknown"
    assert error["message"].index("shallow") < error["message"].index("deep")
    assert "\n" not in error["message"]


class Unreadable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


@pytest.mark.parametrize("where", ["hook", "adapter", "tool"])
async def test_i042_an_error_without_text_still_closes_the_turn(where: str) -> None:
    def broken(_: Any) -> None:
        raise Unreadable

    hooks: dict[str, Any] = {"hook": {"request": [broken]}, "tool": {"pre_tool": [broken]}}.get(where, {})
    script: list[Any] = [Unreadable()] if where == "adapter" else [calls(("add", {"a": 1, "b": 2})), "ok"]
    async with scripted(script, hooks=hooks, tools=[add]) as agent:
        turn = await agent.prompt("x")
        assert turn.reason == ("completed" if where == "tool" else "error")
        assert agent.state is State.IDLE
        drop(agent)


async def test_i043_a_failed_request_keeps_its_facts_in_the_log() -> None:
    agent, (turn,) = await run([Failure("invalid_request", status=400, message="too long (req-7)")])
    assert agent.session.entries[-1].data == {
        "turn": 1, "reason": "error", "steps": 1,
        "error": {"kind": "invalid_request", "status": 400, "message": "too long (req-7)"},
    }  # fmt: skip
    with pytest.raises(TurnFailed, match=r"turn 1 ended as error.*too long"):
        turn.check()


# -- what lies between -------------------------------------------------------------------------------


async def test_after_any_other_reason_than_completed_what_waits_is_parked() -> None:
    def stop(_: AfterStep) -> Stop:
        return Stop("enough")

    async with scripted(["a", "b"], hooks={"after_step": [stop]}) as agent:
        agent.follow_up("x")
        agent.follow_up("y")
        await agent.idle()
        assert (ends(agent.session), agent.parked) == (["stopped"], True)
        agent.resume()
        await agent.idle()
        assert (ends(agent.session), agent.parked) == (["stopped"] * 2, False)


async def test_all_waiting_prompts_open_one_turn_when_the_mode_says_so() -> None:
    async with scripted(["a", "b", "c"]) as agent:
        agent.follow_up("x")
        for text in "yzw":
            agent.follow_up(text)
        await agent.until(State.REQUESTING)
        agent.queues = Queues(follow_up="all")
        agent.go_on()
        await agent.idle()
        assert turns(agent.session) == [["x"], ["y", "z", "w"]]
        drop(agent)


async def test_one_steering_message_a_request_when_the_mode_says_so() -> None:
    async with scripted(["a", "b", "c", "d"], queues=Queues(steering="one-at-a-time")) as agent:
        agent.follow_up("x")
        await agent.until(State.REQUESTING)
        for text in ("s1", "s2", "s3"):
            agent.steer(text)
        agent.inject("i")
        agent.go_on()
        await agent.idle()
        assert turns(agent.session) == [["x", "s1", "i", "s2", "s3"]]
        assert count(agent.session, "step/start", "turn/start") == (4, 1)


async def test_riders_go_along_with_the_next_prompt_and_wake_nobody() -> None:
    async with scripted(["a", "b"]) as agent:
        agent.next_turn("r1")
        assert (agent.resume(), agent.parked, agent.state) == (False, False, State.IDLE)
        agent.next_turn("r2")
        await agent.prompt("x")
        agent.next_turn("r3")
        await agent.prompt("y")
        assert turns(agent.session) == [["r1", "r2", "x"], ["r3", "y"]]


async def test_a_rider_sent_while_a_turn_runs_waits_for_the_next() -> None:
    def ride(_: TurnStopping) -> None:
        if not agent.session.inbox.riders and len(turns(agent.session)) == 1:
            agent.next_turn("r")

    async with scripted(["a", "b"], hooks={"turn_stopping": [ride]}) as agent:
        agent.follow_up("x")
        agent.follow_up("y")
        await agent.idle()
        assert turns(agent.session) == [["x"], ["r", "y"]]


async def test_a_prompt_that_no_turn_took_says_which_turn_parked_it() -> None:
    session = Session.memory()
    put(session, "q", "follow_up")
    async with scripted([Failure("auth", message="no key")], session=session) as agent:
        with pytest.raises(TurnFailed, match="turn 1 ended as error") as failed:
            await agent.prompt("p")
        assert failed.value.turn is not None
        assert (failed.value.turn.number, failed.value.turn.reason) == (1, "error")
        assert waiting(agent)[1] == ["p"]


async def test_a_refused_second_part_of_a_claim_leaves_no_ghost() -> None:
    seen = [0]

    def second(entry: Any) -> str | None:
        if entry.type == INBOX and "inserted" not in entry.data:
            seen[0] += 1
            return "no" if seen[0] == 2 else None
        return None

    async with scripted([]) as agent:
        agent.inject("i")
        stop = agent.session.validate(second)
        with pytest.raises(TurnFailed) as failed:
            await agent.prompt("p")
        stop()
        assert ends(agent.session) == ["error"]
        assert failed.value.turn is not None
        assert [item.messages[0].text for item in failed.value.turn.unadmitted] == ["i"]
        assert waiting(agent) == ([], ["p"], [])


async def test_pre_tool_and_other_hooks_may_send_and_nothing_is_lost() -> None:
    def send(_: PreTool) -> None:
        agent.follow_up("next")
        agent.steer("now")

    async with scripted([calls(("add", {"a": 1, "b": 2})), "a", "b"], hooks={"pre_tool": [send]}) as agent:
        await agent.prompt("x")
        assert turns(agent.session) == [["x", "now"], ["next"]]


async def test_an_agent_outside_async_with_refuses_to_be_woken_and_writes_nothing() -> None:
    session = Session.memory()
    agent = Agent("none", session=session)
    for send in (agent.follow_up, agent.steer):
        with pytest.raises(RuntimeError, match="inside `async with agent:`"):
            send("x")
    with pytest.raises(RuntimeError, match="inside `async with agent:`"):
        await agent.prompt("x")
    assert (session.entries, agent.state) == ([], State.IDLE)
