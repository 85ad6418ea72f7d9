"""How a session is read as a tree."""

from itertools import pairwise

import pytest
from hypothesis import given
from tests.machine.drive import calls, scripted
from tests.machine.histories import ACTS, Act, Kept, history

from turnchart.machine.entries import Entry, Frozen
from turnchart.machine.messages import UserMessage
from turnchart.machine.session import Session
from turnchart.machine.tree import abandoned, settled, starts_series


def entry(seq: int, parent: int | None, type: str = "custom", **more: object) -> Entry:
    return Entry(seq, parent, type, 0.0, Frozen(more))


FORKED = [entry(0, None), entry(1, 0), entry(2, 1), entry(3, 2, "leaf", target=0), entry(4, 0), entry(5, 4)]


def test_what_a_move_leaves_ends_where_the_branches_part() -> None:
    assert [each.seq for each in abandoned(FORKED, 2, 5)] == [1, 2]
    assert [each.seq for each in abandoned(FORKED, 5, 1)] == [4, 5]
    assert [each.seq for each in abandoned(FORKED, 2, 0)] == [1, 2]
    assert [each.seq for each in abandoned(FORKED, 2, None)] == [0, 1, 2]
    assert abandoned(FORKED, 0, 2) == []
    assert abandoned(FORKED, None, 5) == []


def test_children_are_what_follows_and_a_leaf_entry_follows_nothing() -> None:
    session = Session(Kept(FORKED))
    assert dict(session.children()) == {None: (0,), 0: (1, 4), 1: (2,), 4: (5,)}


@given(acts=ACTS)
def test_a_path_goes_from_a_root_to_its_leaf_and_children_agree(acts: list[Act]) -> None:
    session = history(acts)
    children = session.children()
    for each in session.entries:
        path = session.path(each.seq)
        assert path[0].parent is None
        assert path[-1] is each
        assert all(after.parent == before.seq for before, after in pairwise(path))
        if each.type != "leaf":
            assert each.seq in children[each.parent]
    assert session.path() == ([] if session.leaf is None else session.path(session.leaf))


async def test_only_between_an_answer_and_its_last_result_another_place_is_settled() -> None:
    asks = calls(("add", {"a": 1, "b": 2}), ("add", {"a": 3, "b": 4}))
    async with scripted([asks, "done"]) as agent:
        agent.session.append_custom("mine", 1)
        await agent.prompt("x")
        entries = agent.session.entries
    asked = next(each.seq for each in entries if each.type == "assistant/message")
    last = [each.seq for each in entries if each.type == "tool/result"][-1]
    for each in entries:
        assert settled(entries, each.seq) == (last if asked <= each.seq <= last else each.seq)
    cut = entries[:last]
    assert settled(cut, asked) == asked  # the call never got its result


def test_a_series_is_due_where_the_history_is_another_since_the_last_request() -> None:
    session = Session(Kept())
    assert not starts_series(session.entries)
    session.append("user/message", Frozen(message=UserMessage("a")))
    assert not starts_series(session.entries)
    session.append("user/message", Frozen(message=UserMessage("b")), replaces=(0, 0))
    assert starts_series(session.entries)
    done = [*session.entries, entry(2, 1, "assistant/attempt")]
    assert not starts_series(done)
    assert starts_series([*done, entry(3, 2, "leaf", target=0), entry(4, 0)])


def test_the_name_is_the_last_one_that_was_set() -> None:
    session = Session(Kept())
    assert session.name == ""
    session.set_name("one")
    session.append("session_info", Frozen(flow="demo"))
    assert session.name == "one"
    session.set_name(None)
    assert session.name == ""


def test_a_path_is_asked_for_by_the_number_of_an_entry() -> None:
    session = Session(Kept(FORKED))
    with pytest.raises(TypeError, match="named by its number, not by '1'"):
        session.path("1")  # type: ignore[arg-type]  # as people may
    with pytest.raises(IndexError, match="there is no entry -1; the log has 6"):
        session.path(-1)
