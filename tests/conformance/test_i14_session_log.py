"""The log of a session: what may replace what, and what a log alone says (lifecycle I.14)."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conformance.asking import resumed
from tests.machine.drive import calls, scripted
from tests.machine.histories import ACTS, Act, Kept, folds, history, reopened

from turnchart.machine import AppendRefused, Session, ToolResultMessage, UserMessage
from turnchart.machine.entries import Frozen

LOG_ONLY: Sequence[tuple[str, dict[str, Any]]] = (
    ("custom", {"kind": "mine", "data": 1}),
    ("label", {"target": 0, "text": "here"}),
    ("session_info", {"name": "mine"}),
    ("hook/result", {"turn": 1, "step": 1, "point": "pre_step", "id": "h", "seconds": 0.1}),
)


async def called() -> Session:
    """Return a session in which a tool was called."""
    async with scripted([calls(("add", {"a": 1, "b": 2})), "done"]) as agent:
        await agent.prompt("x")
    return agent.session


async def test_i253_what_replaces_a_result_may_change_its_content_only() -> None:
    session = await called()
    old = next(entry for entry in session.entries if entry.type == "tool/result")
    said = old.data["message"]
    here = {"turn": 1, "step": 1, "outcome": "ok"}

    def replace(by: object, first: int = old.seq, last: int = old.seq) -> None:
        session.append("tool/result", Frozen(here, message=by), replaces=(first, last), sources=(old.seq,))

    prompted = next(entry.seq for entry in session.entries if entry.type == "user/message")
    before = folds(session)
    for by, first in (
        (ToolResultMessage("other", "add", "3"), old.seq),
        (ToolResultMessage(said.call_id, "sub", "3"), old.seq),
        (ToolResultMessage(said.call_id, "add", "3", is_error=True), old.seq),
        (ToolResultMessage(said.call_id, "add", "3"), prompted),
    ):
        with pytest.raises(
            AppendRefused, match="it replaces something else than one result of the same call"
        ):
            replace(by, first)
    assert folds(session) == before
    replace(ToolResultMessage(said.call_id, "add", "shorter"))
    shown = [each.text for each in session.context() if each.role == "tool_result"]
    assert shown == ["shorter"]


@given(acts=ACTS)
def test_i254_what_is_loaded_derives_the_same_and_goes_on_with_the_next_number(acts: list[Act]) -> None:
    session = history(acts, Kept())
    again = reopened(session)
    assert folds(again) == folds(session)
    entry = again.append_custom("mine", 1)
    assert entry is not None
    assert (entry.seq, entry.parent) == (len(session.entries), session.leaf)


@given(
    acts=ACTS,  # behind the first entry, which the labels among them name
    at=st.dictionaries(st.integers(1, 40), st.integers(0, len(LOG_ONLY) - 1), max_size=6),
)
def test_i255_what_is_only_logged_changes_nothing_that_is_derived(
    acts: list[Act], at: dict[int, int]
) -> None:
    plain = history([act for act in acts if act[0] not in ("navigate", "replace")])  # those name numbers
    mixed = Session(Kept())
    for index, entry in enumerate(plain.entries):
        if index in at:
            type, data = LOG_ONLY[at[index]]
            mixed.append(type, Frozen(data))
        mixed.append(
            entry.type, entry.data, attempt=entry.attempt, ignorable=entry.ignorable, time=entry.time
        )
    for derived in ("context", "queued", "state"):
        assert _DERIVED[derived](mixed) == _DERIVED[derived](plain)


_DERIVED: dict[str, Callable[[Session], object]] = {
    "context": lambda session: (list(session.context()), list(session.view.llm_messages())),
    "queued": lambda session: (session.inbox.queued(), session.inbox.claimed),
    "state": lambda session: (
        session.brackets.turn, session.brackets.step, session.brackets.turn_open, session.brackets.calls,
        session.view.model, session.view.thinking, session.view.tools,
    ),
}  # fmt: skip


async def test_i256_a_result_of_an_earlier_call_does_not_come_in_a_later_step() -> None:
    session = resumed(await called())
    said = next(entry.data["message"] for entry in session.entries if entry.type == "tool/result")
    session.append("turn/start", Frozen(turn=2))
    session.append("step/start", Frozen(turn=2, step=1))
    for here, what in (
        ({"turn": 2, "step": 1}, f"no call '{said['call_id']}' waits for a result in this step"),
        ({"turn": 1, "step": 1}, "step 1 of turn 1 is not open"),
    ):
        with pytest.raises(AppendRefused, match=what):
            session.append("tool/result", Frozen(here, message=said, outcome="ok"))


def test_i257_a_refused_entry_has_changed_nothing_and_the_next_one_is_taken() -> None:
    session = Session(Kept())
    session.append("user/message", Frozen(message=UserMessage("a")))
    stop = session.validate(lambda entry: "not now")
    before = folds(session)
    for type, data in (
        ("turn/start", {"turn": 1}),
        ("leaf", {"target": None}),
        ("custom", {"kind": "x", "data": 1}),
    ):
        with pytest.raises(AppendRefused, match="not now"):
            session.append(type, Frozen(data))
    assert folds(session) == before
    stop()
    assert session.append("turn/start", Frozen(turn=1)).seq == 1
    assert session.brackets.turn_open
