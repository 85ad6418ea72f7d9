"""Legal logs of every kind, and changes to them that must be refused at the right entry."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

import pytest
from tests.machine.hand_made import LEGAL, Log, asked, gave_up, opened, rejected, retried, simple, tools

from turnchart.machine.automaton import step_name
from turnchart.machine.entries import Entry, Frozen, freeze
from turnchart.machine.messages import UserMessage
from turnchart.machine.states import State
from turnchart.machine.verify import Judge, Mismatch, performed, verify


@pytest.mark.parametrize("made", LEGAL, ids=lambda made: made.__name__)
def test_a_legal_log_is_accepted(made: Callable[[], Log]) -> None:
    log = made()
    verdict = verify(log.entries)
    assert verdict.ok, verdict.message
    assert not verdict.open
    assert (verdict.turns, verdict.entries) == (log.turn, len(log.entries))
    turns = "1 turn" if log.turn == 1 else f"{log.turn} turns"
    assert verdict.message == f"{len(log.entries)} entries, {turns}: legal"


@pytest.mark.parametrize("made", LEGAL, ids=lambda made: made.__name__)
def test_every_beginning_of_a_legal_log_is_legal(made: Callable[[], Log]) -> None:
    entries = made().entries
    judge = Judge()
    opened = False
    for entry in entries:
        assert judge.take(entry) is None
        opened = entry.type != "turn/end" and (opened or entry.type == "turn/start")
        assert judge.verdict().open is opened


def test_a_log_that_ends_inside_a_turn_says_where() -> None:
    verdict = verify(simple().entries[:5])
    assert (verdict.ok, verdict.open, verdict.seq, verdict.state) == (True, True, None, "requesting")
    assert verdict.message == "5 entries, 1 turn: legal, ends inside turn 1 (requesting)"


def test_an_empty_log_is_legal() -> None:
    assert verify([])[:3] == (True, False, None)


@pytest.mark.parametrize("made", LEGAL, ids=lambda made: made.__name__)
def test_a_crash_anywhere_can_be_closed(made: Callable[[], Log]) -> None:
    entries = made().entries
    for length in range(len(entries)):
        verdict = verify([*entries[:length], *_closers(entries[:length])])
        assert verdict.ok, verdict.message
        assert not verdict.open


def _closers(entries: Sequence[Entry]) -> list[Entry]:
    """What recovery writes for a log that was cut off here."""
    log = Log()
    log.entries = list(entries)
    calls: dict[str, bool] = {}
    opened = stepped = False
    for entry in entries:
        if entry.foreign_id is not None or entry.replaces is not None:
            continue
        log.turn = entry.data["turn"] if entry.type == "turn/start" else log.turn
        log.step = {"turn/start": 0, "step/start": log.step + 1}.get(entry.type, log.step)
        opened = entry.type != "turn/end" and (opened or entry.type == "turn/start")
        stepped = entry.type != "step/end" and (stepped or entry.type == "step/start")
        if entry.type == "assistant/message" and entry.data["message"]["stop_reason"] != "max_tokens":
            calls = {call["id"]: False for call in entry.data["message"]["content"] if "id" in call}
        elif entry.type == "tool/call":
            calls[entry.data["call_id"]] = True
        elif entry.type == "tool/result":
            calls.pop(entry.data["message"]["call_id"])
    if stepped:
        for id, started in calls.items():
            log.result(id, None if started else {"recovered": "not_started"})
        log.leave()
    return (log.close("interrupted") if opened else log).entries[len(entries) :]


# -- what is refused --------------------------------------------------------------------------------


def renumbered(entries: Iterable[Entry]) -> list[Entry]:
    return [entry._replace(seq=i, parent=i - 1 if i else None) for i, entry in enumerate(entries)]


def without(log: Log, seq: int) -> list[Entry]:
    return renumbered(entry for entry in log.entries if entry.seq != seq)


def doubled(log: Log, seq: int) -> list[Entry]:
    return renumbered([*log.entries[: seq + 1], *log.entries[seq:]])


def swapped(log: Log, seq: int) -> list[Entry]:
    entries = log.entries
    return renumbered([*entries[:seq], entries[seq + 1], entries[seq], *entries[seq + 2 :]])


def changed(log: Log, seq: int, **data: Any) -> list[Entry]:
    """The log with some fields of one entry changed; None takes a field away."""
    entries = list(log.entries)
    merged = entries[seq].data | data
    entries[seq] = entries[seq]._replace(data=Frozen({k: v for k, v in merged.items() if v is not None}))
    return entries


def at(log: Log, type: str, nth: int = 0) -> int:
    """The seq of the nth entry of a type."""
    return [entry.seq for entry in log.entries if entry.type == type][nth]


def with_entry(log: Log, seq: int, **fields: Any) -> list[Entry]:
    return [entry._replace(**fields) if entry.seq == seq else entry for entry in log.entries]


def _same_message() -> list[Entry]:
    item = Frozen(id="b", origin="steer", messages=(UserMessage("x", id="m-a"),))
    log = Log().add("custom").add("agent/inbox/spliced", target="rider", start=0, inserted=(item,))
    return log.entries[1:]


S, T, R, A = simple(), tools(), retried(), asked()

REFUSED: list[tuple[str, list[Entry], int, str]] = [
    ("no turn/start", without(S, 1), 1, "it cannot come here"),
    ("two turn/start", doubled(S, 1), 2, "it cannot come here"),
    ("claim before the turn", swapped(S, 1), 1, "it cannot come here"),
    ("no claim", without(S, 2), 4, "`m-a` was not claimed".replace("`", "'")),
    ("claim twice", doubled(S, 2), 3, "it takes `next-turn` [0:1]"),
    ("no step/start", without(S, 3), 3, "it cannot come here"),
    ("prompt after the message", swapped(S, 4), 5, "it cannot come here"),
    ("prompt twice", doubled(S, 4), 5, "the prompt says so already"),
    ("claimed and not admitted", without(S, 5), 6, "claimed and not admitted: m-a"),
    ("admitted twice", doubled(S, 5), 6, "in the conversation already"),
    ("no header", without(S, 6), 6, "no request header was logged before"),
    ("header twice", doubled(S, 6), 7, "it cannot come here"),
    ("header repeated in the next attempt", changed(R, at(R, "request/header", 1), model="m"),
     at(R, "request/header", 1), "it repeats the last header"),
    ("no answer", without(S, 7), 8, "it cannot come here"),
    ("answer twice", doubled(S, 7), 8, "it cannot come here"),
    ("no step/end", without(S, 8), 8, "it cannot come here"),
    ("step/end twice", doubled(S, 8), 9, "no step is open"),
    ("turn/end twice", doubled(S, 9), 10, "it cannot come here"),
    ("turn/end in the step", swapped(S, 8), 8, "it cannot come here"),
    ("a reason of another row", changed(rejected(), 4, reason="max_steps"), 4, "it cannot come here"),
    ("a second answer", [*S.entries[:8], *renumbered(S.entries[:8] + gave_up().entries[6:7])[8:]], 8,
     "the step has its answer"),
    ("blocked by nobody", changed(S, 9, reason="blocked"), 9, "no pre_step hook rejected the step"),
    ("an unknown reason", changed(S, 9, reason="bored"), 9, "it cannot come here"),
    ("recovered with the step open", renumbered([*S.entries[:8], *Log().add("turn/end", turn=1,
     reason="interrupted", steps=1).entries]), 8, "step 1 is still open"),
    ("seq with a gap", [*S.entries[:4], *S.entries[5:]], 4, "`seq` is 5"),
    ("seq doubled", [*S.entries[:4], *S.entries[3:]], 4, "`seq` is 3"),
    ("a parent that is no leaf", with_entry(S, 5, parent=2), 5, "`parent` is 2"),
    ("a parent that does not exist", with_entry(S, 5, parent=77), 5, "`parent` is 77"),
    ("turn number", changed(S, 1, turn=2), 1, "`turn` is 2"),
    ("turn number at the end", changed(S, 9, turn=2), 9, "`turn` is 2"),
    ("steps at the end", changed(S, 9, steps=2), 9, "`steps` is 2"),
    ("step number", changed(S, 3, step=2), 3, "`turn, step` is 1, 2"),
    ("step number at the end", changed(S, 8, step=2), 8, "`turn, step` is 1, 2"),
    ("turn of an entry", changed(S, 4, turn=3), 4, "`turn` is 3"),
    ("step of an entry", changed(S, 7, step=3), 7, "`step` is 3"),
    ("attempt from 2", with_entry(S, 7, attempt=2), 7, "`attempt` is 2"),
    ("attempt that does not count", with_entry(R, at(R, "assistant/attempt", 1), attempt=1),
     at(R, "assistant/attempt", 1), "`attempt` is 1"),
    ("a field is missing", changed(S, 7, stream=None), 7, "field `stream` is missing"),
    ("a number is text", changed(S, 9, steps="1"), 9, "field `steps` is '1'"),
    ("a message is text", changed(S, 5, message="hi"), 5, "field `message` is 'hi'"),
    ("retry started unannounced", without(R, at(R, "llm/retry")), at(R, "llm/retry"),
     "no retry was announced"),
    ("another retry started", changed(R, at(R, "llm/retry-started"), retry=2), at(R, "llm/retry-started"),
     "but retry 1 was announced"),
    ("retry never started", without(R, at(R, "llm/retry-started")), at(R, "assistant/attempt", 1) - 1,
     "retry 1 was announced and has not started"),
    ("a call nobody asked for", changed(T, at(T, "tool/call"), call_id="c9"), at(T, "tool/call"),
     "call 'c9' of `add` is not the next one asked for"),
    ("a call of another tool", changed(T, at(T, "tool/call"), tool="sub"), at(T, "tool/call"), "of `sub`"),
    ("a call twice", doubled(T, at(T, "tool/call", 1)), at(T, "tool/call", 1) + 1, "is not the next one"),
    ("calls out of order", swapped(T, at(T, "tool/call")), at(T, "tool/call"), "is not the next one"),
    ("no call", without(T, at(T, "tool/call", 2)), at(T, "tool/call", 2), "has a result and never started"),
    ("results out of order", swapped(T, at(T, "tool/result")), at(T, "tool/result"), "is not due"),
    ("no result", without(T, at(T, "tool/result", 2)), at(T, "tool/result", 2), "call 'c3' has no result"),
    ("a result twice", doubled(T, at(T, "tool/result", 2)), at(T, "tool/result", 2) + 1, "is not due"),
    ("an exclusive call beside another", changed(T, at(T, "tool/call", 1), execution="exclusive"),
     at(T, "tool/call", 1), "an exclusive call runs alone"),
    ("a call beside an exclusive one", changed(T, at(T, "tool/call"), execution="exclusive"),
     at(T, "tool/call", 1), "an exclusive call runs alone"),
    ("an unknown way to execute", changed(T, at(T, "tool/call"), execution="wild"), at(T, "tool/call"),
     "`execution` is 'wild'"),
    ("approved unasked", without(A, at(A, "approval/asked")), at(A, "approval/decided") - 1, "nobody asked"),
    ("asked about a call that does not run", changed(A, at(A, "approval/asked"), call_id="c7"),
     at(A, "approval/asked"), "call 'c7' does not run"),
    ("item inserted twice", doubled(S, 0), 1, "item 'a' was inserted before"),
    ("message inserted twice", [*Log().insert("a").entries, *_same_message()], 1, "message 'm-a'"),
    ("a list that is none", changed(S, 0, target="later"), 0, "there is no inbox list 'later'"),
    ("a prompt claimed in a later step", changed(T, at(T, "step/end") + 1, target="next-turn"),
     at(T, "step/end") + 1, "it takes `next-turn`"),
    ("a rider claimed in a later step", renumbered([*T.entries[: at(T, "step/end")],
     *Log().insert("r", "rider").entries, *T.entries[at(T, "step/end"):][:1],
     *Log().claim("rider").entries]), at(T, "step/end") + 2, "`rider` is claimed inside a turn"),
    ("returned unclaimed", Log().insert("a", outcome="returned").entries, 0, "comes back unclaimed"),
    ("interrupted and completed", changed(S, 7, interrupted=True), 9, "the last answer was interrupted"),
    ("an unknown type", Log().add("fancy").entries, 0, "no such entry type is known"),
    ("a known type that nothing declares", Log().add("tool/result").entries, 0, "it cannot come here"),
    ("emptied by nobody", [*opened().close().entries], 3, "claimed and not admitted: m-a"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("entries", "seq", "said"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED]
)
def test_an_illegal_log_is_refused_at_its_first_illegal_entry(
    entries: list[Entry], seq: int, said: str
) -> None:
    verdict = verify(entries)
    assert not verdict.ok
    assert (verdict.seq, verdict.entries, verdict.type) == (seq, seq, entries[seq].type)
    assert verdict.came == (step_name(entries[seq]) or entries[seq].type)
    assert verdict.expected
    assert said in verdict.message


@pytest.mark.parametrize("made", [simple, tools, retried, asked, gave_up], ids=lambda made: made.__name__)
def test_no_entry_can_be_lost_doubled_or_moved(made: Callable[[], Log]) -> None:
    log = made()
    passed = [
        (change.__name__, log.entries[i].type)
        for change in (without, doubled, swapped)
        for i in range(len(log.entries) - (change is swapped))
        if log.entries[i].type not in HARMLESS and verify(change(log, i)).ok
    ]
    assert passed == MISSED.get(made.__name__, [])


HARMLESS = ("hook/result",)
ALWAYS = [("without", "turn/end"), ("swapped", "agent/inbox/spliced")]
MISSED = {
    "simple": [("without", "system/message"), *ALWAYS],
    "tools": [
        ("without", "system/message"), ("without", "turn/end"), ("swapped", "agent/inbox/spliced"),
        ("swapped", "tool/call"), ("swapped", "agent/inbox/spliced"),
    ],
    "retried": [("without", "system/message"), ("without", "request/header"), *ALWAYS,
                ("swapped", "request/header")],
    "asked": [("without", "approval/decided"), *ALWAYS, ("swapped", "approval/asked")],
    "gave_up": [("without", "assistant/attempt"), *ALWAYS],
}  # fmt: skip
"""Legal too: an arrival at another moment, an open turn, a failure before the stream, an older prompt."""


def test_the_words_of_a_refusal() -> None:
    verdict = verify(swapped(S, 8))
    assert verdict.state == "requesting or tooling"
    assert verdict.came == "turn/end completed"
    assert verdict.message == (
        "entry 8 `turn/end completed` in state requesting or tooling: it cannot come here;"
        " legal would be: assistant/attempt, hook/result, step/end, tool/call, tool/result,"
        " turn/end (interrupted)"
    )


# -- traces of everything performed ------------------------------------------------------------------

TURN = [
    "agent/inbox/inserted", "agent/status running", "turn/start", "agent/inbox/spliced",
    "agent/inbox/claimed", "assemble", "pre_step", "step/start", "request", "prepare", "system/message",
    "user/message", "request/header", "context", "convert", "stream", "agent/assistant-stream start",
    "agent/assistant-stream chunk", "notice", "agent/assistant-stream chunk", "assistant/message",
    "agent/assistant-stream end", "step/end", "after_step", "turn_stopping", "turn/end completed",
    "agent/status idle",
]  # fmt: skip


def test_a_trace_of_a_turn_is_a_walk() -> None:
    assert performed(TURN) is None
    assert performed(["session_start", *TURN, *TURN, "session_end"]) is None
    assert performed([]) is None


def test_a_trace_may_begin_with_recovery() -> None:
    assert performed(["tool/result", "step/end", "turn/end interrupted", *TURN]) is None


@pytest.mark.parametrize(
    "name", ["assemble", "pre_step", "prepare", "stream", "after_step", "agent/status idle"]
)
def test_a_trace_that_lacks_something_is_no_walk(name: str) -> None:
    found = performed([each for each in TURN if each != name])
    assert found is not None
    assert name in found.expected


def test_a_trace_says_where_it_leaves_the_declarations() -> None:
    at = TURN.index("step/start")
    found = performed([*TURN[:at], "stream", *TURN[at:]])
    assert found == Mismatch(at, "stream", found.expected if found else (), (State.PRE_STEP,))
    assert found is not None
    assert "step/start" in found.expected


def test_a_trace_that_ends_inside_a_turn_is_incomplete() -> None:
    found = performed(TURN[:-1])
    assert found == Mismatch(len(TURN) - 1, "", ("agent/status idle", "turn/start"), (State.STOPPING,))
    assert performed(TURN[:-1], complete=False) is None
    assert str(found) == (
        f"name {len(TURN) - 1} of the trace, its end, cannot come in stopping;"
        " it could be: agent/status (idle), turn/start"
    )


def test_the_words_of_a_mismatch() -> None:
    assert str(Mismatch(3, "stream", ("hook/result",), (State.CLAIMING, State.PRE_STEP))) == (
        "name 3 of the trace, `stream`, cannot come in claiming or pre-step; it could be: hook/result"
    )


def _parts(value: Any) -> "list[tuple[str | int, Any]]":
    if isinstance(value, Mapping):
        return [*cast("Mapping[str, Any]", value).items()]
    return [*enumerate(cast("Sequence[Any]", value))] if isinstance(value, list | tuple) else []


def _changed(value: Any, path: tuple[str | int, ...], new: Any) -> Any:
    if not path:
        return new
    parts = [
        (name, _changed(each, path[1:], new) if name == path[0] else each) for name, each in _parts(value)
    ]
    return dict(parts) if isinstance(value, Mapping) else [each for _, each in parts]


def _paths(value: Any, path: tuple[str | int, ...] = ()) -> Iterable[tuple[str | int, ...]]:
    yield path
    for name, each in _parts(value):
        yield from _paths(each, (*path, name))


OTHERS: tuple[Any, ...] = ({}, [], "x", 5, None)


@pytest.mark.parametrize("made", LEGAL, ids=lambda made: made.__name__)
def test_data_of_any_form_is_judged_and_nothing_is_raised(made: Callable[[], Log]) -> None:
    entries = made().entries
    for at, entry in enumerate(entries):
        for path in _paths(entry.data):
            for new in OTHERS:
                data = freeze(_changed(entry.data, path, new))
                if isinstance(data, Frozen):
                    verdict = verify([*entries[:at], entry._replace(data=data), *entries[at + 1 :]])
                    assert verdict.ok or verdict.seq is not None
