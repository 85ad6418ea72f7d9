"""Everything that docs/how-to/test-a-flow.md shows runs."""

import io
import re
import shlex
import sys
from pathlib import Path

import pytest

from turnchart.flows.cli import main

pytestmark = pytest.mark.checkout

PAGE = (Path(__file__).parents[1] / "docs" / "how-to" / "test-a-flow.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def blocks(kind: str) -> list[str]:
    return [text for name, text in BLOCKS if name == kind]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the flow of the page and its tests."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    for text in blocks("yaml"):
        (tmp_path / text.partition("\n")[0].removeprefix("# ")).write_text(text, "utf-8")
    return tmp_path


def code_of(arguments: str) -> object:
    with pytest.raises(SystemExit) as end:
        main(shlex.split(arguments, comments=True))
    return end.value.code


def test_every_block_is_of_a_kind_that_is_checked_here() -> None:
    assert {kind for kind, _ in BLOCKS} == {"yaml", "console", "text", "python"}
    assert PAGE.count("```") == 2 * len(BLOCKS)


def test_every_command_works(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    [console] = blocks("console")
    for line in console.splitlines():
        assert code_of(line.removeprefix("$ turnchart ")) == 0, capsys.readouterr().out


def test_a_failure_looks_as_it_is_shown(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tests = folder / "reviewer.test.yaml"
    tests.write_text(
        tests.read_text("utf-8").replace("requesting, tooling, ...", "requesting, stopping"), "utf-8"
    )
    assert code_of("test -k denied") == 1
    out = capsys.readouterr().out
    [shown] = blocks("text")
    for line in shown.splitlines():
        assert f"    {line}" in out.splitlines()


class Failures:
    """Collects what went wrong in a run of pytest."""

    def __init__(self) -> None:
        self.passed = 0
        self.texts = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.passed += report.when == "call" and report.passed
        self.texts += report.longreprtext if report.failed else ""


def test_pytest_runs_the_files_and_the_python(folder: Path) -> None:
    for i, text in enumerate(blocks("python")):
        (folder / f"test_block_{i}.py").write_text(text, "utf-8")
    (folder / "pytest.ini").write_text("[pytest]\nanyio_mode = auto\n", "utf-8")
    off = [
        each
        for name in ("terminal", "cacheprovider", "faulthandler", "timeout", "capture", "unraisableexception")
        for each in ("-p", f"no:{name}")
    ]
    ran = Failures()
    assert pytest.main(["-c", "pytest.ini", "--import-mode=importlib", *off], plugins=[ran]) == 0, ran.texts
    assert ran.passed > 60
