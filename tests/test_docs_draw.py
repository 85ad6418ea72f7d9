"""Everything that docs/how-to/draw.md shows runs."""

import io
import json
import re
import shlex
import sys
from pathlib import Path
from runpy import run_path

import pytest

from turnchart.flows.cli import main

pytestmark = pytest.mark.checkout

PAGE = (Path(__file__).parents[1] / "docs" / "how-to" / "draw.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def blocks(kind: str) -> list[str]:
    return [text for name, text in BLOCKS if name == kind]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the flows of the page."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TURNCHART_HOME", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    for text in blocks("yaml"):
        (tmp_path / text.partition("\n")[0].removeprefix("# ")).write_text(text, "utf-8")
    return tmp_path


def code_of(*arguments: str) -> object:
    with pytest.raises(SystemExit) as end:
        main(arguments)
    return end.value.code


def test_every_block_is_of_a_kind_that_is_checked_here() -> None:
    assert {kind for kind, _ in BLOCKS} == {"yaml", "console", "sh", "python", "text"}


def test_every_command_works_and_prints_what_is_shown(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for text in blocks("console"):
        for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
            command, *shown = part.splitlines()
            program, *arguments = shlex.split(command, comments=True)
            assert program == "turnchart"
            assert code_of(*arguments) == 0, capsys.readouterr().err
            out = capsys.readouterr().out
            for line in shown:
                assert line.removesuffix("...") in out, command


def test_a_stale_picture_fails(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "reviewer.mmd").write_text("something else", "utf-8")
    assert code_of("diagram", "reviewer.yaml", "-o", "reviewer.mmd", "--check") == 1


def test_an_illegal_log_is_told_as_shown(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert code_of("run", "reviewer.yaml", "hi", "--store", "logs/", "--session", "review") == 0
    [log] = (folder / "logs").glob("*.jsonl")
    lines = log.read_text("utf-8").splitlines()
    at = next(i for i, line in enumerate(lines) if '"step/start"' in line)
    later = [json.loads(line) for line in lines[at + 1 :]]
    moved = [json.dumps(each | {"seq": each["seq"] - 1, "parent": each["parent"] - 1}) for each in later]
    log.write_text("\n".join([*lines[:at], *moved]) + "\n", "utf-8")
    capsys.readouterr()
    assert code_of("verify", str(log)) == 1
    told = capsys.readouterr().err.splitlines()
    [shown] = blocks("text")
    places = [told.index(line) for line in shown.splitlines() if line.strip(" .")]
    assert places == sorted(places)


def test_the_code_runs(folder: Path) -> None:
    [code] = blocks("python")
    (folder / "code.py").write_text(code, "utf-8")
    run_path("code.py")
