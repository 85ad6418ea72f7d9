"""Writing and editing files, never outside of the root."""

import os
from pathlib import Path
from typing import Any

import pytest

from turnchart.machine.points import ToolOutcome
from turnchart.machine.toolbox import edit_file_tool, write_file_tool
from turnchart.machine.toolbox import writing as module
from turnchart.machine.tools import Tool, ToolContext, run_tool

pytestmark = pytest.mark.anyio


@pytest.fixture(name="root")
def _root(tmp_path: Path) -> Path:
    root = tmp_path.resolve() / "root"
    (root / "src").mkdir(parents=True)
    (root / "src" / "a.py").write_text("one\ntwo\nthree\ntwo\n")
    (tmp_path / "secret").write_text("secret")
    (root / "out").symlink_to(tmp_path)
    (root / "file_out").symlink_to(tmp_path / "secret")
    (root / "in").symlink_to("src/a.py")
    return root


async def call(tool: Tool, **args: Any) -> ToolOutcome:
    return await run_tool(tool, tool.parse(args), ToolContext())


async def text(tool: Tool, **args: Any) -> str:
    outcome = await call(tool, **args)
    assert not outcome.is_error, outcome
    return "".join(part["text"] for part in outcome.content)


async def error(tool: Tool, **args: Any) -> tuple[str, str]:
    outcome = await call(tool, **args)
    assert outcome.is_error, outcome
    return outcome.content[0]["text"], "" if outcome.details is None else outcome.details["name"]


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


async def test_both_are_judged_by_their_path_and_run_alone(root: Path) -> None:
    for made in (write_file_tool(root), edit_file_tool(root)):
        assert (made.subject, made.subject_kind, made.effects) == ("path", "path", None)
        assert made.execution == "exclusive"
        assert all(each["description"] for each in made.schema["properties"].values())


@pytest.mark.parametrize(
    "path", ["../secret", "out/secret", "out/new", "file_out", "src/../../secret", "{tmp}/secret"]
)
async def test_nothing_outside_of_the_root_is_touched(root: Path, tmp_path: Path, path: str) -> None:
    before = everything(tmp_path)
    path = path.format(tmp=tmp_path)
    for tool, args in (
        (write_file_tool(root), {"content": "x"}),
        (edit_file_tool(root), {"old_text": "secret", "new_text": "x"}),
    ):
        said, _ = await error(tool, path=path, **args)
        assert "leads out of the folder" in said
    assert everything(tmp_path) == before


# -- write_file ----------------------------------------------------------------------------------


async def test_a_new_file_gets_its_folders(root: Path) -> None:
    write = write_file_tool(root)
    assert await text(write, path="b/c/d.txt", content="x\ny\n") == "Created `b/c/d.txt`: 2 lines."
    assert (root / "b/c/d.txt").read_bytes() == b"x\ny\n"
    assert await text(write, path="empty", content="") == "Created `empty`: 0 lines."


async def test_a_file_is_replaced_whole_and_keeps_its_mode(root: Path) -> None:
    file = root / "src" / "a.py"
    file.chmod(0o750)
    assert (
        await text(write_file_tool(root), path="src/a.py", content="ä\r\n") == "Replaced `src/a.py`: 1 line."
    )
    assert file.read_bytes() == b"\xc3\xa4\r\n"
    assert file.stat().st_mode & 0o777 == 0o750
    assert os.listdir(root / "src") == ["a.py"], "nothing is left beside it"


async def test_a_link_stays_a_link(root: Path) -> None:
    await text(write_file_tool(root), path="in", content="new")
    assert (root / "in").is_symlink()
    assert (root / "src" / "a.py").read_text() == "new"


async def test_a_file_is_whole_or_as_it_was(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    said, name = await error(write_file_tool(root), path="src/a.py", content="new")
    assert (said, name) == ("`src/a.py` cannot be used: No space left on device", "OSError")
    assert (root / "src" / "a.py").read_text() == "one\ntwo\nthree\ntwo\n"
    assert os.listdir(root / "src") == ["a.py"]


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("src", "IsADirectory"),
        ("new/", "IsADirectory"),
        ("src/a.py/b", "NotADirectory"),
        ("pipe", "NotAFile"),
    ],
)
async def test_what_is_no_file_is_not_written(root: Path, path: str, name: str) -> None:
    os.mkfifo(root / "pipe")
    assert (await error(write_file_tool(root), path=path, content="x"))[1] == name


async def test_text_that_no_file_can_hold(root: Path) -> None:
    assert (await error(write_file_tool(root), path="x", content="\ud800"))[1] == "BadText"
    assert not (root / "x").exists()


# -- edit_file -----------------------------------------------------------------------------------


async def test_one_place_is_replaced_and_the_rest_stays_as_it_is(root: Path) -> None:
    edit = edit_file_tool(root)
    assert (
        await text(edit, path="src/a.py", old_text="three\n", new_text="3\n")
        == "Edited `src/a.py` at line 3."
    )
    assert (root / "src/a.py").read_text() == "one\ntwo\n3\ntwo\n"
    await text(edit, path="src/a.py", old_text="one\n", new_text="")
    assert (root / "src/a.py").read_text() == "two\n3\ntwo\n"


async def test_line_ends_are_those_of_the_file(root: Path) -> None:
    (root / "dos").write_bytes(b"\xef\xbb\xbfa\r\nb\r\nc\r\n")
    await text(edit_file_tool(root), path="dos", old_text="a\nb\n", new_text="x\ny\n")
    assert (root / "dos").read_bytes() == b"\xef\xbb\xbfx\r\ny\r\nc\r\n"


@pytest.mark.parametrize(
    ("old", "new", "said", "name"),
    [
        ("four", "4", "does not stand in `src/a.py` as it is given; read the file again", "NoMatch"),
        ("one two", "1", "as it is given (it does, with other white space); read", "NoMatch"),
        ("two", "2", "2 times (lines 2, 4); give more", "ManyMatches"),
        ("", "x", "old_text is empty; write_file writes", "Empty"),
        ("two", "two", "nothing would change", "Unchanged"),
    ],
)
async def test_an_edit_that_is_not_clear_changes_nothing(
    root: Path, old: str, new: str, said: str, name: str
) -> None:
    told, kind = await error(edit_file_tool(root), path="src/a.py", old_text=old, new_text=new)
    assert said in told
    assert kind == name
    assert (root / "src/a.py").read_text() == "one\ntwo\nthree\ntwo\n"


async def test_places_that_overlap_are_several(root: Path) -> None:
    (root / "x").write_text("aaa" + "\nab" * 9)
    edit = edit_file_tool(root)
    assert (await error(edit, path="x", old_text="aa", new_text="b"))[1] == "ManyMatches"
    assert (
        "9 times (lines 2, 3, 4, 5, 6, ...)" in (await error(edit, path="x", old_text="ab", new_text="b"))[0]
    )


async def test_what_is_no_text_or_too_large_or_missing(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "x").write_bytes(b"\xff")
    edit = edit_file_tool(root)
    assert (await error(edit, path="x", old_text="a", new_text="b"))[1] == "BinaryFile"
    assert (await error(edit, path="none", old_text="a", new_text="b")) == (
        "there is no file `none`",
        "NotFound",
    )
    monkeypatch.setattr(module, "MAX_EDITED", 3)
    assert (await error(edit, path="src/a.py", old_text="a", new_text="b"))[1] == "TooLarge"
