"""The session: rules before the store, the store before the folds, watchers last; and recovery."""

import gc
import logging
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from tests.machine.histories import Kept, folds, lines, put, reopened, turn

from turnchart.machine.entries import Entry, Frozen
from turnchart.machine.errors import (
    AppendRefused,
    SessionCorrupt,
    SessionError,
    SessionLocked,
    SessionReadOnly,
)
from turnchart.machine.messages import AssistantMessage, CustomMessage, Text, UserMessage
from turnchart.machine.session import Session, info


def custom(seq: int, parent: int | None, type: str = "custom", **data: Any) -> Entry:
    return Entry(seq, parent, type, 1.0, Frozen(data or {"kind": "mine", "data": seq}))


# -- appending ---------------------------------------------------------------------------------


def test_entries_are_numbered_and_follow_each_other() -> None:
    ticks = iter((1.0, 2.5, 3.0))
    session = Session(Kept(), now=lambda: next(ticks))
    first = session.append_custom("mine", [1])
    second = session.append("custom", Frozen(kind="mine", data=2), sources=(0,), attempt=3)
    assert first == Entry(0, None, "custom", 1.0, Frozen(kind="mine", data=(1,)))
    assert second == Entry(1, 0, "custom", 2.5, Frozen(kind="mine", data=2), sources=(0,), attempt=3)
    session.append_custom("mine", 3)
    assert session.entries[-1].parent == 1
    assert session.leaf == 2
    assert session.store.load() == tuple(session.entries)
    assert (session.id, session.origin, reopened(session).origin) == ("kept", "new", "resumed")


def test_foreign_json_is_frozen_where_it_enters() -> None:
    session = Session.memory("one")
    data = {"a": [1]}
    session.append_custom("mine", data)
    data["a"].append(2)
    assert session.entries[-1].data["data"] == {"a": (1,)}
    with pytest.raises(ValueError, match=r"\$\.a is nan"):
        session.append_custom("mine", {"a": float("nan")})
    with pytest.raises(TypeError, match="JSON keys are strings"):
        session.append_custom("mine", {1: 2})
    assert len(session.entries) == 1


@pytest.mark.parametrize(
    ("type", "data", "replaces", "why"),
    [
        ("turn/end", Frozen(turn=1), None, "turn 1 is not open"),
        ("turn/start", Frozen(), None, "it lacks 'turn'"),
        ("agent/inbox/spliced", Frozen(target="next-step", start=0, removed_count=1), None, "outside"),
        ("agent/inbox/spliced", Frozen(target="next-step"), None, "it lacks 'start'"),
        ("agent/inbox/spliced", Frozen(target="next-step", start="0"), None, "not supported between"),
        ("user/message", Frozen(message=UserMessage("x")), (0, 1), "no part of the conversation"),
        ("user/message", Frozen(message=Frozen(role="wizard")), None, "role 'wizard' is unknown"),
        ("user/message", Frozen(message="hi"), None, "a message is an object"),
        ("user/message", Frozen(), None, "it lacks 'message'"),
        ("model_change", Frozen(), None, "it lacks 'model'"),
        ("leaf", Frozen(target=5), None, "there is no entry 5 before it"),
        ("leaf", Frozen(), None, "it lacks 'target'"),
        ("mine", Frozen(), None, "this type of entry is unknown; use `custom` for what is your own"),
    ],
)  # fmt: skip
def test_what_could_not_be_loaded_again_is_refused_and_changes_nothing(
    type: str, data: Frozen, replaces: tuple[int, int] | None, why: str
) -> None:
    session = Session(Kept())
    session.append_custom("mine", 0)
    before = folds(session)
    with pytest.raises(AppendRefused, match=why) as caught:
        session.append(type, data, replaces=replaces)
    assert caught.value.type == type
    assert folds(session) == before
    assert folds(reopened(session)) == before
    session.append_custom("mine", 1)  # it stays usable


def test_an_ignorable_entry_may_have_any_type() -> None:
    session = Session(Kept())
    session.append("mine", Frozen(a=1), ignorable=True)
    assert folds(reopened(session)) == folds(session)


# -- validators --------------------------------------------------------------------------------


