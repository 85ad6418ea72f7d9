"""What is saved of a damaged session: as much as a legal log can hold, and a word about everything else."""

import re
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path

import anyio
import pytest
from tests.machine.drive import add, calls

from turnchart.machine import Agent, Entry, ScriptedModel, Session
from turnchart.machine.entries import Frozen
from turnchart.machine.errors import SessionCorrupt, SessionError
from turnchart.machine.jsonl import JsonlStore
from turnchart.machine.repairing import MOST_MISSING, Salvage, salvage_jsonl, salvage_sqlite, write_copy
from turnchart.machine.sqlite import SqliteStore
from turnchart.machine.verify import verify
from turnchart.testing import FakeClock


def recorded(session: Session) -> Sequence[Entry]:
    """Record two turns with a tool, and a note at the end of each."""
    anyio.run(_record, session)
    return tuple(session.entries)


async def _record(session: Session) -> None:
    model = ScriptedModel([calls(("add", {"a": 1, "b": 2})), "3", calls(("add", {"a": 3, "b": 4})), "7"])
    async with Agent(model, tools=[add], session=session, clock=FakeClock(), prompt="Be brief.") as agent:
        for _ in range(2):
            await agent.prompt("go")
            session.append_custom("note", {"of": "mine \N{SNOWMAN}"})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log.jsonl"


def where(log: Sequence[Entry], type: str) -> int:
    """Return the number of the first entry of a type; its line in a file is two more."""
    return next(entry.seq for entry in log if entry.type == type)


def opens(found: Salvage, at: Path) -> list[Entry]:
    """Write the copy, and see that it opens, is legal and can be gone on with."""
    target = JsonlStore(at / "copy.jsonl", id=found.id)
    write_copy(found, target)
    session = Session.jsonl(at / "copy.jsonl")
    assert (session.id, session.store.dropped) == (found.id, "")
    assert tuple(session.entries) == found.entries
    assert verify(session.entries).ok
    session.attach()
    session.append_custom("mine", "goes on")
    session.close()
    assert verify(Session.jsonl(at / "copy.jsonl").entries).ok
    return list(found.entries)


Damages = Callable[[list[bytes], int], None]


def nul_block(lines: list[bytes], n: int) -> None:
    lines[n] = b"\0" * 64 + lines[n]


def half_then_whole(lines: list[bytes], n: int) -> None:
    lines[n] = lines[n][:40] + lines[n]


def whole_twice(lines: list[bytes], n: int) -> None:
    lines.insert(n, lines[n])


def no_line_end(lines: list[bytes], n: int) -> None:
    lines[n] = lines[n].removesuffix(b"\n")


def nul_behind(lines: list[bytes], n: int) -> None:
    lines[n] = lines[n].removesuffix(b"\n") + b"\0" * 10 + b"\n"


def empty_line(lines: list[bytes], n: int) -> None:
    lines.insert(n, b"\n")


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (nul_block, r"log\.jsonl:12: 64 bytes left out before a whole entry"),
        (half_then_whole, r"log\.jsonl:12: 40 bytes left out before a whole entry"),
        (whole_twice, r"entry 10 `.*` left out: the same stands before it"),
        (no_line_end, r"log\.jsonl:12: 2 whole entries on one line"),
        (nul_behind, r"log\.jsonl:12: an entry among NUL bytes"),
        (empty_line, r"log\.jsonl:12: an empty line"),
    ],
)
def test_damage_beside_the_entries_costs_none(path: Path, damage: Damages, said: str) -> None:
    log = recorded(Session.jsonl(path))
    lines = path.read_bytes().splitlines(keepends=True)
    damage(lines, 11)
    path.write_bytes(b"".join(lines))
    with pytest.raises(SessionCorrupt, match="run `turnchart sessions repair "):
        Session.jsonl(path)
    found = salvage_jsonl(path)
    assert [re.fullmatch(f".*{said}", problem) is not None for problem in found.problems] == [True]
    assert opens(found, path.parent) == list(log)
    assert path.read_bytes() == b"".join(lines), "the damaged file is not touched"


