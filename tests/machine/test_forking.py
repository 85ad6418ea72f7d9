"""Copying a session: what is beside a store, and what a copy says of where it comes from."""

from pathlib import Path

import pytest
from tests.machine.histories import Kept

from turnchart.machine.entries import Entry, Frozen
from turnchart.machine.errors import SessionError, SessionLocked
from turnchart.machine.forking import beside
from turnchart.machine.inbox import Item
from turnchart.machine.jsonl import JsonlStore
from turnchart.machine.messages import UserMessage
from turnchart.machine.session import Session
from turnchart.machine.sqlite import SqliteStore
from turnchart.machine.verify import verify


class Odd:
    """A store that nobody here knows."""


def test_beside_a_store_stands_one_of_its_kind_with_its_durability(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    made = beside(JsonlStore(path, durability="fsync"), lambda: 7.0)
    assert isinstance(made.store, JsonlStore)
    assert (made.store.path.name, made.store.durability) == ("a-fork1.jsonl", "fsync")
    assert made.append_custom("mine", 1).time == 7.0  # type: ignore[union-attr]  # no turn is open
    made.close()
    assert beside(JsonlStore(path), lambda: 7.0).store.where.endswith("a-fork2.jsonl")
    made = beside(SqliteStore(tmp_path / "s.db", "a", durability="fsync"), lambda: 7.0)
    assert isinstance(made.store, SqliteStore)
    assert (made.store.where, made.store.durability) == (str(tmp_path / "s.db"), "fsync")
    with pytest.raises(SessionError, match=r"a Odd cannot make another: give fork\(into=\)"):
        beside(Odd(), lambda: 7.0)  # type: ignore[arg-type]  # as people may


def test_a_fork_can_be_written_by_whoever_wants_to(tmp_path: Path) -> None:
    session = Session.jsonl(tmp_path / "a.jsonl")
    session.append_custom("mine", 1)
    fork = session.fork()
    other = Session.jsonl(fork.store.where)
    other.attach()
    with pytest.raises(SessionLocked):
        fork.append_custom("mine", 2)
    other.close()
    session.close()


def test_a_fork_has_the_labels_of_its_entries_as_they_are_now() -> None:
    session = Session.memory()
    for number in range(4):
        session.append_custom("mine", number)
    for seq, text in ((0, "first"), (1, "stays"), (2, "goes"), (0, "changed"), (2, None), (3, "late")):
        session.append_label(seq, text)
    last = len(session.entries) - 1
    for at in range(4, last + 1):
        assert session.fork(at, into=Session.memory()).labels() == session.labels(), at
    assert session.fork(1, into=Session.memory()).labels() == {0: "changed", 1: "stays"}


def test_a_fork_fills_a_file_that_was_made_for_it(tmp_path: Path) -> None:
    session = Session.memory()
    session.append_custom("mine", 1)
    (tmp_path / "made.jsonl").touch()
    fork = session.fork(into=Session.jsonl(tmp_path / "made.jsonl"))
    assert Session.jsonl(tmp_path / "made.jsonl").entries == fork.entries
    with pytest.raises(SessionError, match="has entries already; a fork needs an empty one"):
        session.fork(into=fork)


def test_what_a_crash_left_claimed_is_not_in_the_inbox_of_a_fork() -> None:
    session = Session(Kept())
    item = Item("i", "prompt", (UserMessage("x", id="m"),))
    session.append("agent/inbox/spliced", session.inbox.insert("next-turn", item))
    session.append("turn/start", Frozen(turn=1))
    for splice in session.inbox.claim(opens=True, steering="all", follow_up="all"):
        session.append("agent/inbox/spliced", splice.data)
    session.append("turn/end", Frozen(turn=1, reason="error", steps=0))
    fork = session.fork(2, into=Session(Kept()))
    assert not fork.inbox.queued()
    assert verify(fork.entries).ok
    assert [entry.type for entry in fork.entries[3:]] == [
        "agent/inbox/spliced", "turn/end", "agent/inbox/spliced", "session_info", "leaf",
    ]  # fmt: skip


def test_a_fork_of_a_fork_says_where_it_comes_from_and_keeps_what_the_flow_said() -> None:
    session = Session(Kept())
    session.append("session_info", Frozen(flow="demo", digest="d"))
    child = session.fork()
    grandchild = child.fork(0)
    infos = [entry.data for entry in grandchild.entries if entry.type == "session_info"]
    assert (infos[-1]["flow"], infos[-1]["digest"]) == ("demo", "d")
    assert infos[-1]["forked"] == {"session": child.id, "where": "memory", "at": 0, "leaf": 0}


@pytest.mark.parametrize("kind", [JsonlStore, SqliteStore])
def test_a_fork_that_is_cut_off_leaves_no_half_of_one(
    kind: type[JsonlStore | SqliteStore], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its inbox would be that of the session that it comes from, and its prompts would run twice."""
    session = Session.memory()
    item = Item("i", "prompt", (UserMessage("x", id="m"),))
    session.append("agent/inbox/spliced", session.inbox.insert("next-turn", item))
    for number in range(3):
        session.append_custom("mine", number)
    writes: list[int] = []

    def cut_off(entry: Entry, *_: object) -> str:
        writes.append(entry.seq)
        if len(writes) > allowed:
            raise KeyboardInterrupt
        return whole(entry)

    whole = Entry.line
    monkeypatch.setattr(Entry, "line", cut_off)
    for allowed in range(8):
        writes.clear()
        path = tmp_path / f"{allowed}"
        try:
            fork = session.fork(into=Session(kind(path, id="fork")))
        except KeyboardInterrupt:
            assert Session(kind(path, id="fork")).entries == []
            continue
        assert len(writes) == len(fork.entries) == 7
        assert not fork.inbox.queued()
        monkeypatch.undo()
        assert fork.append_custom("mine", "goes on") is not None
        fork.close()
        assert len(Session(kind(path, id="fork")).entries) == 8
        return
    raise AssertionError("it was never whole")
