import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.flows.cli.recorded import recorded

from turnchart.machine.sqlite import SqliteStore

Cli = Callable[..., Any]
TIME = "2026-01-02T03:04:05.678Z"
HEADER = {"type": "session", "version": 3, "id": "s-1", "timestamp": TIME, "cwd": "/home/me"}


def line(id: str, parent: str | None, text: str = "hello") -> dict[str, Any]:
    message = {"role": "user", "content": [{"type": "text", "text": text}], "timestamp": 1}
    return {"type": "message", "id": id, "parentId": parent, "timestamp": TIME, "message": message}


@pytest.fixture
def pi(cli: Cli) -> Path:
    """A small session file of pi; the command runs in its folder."""
    path = Path("pi.jsonl")
    rows = [HEADER, line("a", None), line("b", "a", "there"), line("c", "a", "elsewhere")]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


@pytest.mark.parametrize("store", ["some.db", "many/", "one.jsonl"])
def test_a_file_becomes_a_session(cli: Cli, pi: Path, store: str) -> None:
    assert cli("sessions", "import", "pi.jsonl", "--store", store) == (0, "s-1\n", "")
    shown = cli("sessions", "show", "s-1", "--store", store).out.splitlines()
    assert [shown[2][7:], shown[3][7:], shown[4][7:]] == [
        "user       hello",
        "├─ user       there",
        "└─ user       elsewhere  <- here",
    ]
    assert cli("verify", "s-1", "--store", store).code == 0
    assert cli("sessions", "export", "s-1", "--store", store, "--format", "pi").out == pi.read_text().replace(
        ", ", ","
    ).replace(": ", ":")


def test_the_usual_place_is_made(cli: Cli, pi: Path) -> None:
    assert cli("sessions", "import", "pi.jsonl", "--id", "mine").out == "mine\n"
    assert Path(".turnchart/.gitignore").exists()
    ended = cli("sessions", "import", "pi.jsonl", "--id", "mine")
    assert (ended.code, ended.out) == (1, "")
    assert (
        "there is a session 'mine' in .turnchart/sessions.db already; give another id with --id" in ended.err
    )


def test_a_session_may_come_through_a_pipe(cli: Cli, pi: Path) -> None:
    text = pi.read_text()
    assert cli("sessions", "import", "-", "--store", "some.db", stdin=text) == (0, "s-1\n", "")
    wrong = cli("sessions", "import", "-", "--store", "other.db", stdin=text.replace('"b"', "b"))
    assert (wrong.code, wrong.err[:20]) == (1, "turnchart: stdin:3:2")
    session = recorded("one.jsonl", "mine")
    cut = Path(session.store.where).read_text()[:-9]
    torn = cli("sessions", "import", "-", "--store", "some.db", stdin=cut)
    assert (torn.out, torn.err.startswith("note: a half-written last line (stdin:")) == ("mine\n", True)
    nothing = cli("sessions", "import", "-", "--store", "other.db")
    assert (nothing.code, "turnchart: stdin" in nothing.err) == (1, True)
    assert not Path("other.db").exists()


def test_a_session_of_ours_moves_to_another_store(cli: Cli) -> None:
    session = recorded("one.jsonl", "mine")
    assert cli("sessions", "import", "one.jsonl", "--store", "some.db") == (0, "mine\n", "")
    assert list(SqliteStore("some.db").load()) == session.entries


def test_where_anything_is_wrong_nothing_is_made(cli: Cli, pi: Path) -> None:
    pi.write_text(pi.read_text() + json.dumps({**line("d", "c"), "timestamp": "now"}) + "\n")
    ended = cli("sessions", "import", "pi.jsonl")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith('turnchart: pi.jsonl:5:62: "now" is no time')
    assert not Path(".turnchart").exists()


def test_what_the_file_lacks_is_noted(cli: Cli, pi: Path) -> None:
    pi.write_text(pi.read_text() + json.dumps(line("d", "gone")) + '\n{"half')
    ended = cli("sessions", "import", "pi.jsonl")
    assert (ended.code, ended.out) == (0, "s-1\n")
    assert ended.err.splitlines() == [
        'note: entry "d" follows "gone", which is not in the file: it became a root',
        "note: a half-written last line (pi.jsonl:6, 6 bytes) is left out",
    ]


def test_a_long_import_shows_how_far_it_is(cli: Cli, pi: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnchart.flows.cli.progress.PATIENCE", 0.0)
    monkeypatch.setattr("turnchart.flows.cli.progress.PAUSE", 0.0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    ended = cli("sessions", "import", "pi.jsonl")
    assert (ended.code, ended.out) == (0, "s-1\n")
    assert "reading pi.jsonl 100 %" in ended.err
    assert "writing 100 %" in ended.err
    assert ended.err.endswith(" \r"), "and wipes it away"


def test_an_id_that_cannot_be_a_file(cli: Cli, pi: Path) -> None:
    ended = cli("sessions", "import", "pi.jsonl", "--store", "many/", "--id", "../x")
    assert (ended.code, "cannot be the name of a file" in ended.err) == (1, True)


@pytest.mark.parametrize("format", ["jsonl", "pi"])
def test_what_comes_out_of_a_pipe_is_refused_as_a_whole(cli: Cli, format: str) -> None:
    recorded("some.db", "mine")
    text = cli("sessions", "export", "some.db", "--format", format).out.encode()
    reading, writing = os.pipe()
    os.write(writing, text)
    os.close(writing)
    ended = cli("sessions", "import", f"/dev/fd/{reading}", "--store", "other.db", "--id", "x")
    os.close(reading)
    assert (ended.code, ended.out) == (1, "")
    assert "it is no file; write what comes out of it to one" in ended.err
    assert not Path("other.db").exists()


def test_a_file_without_entries_makes_no_session(cli: Cli) -> None:
    Path("none.jsonl").write_text('{"turnchart":1,"session":"none","created":1.0}\n{"seq":0,')
    ended = cli("sessions", "import", "none.jsonl", "--store", "other.db")
    assert (ended.code, ended.out) == (1, "")
    assert "none.jsonl holds no entries, so no session was made of it" in ended.err
    assert not Path("other.db").exists()
