"""A program with gaps that the model fills in."""

import sys
from pathlib import Path
from typing import Any

import pytest

from turnchart.machine.points import ToolOutcome
from turnchart.machine.toolbox import make, script_tool
from turnchart.machine.toolbox._gaps import Argument
from turnchart.machine.toolbox.script import filled
from turnchart.machine.tools import Tool, ToolArgumentError, ToolContext, ToolFailed, run_tool

pytestmark = pytest.mark.anyio

ECHO = (
    sys.executable,
    "-I",
    "-S",
    "-c",
    "import os, sys; print(sys.argv[1:], os.path.basename(os.getcwd()))",
)


async def call(tool: Tool, **args: Any) -> ToolOutcome:
    return await run_tool(tool, tool.parse(args), ToolContext())


async def text(tool: Tool, **args: Any) -> str:
    outcome = await call(tool, **args)
    return "".join(part["text"] for part in outcome.content)


async def test_the_model_sees_typed_arguments(tmp_path: Path) -> None:
    args: dict[str, dict[str, Any]] = {
        "what": {"description": "What to build.", "choices": ["docs", "wheel"]},
        "count": {"type": "integer", "default": 1},
        "fast": {"type": "boolean", "default": False},
    }
    made = script_tool(
        tmp_path, command=["make", "{what}", "N={count}", "FAST={fast}"], description="Build.", args=args,
        subject="what",
    )  # fmt: skip
    assert (made.name, made.description, made.subject, made.subject_kind) == (
        "script",
        "Build.",
        "what",
        "text",
    )
    assert made.schema["required"] == ("what",)
    properties = made.schema["properties"]
    assert properties["what"] == {
        "description": "What to build.",
        "enum": ("docs", "wheel"),
        "type": "string",
    }
    assert properties["count"] == {"default": 1, "type": "integer"}
    assert made.parse({"what": "docs"}) == {"what": "docs", "count": 1, "fast": False}
    for wrong in (
        {},
        {"what": "all"},
        {"what": "docs", "count": "x"},
        {"what": "docs", "fast": 1},
        {"what": "docs", "z": 1},
    ):
        with pytest.raises(ToolArgumentError):
            made.parse(wrong)


async def test_a_value_is_one_argument_that_no_shell_reads(tmp_path: Path) -> None:
    args: dict[str, dict[str, Any]] = {"a": {}, "b": {"type": "number"}}
    made = script_tool(tmp_path, command=[*ECHO, "{a}", "b={b}", "{{a}}"], description="Echo.", args=args)
    said = await text(made, a="x; rm -rf $HOME `id` 'q'", b=1.5)
    assert said.splitlines()[0].startswith(repr(["x; rm -rf $HOME `id` 'q'", "b=1.5", "{a}"]))
    assert said.endswith("[exit code 0]")


async def test_it_starts_in_its_folder_with_its_variables_and_ends_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sub").mkdir()
    monkeypatch.setenv("A_TOKEN", "t")
    made = make("script", tmp_path, {"command": [*ECHO], "description": "Echo.", "cwd": "sub"})
    assert (await text(made)).startswith("[] sub")
    shown = ["/bin/sh", "-c", "echo $A_TOKEN.$B"]
    made = script_tool(tmp_path, command=shown, description="x", env_from=[{"B": "A_TOKEN"}])
    assert (await text(made)).startswith(".t\n")
    made = script_tool(tmp_path, command=["/bin/sh", "-c", "sleep 60"], description="x", timeout=0.05)
    outcome = await call(made)
    assert outcome.is_error
    assert outcome.details["timed_out"]


async def test_what_cannot_be_started_is_told(tmp_path: Path) -> None:
    made = script_tool(tmp_path, command=["no-such-program"], description="x")
    assert "`no-such-program` cannot be started" in await text(made)
    made = script_tool(tmp_path, command=["true"], description="x", cwd="sub")
    assert await text(made) == "there is no folder `sub` to start in"
    with pytest.raises(PermissionError):
        script_tool(tmp_path, command=["true"], description="x", cwd="..")


async def test_a_path_stays_below_the_root(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "sub").mkdir(parents=True)
    (root / "out").symlink_to(tmp_path)
    made = script_tool(
        root,
        command=[*ECHO, "{path}"],
        description="x",
        args={"path": {"type": "path"}},
        subject="path",
        cwd="sub",
    )
    assert (made.subject, made.subject_kind) == ("path", "path")
    assert (await text(made, path="a/b")).startswith(repr(["../a/b"]))
    for path in ("../x", "out/x", "/etc/passwd"):
        outcome = await call(made, path=path)
        assert outcome.is_error
        assert "leads out of the folder" in outcome.content[0]["text"]


OPTIONS = {
    "text": Argument(), "number": Argument("number"), "listed": Argument(choices=("-x",)),
    "path": Argument("path"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("command", "given", "made"),
    [
        (["p", "{text}"], {"text": "-rf"}, None),
        (["p", "{text}.txt"], {"text": "--x"}, None),
        (["p", "{text}{text}"], {"text": "-"}, None),
        (["p", "--", "{text}"], {"text": "-rf"}, ["p", "--", "-rf"]),
        (["p", "-m", "m={text}"], {"text": "-rf"}, ["p", "-m", "m=-rf"]),
        (["p", "-{text}"], {"text": "x"}, ["p", "-x"]),
        (["p", "{number}"], {"number": -5}, ["p", "-5"]),
        (["p", "{listed}"], {"listed": "-x"}, ["p", "-x"]),
        (["p", "{path}"], {"path": "-x"}, ["p", "./-x"]),
        (["p", "{path}"], {"path": "a/../b"}, ["p", "b"]),
    ],
)
def test_no_value_becomes_an_option(
    command: list[str], given: dict[str, Any], made: list[str] | None, tmp_path: Path
) -> None:
    if made is None:
        with pytest.raises(ToolFailed, match="would be taken for an option"):
            filled(command, OPTIONS, given, tmp_path)
    else:
        assert filled(command, OPTIONS, given, tmp_path) == tuple(made)


def test_a_nul_can_be_no_argument(tmp_path: Path) -> None:
    with pytest.raises(ToolFailed, match="NUL"):
        filled(["p", "{text}"], OPTIONS, {"text": "a\0b"}, tmp_path)


def test_a_pattern_must_match_all_of_it(tmp_path: Path) -> None:
    args = {"name": {"pattern": "[a-z]+"}}
    made = script_tool(tmp_path, command=["true", "{name}"], description="x", args=args)
    assert made.parse({"name": "abc"}) == {"name": "abc"}
    with pytest.raises(ToolArgumentError, match=r"must match \[a-z\]\+"):
        made.parse({"name": "abc; id"})


@pytest.mark.parametrize(
    ("command", "args", "subject", "message"),
    [
        (["p", "{x}"], {}, None, r"\{x\} is none of args \(none\)"),
        (["p"], {"x": {}}, None, r"no \{x\}, where the argument x would go"),
        (["{x}"], {"x": {}}, None, "the program itself must be fixed"),
        (["p", "{ctx}"], {"ctx": {}}, None, "no argument can be named ctx"),
        (["p", "{x}"], {"x": {}}, "y", "subject is y, which is none of args"),
    ],
)
def test_gaps_and_arguments_must_fit(
    command: list[str], args: dict[str, Any], subject: str | None, message: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=message):
        script_tool(tmp_path, command=command, description="x", args=args, subject=subject)
