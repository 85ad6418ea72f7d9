"""What docs/reference/session-format.md says is what the stores do."""

import re
import sqlite3
from pathlib import Path
from runpy import run_path

import pytest

from turnchart.flows.cli import main
from turnchart.machine import Session, jsonl, sqlite
from turnchart.machine.entries import ENTRIES, Entry
from turnchart.machine.sqlite import SqliteStore

pytestmark = pytest.mark.checkout

PAGE = (Path(__file__).parents[1] / "docs" / "reference" / "session-format.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def blocks(kind: str) -> list[str]:
    return [text for name, text in BLOCKS if name == kind]


def test_every_block_is_of_a_kind_that_is_checked_here() -> None:
    assert {kind for kind, _ in BLOCKS} == {"json", "sql", "python", "console"}


def test_it_is_of_the_format_that_is_written() -> None:
    assert (jsonl.VERSION, sqlite.VERSION) == (1, 1)
    assert "This page is format **1** of both kinds." in PAGE


def test_every_type_and_field_is_named() -> None:
    rows = re.findall(r"^\| `([^`]+)` \| (.*) \|$", PAGE, re.MULTILINE)
    types = {name: said.replace("`", "") for name, said in rows if name in ENTRIES}
    assert types == {name: fields.partition(";")[0] for name, fields in ENTRIES.items()}
    assert [name for name, _ in rows if name in Entry._fields] == list(Entry._fields)


def test_the_lines_are_a_session(tmp_path: Path) -> None:
    entries, header = blocks("json")
    path = tmp_path / "demo.jsonl"
    path.write_text(header + entries, "utf-8")
    session = Session.jsonl(path)
    assert (session.id, len(session.entries)) == ("demo", 2)
    assert [entry.line() for entry in session.entries] == entries.splitlines()


def test_the_tables_are_those_of_a_store(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "some.db")
    store.append(Entry.of({"seq": 0, "parent": None, "type": "custom", "time": 1.0, "data": {}}))
    store.close()
    db = sqlite3.connect(tmp_path / "some.db")
    made = [
        sql for (sql,) in db.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY rowid")
    ]
    db.close()
    [shown] = blocks("sql")
    assert [" ".join(each.split()) for each in shown.split(";")[:-1]] == [
        " ".join(each.split()) for each in made
    ]


def test_the_code_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    [code] = blocks("python")
    Path("code.py").write_text(code, "utf-8")
    run_path("code.py")
    assert len(Session.jsonl("talk.jsonl").context()) == 2


def test_the_commands_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    entries, header = blocks("json")
    Path("broken.jsonl").write_text(f"{header}nonsense\n{entries}", "utf-8")
    [commands] = blocks("console")
    for command in commands.splitlines():
        with pytest.raises(SystemExit) as end:
            main(command.removeprefix("$ turnchart ").split())
        assert end.value.code == 0, capsys.readouterr()
