"""Session files of pi, imported and exported: what 105, 106 and 110 to 126 say of such files (data-flow E)."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.conformance.places import texts
from tests.machine.interchange.pi_files import Line

from turnchart.flows.interchange.reading import read_session
from turnchart.machine import Session, SessionError
from turnchart.machine.entries import Frozen
from turnchart.machine.errors import SessionCorrupt
from turnchart.machine.interchange.pi_writing import lines
from turnchart.machine.verify import verify

TIME = "2026-01-02T03:04:05.678Z"
HEADER: Line = {"type": "session", "version": 3, "id": "s", "timestamp": TIME, "cwd": "/home/me"}

Imports = Callable[..., Session]


def entry(type: str, id: str, parent: str | None, **fields: Any) -> Line:
    return {"type": type, "id": id, "parentId": parent, "timestamp": TIME, **fields}


def user(id: str, parent: str | None, text: str) -> Line:
    message = {"role": "user", "content": [{"type": "text", "text": text}], "timestamp": 1767323045678}
    return entry("message", id, parent, message=message)


@pytest.fixture
def imports(tmp_path: Path) -> Imports:
    """Import a file of these lines, text as it is, and hold the log against the chart."""

    def imported(*rows: "Line | str") -> Session:
        path = tmp_path / "pi.jsonl"
        path.write_text("".join(row if isinstance(row, str) else f"{json.dumps(row)}\n" for row in rows))
        found = read_session(path)
        session = Session.memory(found.id)
        session.copy(found.entries)
        assert verify(session.entries).ok
        return session

    return imported


def exported(session: Session) -> list[Line]:
    made = lines(session.entries, session.leaf, session.id, "/here")
    return [json.loads(json.dumps(line)) for line in made]


def test_g105_a_retained_tail_stands_between_the_summary_and_what_follows(imports: Imports) -> None:
    tail = [user("x", None, "kept")["message"]]
    file = [
        HEADER, user("a", None, "one"),
        entry("compaction", "b", "a", summary="sum", tokensBefore=5, retainedTail=tail), user("c", "b", "two"),
    ]  # fmt: skip
    session = imports(*file)
    summary, *rest = texts(session)
    assert "sum" in summary
    assert rest == ["kept", "two"]
    assert exported(session) == file


def test_g106_a_first_kept_entry_gives_the_same_context(imports: Imports) -> None:
    session = imports(
        HEADER, user("a", None, "one"), user("b", "a", "kept"),
        entry("compaction", "c", "b", summary="sum", tokensBefore=5, firstKeptEntryId="b"), user("d", "c", "two"),
    )  # fmt: skip
    summary, *rest = texts(session)
    assert "sum" in summary
    assert rest == ["kept", "two"]


def test_g110_a_label_on_a_missing_entry_labels_nothing_and_comes_back(imports: Imports) -> None:
    file = [HEADER, user("a", None, "one"), entry("label", "b", "a", targetId="gone", label="x")]
    session = imports(*file)
    assert session.labels() == {}
    assert exported(session) == file


def test_g113_a_leaf_goes_to_an_entry_that_is_there_or_before_all(imports: Imports) -> None:
    file = [HEADER, user("a", None, "one"), entry("leaf", "b", "a", targetId=None)]
    assert (texts(imports(*file)), exported(imports(*file))) == ([], file)
    with pytest.raises(SessionError, match=r'pi.jsonl:3:\d+: there is no entry "z" before it'):
        imports(HEADER, user("a", None, "one"), entry("leaf", "b", "a", targetId="z"))


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (["{]\n"], r"pi.jsonl:1:2: no valid JSON"),
        ([{**HEADER, "type": "message"}], r"pi.jsonl:1:10: the first line must be a header"),
        ([{**HEADER, "version": 2}], r"pi.jsonl:1:32: this file has version 2, and only 3 can be read"),
        ([{**HEADER, "metadata": 3}], r"pi.jsonl:1:\d+: `metadata` is 3; it must be an object"),
        ([HEADER, "{]\n", user("a", None, "one")], r"pi.jsonl:2:2: no valid JSON"),
        ([HEADER, "[]\n"], r"pi.jsonl:2:1: a line must be a JSON object"),
        ([HEADER, {"id": "a"}], r"pi.jsonl:2:1: `type` is missing"),
        (
            [HEADER, entry("custom", "a", None, customType=1)],
            r"pi.jsonl:2:\d+: `customType` is 1; it must be text",
        ),
    ],
)
def test_g116_what_is_wrong_is_said_with_line_and_column(
    imports: Imports, rows: list[Any], said: str
) -> None:
    with pytest.raises(SessionError, match=said):
        imports(*rows)


def test_g116_a_missing_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(SessionError, match=r"pi.jsonl cannot be read: No such file"):
        read_session(tmp_path / "pi.jsonl")


@pytest.mark.parametrize("more", [{}, {"metadata": {"a": [1]}, "parentSession": "/other.jsonl"}])
def test_g117_the_header_comes_back_and_what_is_absent_stays_absent(imports: Imports, more: Line) -> None:
    header = {**HEADER, **more}
    assert exported(imports(header)) == [header]


def test_g119_a_fork_keeps_the_ids_of_what_was_imported(imports: Imports) -> None:
    session = imports(HEADER, user("a", None, "one"), user("b", "a", "two"))
    second = next(each.seq for each in session.entries if each.foreign_id == "b")
    copy = session.fork(second, position="before", into=Session.memory("fork"))
    assert texts(copy) == ["one"]
    header, first, *_ = exported(copy)
    assert (header["id"], first["id"]) == ("fork", "a")


def test_g121_a_torn_last_line_is_dropped_and_reported(imports: Imports, tmp_path: Path) -> None:
    assert texts(imports(HEADER, user("a", None, "one"), '{"type":"mess')) == ["one"]
    [note] = read_session(tmp_path / "pi.jsonl").notes
    assert note == f"a half-written last line ({tmp_path / 'pi.jsonl'}:3, 13 bytes) is left out"


def test_g124_an_entry_whose_parent_is_missing_is_a_root_and_the_last_one_is_the_leaf(
    imports: Imports,
) -> None:
    file = [HEADER, user("a", None, "lost"), user("b", "gone", "one"), user("c", "b", "two")]
    session = imports(*file)
    assert texts(session) == ["one", "two"]
    assert session.entries[-1].seq == session.leaf
    assert exported(session) == file, "and it names its parent again"


def test_g126_labels_stay_and_what_follows_a_label_follows_it(imports: Imports) -> None:
    file = [
        HEADER, user("a", None, "one"), entry("label", "b", "a", targetId="a", label="here"), user("c", "b", "two"),
        entry("label", "d", "c", targetId="a"), entry("label", "e", "d", targetId="c", label="there"),
    ]  # fmt: skip
    session = imports(*file)
    assert session.labels() == {next(each.seq for each in session.entries if each.foreign_id == "c"): "there"}
    assert exported(session) == file


@pytest.mark.parametrize("type", ["session", "pi/session", "turn/start", "user/message", "of a newer pi"])
def test_a_line_of_any_type_comes_back(imports: Imports, type: str) -> None:
    """Also one that has the type of the header, as a file that was joined to another has, and its label."""
    file = [
        HEADER, user("a", None, "one"), entry(type, "b", "a", version=3, cwd="/there", kind=1, data=[], foreign={}),
        entry("label", "c", "b", targetId="b", label="here"), user("d", "b", "two"),
    ]  # fmt: skip
    assert exported(imports(*file)) == file


def test_what_cannot_be_written_for_pi_is_named(imports: Imports) -> None:
    session = imports(HEADER, user("a", None, "one"))
    session.append("model_change", Frozen(model=("no", "text")))
    with pytest.raises(SessionCorrupt, match="session s: entry 2 `model_change` is malformed"):
        exported(session)