def test_a_validator_that_gives_a_reason_refuses_and_nothing_has_changed() -> None:
    session = Session(Kept())
    session.append_custom("mine", 0)
    before = folds(session)
    asked: list[Entry] = []
    told: list[Entry] = []

    def no_turns(entry: Entry) -> str | None:
        asked.append(entry)
        return "no turns today" if entry.type == "turn/start" else None

    stop = session.validate(no_turns)
    session.watch(told.append)
    with pytest.raises(
        AppendRefused, match=r"^the entry `turn/start` was refused: no turns today$"
    ) as caught:
        session.append("turn/start", Frozen(turn=1))
    assert (caught.value.type, caught.value.reason) == ("turn/start", "no turns today")
    assert (folds(session), told, len(asked)) == (before, [], 1)
    session.append_custom("mine", 1)  # 257: the next valid append is accepted
    stop()
    session.append("turn/start", Frozen(turn=1))
    assert len(asked) == 2


def test_a_validator_that_raises_refuses() -> None:
    session = Session(Kept())
    stop = session.validate(lambda entry: entry.data["missing"])
    before = folds(session)
    with pytest.raises(AppendRefused, match="KeyError: 'missing'"):
        session.append_custom("mine", 1)
    assert folds(session) == before
    stop()
    session.append_custom("mine", 1)


def test_a_validator_cannot_append() -> None:
    session = Session(Kept())
    stop = session.validate(lambda _entry: session.append_custom("mine", "inner") and None)
    with pytest.raises(AppendRefused, match="RuntimeError: a watcher or validator must not append"):
        session.append_custom("mine", "outer")
    stop()
    session.append_custom("mine", "after")
    assert [each.data["data"] for each in reopened(session).entries] == ["after"]


# -- watchers ----------------------------------------------------------------------------------


def test_watchers_hear_what_is_stored_until_they_stop() -> None:
    store = Kept()
    session = Session(store)
    heard: list[int] = []

    def watch(entry: Entry) -> None:
        assert store.entries[-1] is session.entries[-1] is entry
        heard.append(entry.seq)

    stop = session.watch(watch)
    session.append_custom("mine", 1)
    session.append_custom("mine", 2)
    stop()
    session.append_custom("mine", 3)
    assert heard == [0, 1]


def test_a_watcher_that_raises_is_contained(caplog: pytest.LogCaptureFixture) -> None:
    session = Session.memory("one")
    heard: list[int] = []

    def broken(_entry: Entry) -> None:
        raise RuntimeError("boom")

    session.watch(broken)
    session.watch(lambda entry: heard.append(entry.seq))
    with caplog.at_level(logging.ERROR):
        session.append_custom("mine", 1)
    assert heard == [0]
    assert "a watcher of session one failed on entry 0" in caplog.text
    assert "boom" in caplog.text


def test_a_watcher_that_appends_gets_an_error_and_the_log_is_unharmed() -> None:
    session = Session(Kept())
    errors: list[str] = []

    def meddle(_entry: Entry) -> None:
        try:
            session.append_custom("mine", "inner")
        except RuntimeError as error:
            errors.append(str(error))

    session.watch(meddle)
    session.append_custom("mine", "outer")
    session.append_custom("mine", "again")
    assert errors == ["a watcher or validator must not append to the session that it watches"] * 2
    assert [each.data["data"] for each in reopened(session).entries] == ["outer", "again"]


def test_what_runs_after_an_append_may_append() -> None:
    session = Session.memory()

    def once() -> None:
        session.after_append = None
        session.append_custom("mine", "later")

    session.after_append = once
    session.append_custom("mine", "first")
    assert [each.data["data"] for each in session.entries] == ["first", "later"]


# -- a store that refuses ----------------------------------------------------------------------


def test_a_store_that_refuses_makes_the_session_read_only() -> None:
    store = Kept()
    session = Session(store)
    told: list[Entry] = []
    session.watch(told.append)
    session.append_custom("mine", 0)
    before = folds(session)
    store.refuse = OSError(28, "No space left on device")
    with pytest.raises(
        SessionReadOnly, match=r"session kept could not be written: .*No space left"
    ) as caught:
        session.append("turn/start", Frozen(turn=1))
    assert caught.value.__cause__ is store.refuse
    store.refuse = None
    with pytest.raises(
        SessionReadOnly, match=r"is read-only since its store failed \(.*No space left.*\); reopen"
    ):
        session.append_custom("mine", 1)
    assert session.read_only
    assert (folds(session), len(told), len(store.entries)) == (before, 1, 1)
    again = reopened(session)
    again.append_custom("mine", 1)


