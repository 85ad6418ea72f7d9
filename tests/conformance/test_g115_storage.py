"""Scenarios 115 to 117 and 121: what stands in a store, what is refused and how that is said."""

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.conformance.places import answer, user

from turnchart.machine import Session, SessionCorrupt, SessionError, SessionLocked
from turnchart.machine.jsonl import JsonlStore


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s.jsonl"


def lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


def test_g115_a_line_an_append_and_everything_is_there_when_it_is_opened_again(path: Path) -> None:
    session = Session.jsonl(path)
    first = user(session, "one")
    assert [json.loads(line).get("seq") for line in lines(path)] == [None, 0], (
        "a header, then a line an entry"
    )
    for count in range(3, 6):
        user(session, "more")
        assert len(lines(path)) == count
    session.navigate(first)
    session.close()
    again = Session.jsonl(path)
    assert again.entries == session.entries
    assert (again.leaf, [said.text for said in again.context()]) == (first, ["one"])


@pytest.mark.parametrize(
    ("line", "content", "said"),
    [
        (0, b"{]\n", r"s\.jsonl:1: this is no Turnchart session"),
        (0, b'{"turnchart":1}\n', r"s\.jsonl:1: this is no Turnchart session"),
        (0, b'{"turnchart":7,"session":"s"}\n', "newer Turnchart \\(format 7, this one reads up to 1\\)"),
        (2, b"{]\n", r"s\.jsonl:3: no valid JSON.*turnchart sessions repair"),
        (2, b"[]\n", r"s\.jsonl:3: no entry.*turnchart sessions repair"),
        (2, b'{"seq":1}\n', r"s\.jsonl:3: no entry: it lacks 'parent'.*turnchart sessions repair"),
        (
            2,
            b'{"seq":1,"parent":"0","type":"custom","time":1,"data":{}}\n',
            "seq and parent must be integers",
        ),
        (
            2,
            b'{"seq":1,"parent":0,"type":"leaf","time":1,"data":{"target":9}}\n',
            "there is no entry 9 before it",
        ),
        (2, b'{"seq":5,"parent":0,"type":"custom","time":1,"data":{}}\n', "seq 5 stands where 1 belongs"),
    ],
)
def test_g116_what_is_wrong_is_said_with_its_line(path: Path, line: int, content: bytes, said: str) -> None:
    session = Session.jsonl(path)
    for text in ("one", "two", "three"):
        user(session, text)
    session.close()
    found = lines(path)
    found[line] = content
    path.write_bytes(b"".join(found))
    with pytest.raises(SessionError, match=said):
        Session.jsonl(path)
    assert path.read_bytes() == b"".join(found), "and nothing is changed"


def test_g116_a_missing_file_is_a_new_session(path: Path) -> None:
    assert Session.jsonl(path).origin == "new"
    assert not path.exists()


def test_g117_who_it_is_stands_in_the_first_line(path: Path) -> None:
    session = Session(JsonlStore(path, id="mine"))
    user(session, "one")
    session.close()
    first, second = lines(path)
    header = json.loads(first)
    assert header == {"turnchart": 1, "session": "mine", "created": session.entries[0].time}
    path.write_bytes(first + second[:-9] + b"{]}{\n" + second)
    assert JsonlStore(path).id == "mine", "nothing else is read for that"


def test_g121_a_torn_last_line_is_dropped_and_reported(path: Path) -> None:
    session = Session.jsonl(path)
    answer(session, "one")
    user(session, "two")
    session.close()
    whole = lines(path)
    path.write_bytes(b"".join(whole)[:-7])
    again = Session.jsonl(path)
    assert again.entries == session.entries[:-1]
    assert (
        again.store.dropped == f"a half-written last line ({path}:{len(whole)}, {len(whole[-1]) - 7} bytes)"
    )
    user(again, "three")
    again.close()
    assert [said.text for said in Session.jsonl(path).context()] == ["one", "three"]
    assert path.with_name("s.jsonl.torn").read_bytes() == whole[-1][:-7] + b"\n", (
        "what is dropped is kept aside"
    )


Opens = Callable[[Path], Session]
OPENS: dict[str, Opens] = {
    "jsonl": lambda folder: Session.jsonl(folder / "s.jsonl"),
    "sqlite": lambda folder: Session.sqlite(folder / "s.db", "s"),
}


@pytest.mark.parametrize("opens", OPENS.values(), ids=OPENS.keys())
def test_a_session_has_one_writer_and_any_number_of_readers(opens: Opens, tmp_path: Path) -> None:
    writer = opens(tmp_path)
    writer.attach()
    user(writer, "one")
    reader = opens(tmp_path)
    assert [said.text for said in reader.context()] == ["one"]
    with pytest.raises(SessionLocked, match="is being written by another object of this process"):
        reader.attach()
    writer.close()
    reader.attach()
    user(reader, "two")
    reader.close()
    with pytest.raises(
        SessionLocked, match="was written by somebody else since it was opened here; open it again"
    ):
        writer.attach()
    assert [said.text for said in opens(tmp_path).context()] == ["one", "two"]


def test_a_damaged_sqlite_session_says_which_entry_and_how_to_repair_it(tmp_path: Path) -> None:
    session = Session.sqlite(tmp_path / "s.db", "s")
    for text in ("one", "two"):
        user(session, text)
    session.close()
    db = sqlite3.connect(tmp_path / "s.db", isolation_level=None)
    db.execute("UPDATE entries SET line = substr(line, 1, 20) WHERE seq = 1")
    db.close()
    with pytest.raises(
        SessionCorrupt, match=r"session s, entry 1: no valid JSON.*turnchart sessions repair s --store .*`"
    ):
        Session.sqlite(tmp_path / "s.db", "s")
