"""The page about stores of one's own: what it shows runs."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from runpy import run_path

import pytest
from tests.test_docs import blocks, commands, run

from turnchart.flows.cli import main
from turnchart.hooks.stores import STORES

pytestmark = pytest.mark.checkout

PAGE = Path(__file__).resolve().parents[1] / "docs" / "how-to" / "session-stores.md"


@pytest.fixture(name="project")
def _project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The files of the page, in a project of their own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path.parent / f"{tmp_path.name}-state"))
    monkeypatch.setattr(STORES, "_specs", {})
    for kind, text in blocks(PAGE):
        if kind in ("python", "yaml", "toml"):
            Path(text.partition("\n")[0].removeprefix("# ")).write_text(text, "utf-8")
    yield tmp_path
    sys.modules.pop("drawers", None)


def test_the_flow_runs_and_its_session_is_read(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command, shown in [
        each for kind, text in blocks(PAGE) if kind == "console" for each in commands(text)
    ]:
        run(command)
        assert capsys.readouterr().out.splitlines() == shown
    assert [path.name for path in (project / "drawer").iterdir()] == ["first.log"]
    with pytest.raises(SystemExit) as end:
        main(["sessions", "list", "--flow", "kept.yaml"])
    assert end.value.code == 3
    shell = next(text for kind, text in blocks(PAGE) if kind == "sh")
    assert re.findall("^turnchart (\\S+)", shell, re.MULTILINE) == ["sessions", "sessions", "diagram"]


def test_the_test_of_the_page_passes(project: Path, tmp_path: Path) -> None:
    found = run_path(str(project / "test_drawers.py"))
    found["test_the_drawer_is_a_store"](tmp_path)
