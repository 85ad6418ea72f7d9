"""Everything that the pages in docs/ show runs, and shows what it says.

The blocks of a page are taken in order, in one empty folder. A block of yaml, sh, json or toml that begins
with ``# NAME`` is that file. A line of a console block that begins with ``$ `` is run and must end with 0;
the lines below it are what it prints. There ``...`` stands for other lines, and at the end of a line for its
rest. A python block is run.
Pages that need more have a test of their own, ``test_docs_<page>.py``, and are left out here.
"""

import io
import os
import re
import shlex
import sys
from collections.abc import Iterable
from pathlib import Path
from runpy import run_path

import pytest

from turnchart.flows.cli import main

pytestmark = pytest.mark.checkout

ROOT = Path(__file__).resolve().parents[1]
KINDS = {"yaml", "sh", "json", "toml", "console", "text", "python", "mermaid", "sql"}
PAGES = sorted((ROOT / "docs").rglob("*.md"))
OWN = {
    path.stem.removeprefix("test_docs_").replace("_", "-") for path in (ROOT / "tests").glob("test_docs_*.py")
}
RUN = [page for page in PAGES if page.stem not in OWN]
NAMED = re.compile(r"# \S+$")
AS_WRITTEN = {"hooks", "problems"}
"""Pages of parts of flows, and of flows with mistakes: other tests look at what is said of each of them."""


def named(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> list[tuple[str, str]]:
    return re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_block_is_of_a_kind_that_is_known(page: Path) -> None:
    found = blocks(page)
    assert {kind for kind, _ in found} <= KINDS
    assert page.read_text("utf-8").count("\n```") == 2 * len(found)


@pytest.mark.parametrize("page", [page for page in PAGES if page.stem not in AS_WRITTEN], ids=named)
def test_every_flow_of_a_page_is_right(page: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = [(kind, text.partition("\n")[0], text) for kind, text in blocks(page)]
    files = [(kind, first[2:], text) for kind, first, text in shown if NAMED.match(first)]
    assert [kind for kind, *_ in files].count("yaml") == [kind for kind, *_ in shown].count("yaml")
    flows = [(name, text) for _, name, text in files if re.search(r"^version:", text, re.MULTILINE)]
    for _, name, text in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")
    for name, text in flows:  # one page shows a flow twice, as it grows
        (folder / name).write_text(text, "utf-8")
        with pytest.raises(SystemExit) as end:
            main(["check", "--no-env", name])
        assert end.value.code == 0, capsys.readouterr().out


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_link_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)", page.read_text("utf-8"))
    missing = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert not missing


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, where nothing was agreed to or set before; programs of this Python are found."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("TURNCHART_HOME", raising=False)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    return tmp_path


@pytest.mark.parametrize("page", [page for page in RUN if blocks(page)], ids=named)
def test_what_a_page_shows_runs(page: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number, (kind, text) in enumerate(blocks(page)):
        first, _, _ = text.partition("\n")
        if kind == "console":
            for command, shown in commands(text):
                run(command)
                assert in_order(shown, capsys.readouterr().out.splitlines()), command
        elif kind == "python":
            program = folder / f"block_{number}.py"
            program.write_text(text, "utf-8")
            run_path(str(program))
        elif first.startswith("# ") and " " not in first[2:]:
            file = folder / first[2:]
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, "utf-8")


def commands(text: str) -> Iterable[tuple[str, list[str]]]:
    """Yield the commands of a console block, each with what it is said to print."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, *shown = part.splitlines()
        yield command, shown


def run(command: str) -> None:
    program, *arguments = shlex.split(command, comments=True)
    assert program == "turnchart"
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 0, command


def in_order(shown: list[str], printed: list[str]) -> bool:
    """Tell whether these lines were printed; what is not shown may only stand where ``...`` does."""
    at = 0
    for index, line in enumerate(shown):
        if line == "...":
            continue
        loose = index and shown[index - 1] == "..."
        places = range(at, len(printed)) if loose else range(at, min(at + 1, len(printed)))
        found = next((i for i in places if shows(line, printed[i])), None)
        if found is None:
            return False
        at = found + 1
    return not shown or shown[-1] == "..." or at == len(printed)


def shows(line: str, printed: str) -> bool:
    """Tell whether a line of a page is a printed line."""
    return printed == line or (line.endswith("...") and printed.startswith(line.removesuffix("...")))


@pytest.mark.parametrize(
    ("shown", "right"),
    [
        ([], True),
        (["a", "b", "c"], True),
        (["a...", "b", "c..."], True),
        (["x...", "b", "c"], False),
        (["a", "..."], True),
        (["...", "c"], True),
        (["a", "...", "c"], True),
        (["a", "b"], False),
        (["b", "..."], False),
        (["...", "b"], False),
        (["...", "d"], False),
        (["a", "b", "c", "d"], False),
    ],
)
def test_what_is_shown_is_compared(shown: list[str], right: bool) -> None:
    assert in_order(shown, ["a", "b", "c"]) is right
