"""Everything that README.md shows runs, and shows what it says."""

import io
import re
import shlex
import sys
from pathlib import Path
from runpy import run_path
from typing import Any

import pytest

from turnchart.diagrams import state_diagram
from turnchart.flows.cli import main

pytestmark = pytest.mark.checkout

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
COMMANDS = [
    line.removeprefix("$ ").partition("  #")[0].strip()
    for kind, text in BLOCKS
    if kind == "console"
    for line in text.splitlines()
]


def blocks(kind: str) -> list[str]:
    return [text for name, text in BLOCKS if name == kind]


def test_every_block_is_of_a_kind_that_is_checked_here() -> None:
    assert {kind for kind, _ in BLOCKS} == {"mermaid", "console", "yaml", "python"}
    assert README.count("```") == 2 * len(BLOCKS)


def test_the_picture_is_what_the_program_draws() -> None:
    assert blocks("mermaid") == [state_diagram()]


def test_every_make_command_has_its_target() -> None:
    targets = set(re.findall(r"^([a-z]+):.*## ", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    asked = [command.split()[1] for command in COMMANDS if command.startswith("make ")]
    assert asked == ["demo", "test"]
    assert set(asked) <= targets


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    """A folder with the agent of README.md and one session."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TURNCHART_HOME", raising=False)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    [flow] = blocks("yaml")
    (tmp_path / "reviewer.yaml").write_text(flow, "utf-8")
    assert code_of("run reviewer.yaml hello --session SESSION") == 0
    capsys.readouterr()
    return tmp_path


def code_of(arguments: str) -> Any:
    with pytest.raises(SystemExit) as end:
        main(shlex.split(arguments))
    return end.value.code


@pytest.mark.usefixtures("renderer")
@pytest.mark.parametrize("command", [each for each in COMMANDS if not each.startswith("make ")])
def test_every_command_works(command: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program, _, arguments = command.partition(" ")
    assert program == "turnchart"
    assert code_of(arguments) == 0
    assert capsys.readouterr().out


def test_the_agent_is_shown_with_its_hooks(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert code_of("check --strict reviewer.yaml") == 0
    assert code_of("diagram reviewer.yaml --view sequence") == 0
    out = capsys.readouterr().out
    assert "deny_commands" in out
    assert "token_budget" in out


def test_the_tests_pass_and_the_program_prints_what_it_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tests, program = (tmp_path / "tests.py", tmp_path / "program.py")
    for path, text in zip((tests, program), blocks("python"), strict=True):
        path.write_text(text, "utf-8")
    run = [value() for name, value in run_path(str(tests)).items() if name.startswith("test_")]
    assert len(run) == 2
    run_path(str(program))
    [said] = re.findall(r"print\(.*\)  # (.+)", program.read_text("utf-8"))
    assert capsys.readouterr().out == f"{said}\n"