def test_a_lock_that_cannot_be_had_does_not_make_it_read_only() -> None:
    store = Kept(refuse=SessionLocked("somebody writes it"))
    session = Session(store)
    with pytest.raises(SessionLocked):
        session.append_custom("mine", 0)
    store.refuse = None
    session.append_custom("mine", 0)


# -- loading -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (custom(2, 0), "entry 2 `custom`: it stands where entry 1 belongs"),
        (custom(1, None), "entry 1 `custom`: it follows None, not 0"),
        (custom(1, 1), "entry 1 `custom`: it follows 1, not 0"),
        (custom(1, 0, "mine"), "entry 1 `mine`: this type of entry is unknown; a newer Turnchart may"),
        (custom(1, 0, "turn/end", turn=1), "entry 1 `turn/end`: turn 1 is not open"),
        (custom(1, 0, "turn/start", step=1), "entry 1 `turn/start`: it lacks 'turn'"),
        (custom(1, 0, "leaf", target=1), "entry 1 `leaf`: there is no entry 1 before it"),
        (custom(1, 0, "leaf", target="x"), "entry 1 `leaf`: "),
        (custom(1, 0, "label"), "entry 1 `label`: it lacks 'target'"),
        (custom(1, 0, "label", target=1), "entry 1 `label`: there is no entry 1 to label; the log has 1"),
        (custom(1, 0, "label", target="x"), "entry 1 `label`: an entry is named by its number, not by 'x'"),
        (custom(1, 0, "label", target=0, text=5), "entry 1 `label`: its text "),
        (custom(1, 0, "user/message", message=Frozen(role="user")), "entry 1 `user/message`: a message of"),
        (
            custom(1, 0, "agent/inbox/spliced", target="next-step", start=0, removed_count=1),
            r"entry 1 `agent/inbox/spliced`: the splice \[0:1\] is outside the 0 items waiting",
        ),
    ],
)  # fmt: skip
def test_a_log_that_does_not_fit_names_the_entry(wrong: Entry, why: str) -> None:
    with pytest.raises(SessionCorrupt, match=rf"^session kept \(memory\): {why}"):
        Session(Kept([custom(0, None), wrong]))


def test_271_an_unknown_type_is_passed_over_where_it_may_be() -> None:
    unknown = Entry(0, None, "of tomorrow", 1.0, Frozen(), ignorable=True)
    assert Session(Kept([unknown, custom(1, 0)])).leaf == 1


def test_imported_entries_may_stand_outside_turns() -> None:
    here = {"turn": 4, "step": 2}
    foreign = Entry(
        0, None, "assistant/message", 1.0, Frozen(message=AssistantMessage("a"), **here), foreign_id="x"
    )
    session = Session(Kept([foreign]))
    assert [said.text for said in session.context()] == ["a"]
    assert session.append("turn/start", Frozen(turn=1)).seq == 1


def test_270_looking_at_a_live_turn_writes_nothing() -> None:
    session = Session(Kept())
    turn(session, "c1")
    seen = reopened(session)
    assert (seen.brackets.turn_open, seen.brackets.step_open) == (True, True)
    assert len(seen.entries) == len(session.entries)


@pytest.mark.parametrize("collects", [True, False])
def test_loading_leaves_the_collector_as_it_was(collects: bool) -> None:
    class Broken(Kept):
        def load(self) -> Iterable[Entry]:
            assert not gc.isenabled()
            raise SessionCorrupt("broken")

    was = gc.isenabled()
    try:
        (gc.enable if collects else gc.disable)()
        with pytest.raises(SessionCorrupt):
            Session(Broken())
        assert gc.isenabled() is collects
    finally:
        (gc.enable if was else gc.disable)()


# -- the tree ----------------------------------------------------------------------------------


