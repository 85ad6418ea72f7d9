"""The tree of a session, on every kind of store: branches, state, labels, names, statistics (data-flow E, G)."""

from pathlib import Path

import pytest
from tests.conformance.places import KINDS, Place, answer, said, texts, user
from tests.machine.drive import calls, scripted
from tests.machine.histories import Kept

from turnchart.machine import AppendRefused, Entry, Message, Reply, Session, State, UserMessage
from turnchart.machine.entries import Frozen
from turnchart.machine.errors import SessionCorrupt


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Give a session in each kind of store."""
    return Place(request.param, tmp_path)


async def test_g098_moving_during_a_response_is_refused_and_the_leaf_does_not_move() -> None:
    async with scripted(["hi", "there"]) as agent:
        await agent.prompt("first")
        agent.follow_up("x")
        await agent.until(State.REQUESTING)
        leaf, entries = agent.session.leaf, len(agent.session.entries)
        with pytest.raises(AppendRefused, match="turn 2 is open"):
            agent.session.navigate(0)
        assert (agent.session.leaf, len(agent.session.entries)) == (leaf, entries)
        agent.go_on()
        await agent.idle()


def test_g102_context_in_order_and_the_state_follows_its_changes(place: Place) -> None:
    session = place.session
    user(session, "q")
    answer(session, "a")
    for type, data in (
        ("model_change", Frozen(model="other")),
        ("thinking_level_change", Frozen(thinking="high")),
        ("active_tools_change", Frozen(tools=("add",))),
    ):
        session.append(type, data)
    for each in (session, place.reopened()):
        assert said(each) == [("user", "q"), ("assistant", "a")]
        assert (each.view.model, each.view.thinking, each.view.tools) == ("other", "high", ("add",))


def test_g103_what_follows_a_move_is_a_branch_without_what_was_left(place: Place) -> None:
    session = place.session
    first = user(session, "q")
    left = answer(session, "old")
    session.navigate(first)
    answer(session, "new")
    for each in (session, place.reopened()):
        assert said(each) == [("user", "q"), ("assistant", "new")]
        assert left not in [entry.seq for entry in each.path()]


def test_g104_before_the_first_entry_the_context_is_empty(place: Place) -> None:
    session = place.session
    user(session, "q")
    session.navigate(None)
    for each in (session, place.reopened()):
        assert (each.leaf, list(each.context()), each.path()) == (None, [], [])
    root = user(place.session, "again")
    assert place.session.entries[root].parent is None
    assert dict(place.session.children()) == {None: (0, root)}


def test_g108_custom_messages_are_seen_and_custom_entries_where_a_projector_says_what(place: Place) -> None:
    session = place.session
    user(session, "q")
    session.append_custom_message("note", "seen")
    session.append_custom("todo", {"text": "buy milk"})
    assert said(session) == [("user", "q"), ("custom", "seen")]
    assert [each.type for each in session.context_entries()] == ["user/message", "custom_message", "custom"]

    def todo(entry: Entry, index: int, entries: object) -> Message:
        assert index == 2
        return UserMessage(f"to do: {entry.data['data']['text']}")

    assert texts(session) == ["q", "seen"]
    assert said(session, projectors={"todo": todo})[2] == ("user", "to do: buy milk")
    stop = session.project("todo", todo)
    assert texts(session) == ["q", "seen", "to do: buy milk"]
    stop()
    assert texts(place.reopened()) == ["q", "seen"]


def test_g110_a_name_is_one_line_and_labels_and_names_are_no_context(place: Place) -> None:
    session = place.session
    user(session, "q")
    session.set_name("  one\n two\r\n\tthree ")
    session.append_label(0, "start")
    for each in (session, place.reopened()):
        assert each.name == "one two three"
        assert texts(each) == ["q"]
    with pytest.raises(IndexError, match="there is no entry 99 to label; the log has 3"):
        place.session.append_label(99, "x")
    place.session.set_name(" \n")
    assert place.reopened().name == ""


def test_g111_the_last_label_of_an_entry_counts_and_can_be_taken_away(place: Place) -> None:
    session = place.session
    user(session, "q")
    user(session, "r")
    for seq, text in ((0, "one"), (1, "two"), (0, " three ")):
        session.append_label(seq, text)
    assert session.labels() == {0: "three", 1: "two"}
    session.append_label(1, None)
    for each in (session, place.reopened()):
        assert each.labels() == {0: "three"}


def test_g112_another_object_over_the_same_store_sees_leaf_label_and_name(place: Place) -> None:
    session = place.session
    user(session, "q")
    answer(session, "a")
    session.append_label(0, "start")
    session.set_name("mine")
    session.navigate(0)
    again = place.reopened()
    assert again is not session
    assert (again.leaf, again.labels(), again.name) == (0, {0: "start"}, "mine")
    assert (again.children(), texts(again)) == (session.children(), ["q"])


def test_g113_a_move_is_an_entry_of_the_log_and_goes_to_an_entry_that_is_there(place: Place) -> None:
    session = place.session
    user(session, "q")
    moved = session.navigate(None)
    assert (moved.type, moved.parent, moved.data) == ("leaf", 0, {"target": None})
    for missing in (7, -1):
        with pytest.raises(IndexError, match=f"there is no entry {missing}; the log has 2"):
            session.navigate(missing)
        with pytest.raises(IndexError, match=f"there is no entry {missing}"):
            session.path(missing)
    assert place.reopened().leaf is None


def test_g113_a_session_does_not_share_the_list_of_its_store() -> None:
    store = Kept()
    user(Session(store), "q")
    session = Session(store)
    store.entries.clear()
    assert texts(session) == ["q"]


def test_g114_statistics_count_answers_compactions_and_branch_summaries(place: Place) -> None:
    session = place.session
    usages = [
        Frozen(input=10, output=10, cache_read=20, cache_write=5, cost=Frozen(total=0.5)),
        Frozen(input=20, output=10, cache_read=10, cache_write=3, cost=0.5),
        Frozen(input=30, output=8, cache_read=10, cost=0.36),
    ]
    seq = answer(session, "a", usage=usages[0])
    summary = Frozen(summary="so far", first_kept=None, retained_tail=(), tokens_before=9, usage=usages[1])
    session.append("compaction", summary, replaces=(seq, seq), sources=(seq,))
    session.navigate(None)
    session.append("branch_summary", Frozen({"summary": "left", "from": seq, "usage": usages[2]}))
    for each in (session, place.reopened()):
        found = each.statistics()
        assert (found.messages, found.cached, found.uncached, found.total) == (1, 40, 68, 136)
        assert found.cost == pytest.approx(1.36)


async def test_g123_what_was_set_before_a_summary_still_counts_after_it() -> None:
    async with scripted(["one", "two", "three"]) as agent:
        agent.set_model("test")
        agent.set_thinking_level("high")
        agent.set_active_tools(["add"])
        for text in ("x", "y"):
            await agent.prompt(text)
        nodes = agent.session.view.nodes
        summary = Frozen(summary="so far", first_kept=nodes[-1].seq, retained_tail=(), tokens_before=9)
        agent.session.append("compaction/start", Frozen(turn=None, trigger="manual"))
        agent.session.append("compaction", summary, replaces=(nodes[0].seq, nodes[-2].seq))
        agent.session.append("compaction/end", Frozen(turn=None))
        await agent.prompt("z")
        view = agent.session.view
        assert (view.model, view.thinking, view.tools) == ("test", "high", ("add",))
        header = [each.data for each in agent.session.entries if each.type == "request/header"][-1]
        assert (header["thinking"], [each["name"] for each in header["tools"]]) == ("high", ["add"])


def test_g124_every_entry_follows_on_the_log_and_the_last_one_is_the_leaf() -> None:
    session = Session(Kept())
    user(session, "q")
    user(session, "r")
    assert session.leaf == 1
    orphan = session.entries[1]._replace(parent=None)
    with pytest.raises(SessionCorrupt, match=r"entry 1 `user/message`: it follows None, not 0"):
        Session(Kept([session.entries[0], orphan]))


# -- no call without its result --------------------------------------------------------------------------


async def test_a_move_into_a_batch_of_calls_goes_on_to_the_last_result() -> None:
    asks = calls(("add", {"a": 1, "b": 2}), ("add", {"a": 3, "b": 4}))
    async with scripted([asks, "done"]) as agent:
        await agent.prompt("x")
        session = agent.session
        by_type = {
            kind: [e.seq for e in session.entries if e.type == kind] for kind in ("tool/call", "tool/result")
        }
        asked = next(e.seq for e in session.entries if e.type == "assistant/message")
        last = by_type["tool/result"][-1]
        for seq in (asked, *by_type["tool/call"], *by_type["tool/result"]):
            session.navigate(seq)
            assert session.leaf == last
        assert [each.role for each in session.context()] == [
            "user",
            "assistant",
            "tool_result",
            "tool_result",
        ]


async def test_moving_and_opening_again_starts_a_series_with_the_header_that_resumes() -> None:
    store = Kept()
    async with scripted([Reply("one"), Reply("two")], session=Session(store)) as agent:
        for text in ("x", "y"):
            await agent.prompt(text)
        agent.session.navigate(next(e.seq for e in agent.session.entries if e.type == "turn/end"))
    headers: list[tuple[str, bool]] = []
    for _ in range(2):
        store = Kept(store.entries)
        async with scripted(["again"], session=Session(store)) as agent:
            await agent.prompt("z")
            data = [e.data for e in agent.session.entries if e.type == "request/header"][-1]
            headers.append((data["reason"], data.get("starts_series", False)))
    assert headers == [("resume", True), ("resume", False)]