def test_an_entry_that_the_rest_is_legal_without_gets_a_stand_in(path: Path) -> None:
    log = recorded(Session.jsonl(path))
    note = where(log, "custom")
    lines = path.read_bytes().splitlines(keepends=True)
    lines[note + 1] = lines[note + 1].replace("\N{SNOWMAN}".encode(), b"\xff\xfe")
    path.write_bytes(b"".join(lines))
    found = salvage_jsonl(path)
    assert found.problems[0] == f"entry {note} is missing: an entry `custom` of the kind `lost` has its place"
    assert re.search(rf"log\.jsonl:{note + 2}: \d+ bytes left out: .*'utf-8' codec can't", found.problems[1])
    kept = opens(found, path.parent)
    assert kept[note].data == {"kind": "lost", "data": None}
    assert [entry for entry in kept if entry.seq != note] == [entry for entry in log if entry.seq != note]


def test_what_cannot_follow_without_the_lost_entry_is_left_out_and_counted(path: Path) -> None:
    log = recorded(Session.jsonl(path))
    lost = where(log, "tool/call")
    lines = path.read_bytes().splitlines(keepends=True)
    lines[lost + 1] = b"{]\n"
    path.write_bytes(b"".join(lines))
    found = salvage_jsonl(path)
    assert opens(found, path.parent) == list(log[:lost])
    assert len(found.problems) == 2
    rest = f"entries {lost + 1} to {len(log) - 1} ({len(log) - 1 - lost}) left out, for they cannot follow: "
    assert found.problems[1].startswith(rest)


def test_a_line_that_is_gone_is_missed(path: Path) -> None:
    log = recorded(Session.jsonl(path))
    lines = path.read_bytes().splitlines(keepends=True)
    del lines[where(log, "custom") + 1]
    path.write_bytes(b"".join(lines))
    found = salvage_jsonl(path)
    assert len(found.problems) == 1
    assert len(opens(found, path.parent)) == len(log)


@pytest.mark.parametrize("first", [b"", b"nonsense\n", b"\0" * 100 + b"\n"])
def test_without_a_header_the_session_is_named_as_the_file(path: Path, first: bytes) -> None:
    log = recorded(Session(JsonlStore(path, id="mine")))
    path.write_bytes(first + path.read_bytes().partition(b"\n")[2])
    with pytest.raises(SessionCorrupt, match="this is no Turnchart session"):
        JsonlStore(path)
    found = salvage_jsonl(path)
    assert found.problems == (f"{path}:1: there is no header, so the session is named as the file",)
    assert (found.id, opens(found, path.parent)) == ("log", list(log))


def test_a_torn_tail_is_said_too(path: Path) -> None:
    log = recorded(Session.jsonl(path))
    path.write_bytes(path.read_bytes()[:-5])
    found = salvage_jsonl(path)
    assert opens(found, path.parent) == list(log[:-1])
    assert [problem.partition(": ")[0] for problem in found.problems] == [f"{path}:{len(log) + 1}"]


def test_a_whole_session_has_no_problems(path: Path) -> None:
    log = recorded(Session.jsonl(path))
    assert salvage_jsonl(path) == Salvage("log", tuple(log), ())


def test_a_log_that_opens_is_kept_as_it_was_recorded_even_where_it_is_not_legal(path: Path) -> None:
    session = Session.jsonl(path)
    session.append("turn/start", Frozen(turn=1))
    session.append("step/start", Frozen(turn=1, step=1))
    session.append("step/end", Frozen(turn=1, step=1))
    session.append("turn/end", Frozen(turn=1, reason="completed", steps=1))
    session.close()
    assert not verify(session.entries).ok
    assert salvage_jsonl(path) == Salvage("log", tuple(session.entries), ())


@pytest.mark.parametrize("far", [MOST_MISSING + 2, 10**30])
def test_behind_a_large_gap_nothing_is_trusted(path: Path, far: int) -> None:
    store = JsonlStore(path)
    store.append(Entry(0, None, "custom", 1.0, Frozen(kind="mine", data=1)))
    store.close()
    with path.open("a") as file:
        print(Entry(far, far - 1, "custom", 1.0, Frozen(kind="mine", data=2)).line(), file=file)
    found = salvage_jsonl(path)
    assert len(found.entries) == 1
    assert found.problems == (
        f"entry {far} `custom` left out, for it cannot follow: {far - 1} entries are missing before it",
    )


