import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from turnchart.flows.cli.places import shelf
from turnchart.machine.session import Session

Cli = Callable[..., Any]


def noted(store: str, id: str, count: int = 5) -> None:
    session = shelf(store).open(id, "x")
    for i in range(count):
        session.append_custom("note", i)
    session.close()


def damaged(path: Path) -> bytes:
    """Damage the second entry of a JSON-lines file, and return what it holds then."""
    lines = path.read_bytes().splitlines(keepends=True)
    lines[2] = b"\xff" + lines[2][1:]
    path.write_bytes(b"".join(lines))
    return path.read_bytes()


@pytest.mark.parametrize(
    "how",
    [("many/one.jsonl",), ("one", "--store", "many/"), ("one", "--store", "many/one.jsonl")],
)
def test_a_copy_stands_beside_a_damaged_file(cli: Cli, how: tuple[str, ...]) -> None:
    noted("many/", "one")
    before = damaged(Path("many/one.jsonl"))
    assert cli("verify", "many/one.jsonl").code == 1
    ended = cli("sessions", "repair", *how)
    assert (ended.code, ended.err) == (0, "")
    shown = ended.out.replace(f"{Path.cwd()}/", "")
    first, missing, left_out, last = shown.splitlines()
    assert first == "session one (many/one.jsonl): 5 entries can be saved"
    assert missing == "- entry 1 is missing: an entry `custom` of the kind `lost` has its place"
    assert left_out.startswith("- many/one.jsonl:3: ")
    assert last == "written to many/one.repaired.jsonl"
    assert Path("many/one.jsonl").read_bytes() == before
    assert cli("verify", "many/one.repaired.jsonl").code == 0
    again = cli("sessions", "repair", *how)
    assert (again.code, "one.repaired.jsonl is there already" in again.err) == (1, True)


def test_a_session_of_a_sqlite_file_is_copied_into_another_file(cli: Cli) -> None:
    for id in ("one", "two"):
        noted("some.db", id)
    db = sqlite3.connect("some.db", isolation_level=None)
    db.execute("UPDATE entries SET line = '{]' WHERE seq = 2")
    db.close()
    before = Path("some.db").read_bytes()
    for id in ("one", "two"):
        assert cli("verify", id, "--store", "some.db").code == 1
        assert cli("sessions", "repair", id, "--store", "some.db").code == 0
        assert cli("verify", id, "--store", "some.repaired.db").code == 0
    assert Path("some.db").read_bytes() == before
    assert cli("sessions", "repair", "one", "--store", "some.db", "-o", "out.jsonl").code == 0
    assert len(Session.jsonl("out.jsonl").entries) == 5


def test_what_is_whole_needs_no_copy(cli: Cli) -> None:
    noted("some.db", "one")
    ended = cli("sessions", "repair", "some.db")
    assert ended.code == 0
    assert ended.out.splitlines()[1:] == ["nothing is wrong with it, so no copy was written"]
    assert [path.name for path in Path().iterdir()] == ["some.db"]


def test_what_cannot_be_repaired_says_so(cli: Cli) -> None:
    Path("notes.jsonl").write_text("notes of mine\n", "utf-8")
    ended = cli("sessions", "repair", "notes.jsonl")
    assert (ended.code, "nothing in it is an entry of a session" in ended.err) == (1, True)
    ended = cli("sessions", "repair", "nobody")
    assert (ended.code, "there is no session 'nobody'" in ended.err) == (1, True)
