import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.flows.cli.recorded import recorded

from turnchart.machine.jsonl import JsonlStore

Cli = Callable[..., Any]
ENTRY = '{"seq":0,"parent":null,"type":"custom","time":1.0,"data":{"kind":"x","data":1}}\n'


@pytest.mark.parametrize("store", ["some.db", "many/"])
def test_a_log_is_written_as_it_is(cli: Cli, store: str) -> None:
    session = recorded(store, "mine")
    ended = cli("sessions", "export", "mine", "--store", store)
    assert (ended.code, ended.err) == (0, "")
    Path("out.jsonl").write_text(ended.out)
    assert cli("sessions", "export", "mine", "--store", store, "-o", "deep/copy.jsonl") == (0, "", "")
    for name in ("out.jsonl", "deep/copy.jsonl"):
        copy = JsonlStore(name)
        assert (copy.id, list(copy.load())) == ("mine", session.entries)
    assert [path.name for path in Path("deep").iterdir()] == ["copy.jsonl"]


def test_messages_are_written_for_pi(cli: Cli) -> None:
    recorded("some.db", "mine")
    ended = cli("sessions", "export", "some.db", "--format", "pi")
    header, *lines = [json.loads(line) for line in ended.out.splitlines()]
    assert (header["type"], header["version"], header["id"]) == ("session", 3, "mine")
    assert header["cwd"] == str(Path.cwd())
    assert [line["message"]["role"] for line in lines if line["type"] == "message"] == [
        "user", "assistant", "toolResult", "assistant", "user", "assistant",
    ]  # fmt: skip


def test_no_file_is_written_over(cli: Cli) -> None:
    recorded("some.db", "mine")
    Path("there.jsonl").write_text("mine")
    ended = cli("sessions", "export", "mine", "--store", "some.db", "-o", "there.jsonl")
    assert (ended.code, "there.jsonl is there already; choose another file" in ended.err) == (1, True)
    assert Path("there.jsonl").read_text() == "mine"
    assert not list(Path().glob("*.part"))


def test_what_cannot_be_read_leaves_no_file(cli: Cli) -> None:
    Path("bad.jsonl").write_text('{"turnchart":1,"session":"bad","created":1.0}\nnonsense\n{}\n')
    ended = cli("sessions", "export", "bad.jsonl", "-o", "out.jsonl")
    assert (ended.code, "bad.jsonl:2: no valid JSON" in ended.err) == (1, True)
    assert [path.name for path in Path().iterdir()] == ["bad.jsonl"]


def test_a_folder_that_cannot_be_made(cli: Cli) -> None:
    recorded("some.db", "mine")
    Path("file").write_text("")
    ended = cli("sessions", "export", "some.db", "-o", "file/out.jsonl")
    assert (ended.code, "file/out.jsonl cannot be written" in ended.err) == (1, True)


def test_what_is_left_out_is_said(cli: Cli) -> None:
    session = recorded("torn.jsonl", "torn")
    with open("torn.jsonl", "ab") as file:
        file.write(b'{"seq"')
    ended = cli("sessions", "export", "torn.jsonl")
    assert ended.out.count("\n") == len(session.entries) + 1
    assert ended.err.startswith("left out: a half-written last line")


@pytest.mark.parametrize("name", [".", "..", "/", "there/"])
def test_a_folder_is_no_file_to_write_to(cli: Cli, name: str) -> None:
    recorded("some.db", "mine")
    Path("there").mkdir()
    for command in ("export", "repair"):
        Path("bad.jsonl").write_text(
            '{"turnchart":1,"session":"bad","created":1.0}\n' + ENTRY + "nonsense\n\n"
        )
        ended = cli("sessions", command, "some.db" if command == "export" else "bad.jsonl", "-o", name)
        assert ended.code == 1
        assert f"{Path(name)} is " in ended.err
    assert sorted(path.name for path in Path().iterdir()) == ["bad.jsonl", "some.db", "there"]
