"""The SQLite file: its tables, many sessions in it, looking without a trace, what is refused, a full disk."""

import os
import sqlite3
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.machine.processes import WRITER, python, run

from turnchart.machine import disk
from turnchart.machine.entries import Entry, Frozen
from turnchart.machine.errors import SessionCorrupt, SessionError, SessionLocked, SessionReadOnly
from turnchart.machine.session import Session
from turnchart.machine.sqlite import SessionInfo, SqliteStore, list_sessions, look, session_ids


def entry(seq: int, text: str = "x") -> Entry:
    return Entry(seq, seq - 1 if seq else None, "custom", float(seq), Frozen(kind="mine", data=text))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "some.sqlite"


def fill(path: Path, *ids: str, entries: int = 3) -> None:
    for id in ids:
        store = SqliteStore(path, id)
        for seq in range(entries):
            store.append(entry(seq, id))
        store.close()


@contextmanager
def opened(path: Path) -> Generator[sqlite3.Connection]:
    db = sqlite3.connect(path, isolation_level=None)
    try:
        yield db
    finally:
        db.close()


def ask(path: Path, sql: str, *args: Any) -> list[Any]:
    with opened(path) as db:
        return db.execute(sql, args).fetchall()


def files(path: Path) -> list[str]:
    return sorted(each.name for each in path.parent.iterdir())


# -- the format --------------------------------------------------------------------------------


def test_an_entry_is_a_row_with_its_line(path: Path) -> None:
    fill(path, "one", entries=2)
    assert ask(path, "SELECT * FROM meta") == [(1,)]
    assert ask(path, "SELECT * FROM sessions") == [("one", 0.0)]
    rows = ask(path, "SELECT session, seq, type, time, line FROM entries ORDER BY seq")
    assert rows == [("one", seq, "custom", float(seq), entry(seq, "one").line()) for seq in (0, 1)]
    assert ask(path, "PRAGMA journal_mode") == [("wal",)]


def test_type_time_and_data_can_be_queried(path: Path) -> None:
    fill(path, "one")
    sql = "SELECT json_extract(line, '$.data.kind') FROM entries WHERE type = 'custom' AND time > 1"
    assert ask(path, sql) == [("mine",)]


def test_file_and_folder_are_made_by_the_first_append(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "new" / "some.sqlite", "a session/of mine?")
    assert list(store.load()) == []
    assert (list_sessions(store.path), session_ids(store.path)) == ([], [])
    assert list(tmp_path.iterdir()) == []
    store.lock()
    assert files(store.path) == ["some.sqlite.a session%2Fof mine%3F.lock"]
    store.append(entry(0))
    store.close()
    assert files(store.path) == ["some.sqlite"]


def test_an_id_of_any_length_can_be_locked(path: Path) -> None:
    for id in ("x" * 10_000, "é" * 80):
        fill(path, id)
        assert len(list(SqliteStore(path, id).load())) == 3


