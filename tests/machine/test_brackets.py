"""Turns, steps and calls: what may follow, and what closes an open end (lifecycle.md C.1, H, I.14, I.15)."""

from typing import Any

import pytest

from turnchart.machine.brackets import NOT_STARTED, UNKNOWN_OUTCOME, Brackets
from turnchart.machine.entries import Entry, Frozen
from turnchart.machine.messages import AssistantMessage, ToolCall, ToolResultMessage

Step = tuple[str, Frozen]


def turn_start(turn: int) -> Step:
    return "turn/start", Frozen(turn=turn)


def turn_end(turn: int, steps: int = 0, reason: str = "completed") -> Step:
    return "turn/end", Frozen(turn=turn, reason=reason, steps=steps)


def step_start(turn: int, step: int) -> Step:
    return "step/start", Frozen(turn=turn, step=step)


def step_end(turn: int, step: int) -> Step:
    return "step/end", Frozen(turn=turn, step=step)


def answer(turn: int, step: int, *calls: str, **more: Any) -> Step:
    said = AssistantMessage([ToolCall("add", id=call) for call in calls])
    return "assistant/message", Frozen(turn=turn, step=step, message=said, stream=(), **more)


def called(turn: int, step: int, call: str) -> Step:
    return "tool/call", Frozen(
        turn=turn, step=step, call_id=call, tool="add", arguments=Frozen(), execution="parallel"
    )


def result(turn: int, step: int, call: str) -> Step:
    said = ToolResultMessage(call, "add", "3")
    return "tool/result", Frozen(turn=turn, step=step, message=said, outcome="ok")


def log(*steps: Step) -> tuple[Brackets, list[Entry]]:
    """Apply these entries; each must be legal."""
    made, entries = Brackets(), list[Entry]()
    for seq, (type, data) in enumerate(steps):
        assert made.refusal(type, data) is None, (type, data)
        made.apply(type, data, seq)
        entries.append(Entry(seq, seq - 1 if seq else None, type, 100.0 + seq, data))
    return made, entries


def closed(*steps: Step) -> list[str]:
    """Return in short what closes this log, and check that it does and takes the time of the last entry."""
    made, entries = log(*steps)
    short: list[str] = []
    for type, data, more in tuple(made.closers(entries)):
        assert made.refusal(type, data) is None
        made.apply(type, data)
        assert more == {"time": entries[-1].time}
        what = data["message"]["call_id"] if type == "tool/result" else data.get("reason", "")
        short.append(f"{type} {what}".strip())
    assert (made.turn_open, made.step_open, made.calls) == (False, False, {})
    assert list(made.closers(entries)) == []
    return short


# -- what may follow ---------------------------------------------------------------------------


def test_a_whole_turn_is_legal_and_counted() -> None:
    made, _ = log(
        turn_start(1),
        step_start(1, 1), answer(1, 1, "c1", "c2"), called(1, 1, "c1"),
        result(1, 1, "c1"), result(1, 1, "c2"), step_end(1, 1),
        step_start(1, 2), answer(1, 2), step_end(1, 2),
        turn_end(1, 2, "max_steps"),
        turn_start(2),
    )  # fmt: skip
    assert (made.turn, made.step, made.turn_open, made.step_open) == (2, 0, True, False)
    assert (made.reason, made.turn_start, made.calls) == ("max_steps", 11, {})


OPEN_TURN = (turn_start(1),)
OPEN_STEP = (*OPEN_TURN, step_start(1, 1))
ASKED = (*OPEN_STEP, answer(1, 1, "c1"))


@pytest.mark.parametrize(
    ("before", "step", "why"),
    [
        ((), turn_start(2), "turn 1 comes next, not 2"),
        (OPEN_TURN, turn_start(2), "turn 1 is still open"),
        ((), turn_end(1), "turn 1 is not open"),
        (OPEN_TURN, turn_end(2), "turn 2 is not open"),
        (OPEN_STEP, turn_end(1, 1), "step 1 is still open"),
        (OPEN_TURN, ("turn/end", Frozen(turn=1, steps=0)), "it lacks 'reason'"),
        ((), step_start(1, 1), "turn 1 is not open"),
        (OPEN_TURN, step_start(1, 2), "step 1 comes next, not 2"),
        (OPEN_STEP, step_start(1, 2), "step 1 is still open"),
        (OPEN_TURN, step_end(1, 1), "step 1 of turn 1 is not open"),
        (OPEN_STEP, step_end(1, 2), "step 2 of turn 1 is not open"),
        (OPEN_STEP, ("request/header", Frozen(turn=2, step=1)), "step 1 of turn 2 is not open"),
        (OPEN_TURN, ("request/context", Frozen(turn=1, step=1)), "step 1 of turn 1 is not open"),
        (OPEN_TURN, ("system/message", Frozen(turn=1, step=1)), "step 1 of turn 1 is not open"),
        (OPEN_TURN, ("assistant/attempt", Frozen(turn=1, step=1)), "step 1 of turn 1 is not open"),
        ((), answer(1, 1), "step 1 of turn 1 is not open"),
        (OPEN_TURN, called(1, 1, "c1"), "step 1 of turn 1 is not open"),
        (OPEN_STEP, ("tool/call", Frozen(turn=1, step=1, tool="add")), "it lacks 'call_id'"),
        (OPEN_STEP, result(1, 1, "c1"), "no call 'c1' waits for a result in this step"),
        ((*ASKED, result(1, 1, "c1")), result(1, 1, "c1"), "no call 'c1' waits for a result in this step"),
        ((*ASKED, step_end(1, 1), step_start(1, 2)), result(1, 2, "c1"), "no call 'c1' waits for a result"),
        (OPEN_TURN, ("leaf", Frozen(target=0)), "turn 1 is open; move in the tree when it is over"),
        (OPEN_TURN, ("branch_summary", Frozen(summary="x")), "turn 1 is open; move in the tree"),
    ],
)  # fmt: skip
def test_what_does_not_follow_is_refused(before: tuple[Step, ...], step: Step, why: str) -> None:
    made, _ = log(*before)
    assert (made.refusal(*step) or "").startswith(why)


