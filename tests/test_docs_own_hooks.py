"""The page about hooks and tools of one's own: what it shows runs."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.test_docs import blocks, commands, in_order, run

from turnchart.hooks import HOOKS
from turnchart.hooks.builtin import BUILTIN

pytestmark = pytest.mark.checkout

PAGE = Path(__file__).resolve().parents[1] / "docs" / "how-to" / "own-hooks.md"


@pytest.fixture(name="project")
def _project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The files of the page, in an empty folder; what they register is forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path.parent / f"{tmp_path.name}-state"))
    monkeypatch.setattr(HOOKS, "_specs", {name: HOOKS.get(name) for name in BUILTIN})
    for kind, text in blocks(PAGE):
        if kind in ("python", "yaml"):
            Path(text.partition("\n")[0].removeprefix("# ")).write_text(text, "utf-8")
    yield tmp_path
    sys.modules.pop("house", None)


@pytest.mark.usefixtures("project")
def test_what_the_page_shows_runs(capsys: pytest.CaptureFixture[str]) -> None:
    shown = [each for kind, text in blocks(PAGE) if kind == "console" for each in commands(text)]
    assert len(shown) == 4
    for command, lines in shown:
        run(command)
        assert in_order(lines, capsys.readouterr().out.splitlines()), command
