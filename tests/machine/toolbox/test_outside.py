"""Folders outside of the root: shut unless they are named, and then those alone."""

import sys
from pathlib import Path
from typing import Any

import pytest

from turnchart.machine.points import ToolOutcome
from turnchart.machine.toolbox import make
from turnchart.machine.tools import ToolContext, run_tool

pytestmark = pytest.mark.anyio

SAYS = "import sys; print(open(sys.argv[1]).read(), end='')"
SCRIPT = {
    "command": [sys.executable, "-c", SAYS, "{path}"], "description": "Say it.",
    "args": {"path": {"type": "path"}},
}  # fmt: skip
TOOLS: dict[str, dict[str, Any]] = {
    "read_file": {}, "list_files": {}, "search_files": {"pattern": "word"}, "write_file": {"content": "new"},
    "edit_file": {"old_text": "word", "new_text": "new"}, "script": {},
}  # fmt: skip
"""The tools that take a path, and what else each is given."""


@pytest.fixture(name="project")
def _project(tmp_path: Path) -> Path:
    for folder in ("project/src", "open/deep", "shut"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "a.txt").write_text("word")
    (tmp_path / "open" / "a.txt").write_text("word")
    (tmp_path / "open" / "out").symlink_to(tmp_path / "shut")
    (tmp_path / "project" / "out").symlink_to(tmp_path / "shut")
    (tmp_path / "project" / "to-open").symlink_to(tmp_path / "open")
    (tmp_path / "openly").mkdir()
    (tmp_path / "openly" / "a.txt").write_text("word")
    return tmp_path / "project"


async def call(name: str, root: Path, path: str, outside: list[str]) -> ToolOutcome:
    params: dict[str, Any] = {"outside": outside} if outside else {}
    made = make(name, root, {**(SCRIPT if name == "script" else {}), **params})
    return await run_tool(made, made.parse({"path": path, **TOOLS[name]}), ToolContext())


def target(name: str, folder: str) -> str:
    return folder if name in ("list_files", "search_files") else f"{folder}/a.txt"


@pytest.mark.parametrize("name", TOOLS)
@pytest.mark.parametrize(
    "folder", ["../shut", "../open", "../open/deep", "out", "to-open", "src/../../shut", "../openly"]
)
async def test_without_it_nothing_escapes(project: Path, name: str, folder: str) -> None:
    for path in (target(name, folder), f"{project}/{target(name, folder)}"):
        outcome = await call(name, project, path, [])
        assert outcome.is_error
        assert "leads out of the folder" in outcome.content[0]["text"]
    assert (project.parent / "shut" / "a.txt").read_text() == "word"


@pytest.mark.parametrize("name", TOOLS)
@pytest.mark.parametrize("folder", ["src", "../open", "../open/deep", "to-open"])
async def test_with_it_the_named_folder_is_open(project: Path, name: str, folder: str) -> None:
    outcome = await call(name, project, target(name, folder), ["../open"])
    assert not outcome.is_error, outcome
    expected = "new" if name in ("write_file", "edit_file") else "word"
    assert (project / folder / "a.txt").read_text() == expected


@pytest.mark.parametrize("name", TOOLS)
@pytest.mark.parametrize(
    "folder", ["../shut", "out", "../open/out", "to-open/out", "../open/../shut", "../openly", ".."]
)
async def test_with_it_nothing_else_is_open(project: Path, name: str, folder: str) -> None:
    outcome = await call(name, project, target(name, folder), ["../open"])
    assert outcome.is_error
    assert "leads out of the folder" in outcome.content[0]["text"]
    assert (project.parent / "shut" / "a.txt").read_text() == "word"


async def test_a_folder_that_becomes_a_link_later_opens_nothing_new(project: Path) -> None:
    made = make("read_file", project, {"outside": ["../open/deep"]})
    deep = project.parent / "open" / "deep"
    (deep / "a.txt").unlink()
    deep.rmdir()
    deep.symlink_to(project.parent / "shut")
    outcome = await run_tool(made, made.parse({"path": "../open/deep/a.txt"}), ToolContext())
    assert outcome.is_error


async def test_home_and_absolute_folders(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(project.parent))
    for named in ("~/open", str(project.parent / "open")):
        outcome = await call("read_file", project, str(project.parent / "open" / "a.txt"), [named])
        assert outcome.content[0]["text"] == "word"


async def test_the_model_is_told_which_folders_are_open(project: Path) -> None:
    told = make("read_file", project, {"outside": ["../open"]}).description
    assert told == f"Read a text file. Beside the project, paths may lead to `{project.parent / 'open'}`."
    assert make("read_file", project).description == "Read a text file."


async def test_programs_may_start_in_an_open_folder_and_in_no_other(project: Path) -> None:
    made = make("shell", project, {"cwd": "../open", "outside": ["../open"]})
    outcome = await run_tool(made, made.parse({"command": "pwd -P"}), ToolContext())
    assert str(project.parent / "open") in outcome.content[0]["text"]
    for params in ({"cwd": "../open"}, {"cwd": "../shut", "outside": ["../open"]}):
        with pytest.raises(PermissionError):
            make("shell", project, params)