@pytest.mark.parametrize("content", [b"", b"notes of mine\n", b"\0" * 9, b'{"seq":0}\n'])
def test_a_file_without_an_entry_cannot_be_repaired(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(SessionCorrupt, match="nothing in it is an entry of a session; restore a copy"):
        salvage_jsonl(path)


def test_a_file_that_is_not_there_or_newer_cannot_be_repaired(path: Path) -> None:
    with pytest.raises(SessionError, match="cannot be read: No such file"):
        salvage_jsonl(path)
    with pytest.raises(SessionError, match="there is no file"):
        salvage_sqlite(path, "log")
    path.write_text('{"turnchart":2,"session":"log","created":1.0}\n')
    with pytest.raises(SessionError, match="newer Turnchart"):
        salvage_jsonl(path)


def test_a_copy_is_never_written_over_a_session(path: Path) -> None:
    recorded(Session.jsonl(path))
    found, before = salvage_jsonl(path), path.read_bytes()
    with pytest.raises(SessionError, match=r"log\.jsonl is there already; choose another place"):
        write_copy(found, JsonlStore(path))
    assert path.read_bytes() == before


# -- SQLite ------------------------------------------------------------------------------------


def change(path: Path, sql: str, *args: object) -> None:
    db = sqlite3.connect(path, isolation_level=None)
    db.execute(sql, args)
    db.close()


@pytest.mark.parametrize("how", ["UPDATE entries SET line = '{]'", "DELETE FROM entries",
                                 "UPDATE entries SET line = CAST(x'ff' AS TEXT)"])  # fmt: skip
def test_a_row_that_is_lost_gets_a_stand_in_or_ends_the_copy(tmp_path: Path, how: str) -> None:
    path = tmp_path / "some.db"
    log = recorded(Session.sqlite(path, "one"))
    recorded(Session.sqlite(path, "two"))
    note = where(log, "custom")
    change(path, f"{how} WHERE session = 'one' AND seq = ?", note)
    with pytest.raises(SessionCorrupt, match=rf"entry {note}: .* `turnchart sessions repair one --store .*`"):
        Session.sqlite(path, "one")
    found = salvage_sqlite(path, "one")
    assert len(opens(found, tmp_path)) == len(log)
    assert len(found.problems) == (1 if how.startswith("DELETE") else 2)
    call = where(log, "tool/call")
    change(path, f"{how} WHERE session = 'one' AND seq = ?", call)
    found = salvage_sqlite(path, "one")
    assert found.entries == tuple(log[:call])
    assert salvage_sqlite(path, "two").problems == ()


@pytest.mark.parametrize("note", [100, 199])
def test_a_page_that_is_damaged_costs_what_stands_on_it(tmp_path: Path, note: int) -> None:
    path = tmp_path / "some.db"
    log = recorded(Session.sqlite(path, "one"))
    session = Session.sqlite(path, "one")
    for i in range(200):
        session.append_custom("note", f"{i} {'x' * 200}")
    session.close()
    content = bytearray(path.read_bytes())
    at = content.index(f'"data":"{note} x'.encode())
    page = at - at % 4096
    content[page : page + 4096] = b"\0" * 4096
    path.write_bytes(content)
    with pytest.raises(SessionCorrupt, match="damaged"):
        Session.sqlite(path, "one")
    found = salvage_sqlite(path, "one")
    assert found.entries[: len(log)] == tuple(log)
    assert len(found.entries) > len(log) + 50
    assert any("malformed" in problem for problem in found.problems)
    target = SqliteStore(tmp_path / "copy.db", "one")
    write_copy(found, target)
    assert verify(Session.sqlite(tmp_path / "copy.db", "one").entries).ok


def test_a_session_that_is_not_there_cannot_be_repaired(tmp_path: Path) -> None:
    path = tmp_path / "some.db"
    recorded(Session.sqlite(path, "one"))
    with pytest.raises(SessionCorrupt, match=r"nothing of session two can be read \(it has no entries\)"):
        salvage_sqlite(path, "two")
    (tmp_path / "empty.db").touch()
    with pytest.raises(SessionCorrupt, match="it is empty"):
        salvage_sqlite(tmp_path / "empty.db", "one")


def test_what_no_session_can_hold_ends_the_copy(path: Path) -> None:
    note = Frozen(kind="mine", data=1)
    store = JsonlStore(path)
    for entry in (
        Entry(0, None, "custom", 1.0, note),
        Entry(1, 0, "of a newer program", 1.0, note),
        Entry(2, 1, "custom", 1.0, note),
    ):
        store.append(entry)
    store.close()
    found = salvage_jsonl(path)
    assert len(opens(found, path.parent)) == 1
    [problem] = found.problems
    assert problem.startswith("entries 1 to 2 (2) left out, for they cannot follow: ")
    assert "this type of entry is unknown; a newer Turnchart may know it" in problem
