"""Reading and listing files, never outside of the root."""

import os
from pathlib import Path
from typing import Any

import pytest

from turnchart.machine.points import ToolOutcome
from turnchart.machine.toolbox import list_files_tool, read_file_tool
from turnchart.machine.tools import Tool, ToolContext, run_tool

pytestmark = pytest.mark.anyio


@pytest.fixture(name="root")
def _root(tmp_path: Path) -> Path:
    root = tmp_path.resolve() / "root"
    for folder in ("src/deep", "empty", ".git/objects"):
        (root / folder).mkdir(parents=True)
    for name in ("src/a.py", "src/deep/b.py", "src/deep/c.txt", ".git/config", ".hidden", "z"):
        (root / name).write_text(name)
    (root / "lines").write_bytes(b"one\ntwo\r\nthree\rstill three\nfour")
    (tmp_path / "secret").write_text("secret")
    (root / "out").symlink_to(tmp_path)
    (root / "in").symlink_to("src")
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


async def test_both_only_read_and_are_judged_by_their_path(root: Path) -> None:
    for made in (read_file_tool(root), list_files_tool(root)):
        assert (made.effects, made.execution) == ("read", "parallel")
        assert (made.subject, made.subject_kind) == ("path", "path")
    assert read_file_tool(root).name == "read_file"
    assert read_file_tool(root).description == "Read a text file."
    assert list_files_tool(root).name == "list_files"


# -- read_file -----------------------------------------------------------------------------------


async def test_a_file_is_shown_as_it_is(root: Path) -> None:
    read = read_file_tool(root)
    assert await text(read, path="lines") == "one\ntwo\r\nthree\rstill three\nfour"
    assert await text(read, path=str(root / "src" / "a.py")) == "src/a.py"
    assert await text(read, path="in/a.py") == "src/a.py"


@pytest.mark.parametrize(
    ("offset", "limit", "shown"),
    [
        (1, 1, "one\n\n[more follows: go on with offset=2]"),
        (2, 1, "two\r\n\n[more follows: go on with offset=3]"),
        (3, 2, "three\rstill three\nfour"),
        (4, None, "four"),
        (4, 9, "four"),
        (5, None, "[`lines` is empty from line 5 on]"),
    ],
)
async def test_some_lines_are_shown(root: Path, offset: int, limit: int | None, shown: str) -> None:
    assert await text(read_file_tool(root), path="lines", offset=offset, limit=limit) == shown


async def test_a_line_that_does_not_exist_is_an_error(root: Path) -> None:
    assert await error(read_file_tool(root), path="lines", offset=7) == (
        "`lines` has 4 lines, so there is no line 7", "NoSuchLine",
    )  # fmt: skip


async def test_long_files_are_cut_between_lines_and_can_be_read_on(root: Path) -> None:
    (root / "long").write_text("".join(f"line {number:04}\n" for number in range(1, 1001)))
    read, offset, seen = read_file_tool(root, max_chars=105), 1, ""
    while True:
        shown = await text(read, path="long", offset=offset)
        seen += shown.split("[cut")[0]
        if "[cut after 105 characters" not in shown:
            break
        offset = int(shown.rpartition("=")[2].rstrip("]"))
    assert seen == (root / "long").read_text()


async def test_a_line_that_is_too_long_is_cut_and_passed_over(root: Path) -> None:
    (root / "wide").write_text("x" * 50_000 + "\nend")
    read = read_file_tool(root, max_chars=10)
    note = "[line 1 is longer than 10 characters; the rest of it is not shown]"
    assert await text(read, path="wide") == f"{'x' * 10}\n{note}"
    assert await text(read, path="wide", offset=2) == "end"
    assert await text(read, path="wide", offset=2, limit=1) == "end"


async def test_exactly_full_is_not_cut(root: Path) -> None:
    (root / "full").write_text("12345\n7890")
    assert await text(read_file_tool(root, max_chars=10), path="full") == "12345\n7890"
    assert "[cut after 9" in await text(read_file_tool(root, max_chars=9), path="full")


