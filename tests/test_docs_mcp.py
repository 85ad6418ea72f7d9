"""docs/how-to/mcp.md: its flow is checked and its test is played; the trials start its server as well."""

import io
import os
import re
import shlex
import sys
from pathlib import Path
from runpy import run_path

import pytest

from turnchart.flows.cli import main

pytestmark = pytest.mark.checkout

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "how-to" / "mcp.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
COMMANDS = [
    (command, shown)
    for kind, text in BLOCKS
    if kind == "console"
    for command, *shown in (part.splitlines() for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:])
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files of the page in a project of their own, with this Python as ``python``."""
    (tmp_path / ".git").mkdir()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (tmp_path / "bin" / "python").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    for _, text in BLOCKS:
        name = re.match(r"# ([\w.]+)\n", text)
        if name is not None:
            (tmp_path / name[1]).write_text(text, "utf-8")
    return tmp_path


def run(command: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Run a command, which has to succeed, and return what it prints."""
    program, *arguments = shlex.split(command)
    assert program == "turnchart"
    with pytest.raises(SystemExit) as end:
        main(arguments)
    said = capsys.readouterr()
    assert end.value.code == 0, said.out + said.err
    return said.out


def test_the_flow_is_right(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert sorted(path.name for path in folder.iterdir() if path.is_file()) == [
        "answers.yaml", "librarian.test.yaml", "librarian.yaml", "server.py",
    ]  # fmt: skip
    assert run("turnchart check librarian.yaml librarian.test.yaml", capsys).endswith(": no problems\n")


def test_its_test_passes_without_the_server(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "server.py").unlink()
    [(command, shown)] = [each for each in COMMANDS if " test " in each[0]]
    assert run(command, capsys).splitlines() == shown


@pytest.mark.slow
def test_what_the_page_shows_runs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command, shown in COMMANDS:
        printed = run(command, capsys)
        assert [line for line in shown if line != "..." and line not in printed.splitlines()] == []
    [program] = [text for kind, text in BLOCKS if kind == "python" and "Agent(" in text]
    (folder / "program.py").write_text(program, "utf-8")
    run_path("program.py")
    assert capsys.readouterr().out == "['library.find_book'] Shelf 7.\n"
