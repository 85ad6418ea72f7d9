"""Forks: what a copy of a session has, and what it leaves behind (data-flow E9, lifecycle H and I.15)."""

from pathlib import Path

import pytest
from tests.conformance.places import KINDS, Place, answer, texts, user
from tests.machine.drive import calls, scripted
from tests.machine.histories import Kept

from turnchart.machine import AppendRefused, Session, SessionError, State
from turnchart.machine.verify import verify


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Give a session in each kind of store."""
    return Place(request.param, tmp_path)


def types(session: Session, since: int = 0) -> list[str]:
    return [entry.type for entry in session.entries[since:]]


def test_g119_a_fork_keeps_entries_and_numbers_of_what_came_before(tmp_path: Path, place: Place) -> None:
    session = place.session
    user(session, "q")
    answer(session, "a")
    second = user(session, "r")
    answer(session, "b")
    session.set_name("mine")
    into = Session.jsonl(tmp_path / "fork.jsonl")
    fork = session.fork(second, position="before", into=into)
    assert fork is into
    assert (fork.origin, fork.name, fork.leaf) == ("forked", "mine", second - 1)
    assert fork.path() == session.path(second - 1)
    assert texts(fork) == ["q", "a"]
    info = fork.entries[second].data["forked"]
    assert info == {"session": session.id, "where": session.store.where, "at": second, "leaf": second - 1}
    whole = session.fork(into=Session(Kept()))
    assert whole.entries[: len(session.entries)] == session.entries
    assert (whole.leaf, texts(whole)) == (session.leaf, ["q", "a", "r", "b"])
    at = session.fork(second, into=Session(Kept()))
    assert (at.leaf, texts(at)) == (second, ["q", "a", "r"])


def test_g119_the_name_of_a_fork_may_be_another(place: Place) -> None:
    user(place.session, "q")
    place.session.set_name("mine")
    fork = place.session.fork(into=Session(Kept()))
    fork.set_name("its own")
    assert (place.session.name, fork.name) == ("mine", "its own")


def test_g119_without_a_place_to_copy_to_a_fork_stands_beside_its_origin(tmp_path: Path) -> None:
    for kind in ("jsonl", "sqlite"):
        session = Place(kind, tmp_path).session
        user(session, "q")
        one, two = session.fork(), session.fork()
        assert len({session.id, one.id, two.id}) == 3
        for fork in (one, two):
            user(fork, "r")
            fork.close()
            if kind == "jsonl":
                again = Session.jsonl(fork.store.where)
            else:
                again = Session.sqlite(session.store.where, fork.id)
            assert texts(again) == ["q", "r"]
        assert texts(session) == ["q"]
        session.close()
    assert {path.suffix for path in tmp_path.iterdir() if "fork" in path.name} == {".jsonl"}
    assert texts(Session.memory().fork()) == []


def test_g120_before_something_else_than_the_message_of_a_user_is_no_place_to_fork(place: Place) -> None:
    session = place.session
    user(session, "q")
    seq = answer(session, "a")
    for position, at, error, what in (
        ("before", seq, ValueError, rf"entry {seq} is a `assistant/message`; a fork goes back to before a"),
        ("before", None, ValueError, "needs that entry: give at="),
        ("behind", seq, ValueError, "position is 'behind'; it must be `at` or `before`"),
        ("at", 99, IndexError, r"there is no entry 99 to fork from; the log has"),
        ("at", True, TypeError, "named by its number, not by True"),
    ):
        with pytest.raises(error, match=what):
            session.fork(at, position=position, into=Session(Kept()))  # type: ignore[arg-type]  # as people may
    with pytest.raises(SessionError, match=r"session kept has entries already; a fork needs an empty one"):
        session.fork(into=session.fork(into=Session(Kept())))


def test_g126_a_fork_keeps_the_labels_of_what_it_has(place: Place) -> None:
    session = place.session
    user(session, "q")
    session.append_label(0, "start")
    answer(session, "a")
    later = user(session, "r")
    session.append_label(later, "later")
    session.append_label(0, "the start")
    fork = session.fork(later, position="before", into=Session(Kept()))
    assert fork.labels() == {0: "the start"}
    assert texts(fork) == ["q", "a"]
    assert session.fork(into=Session(Kept())).labels() == session.labels()
    with pytest.raises(IndexError, match="there is no entry 77"):
        session.fork(77, into=Session(Kept()))


async def test_i272_a_fork_begins_with_an_empty_inbox() -> None:
    async with scripted(["hi"]) as agent:
        await agent.prompt("x")
        agent.inject("waits")
        agent.next_turn("rides")
        fork = agent.session.fork()
        assert [len(waiting) for waiting in agent.queued] == [1, 0, 1]
    assert not fork.inbox.queued()
    canceled = [entry.data for entry in fork.entries if entry.data.get("outcome") == "discarded"]
    assert [data["target"] for data in canceled] == ["next-step", "rider"]
    assert verify(fork.entries).ok
    async with scripted(["again"], session=fork) as agent:
        turn = await agent.prompt("y")
    assert turn.ok
    header = [entry.data for entry in fork.entries if entry.type == "request/header"][-1]
    assert (header["reason"], header["starts_series"]) == ("resume", True)


async def test_i273_a_fork_is_refused_in_an_open_turn_and_cuts_a_turn_off_that_is_over() -> None:
    asks = calls(("add", {"a": 1, "b": 2}))
    async with scripted([asks, "done"]) as agent:
        agent.follow_up("x")
        await agent.until(State.TOOLING)
        with pytest.raises(AppendRefused, match="turn 1 is open; fork the session when it is over"):
            agent.session.fork()
        agent.go_on()
        await agent.idle()
        session = agent.session
    for entry in tuple(session.entries):
        fork = session.fork(entry.seq)
        assert verify(fork.entries).ok, verify(fork.entries).message
        assert not fork.brackets.turn_open
        asked = [part for said in fork.context() for part in said.content if part["type"] == "tool_call"]
        answered = [said for said in fork.context() if said.role == "tool_result"]
        assert len(asked) == len(answered)
    prompted = next(entry.seq for entry in session.entries if entry.type == "user/message")
    fork = session.fork(prompted, position="before")
    assert types(fork, prompted) == [
        "agent/inbox/spliced",
        "step/end",
        "turn/end",
        "agent/inbox/spliced",
        "session_info",
        "leaf",
    ]
    async with scripted(["other"], session=fork) as agent:
        assert (await agent.prompt("y")).number == 2
    assert texts(fork) == ["y", "other"]