async def test_an_empty_file_says_so_and_marks_and_odd_bytes_do_no_harm(root: Path) -> None:
    (root / "none").write_bytes(b"")
    (root / "odd").write_bytes(b"\xef\xbb\xbfa\xffb")
    assert await text(read_file_tool(root), path="none") == "[`none` is empty from line 1 on]"
    assert await text(read_file_tool(root), path="odd") == "a\ufffdb"


async def test_what_cannot_be_read_is_refused(root: Path) -> None:
    (root / "binary").write_bytes(b"a\0b")
    os.mkfifo(root / "pipe")
    read = read_file_tool(root)
    wrong = ("binary", "pipe", "src", "gone", "z/x", "gone/x")
    assert [(await error(read, path=path))[1] for path in wrong] == [
        "BinaryFile", "NotAFile", "IsADirectory", "NotFound", "NotADirectoryError", "NotFound",
    ]  # fmt: skip
    assert (await error(read, path="binary"))[0] == "`binary` is no text file: it has NUL bytes"


@pytest.mark.parametrize("path", ["../secret", "out/secret", "/etc/passwd", "src/../../secret"])
async def test_nothing_outside_of_the_root_is_read_or_listed(root: Path, path: str) -> None:
    said, _ = await error(read_file_tool(root), path=path)
    assert said == f"PermissionError: `{path}` leads out of the folder {root}"
    said, _ = await error(list_files_tool(root), path=os.path.dirname(path))
    assert "leads out of the folder" in said


# -- list_files ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "names"),
    [
        ({}, [".git/", ".hidden", "empty/", "in", "lines", "out", "src/", "z"]),
        ({"path": "src"}, ["a.py", "deep/"]),
        ({"path": "in"}, ["a.py", "deep/"]),
        ({"path": ".git"}, ["config", "objects/"]),
        ({"pattern": "*.py"}, ["[nothing in `.` matches `*.py`]"]),
        ({"pattern": "**/*.py"}, ["src/a.py", "src/deep/b.py"]),
        ({"pattern": "src/*"}, ["src/a.py", "src/deep/"]),
        ({"pattern": "./src/*/*"}, ["src/deep/b.py", "src/deep/c.txt"]),
        ({"pattern": "src/**"}, ["src/", "src/a.py", "src/deep/", "src/deep/b.py", "src/deep/c.txt"]),
        ({"pattern": ".git/**"}, [".git/"]),
        ({"path": "empty"}, ["[nothing in `empty` matches `*`]"]),
        ({"pattern": "../*"}, ["[nothing in `.` matches `../*`]"]),
        ({"pattern": "out/*"}, ["[nothing in `.` matches `out/*`]"]),
        ({"pattern": "/etc/*"}, ["[nothing in `.` matches `/etc/*`]"]),
    ],
)
async def test_files_are_listed_sorted(root: Path, args: dict[str, Any], names: list[str]) -> None:
    assert (await text(list_files_tool(root), **args)).split("\n") == names


async def test_long_lists_are_cut(root: Path) -> None:
    for number in range(5):
        (root / "empty" / str(number)).touch()
    some = await text(list_files_tool(root, max_entries=3), path="empty")
    assert some == "0\n1\n2\n[more than 3 names: give a narrower pattern]"
    assert await text(list_files_tool(root, max_entries=5), path="empty") == "0\n1\n2\n3\n4"


async def test_what_is_no_folder_is_an_error(root: Path) -> None:
    assert await error(list_files_tool(root), path="gone") == ("there is no folder `gone`", "NotFound")
    assert await error(list_files_tool(root), path="z") == ("there is no folder `z`", "NotFound")


async def test_a_folder_that_nobody_may_read_is_passed_over(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scandir = os.scandir

    def guarded(path: str) -> Any:
        if path.endswith("deep"):
            raise PermissionError(path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", guarded)
    assert await text(list_files_tool(root), pattern="src/**") == "src/\nsrc/a.py\nsrc/deep/"
