"""Any JSON, and any log that the driver could have written.

This file was overwritten by accident by another author at 15:20 and written again from the tests that use it.
Whoever has the first text: put it back, nothing else depends on this one.
"""

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from turnchart.machine.entries import Entry, Frozen
from turnchart.machine.inbox import Item, Origin, Target
from turnchart.machine.messages import AssistantMessage, ToolCall, ToolResultMessage, UserMessage
from turnchart.machine.session import Session
from turnchart.machine.stores import Store

JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
"""Whatever JSON can hold."""

Act = tuple[str, Any]
"""What somebody did to a session, and with what; an act that is illegal where it comes is passed over."""


def _start_turn(session: Session, _given: Any) -> None:
    if not session.brackets.turn_open:
        session.append("turn/start", Frozen(turn=session.brackets.turn + 1))


def _end_turn(session: Session, reason: Any) -> None:
    at = session.brackets
    if at.turn_open and not at.step_open:
        session.append("turn/end", Frozen(turn=at.turn, reason=str(reason), steps=at.step))


def _start_step(session: Session, _given: Any) -> None:
    at = session.brackets
    if at.turn_open and not at.step_open:
        session.append("step/start", Frozen(turn=at.turn, step=at.step + 1))


def _end_step(session: Session, _given: Any) -> None:
    at = session.brackets
    if at.step_open and not at.calls:
        session.append("step/end", Frozen(turn=at.turn, step=at.step))


def _insert(session: Session, origin: Any) -> None:
    name = f"i{len(session.entries)}"
    targets: dict[Origin, Target] = {"prompt": "next-turn", "steer": "next-step", "next_turn": "rider"}
    item = Item(name, origin, (UserMessage("hi", id=f"{name}-1"), UserMessage("ho", id=f"{name}-2")))
    session.append("agent/inbox/spliced", session.inbox.insert(targets[origin], item))


def _claim(session: Session, opens: Any) -> None:
    if session.brackets.turn_open and not session.brackets.step_open:
        for splice in session.inbox.claim(opens=bool(opens), steering="all", follow_up="one-at-a-time"):
            session.append("agent/inbox/spliced", splice.data)


def _discard(session: Session, _given: Any) -> None:
    for splice in session.inbox.clear():
        session.append("agent/inbox/spliced", splice.data)


def _admit(session: Session, _given: Any) -> None:
    at = session.brackets
    if at.step_open and not at.calls:
        for item in tuple(session.inbox.claimed):
            for said in item.messages:
                session.append("user/message", Frozen(turn=at.turn, step=at.step, message=said))


def _answer(session: Session, calls: Any) -> None:
    at = session.brackets
    if at.step_open and not at.calls:
        asked = tuple(ToolCall("add", {"n": n}, id=f"c{len(session.entries)}-{n}") for n in range(calls))
        said = AssistantMessage(asked, model="m", stop_reason="tool_calls" if asked else "stop")
        data = Frozen(turn=at.turn, step=at.step, message=said, stream=())
        session.append("assistant/message", data, attempt=1)


def _call(session: Session, _given: Any) -> None:
    at = session.brackets
    call_id = next((id for id, (state, _) in at.calls.items() if state == "asked"), None)
    if call_id is not None:
        session.append("tool/call", Frozen(turn=at.turn, step=at.step, call_id=call_id, tool="add",
                                           arguments=Frozen(), execution="parallel"))  # fmt: skip


def _result(session: Session, details: Any) -> None:
    at = session.brackets
    call_id = next((id for id, (state, _) in at.calls.items() if state == "called"), None)
    if call_id is not None:
        said = ToolResultMessage(call_id, "add", "3", details=details)
        session.append("tool/result", Frozen(turn=at.turn, step=at.step, message=said, outcome="ok"))


def _write(session: Session, data: Any) -> None:
    session.append_custom("mine", data)


def _move(session: Session, place: Any) -> None:
    if session.entries and not session.brackets.turn_open:
        session.navigate(place % len(session.entries))


_DO: dict[str, Callable[[Session, Any], None]] = {
    "start turn": _start_turn,
    "end turn": _end_turn,
    "start step": _start_step,
    "end step": _end_step,
    "insert": _insert,
    "claim": _claim,
    "discard": _discard,
    "admit": _admit,
    "answer": _answer,
    "call": _call,
    "result": _result,
    "write": _write,
    "move": _move,
}

_GIVEN: dict[str, st.SearchStrategy[Any]] = {
    "end turn": st.sampled_from(["completed", "error"]),
    "insert": st.sampled_from(["prompt", "steer", "next_turn"]),
    "claim": st.booleans(),
    "answer": st.integers(0, 2),
    "result": JSON,
    "write": JSON,
    "move": st.integers(0, 99),
}

ACTS: st.SearchStrategy[list[Act]] = st.lists(
    st.sampled_from(sorted(_DO)).flatmap(lambda name: st.tuples(st.just(name), _GIVEN.get(name, st.none()))),
    max_size=30,
)
"""Anything that people, programs and the driver do, in any order."""


def history(acts: list[Act], store: Store) -> Session:
    """Return a session to which all this was done."""
    times = iter(range(1_000_000))
    session = Session(store, now=lambda: 1_700_000_000 + next(times) / 4)
    for name, given in acts:
        _DO[name](session, given)
    return session


def lines(entries: list[Entry]) -> list[str]:
    """Return a log as its lines."""
    return [entry.line() for entry in entries]


def folds(session: Session) -> dict[str, Any]:
    """Return everything that a session keeps up to date entry by entry."""
    at = session.brackets
    return {
        "leaf": session.leaf,
        "view": list(session.view.messages()),
        "llm": list(session.view.llm_messages()),
        "queued": session.inbox.queued(),
        "claimed": list(session.inbox.claimed),
        "brackets": {name: getattr(at, name) for name in at.__slots__},
    }
