"""Full-text search: what is found, in which order, and an index that is up to date and never in the way."""

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from turnchart.machine import searching
from turnchart.machine.entries import Entry, Frozen
from turnchart.machine.errors import SessionCorrupt, SessionError
from turnchart.machine.jsonl import JsonlStore
from turnchart.machine.messages import AssistantMessage, Text, ToolCall, ToolResultMessage, UserMessage
from turnchart.machine.searching import Hit, query, search_sqlite, search_stores
from turnchart.machine.session import Session
from turnchart.machine.sqlite import SqliteStore, list_sessions
from turnchart.machine.stores import Store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "some.db"


def talk(session: Session, *texts: str) -> Session:
    """Log messages of a user."""
    for text in texts:
        session.append("user/message", Frozen(message=UserMessage(text)))
    return session


def kept(path: Path, id: str, *texts: str) -> None:
    talk(Session.sqlite(path, id), *texts).close()


def seqs(found: list[Hit]) -> list[tuple[str, int]]:
    return sorted((hit.session, hit.seq) for hit in found)


def ask(path: Path, sql: str) -> list[tuple[object, ...]]:
    db = sqlite3.connect(path, isolation_level=None)
    rows = db.execute(sql).fetchall()
    db.close()
    return rows


# -- what is found -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("parser", [0, 2]),
        ("PARSER", [0, 2]),
        ("the parser", [0]),
        ('"broken parser"', [2]),
        ('"parser broken"', []),
        ("pars", []),
        ("pars*", [0, 2]),
        ('"broken pars"*', [2]),
        ("uber", [1]),
        ("Über", [1]),
        ("foo.bar(1)", [3]),
        ("it's", [3]),
        ("AND", [3]),
        ("parser NOT broken", []),
        ("-parser", [0, 2]),
        ("snow\N{SNOWMAN}man", [1]),
    ],
)
def test_words_phrases_and_beginnings(path: Path, text: str, found: list[int]) -> None:
    said = (
        "Fix the parser.",
        "Über snow\N{SNOWMAN}man",
        "a broken parser",
        "foo.bar(1) AND it's \ud800 there",
    )
    kept(path, "one", *said)
    assert [seq for _, seq in seqs(search_sqlite(path, text))] == found
    assert [seq for _, seq in seqs(search_stores([SqliteStore(path, "one")], text))] == found


@pytest.mark.parametrize("text", ["", " ", "*", '""', "...", '"!" ?'])
def test_no_word_is_a_mistake(text: str) -> None:
    with pytest.raises(ValueError, match="there is no word to search for in"):
        query(text)


def test_every_kind_of_message_is_searched_and_nothing_else(path: Path) -> None:
    session = Session.sqlite(path, "one")
    session.append("turn/start", Frozen(turn=1))
    session.append("step/start", Frozen(turn=1, step=1))
    here = {"turn": 1, "step": 1}
    prompt = Frozen(role="system", content=(Frozen(type="text", text="needle"),))
    session.append("system/message", Frozen(message=prompt, **here))
    session.append("user/message", Frozen(message=UserMessage("a needle"), **here))
    answer = AssistantMessage([Text("the needle"), ToolCall("look", {"for": "needle"}, id="c1")])
    session.append("assistant/message", Frozen(message=answer, stream=(), **here), attempt=1)
    call = Frozen(call_id="c1", tool="look", arguments=Frozen(what="needle"), execution="exclusive", **here)
    session.append("tool/call", call)
    result = ToolResultMessage("c1", "look", "needle found")
    session.append("tool/result", Frozen(message=result, outcome="ok", **here))
    session.append("step/end", Frozen(here))
    session.append("turn/end", Frozen(turn=1, reason="completed", steps=1))
    session.append_custom("mine", "needle")
    session.append_custom_message("mine", "needle of mine")
    session.append("branch_summary", Frozen({"summary": "a summary of the needle", "from": 3}))
    session.close()
    found = sorted((hit.seq, hit.type) for hit in search_sqlite(path, "needle"))
    assert found == [
        (3, "user/message"), (4, "assistant/message"), (6, "tool/result"), (10, "custom_message"),
        (11, "branch_summary"),
    ]  # fmt: skip


def test_a_hit_shows_the_words_on_one_line(path: Path) -> None:
    kept(path, "one", "before " * 50 + "\n\nthe needle\nin\tthe hay" + " after" * 50)
    [hit] = search_sqlite(path, "needle hay")
    assert (hit.session, hit.seq, hit.type) == ("one", 0, "user/message")
    assert "the needle in the hay" in hit.text
    assert len(hit.text) < 200
    assert [hit.text[begin:end] for begin, end in hit.marks] == ["needle", "hay"]


def test_the_best_come_first_and_no_more_than_asked_for(path: Path) -> None:
    kept(path, "one", "needle " + "hay " * 100, "needle needle needle", "hay")
    assert [hit.seq for hit in search_sqlite(path, "needle")] == [1, 0]
    assert [hit.seq for hit in search_sqlite(path, "needle", limit=1)] == [1]


# -- the index ---------------------------------------------------------------------------------


