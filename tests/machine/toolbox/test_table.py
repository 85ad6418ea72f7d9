"""The built-in tools by name, as flows make them."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from turnchart.machine.toolbox import TOOLBOX, make, names
from turnchart.machine.tools import ToolContext, run_tool


def test_the_names_are_sorted_and_each_tool_has_its_own() -> None:
    known = (
        "code_execution", "edit_file", "list_files", "read_file", "script", "search_files", "shell",
        "web_fetch", "web_search", "write_file",
    )  # fmt: skip
    assert names() == tuple(sorted(TOOLBOX)) == known


@pytest.mark.parametrize("name", names())
def test_every_tool_is_made_without_parameters(name: str, tmp_path: Path) -> None:
    needed = {"script": {"command": ["true"], "description": "Do nothing."}}
    made = make(name, tmp_path, needed.get(name))
    assert made.name == name
    assert made.description
    assert all(each["description"] for each in made.schema["properties"].values())
    assert "title" not in TOOLBOX[name].params.model_json_schema()["properties"]


def test_an_unknown_name_lists_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(KeyError, match="no built-in tool 'rm'; they are: code_execution, edit_file"):
        make("rm", tmp_path)


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("read_file", {"max_chars": 0}),
        ("read_file", {"max_chars": "9"}),
        ("list_files", {"max": 1}),
        ("shell", {"timeout": 0}),
        ("shell", {"cwd": 1}),
        ("shell", {"env_from": ["A B"]}),
        ("shell", {"env_from": [{"A": "1B"}]}),
        ("shell", {"command": "ls"}),
        ("write_file", {"x": 1}),
        ("script", {"command": ["true"]}),
        ("script", {"command": [], "description": "x"}),
        ("script", {"command": ["true", "{x}"], "description": "x"}),
        ("script", {"command": ["true", "{x}"], "description": "x", "args": {"x": {"type": "text"}}}),
        ("script", {"command": ["true", "{x}"], "description": "x", "args": {"x": {"pattern": "("}}}),
        ("script", {"command": ["true", "{x}"], "description": "x", "args": {"x": {"default": 1}}}),
        (
            "script",
            {
                "command": ["t", "{x}"],
                "description": "x",
                "args": {"x": {"type": "integer", "default": True}},
            },
        ),
        (
            "script",
            {"command": ["t", "{x}"], "description": "x", "args": {"x": {"choices": ["a"], "default": "b"}}},
        ),
    ],
)
def test_wrong_parameters_are_refused(name: str, params: dict[str, object], tmp_path: Path) -> None:
    with pytest.raises(ValidationError):
        make(name, tmp_path, params)


def test_a_folder_outside_is_refused_when_the_tool_is_made(tmp_path: Path) -> None:
    with pytest.raises(PermissionError):
        make("shell", tmp_path, {"cwd": ".."})


@pytest.mark.anyio
async def test_parameters_reach_the_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_TOKEN", "token")
    monkeypatch.setenv("PLAIN", "plain")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "f").write_text("123456")
    read = make("read_file", tmp_path, {"max_chars": 3})
    listed = make("list_files", tmp_path / "sub", {"max_entries": 1})
    params = {"cwd": "sub", "timeout": 5, "env_from": ["A_TOKEN", {"B": "A_TOKEN"}]}
    shell = make("shell", tmp_path, params, frozenset(("PLAIN",)))
    assert "longer than 3" in (await run_tool(read, {"path": "sub/f"}, ToolContext())).content[0]["text"]
    assert (await run_tool(listed, {}, ToolContext())).content[0]["text"] == "f"
    told = await run_tool(shell, {"command": 'ls; echo "$A_TOKEN $B [$PLAIN]"'}, ToolContext())
    assert told.content[0]["text"] == "f\ntoken token []\n[exit code 0]"