def test_navigating_starts_another_branch_and_rebuilds_the_view() -> None:
    session = Session(Kept())
    for text in ("a", "b", "c"):
        session.append("user/message", Frozen(message=UserMessage(text)))
    put(session, "waits", "prompt")
    session.navigate(0)
    assert (session.leaf, [said.text for said in session.context()]) == (0, ["a"])
    session.append("user/message", Frozen(message=UserMessage("d")))
    assert [said.text for said in session.context()] == ["a", "d"]
    assert [each.seq for each in session.path()] == [0, 5]
    assert [each.seq for each in session.path(2)] == [0, 1, 2]
    assert [each.id for each in session.inbox.next_turn] == ["waits"]  # the inbox stays in place
    session.navigate(None)
    assert (session.leaf, list(session.context()), session.path()) == (None, [], [])
    session.append("user/message", Frozen(message=UserMessage("e")))
    assert session.entries[-1].parent is None
    assert folds(reopened(session)) == folds(session)


def test_navigating_is_refused_in_an_open_turn_and_out_of_the_log() -> None:
    session = Session.memory()
    session.append_custom("mine", 0)
    for seq in (1, -1):
        with pytest.raises(IndexError, match=f"there is no entry {seq}; the log has 1"):
            session.navigate(seq)
    session.append("turn/start", Frozen(turn=1))
    with pytest.raises(AppendRefused, match="turn 1 is open"):
        session.navigate(0)


# -- what people write -------------------------------------------------------------------------


def test_writers_write_what_they_say() -> None:
    session = Session.memory()
    session.set_name("  a name \n on two lines ")
    session.append_label(0, " start ")
    session.append_label(0, " ")
    session.append_label(0, None)
    session.append("session_info", Frozen(flow="demo"))
    session.append_custom_message("test-note", [Text("hi")])
    with pytest.raises(IndexError, match="there is no entry 9 to label; the log has 6"):
        session.append_label(9, "x")
    assert [each.data for each in session.entries[:4]] == [
        {"name": "a name on two lines"}, {"target": 0, "text": "start"}, {"target": 0}, {"target": 0},
    ]  # fmt: skip
    assert info(session) == {"name": "a name on two lines", "flow": "demo"}
    [note] = session.context()
    assert isinstance(note, CustomMessage)
    assert (note.kind, note.text) == ("test-note", "hi")


# -- opening -----------------------------------------------------------------------------------


def test_sessions_are_opened_by_path(tmp_path: Path) -> None:
    for make in (Session.jsonl, Session.sqlite):
        path = tmp_path / make.__name__
        session = make(path)
        session.append_custom("mine", 1)
        session.close()
        session.close()
        assert len(make(f"{path}").entries) == 1
    with pytest.raises(SessionError):
        Session.jsonl(tmp_path / "sqlite")


async def test_a_session_in_memory_can_be_flushed_and_closed() -> None:
    session = Session.memory("one")
    session.append_custom("mine", 1)
    await session.flush()
    session.close()
    assert (session.id, session.store.where, Session.memory().id != Session.memory().id) == (
        "one",
        "memory",
        True,
    )


def test_entries_can_be_copied_as_they_are() -> None:
    session = Session(Kept())
    turn(session)
    copied = Session(Kept())
    copied.copy(session.entries)
    assert lines(copied.entries) == lines(session.entries)
    assert folds(reopened(copied)) == folds(session)
    wrong = Session(Kept())
    with pytest.raises(SessionCorrupt):
        wrong.copy([custom(0, None), custom(5, 0)])
    assert len(reopened(wrong).entries) == 1
    full = Session(Kept(refuse=OSError("full")))
    with pytest.raises(SessionReadOnly):
        full.copy([custom(0, None)])


@pytest.mark.parametrize("kind", [Session.jsonl, Session.sqlite])
def test_a_file_that_does_not_fit_says_how_to_repair_it(kind: Any, tmp_path: Path) -> None:
    path = tmp_path / "a file.jsonl"
    session = kind(path)
    for entry in (custom(0, None), custom(1, 7)):
        session.store.append(entry)
    session.close()
    cure = f"`turnchart sessions repair '?{re.escape(session.id)}'? --store '{re.escape(str(path))}'`"
    with pytest.raises(
        SessionCorrupt, match=f"entry 1 `custom`: it follows 7, not 0. The file was .* {cure}"
    ):
        kind(path)