async def test_flush_waits_for_the_disk_where_that_is_asked_for(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []

    def sync(fd: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{fd}"))

    monkeypatch.setattr(disk, "sync_data", sync)
    for durability in ("flush", "fsync"):
        store = SqliteStore(path.with_name(durability), durability=durability)
        await store.flush()
        store.append(entry(0))
        store.append(entry(1))
        assert synced == []
        await store.flush()
        await store.flush()
        assert synced == ([f"{store.path}-wal"] if durability == "fsync" else [])
        store.append(entry(2))
        store.close()
        await store.flush()
    assert len(synced) == 2
    assert len(list(SqliteStore(path.with_name("fsync")).load())) == 3


# -- many sessions -----------------------------------------------------------------------------


def test_without_an_id_it_is_the_only_session_or_a_new_one(path: Path) -> None:
    new = SqliteStore(path)
    assert new.id != SqliteStore(path).id
    new.append(entry(0))
    new.close()
    assert SqliteStore(path).id == Session.sqlite(path).id == new.id
    path.with_name("empty.sqlite").touch()
    SqliteStore(path.with_name("empty.sqlite")).append(entry(0))


def test_without_an_id_several_sessions_are_listed(path: Path) -> None:
    fill(path, "one", "two", "three")
    expected = r"some\.sqlite holds 3 sessions; name one of them: one, three, two$"
    with pytest.raises(SessionError, match=expected):
        Session.sqlite(path)
    fill(path, *(f"more-{i:02}" for i in range(20)))
    with pytest.raises(
        SessionError, match=r"23 sessions; name one of them: more-00, .*, more-19 and 3 more$"
    ):
        Session.sqlite(path)
    assert len(Session.sqlite(path, "two").entries) == 3


def test_a_list_tells_of_every_session(path: Path) -> None:
    ticks = iter(range(100))
    session = Session(SqliteStore(path, "named"), now=lambda: float(next(ticks)))
    session.set_name("first")
    session.append("turn/start", Frozen(turn=1))
    session.append("turn/end", Frozen(turn=1, reason="completed", steps=0))
    session.append("session_info", Frozen(flow="demo"))
    session.set_name("half a pair \ud800 and more")
    session.append("turn/start", Frozen(turn=2))
    fill(path, "plain", entries=1)
    expected = [
        SessionInfo("named", 0.0, 5.0, 6, "half a pair \ud800 and more", 2),
        SessionInfo("plain", 0.0, 0.0, 1, "", 0),
    ]
    assert list_sessions(path) == expected  # while the first one is being written
    session.close()
    assert list_sessions(path) == expected


def test_a_list_does_not_look_at_every_entry(path: Path) -> None:
    from turnchart.machine.sqlite import _SESSIONS  # pyright: ignore[reportPrivateUsage]  # its plan is the subject

    fill(path, "one")
    plan = [row[3] for row in ask(path, f"EXPLAIN QUERY PLAN {_SESSIONS}")]
    assert [step for step in plan if step.startswith("SCAN")] == ["SCAN sessions"]
    assert sum(" INDEX marks " in step for step in plan) == 2


def test_processes_write_sessions_of_one_new_file_at_once(path: Path) -> None:
    with (
        python(WRITER, path, "a", 100) as (first, _1),
        python(WRITER, path, "b", 100) as (second, _2),
        python(WRITER, path, "c", 100) as (third, _3),
        python(WRITER, path, "d", 100) as (fourth, _4),
    ):
        assert [process.wait() for process in (first, second, third, fourth)] == [0, 0, 0, 0]
    assert [(each.id, each.entries) for each in sorted(list_sessions(path))] == [(id, 100) for id in "abcd"]
    assert ask(path, "PRAGMA integrity_check") == [("ok",)]
    assert files(path) == ["some.sqlite"]


def test_a_writer_waits_while_another_prepares_the_file(path: Path) -> None:
    fill(path, "one")
    ask(path, "PRAGMA journal_mode = DELETE")  # as a new file has it
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    done = threading.Timer(0.1, lambda: other.execute("COMMIT"))
    done.start()
    fill(path, "two")
    done.join()
    other.close()
    assert [each.id for each in list_sessions(path)] == session_ids(path) == ["one", "two"]


def test_two_processes_cannot_write_one_session_but_two(path: Path) -> None:
    with python(WRITER, path, "one", -1) as (process, output):
        output.readline()
        output.readline()
        with pytest.raises(SessionLocked, match=rf"session one .* by process {process.pid} on "):
            SqliteStore(path, "one").lock()
        fill(path, "two")
    assert len(list(SqliteStore(path, "two").load())) == 3


# -- looking -----------------------------------------------------------------------------------


def test_looking_creates_no_file_beside_it(path: Path) -> None:
    fill(path, "one", "two")
    before = (files(path), path.stat().st_mtime_ns)
    list_sessions(path)
    with pytest.raises(SessionError):
        SqliteStore(path)
    assert len(list(SqliteStore(path, "one").load())) == 3
    assert list(SqliteStore(path, "unknown").load()) == []
    assert (files(path), path.stat().st_mtime_ns) == before == (["some.sqlite"], before[1])


def test_looking_sees_what_a_killed_writer_left(path: Path) -> None:
    with python(WRITER, path, "one", -1) as (process, output):
        seen = [output.readline() for _ in range(50)]
        process.kill()
        process.wait()
    left = files(path)
    assert left == ["some.sqlite", "some.sqlite-shm", "some.sqlite-wal", "some.sqlite.one.lock"]
    assert len(list(SqliteStore(path, "one").load())) >= int(seen[-1]) + 1
    assert files(path) == left
    session = Session.sqlite(path)
    session.attach()
    session.append_custom("mine", 1)
    session.close()
    assert files(path) == ["some.sqlite"]


def test_a_file_that_changes_while_it_is_read_is_read_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(path, "one")
    opens: list[str] = []
    real = sqlite3.connect

    def connect(database: str, **more: Any) -> sqlite3.Connection:
        opens.append(database.rpartition("?")[2])
        found: sqlite3.Connection = real(database, **more)
        if len(opens) == 1:
            run(WRITER, path, "one", 2)
        return found

    monkeypatch.setattr(sqlite3, "connect", connect)
    assert len(list(SqliteStore(path, "one").load())) == 5
    assert opens == ["immutable=1", "immutable=1"]


def test_a_file_that_is_put_right_while_it_is_read_is_read_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(path, "one")
    aside = path.rename(path.with_name("aside"))
    path.write_bytes(b"half of a copy" * 100)
    real = sqlite3.connect

    def connect(database: str, **more: Any) -> sqlite3.Connection:
        found: sqlite3.Connection = real(database, **more)
        if aside.exists():
            aside.replace(path)
        return found

    monkeypatch.setattr(sqlite3, "connect", connect)
    assert len(list(SqliteStore(path, "one").load())) == 3


# -- what is refused ---------------------------------------------------------------------------


@pytest.mark.parametrize("content", [b"x", b"notes of mine\n" * 300, b"SQLite format 3\0" + b"\xff" * 4096])
def test_a_file_that_is_no_sqlite_is_left_alone(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    for read in (lambda: SqliteStore(path), lambda: list_sessions(path), lambda: Session.sqlite(path, "one")):
        with pytest.raises(SessionCorrupt, match=r"some\.sqlite is no SQLite file, or a damaged one"):
            read()
    with pytest.raises(SessionCorrupt):
        SqliteStore(path, "one").append(entry(0))
    assert path.read_bytes() == content
    assert files(path) == ["some.sqlite"]


def test_a_database_of_another_program_is_left_alone(path: Path) -> None:
    ask(path, "CREATE TABLE meta (version TEXT)")
    content = path.read_bytes()
    with pytest.raises(SessionCorrupt, match="is a SQLite file of another program"):
        SqliteStore(path, "one").append(entry(0))
    assert path.read_bytes() == content


def test_a_database_that_another_program_makes_meanwhile_is_left_alone(path: Path) -> None:
    store = SqliteStore(path, "one")
    store.lock()
    ask(path, "CREATE TABLE notes (text TEXT)")
    with pytest.raises(SessionCorrupt, match="is a SQLite file of another program"):
        store.append(entry(0))
    store.close()
    assert ask(path, "SELECT name FROM sqlite_master") == [("notes",)]


@pytest.mark.parametrize(
    ("change", "error", "what"),
    [
        ("UPDATE meta SET version = 2", SessionError, r"newer Turnchart \(format 2, this one reads"),
        ("UPDATE meta SET version = 'x'", SessionCorrupt, "not say which format it has.*; restore a copy"),
        ("DELETE FROM meta", SessionCorrupt, "not say which format it has.*; restore a copy"),
        ("DELETE FROM entries WHERE seq = 1", SessionCorrupt, "entry 1: seq 2 stands where 1 belongs"),
        ("UPDATE entries SET line = '{]' WHERE seq = 1", SessionCorrupt, "session one, entry 1: no valid"),
        ("UPDATE entries SET line = '{}' WHERE seq = 1", SessionCorrupt, "entry 1: no entry: it lacks 'seq'"),
        ("UPDATE entries SET line = '1' WHERE seq = 1", SessionCorrupt, "session one, entry 1: no entry: "),
        ("UPDATE entries SET line = CAST(x'ff' AS TEXT)", SessionCorrupt, "entry 0: no valid JSON: 'utf-8'"),
    ],
)  # fmt: skip
def test_a_store_that_was_changed_says_where(
    path: Path, change: str, error: type[Exception], what: str
) -> None:
    fill(path, "one")
    ask(path, change)
    with pytest.raises(error, match=what) as caught:
        Session.sqlite(path, "one")
    assert type(caught.value) is error


def test_a_damage_that_sqlite_names_in_no_utf8_is_said(path: Path) -> None:
    fill(path, "one")
    wrong = path.read_bytes().replace(b"CREATE TABLE entries", b"CREATE TABL\xdd entries")
    path.write_bytes(wrong)
    uses: list[Callable[[], object]] = [
        lambda: Session.sqlite(path, "one"), lambda: SqliteStore(path, "one").append(entry(0)),
        lambda: look(path), lambda: session_ids(path), lambda: list_sessions(path),
    ]  # fmt: skip
    for use in uses:
        with pytest.raises(SessionCorrupt, match=r"a damaged one \(malformed .* near .TABL"):
            use()
    assert path.read_bytes() == wrong


def test_a_row_that_lost_its_line_is_a_damaged_entry(path: Path) -> None:
    """As random damage of the file makes it; the table itself would refuse that."""
    fill(path, "one")
    with sqlite3.connect(path) as db:
        db.executescript(
            "PRAGMA writable_schema = ON;"
            "UPDATE sqlite_master SET sql = replace(sql, 'line TEXT NOT NULL', 'line TEXT');"
        )
    db.close()
    ask(path, "UPDATE entries SET line = NULL WHERE seq = 1")
    with pytest.raises(SessionCorrupt, match="session one, entry 1: no valid"):
        Session.sqlite(path, "one")


DAMAGES = {
    "no JSON": "'{nope'",
    "no text": "x'7b22ff'",
    "no UTF-8": "CAST(x'7b2264617461223a7b226e616d65223a22ff227d7d' AS TEXT)",
    "NUL bytes": "CAST(zeroblob(40) AS TEXT)",
    "a list": "'[]'",
    "a name that is none": """'{"data":{"name":{"a":1}}}'""",
    "a name alone": """'{"data":{"name":5}}'""",
    "empty": "''",
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
@pytest.mark.parametrize("column", ["line", "time", "type"])
def test_a_damaged_row_keeps_nobody_from_the_other_sessions(path: Path, damage: str, column: str) -> None:
    for id in ("one", "two"):
        session = Session.sqlite(path, id)
        session.set_name(f"the name of {id}")
        session.append_custom("mine", 1)
        session.close()
    for seq in (0, 1):
        ask(path, f"UPDATE entries SET {column} = {damage} WHERE session = 'one' AND seq = {seq}")
        assert [(info.id, info.entries) for info in list_sessions(path)] == [("one", 2), ("two", 2)]
        assert all(isinstance(info.name, str) and type(info.updated) is float for info in list_sessions(path))
        assert list_sessions(path)[1].name == "the name of two"
        assert len(Session.sqlite(path, "two").entries) == 2


def test_a_session_that_lost_its_entries_is_listed(path: Path) -> None:
    fill(path, "one", "two")
    ask(path, "DELETE FROM entries WHERE session = 'one'")
    assert list_sessions(path)[0] == SessionInfo("one", 0.0, 0.0, 0, "", 0)


def test_what_cannot_be_read_says_so(tmp_path: Path) -> None:
    with pytest.raises(SessionError, match="cannot be read: unable to open database file"):
        list_sessions(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(SessionError, match="cannot be read: Not a directory"):
        SqliteStore(tmp_path / "file" / "some.sqlite")


# -- a medium that fails -----------------------------------------------------------------------


def test_a_full_disk_stores_nothing_of_the_append(path: Path) -> None:
    session = Session.sqlite(path)
    session.append_custom("mine", "fits")
    db = session.store._db  # type: ignore[attr-defined]  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]
    db.execute("PRAGMA max_page_count = 1")  # pyright: ignore[reportUnknownMemberType]  # as above
    with pytest.raises(SessionReadOnly, match="could not be written: database or disk is full"):
        session.append_custom("mine", "does not fit" * 10_000)
    session.close()
    assert [each.data["data"] for each in Session.sqlite(path).entries] == ["fits"]


def test_a_writer_of_another_session_that_takes_too_long_is_named(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnchart.machine.sqlite.PATIENCE", 0.05)
    fill(path, "one")
    with opened(path) as db:
        db.execute("BEGIN IMMEDIATE")
        session = Session.sqlite(path, "two")
        with pytest.raises(SessionReadOnly, match="session two could not be written: database is locked"):
            session.append_custom("mine", 1)
        session.close()
    assert list_sessions(path)[0].id == "one"
    assert len(list_sessions(path)) == 1


def stored(path: Path, id: str) -> Sequence[Entry]:
    return list(SqliteStore(path, id).load())


def test_an_entry_that_is_there_already_is_refused(path: Path) -> None:
    store = SqliteStore(path, "one")
    store.append(entry(0))
    with opened(path) as db:  # what no writer of ours does
        db.execute(
            "INSERT INTO entries VALUES ('one', 1, 'custom', 1.0, ?)", (entry(1, "of another").line(),)
        )
    with pytest.raises(sqlite3.IntegrityError):
        store.append(entry(1))
    store.close()
    assert [each.data["data"] for each in stored(path, "one")] == ["x", "of another"]


def test_an_empty_log_of_changes_keeps_nobody_from_reading(path: Path) -> None:
    """A search on a full disk leaves one, and there is no room for what SQLite would read it by."""
    fill(path, "one")
    Path(f"{path}-wal").touch()
    Path(f"{path}-shm").mkdir()
    assert [info.id for info in list_sessions(path)] == ["one"]
    assert len(Session.sqlite(path, "one").entries) == 3


def writes(path: Path) -> None:
    SqliteStore(path, "two").append(entry(0))


@pytest.mark.parametrize("act", [list_sessions, writes])
def test_a_full_disk_is_called_so(
    path: Path, act: Callable[[Path], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(path, "one")

    def full(*_: object) -> bool:
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode = sqlite3.SQLITE_IOERR_SHMSIZE
        raise error

    monkeypatch.setattr("turnchart.machine.sqlite._is_store", full)
    with pytest.raises((SessionError, sqlite3.Error), match="disk I/O error: the disk is full"):
        act(path)
