"""A session is written as a whole or not at all, and deleted with all that belongs to it."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from turnchart.machine.entries import Entry, Frozen
from turnchart.machine.errors import SessionError, SessionLocked
from turnchart.machine.jsonl import JsonlStore
from turnchart.machine.session import Session
from turnchart.machine.sqlite import SqliteStore, list_sessions

Make = Callable[[], "JsonlStore | SqliteStore"]


@pytest.fixture(params=["jsonl", "sqlite"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    """Make a store over one and the same session."""
    if request.param == "jsonl":
        return lambda: JsonlStore(tmp_path / "deep" / "log.jsonl", id="log")
    return lambda: SqliteStore(tmp_path / "deep" / "log.db", "log")


def entries(count: int) -> list[Entry]:
    return [
        Entry(
            seq, seq - 1 if seq else None, "custom", float(seq), Frozen(kind="mine", data="\N{SNOWMAN}\ud800")
        )
        for seq in range(count)
    ]


def failing(count: int) -> Iterator[Entry]:
    yield from entries(count)
    raise KeyError("no more")


def beside(path: Path) -> list[str]:
    return sorted(each.name for each in path.parent.iterdir() if not each.name.endswith(("-wal", "-shm")))


def test_a_session_is_written_as_a_whole(make: Make) -> None:
    make().create(entries(1000))
    store = make()
    assert list(store.load()) == entries(1000)
    assert beside(store.path) == [store.path.name], "no lock and no part is left"
    session = Session(make())
    session.append_custom("mine", 1)
    session.close()
    assert len(list(make().load())) == 1001


def test_where_writing_fails_there_is_no_session(make: Make) -> None:
    with pytest.raises(KeyError):
        make().create(failing(100))
    store = make()
    assert list(store.load()) == []
    make().create(entries(2))
    assert len(list(make().load())) == 2


def test_a_session_that_is_there_is_not_written_over(make: Make) -> None:
    make().create(entries(2))
    with pytest.raises(SessionError, match=r"is there already|holds a session 'log' already"):
        make().create(entries(3))
    assert len(list(make().load())) == 2


def test_what_somebody_writes_is_neither_made_nor_deleted(make: Make) -> None:
    session = Session(make())
    session.attach()
    session.append_custom("mine", 1)
    with pytest.raises(SessionLocked, match="is being written by"):
        make().create(entries(2))
    with pytest.raises(SessionLocked, match="is being written by"):
        make().delete()
    session.close()
    assert len(list(make().load())) == 1


def test_a_session_is_deleted_and_its_name_is_free(make: Make) -> None:
    make().create(entries(5))
    make().delete()
    assert list(make().load()) == []
    make().delete()
    make().create(entries(2))
    assert len(list(make().load())) == 2


def test_the_others_of_a_file_stay(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    for id in ("one", "two"):
        SqliteStore(path, id).create(entries(3))
    SqliteStore(path, "one").delete()
    assert [(info.id, info.entries) for info in list_sessions(path)] == [("two", 3)]


def test_what_was_set_aside_goes_too_and_a_damaged_file_can_be_deleted(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    JsonlStore(path).create(entries(2))
    with path.open("ab") as file:
        file.write(b'{"seq":2,')
    session = Session.jsonl(path)
    session.attach()
    session.close()
    assert beside(path) == ["log.jsonl", "log.jsonl.torn"]
    path.write_bytes(path.read_bytes().replace(b'"seq":1', b'"seq":7'))
    JsonlStore(path).delete()
    assert beside(path) == []


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    store = JsonlStore(tmp_path / "file" / "log.jsonl")
    (tmp_path / "file").write_text("")
    with pytest.raises(SessionError, match="cannot be locked for writing"):
        store.create(entries(1))
    store = JsonlStore(tmp_path / "log.jsonl")
    (tmp_path / "log.jsonl").mkdir()
    with pytest.raises(SessionError, match="cannot be deleted"):
        store.delete()
