"""Session files are read whole, or refused with the place of what is wrong."""

import json
from pathlib import Path
from typing import Any

import pytest

from turnchart.flows.interchange.reading import read_session
from turnchart.machine.errors import SessionError
from turnchart.machine.session import Session

TIME = "2026-01-02T03:04:05.678Z"
HEADER = {"type": "session", "version": 3, "id": "s-1", "timestamp": TIME, "cwd": "/home/me"}


def line(id: str, parent: str | None, **fields: Any) -> dict[str, Any]:
    return {"type": "custom", "customType": "x", "id": id, "parentId": parent, "timestamp": TIME, **fields}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "pi.jsonl"


def fill(path: Path, *rows: Any, end: str = "\n") -> None:
    text = "\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows)
    path.write_text(text + end, "utf-8")


def test_a_file_of_pi_is_read(path: Path) -> None:
    fill(path, "", HEADER, "  ", line("a", None), "\r", line("b", "a"))
    found = read_session(path)
    assert (found.id, found.format, found.notes) == ("s-1", "pi", ())
    assert [entry.foreign_id for entry in found.entries] == ["s-1", "a", "b"]


def test_the_last_line_needs_no_end(path: Path) -> None:
    fill(path, HEADER, line("a", None), end="")
    assert len(read_session(path).entries) == 2


def test_a_file_of_ours_is_read(tmp_path: Path) -> None:
    session = Session.jsonl(tmp_path / "mine.jsonl")
    session.set_name("x")
    session.append_custom("mine", 1)
    session.close()
    with (tmp_path / "mine.jsonl").open("ab") as file:
        file.write(b'{"seq":2,')
    found = read_session(tmp_path / "mine.jsonl")
    assert (found.id, found.format, list(found.entries)) == ("mine", "jsonl", session.entries)
    assert found.notes[0].startswith("a half-written last line")


def test_progress_reaches_the_end(path: Path, tmp_path: Path) -> None:
    fill(path, HEADER, line("a", None), line("b", "a"))
    heard: list[tuple[int, int]] = []
    read_session(path, lambda done, of: heard.append((done, of)))
    assert heard[-1] == (path.stat().st_size, path.stat().st_size)
    assert [done for done, _ in heard] == sorted(done for done, _ in heard)
    session = Session.jsonl(tmp_path / "mine.jsonl")
    session.set_name("x")
    heard.clear()
    read_session(tmp_path / "mine.jsonl", lambda done, of: heard.append((done, of)))
    assert heard == [(1, 2)], "the header is a line, too"


def test_a_torn_last_line_is_left_out_and_said(path: Path) -> None:
    fill(path, HEADER, line("a", None), '{"type":"cus', end="")
    found = read_session(path)
    assert len(found.entries) == 2
    assert found.notes == (f"a half-written last line ({path}:3, 12 bytes) is left out",)
    path.write_bytes(path.read_bytes() + "\N{SNOWMAN}".encode()[:2])
    assert len(read_session(path).notes) == 1, "torn in the midst of a character"


MESSAGE = line("a", None, type="message", message={"role": "user", "content": [{"type": "video"}]})


@pytest.mark.parametrize(
    ("rows", "place", "what"),
    [
        ([HEADER, '{"type":"cus'], "2:9", "no valid JSON: Unterminated"),
        ([HEADER, '{"type": tru}', line("b", None)], "2:10", "no valid JSON: Expecting value"),
        ([HEADER, "[1]"], "2:1", "a line must be a JSON object"),
        ([HEADER, '{"type": NaN}'], "2:1", "NaN is no JSON"),
        ([HEADER, '{"type":"x","y":' + "[" * 195 + "]" * 195 + "}"], "2:1", "nested deeper"),
        ([HEADER, "1" * 5000], "2:1", "this JSON cannot be taken"),
        ([HEADER, '{"a":' * 300 + "1" + "}" * 300], "2:1", "nested deeper"),
        ([HEADER, line("a", None), {**line("b", "a"), "timestamp": "now"}], "3:80", '"now" is no time'),
        ([HEADER, MESSAGE], f"2:{json.dumps(MESSAGE).index('video')}", '"video" is no content block here'),
        ([line("a", None)], "1:10", "the first line must be a header"),
        ([{**HEADER, "version": 9}], "1:32", "upgrade Turnchart"),
        (["nonsense"], "1:1", "no valid JSON"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(path: Path, rows: list[Any], place: str, what: str) -> None:
    fill(path, *rows)
    with pytest.raises(SessionError) as error:
        read_session(path)
    assert str(error.value).startswith(f"{path}:{place}: ")
    assert what in str(error.value)


def test_bytes_that_are_no_text_are_said_with_their_place(path: Path) -> None:
    fill(path, HEADER, line("a", None))
    path.write_bytes(path.read_bytes() + '{"\N{SNOWMAN}'.encode() + b"\xff" + b'": 1}\n')
    with pytest.raises(SessionError, match=r"3:4: byte 0xff is no UTF-8"):
        read_session(path)


@pytest.mark.parametrize("text", ["", "\n\n"])
def test_an_empty_file_is_no_session(path: Path, text: str) -> None:
    path.write_text(text)
    with pytest.raises(
        SessionError, match=r"pi.jsonl:1:1: the first line must be a header.*the file is empty"
    ):
        read_session(path)


def test_a_file_that_is_not_there(path: Path) -> None:
    with pytest.raises(SessionError, match=r"pi.jsonl cannot be read: No such file"):
        read_session(path)
    with pytest.raises(SessionError, match="cannot be read: Is a directory"):
        read_session(path.parent)


def test_a_log_of_ours_that_could_not_be_opened_is_refused(tmp_path: Path) -> None:
    bad = tmp_path / "bad.jsonl"
    entry = '{"seq":0,"parent":null,"type":"turn/end","time":1.0,"data":{"turn":1,"reason":"x","steps":0}}'
    bad.write_text('{"turnchart":1,"session":"bad","created":1.0}\n' + entry + "\n")
    with pytest.raises(SessionError, match=r"bad.jsonl: .*entry 0 `turn/end`: turn 1 is not open"):
        read_session(bad)