def test_a_search_takes_in_what_is_new_and_no_append_does(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept(path, "one", "needle 0")
    assert ("words",) not in ask(path, "SELECT name FROM sqlite_master")
    taken: list[int] = []
    real = searching._rows  # pyright: ignore[reportPrivateUsage]  # what it reads is the subject

    def rows(db: sqlite3.Connection, id: str, first: int, end: int | None) -> object:
        found = list(real(db, id, first, end))
        taken.append(len(found))
        return iter(found)

    monkeypatch.setattr(searching, "_rows", rows)
    monkeypatch.setattr(searching, "BATCH", 2)
    assert seqs(search_sqlite(path, "needle")) == [("one", 0)]
    writer = talk(Session.sqlite(path, "one"), "needle 1", "needle 2", "hay")
    kept(path, "two", "needle")
    assert seqs(search_sqlite(path, "needle")) == [("one", 0), ("one", 1), ("one", 2), ("two", 0)]
    assert taken == [1, 2, 1, 1]
    assert len(search_sqlite(path, "needle")) == 4
    assert len(taken) == 4
    talk(writer, "needle 4").close()
    assert len(search_sqlite(path, "needle")) == 5
    assert [info.entries for info in list_sessions(path)] == [5, 1]


def test_what_is_deleted_is_found_no_more_and_a_new_session_of_its_name_is(path: Path) -> None:
    kept(path, "one", "needle", "needle")
    kept(path, "two", "needle")
    assert len(search_sqlite(path, "needle")) == 3
    for table in ("entries", "sessions"):
        ask(path, f"DELETE FROM {table} WHERE {'session' if table == 'entries' else 'id'} = 'one'")
    assert seqs(search_sqlite(path, "needle")) == [("two", 0)]
    assert ask(path, "SELECT DISTINCT session FROM words") == [("two",)]
    kept(path, "one", "another needle")
    assert seqs(search_sqlite(path, "needle")) == [("one", 0), ("two", 0)]


def test_a_damaged_line_hides_nothing_else(path: Path) -> None:
    kept(path, "one", "needle", "needle", "needle", "needle")
    ask(path, "UPDATE entries SET line = '{]' WHERE seq = 1")
    ask(path, "UPDATE entries SET line = CAST(x'ff' AS TEXT) WHERE seq = 2")
    assert seqs(search_sqlite(path, "needle")) == [("one", 0), ("one", 3)]


@pytest.mark.parametrize("known", [False, True])
def test_what_cannot_be_written_is_searched_all_the_same(
    path: Path, known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept(path, "one", "needle", "hay")
    if known:
        search_sqlite(path, "needle")
        kept(path, "one", "needle")
    real = sqlite3.connect

    def connect(database: str, **more: object) -> sqlite3.Connection:
        return real(database.replace("mode=rw", "mode=ro"), **more)  # type: ignore[call-overload, no-any-return]  # pyright: ignore[reportArgumentType, reportCallIssue, reportUnknownVariableType]  # as it came

    monkeypatch.setattr(sqlite3, "connect", connect)
    before = path.stat().st_mtime_ns
    assert len(search_sqlite(path, "needle")) == (2 if known else 1)
    assert path.stat().st_mtime_ns == before


OPEN: dict[str, Callable[[Path, str], Store]] = {
    "jsonl": lambda folder, id: JsonlStore(folder / f"{id}.jsonl"),
    "sqlite": lambda folder, id: SqliteStore(folder / "all.db", id),
}


@pytest.mark.parametrize("opens", OPEN.values(), ids=OPEN.keys())
def test_any_stores_are_searched_together(tmp_path: Path, opens: Callable[[Path, str], Store]) -> None:
    for id in ("one", "two", "three"):
        talk(Session(opens(tmp_path, id)), f"needle of {id}", "hay").close()
    found = search_stores([opens(tmp_path, id) for id in ("one", "two")], "needle")
    assert seqs(found) == [("one", 0), ("two", 0)]


# -- what goes wrong ---------------------------------------------------------------------------


def test_where_nothing_is_nothing_is_found(path: Path) -> None:
    assert search_sqlite(path, "needle") == []
    assert not path.exists()
    assert search_stores([], "needle") == []


def test_a_file_that_is_no_store_says_so(path: Path) -> None:
    path.write_bytes(b"notes of mine\n" * 300)
    with pytest.raises(SessionCorrupt, match="is no SQLite file"):
        search_sqlite(path, "needle")


def test_a_python_without_fts5_says_so(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept(path, "one", "needle")
    without = tuple(each.replace("fts5", "fts5_is_not_here") for each in searching._SCHEMA)  # pyright: ignore[reportPrivateUsage]  # a Python without it is rare
    monkeypatch.setattr(searching, "_SCHEMA", without)
    said = r"SQLite has no full-text search \(FTS5\)"
    with pytest.raises(SessionError, match=said):
        search_sqlite(path, "x")
    with pytest.raises(SessionError, match=said):
        search_stores([SqliteStore(path)], "x")
    assert len(list(SqliteStore(path, "one").load())) == 1


def test_a_damaged_index_hides_nothing(path: Path) -> None:
    kept(path, "one", "needle")
    search_sqlite(path, "needle")
    ask(path, "DELETE FROM words_data")
    assert len(search_sqlite(path, "needle")) == 1


def test_a_message_of_a_foreign_shape_says_nothing(path: Path) -> None:
    entry = Entry(0, None, "custom_message", 1.0, Frozen(message="needle"))
    store = SqliteStore(path, "one")
    store.append(entry)
    store.close()
    assert search_sqlite(path, "needle") == search_stores([store], "needle") == []
