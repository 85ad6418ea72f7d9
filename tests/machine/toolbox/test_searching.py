"""Searching files, never outside of the root."""

import re
from pathlib import Path
from typing import Any

import pytest

from turnchart.machine.points import ToolOutcome
from turnchart.machine.toolbox import search_files_tool
from turnchart.machine.tools import Tool, ToolContext, run_tool

pytestmark = pytest.mark.anyio


@pytest.fixture(name="root")
def _root(tmp_path: Path) -> Path:
    root = tmp_path.resolve() / "root"
    for folder in ("src/deep", ".git"):
        (root / folder).mkdir(parents=True)
    (root / "a.txt").write_text("One\ntwo one\n")
    (root / "src/b.py").write_text("x = 'one'\r\n")
    (root / "src/deep/c.py").write_text("(one)\n" + "one " * 300 + "\n")
    (root / ".git/config").write_text("one\n")
    (root / "binary").write_bytes(b"one\0one")
    (tmp_path / "secret").write_text("one secret")
    (root / "out").symlink_to(tmp_path)
    (root / "file_out").symlink_to(tmp_path / "secret")
    return root


async def call(tool: Tool, **args: Any) -> ToolOutcome:
    return await run_tool(tool, tool.parse(args), ToolContext())


async def found(root: Path, pattern: str, settings: dict[str, Any] | None = None, **args: Any) -> list[str]:
    outcome = await call(search_files_tool(root, **(settings or {})), pattern=pattern, **args)
    assert not outcome.is_error, outcome
    return [str(line) for line in outcome.content[0]["text"].splitlines()]


async def error(
    root: Path, pattern: str, settings: dict[str, Any] | None = None, **args: Any
) -> tuple[str, str]:
    outcome = await call(search_files_tool(root, **(settings or {})), pattern=pattern, **args)
    assert outcome.is_error, outcome
    return outcome.content[0]["text"], "" if outcome.details is None else outcome.details["name"]


async def test_it_only_reads_and_is_judged_by_its_path(root: Path) -> None:
    made = search_files_tool(root)
    assert (made.name, made.effects, made.execution) == ("search_files", "read", "parallel")
    assert (made.subject, made.subject_kind) == ("path", "path")
    assert made.schema["required"] == ("pattern",)


async def test_lines_that_match_are_named_in_order(root: Path) -> None:
    lines = await found(root, "one")
    assert [line.split(" ", 1)[0] for line in lines] == [
        "a.txt:2:",
        "src/b.py:1:",
        "src/deep/c.py:1:",
        "src/deep/c.py:2:",
    ]
    assert lines[1] == "src/b.py:1: x = 'one'"
    assert len(lines[3]) == len("src/deep/c.py:2: ") + 500 + len(" [...]")


@pytest.mark.parametrize(
    ("args", "places"),
    [
        ({"pattern": "^one", "ignore_case": True, "files": "*.txt"}, ["a.txt:1"]),
        ({"pattern": "(one)", "literal": True}, ["src/deep/c.py:1"]),
        (
            {"pattern": "one", "path": "src", "files": "*.py"},
            ["src/b.py:1", "src/deep/c.py:1", "src/deep/c.py:2"],
        ),
        ({"pattern": "one", "path": "./src/", "files": "deep/*"}, ["src/deep/c.py:1", "src/deep/c.py:2"]),
        ({"pattern": "one", "files": "src/*.py"}, ["src/b.py:1"]),
        ({"pattern": "one", "path": "src/b.py"}, ["src/b.py:1"]),
        ({"pattern": "one", "path": "src/b.py", "files": "*.py"}, ["src/b.py:1"]),
        ({"pattern": "one", "path": ".git"}, [".git/config:1"]),
    ],
)
async def test_what_is_searched_can_be_narrowed(root: Path, args: dict[str, Any], places: list[str]) -> None:
    lines = await found(root, **args)
    assert [re.match(r"[^:]*:\d+", line)[0] for line in lines] == places  # type: ignore[index]  # it matches


async def test_nothing_found_is_said(root: Path) -> None:
    assert await found(root, "zzz") == ["[nothing matches `zzz`]"]


async def test_what_is_too_much_is_cut(root: Path) -> None:
    lines = await found(root, "one", {"max_matches": 2})
    assert lines[2:] == ["[more than 2 matches: give a narrower pattern or path]"]
    assert len("\n".join(await found(root, "one", {"max_output": 100}))) < 200


@pytest.mark.parametrize("path", ["..", "out", "file_out", "../secret", "src/../.."])
async def test_nothing_outside_of_the_root_is_read(root: Path, path: str) -> None:
    assert "leads out of the folder" in (await error(root, "secret", path=path))[0]
    assert await found(root, "secret") == ["[nothing matches `secret`]"]


async def test_mistakes_are_told(root: Path) -> None:
    said, name = await error(root, "(")
    assert name == "BadPattern"
    assert said.startswith("`(` is no regular expression: missing ), unterminated subpattern at position 0;")
    assert await error(root, "x", path="none") == ("there is no file or folder `none`", "NotFound")


async def test_a_pattern_that_takes_for_ever_is_stopped(root: Path) -> None:
    (root / "a.txt").write_text("a" * 5000 + "!")
    said, name = await error(root, "(a+)+$", {"timeout": 0.3}, path="a.txt")
    assert name == "Timeout"
    assert "took longer than 0.3 s" in said