def test_a_call_without_an_id_is_refused() -> None:
    made, _ = log(*OPEN_STEP)
    raw = Frozen(content=(Frozen(type="tool_call", name="add", arguments=Frozen()),))
    assert made.refusal("assistant/message", Frozen(turn=1, step=1, message=raw)) == "it lacks 'id'"


@pytest.mark.parametrize("before", [(), OPEN_TURN, OPEN_STEP])
def test_what_people_write_is_legal_anywhere(before: tuple[Step, ...]) -> None:
    made, _ = log(*before)
    for type in ("user/message", "custom", "custom_message", "label", "agent/inbox/spliced", "session_info"):
        assert made.refusal(type, Frozen()) is None


def test_a_result_that_replaces_another_answers_no_call() -> None:
    made, _ = log(*ASKED, result(1, 1, "c1"), step_end(1, 1), turn_end(1, 1))
    type, data = result(1, 1, "c1")
    assert made.refusal(type, data) is not None
    assert made.refusal(type, data, (3, 3)) is None


def test_calls_left_open_by_the_end_of_a_step_are_forgotten() -> None:
    made, _ = log(*ASKED, step_end(1, 1))
    assert made.calls == {}


def test_calls_of_an_interrupted_answer_are_not_asked() -> None:
    made, _ = log(*OPEN_STEP, answer(1, 1, "c1", interrupted=True))
    assert made.calls == {}


# -- what closes an open end (I.15) ------------------------------------------------------------


def test_259_a_balanced_log_needs_no_closers() -> None:
    assert closed() == []
    assert closed(turn_start(1), turn_end(1)) == []
    assert closed(*ASKED, result(1, 1, "c1"), step_end(1, 1), turn_end(1, 1, "aborted")) == []


def test_260_an_open_turn_without_a_step_is_ended() -> None:
    assert closed(turn_start(1)) == ["turn/end interrupted"]
    assert closed(*OPEN_STEP, step_end(1, 1)) == ["turn/end interrupted"]


def test_261_an_open_step_is_ended_first() -> None:
    assert closed(*OPEN_STEP) == ["step/end", "turn/end interrupted"]


def test_262_calls_that_were_only_asked_for_get_results_in_order() -> None:
    expected = ["tool/result c2", "tool/result c1", "step/end", "turn/end interrupted"]
    assert closed(*OPEN_STEP, answer(1, 1, "c2", "c1")) == expected


def test_263_the_result_says_whether_the_call_had_started() -> None:
    made, entries = log(*OPEN_STEP, answer(1, 1, "c1", "c2"), called(1, 1, "c2"))
    [(_, first, _1), (_, second, _2), *_rest] = made.closers(entries)
    assert (first["message"].text, second["message"].text) == (NOT_STARTED, UNKNOWN_OUTCOME)
    assert [each["message"]["details"]["recovered"] for each in (first, second)] == ["not_started", "unknown"]
    for data in (first, second):
        assert data["message"].is_error
        assert data["message"].tool == "add"
        assert (data["turn"], data["step"], data["outcome"]) == (1, 1, "aborted")


def test_264_only_the_missing_result_is_written() -> None:
    before = (*OPEN_STEP, answer(1, 1, "c1", "c2"), called(1, 1, "c1"), result(1, 1, "c1"))
    assert closed(*before) == ["tool/result c2", "step/end", "turn/end interrupted"]


def test_265_orphans_of_a_closed_step_are_left_alone() -> None:
    before = (*ASKED, step_end(1, 1), step_start(1, 2), answer(1, 2, "c2"))
    assert closed(*before) == ["tool/result c2", "step/end", "turn/end interrupted"]
    earlier = (*ASKED, step_end(1, 1), turn_end(1, 1), turn_start(2))
    assert closed(*earlier) == ["turn/end interrupted"]


def test_275_a_retry_that_was_announced_is_only_closed() -> None:
    waiting = ("llm/retry", Frozen(turn=1, step=1, retry=1, after=2.0, kind="timeout", by="policy"))
    attempt = ("assistant/attempt", Frozen(turn=1, step=1, model="m", stream=()))
    assert closed(*OPEN_STEP, attempt, waiting) == ["step/end", "turn/end interrupted"]


def test_the_end_of_the_turn_counts_its_steps() -> None:
    made, entries = log(*OPEN_STEP, step_end(1, 1), step_start(1, 2))
    *_, (type, data, _more) = made.closers(entries)
    assert (type, data) == ("turn/end", {"turn": 1, "reason": "interrupted", "steps": 2})
