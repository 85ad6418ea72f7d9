"""What a crash left open is closed, and what it left unread goes back (lifecycle.md H and I.15).

Scenarios 259 to 265 in full: test_brackets.py.
"""

import pytest
from tests.machine.histories import Kept, claim, folds, item, lines, put, reopened, turn

from turnchart.machine.entries import Frozen
from turnchart.machine.errors import AppendRefused, SessionLocked
from turnchart.machine.messages import AssistantMessage
from turnchart.machine.session import Session
from turnchart.machine.verify import verify


def recovered(session: Session) -> Session:
    again = reopened(session)
    again.attach()
    assert verify(again.entries).ok, verify(again.entries).message
    assert folds(reopened(again)) == folds(again)
    return again


def test_259_attaching_a_balanced_log_writes_nothing() -> None:
    session = Session(Kept(), now=lambda: 5.0)
    put(session, "waits", "steer")
    again = reopened(session)
    again.attach()
    assert len(again.entries) == 1
    assert [each.id for each in again.inbox.next_step] == ["waits"]


def test_260_to_264_attaching_closes_what_a_crash_left_open() -> None:
    session = Session(Kept(), now=lambda: 5.0)
    turn(session, "c1", "c2")
    called = Frozen(turn=1, step=1, call_id="c2", tool="add", arguments=Frozen(), execution="exclusive")
    session.append("tool/call", called)
    again = reopened(session)
    again.attach(lambda: 9.0)
    new = again.entries[len(session.entries) :]
    assert [each.type for each in new] == ["tool/result", "tool/result", "step/end", "turn/end"]
    assert {each.time for each in new} == {5.0}
    assert [each.data["message"].call_id for each in new[:2]] == ["c1", "c2"]
    assert new[-1].data == {"turn": 1, "reason": "interrupted", "steps": 1}
    again.append_custom("mine", 1)
    assert again.entries[-1].time == 9.0
    assert folds(reopened(again)) == folds(again)
    later = len(again.entries)
    again.recover()
    assert len(again.entries) == later


def test_274_a_batch_that_was_claimed_and_not_admitted_goes_back_to_the_front() -> None:
    session = Session(Kept(), now=lambda: 5.0)
    put(session, "s1", "steer")
    put(session, "r1", "next_turn")
    put(session, "p1", "prompt")
    put(session, "p2", "prompt")
    session.append("turn/start", Frozen(turn=1))
    claim(session)
    put(session, "s2", "steer")
    again = recovered(session)
    assert [each.id for each in again.inbox.next_step] == ["s1", "s2"]
    assert [each.id for each in again.inbox.next_turn] == ["p1", "p2"]
    assert [each.id for each in again.inbox.riders] == ["r1"]
    assert again.inbox.claimed == []


def test_a_batch_that_was_partly_admitted_goes_back_in_part() -> None:
    session = Session(Kept(), now=lambda: 5.0)
    put(session, "s1", "steer")
    put(session, "p1", "prompt", "a", "b", "c")
    session.append("turn/start", Frozen(turn=1))
    claim(session)
    session.append("step/start", Frozen(turn=1, step=1))
    for said in (item("s1").messages[0], item("p1", "prompt", "a").messages[0]):
        session.append("user/message", Frozen(turn=1, step=1, message=said))
    again = recovered(session)
    assert again.inbox.next_step == []
    [left] = again.inbox.next_turn
    assert (left.id, [(said["id"], said.text) for said in left.messages]) == (
        "p1",
        [("p1.1", "b"), ("p1.2", "c")],
    )
    assert [said.text for said in again.context()] == ["s1", "a"]


def test_what_the_model_has_answered_to_is_claimed_no_more() -> None:
    session = Session(Kept(), now=lambda: 5.0)
    put(session, "p1", "prompt", "kept out by a hook")
    session.append("turn/start", Frozen(turn=1))
    claim(session)
    session.append("step/start", Frozen(turn=1, step=1))
    session.append(
        "assistant/message", Frozen(turn=1, step=1, message=AssistantMessage("a"), stream=()), attempt=1
    )
    again = reopened(session)
    again.attach()
    assert not again.inbox.queued()


def test_what_a_turn_left_out_when_it_ended_is_not_put_back() -> None:
    session = Session(Kept(), now=lambda: 5.0)
    put(session, "p1", "prompt")
    session.append("turn/start", Frozen(turn=1))
    claim(session)
    session.append("turn/end", Frozen(turn=1, reason="error", steps=0))
    again = recovered(session)
    assert not again.inbox.queued()
    assert len(again.entries) == len(session.entries)


def test_recovery_that_is_cut_off_anywhere_is_finished_by_the_next() -> None:
    session = Session(Kept(), now=lambda: 5.0)
    put(session, "s1", "steer")
    put(session, "p1", "prompt")
    session.append("turn/start", Frozen(turn=1))
    claim(session)
    whole = recovered(session)
    for cut in range(len(session.entries), len(whole.entries)):
        again = Session(Kept(whole.entries[:cut]))
        again.attach()
        assert lines(again.entries) == lines(whole.entries)


def test_a_session_is_attached_once_until_it_is_closed() -> None:
    session = Session(Kept(), now=lambda: 5.0)
    session.attach()
    with pytest.raises(SessionLocked, match="by another agent of this process; leave that one first"):
        session.attach(lambda: 9.0)
    assert session.append("custom", Frozen(kind="mine", data=1)).time == 5.0
    session.close()
    session.close()  # does nothing
    session.attach(lambda: 9.0)
    assert session.append("custom", Frozen(kind="mine", data=1)).time == 9.0


def test_an_attachment_whose_recovery_is_refused_is_none() -> None:
    session = Session(Kept(), now=lambda: 5.0)
    session.append("turn/start", Frozen(turn=1))
    stop = session.validate(lambda entry: "no")
    with pytest.raises(AppendRefused):
        session.attach()
    with pytest.raises(AppendRefused):
        session.recover()
    stop()
    session.attach()
    assert not session.brackets.turn_open


def test_a_message_enters_the_conversation_once() -> None:
    session = Session(Kept(), now=lambda: 5.0)
    said = item("a").messages[0]
    first = session.append("user/message", Frozen(message=said))
    with pytest.raises(AppendRefused, match=r"the message 'a\.0' is in the conversation already"):
        session.append("user/message", Frozen(message=said))
    here = (first.seq, first.seq)
    session.append("user/message", Frozen(message=said), replaces=here, sources=(first.seq,))
    assert folds(reopened(session)) == folds(session)
