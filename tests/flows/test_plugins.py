import sys
from pathlib import Path

import pytest

from turnchart.flows.plugins import load_plugins


def test_tools_are_those_in_the_module(tmp_path: Path) -> None:
    lines = [
        "from turnchart.machine import tool",
        "@tool(name='plus')",
        "def add(a: int) -> int:",
        "    return a",
    ]
    (tmp_path / "plugin_good.py").write_text("\n".join([*lines, "other = 5"]))
    before = list(sys.path)
    tools, problems = load_plugins(["plugin_good"], [tmp_path])
    assert list(tools) == ["plus"]
    assert problems == []
    assert sys.path == before


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("import no_such_module\n", "ModuleNotFoundError"),
        ("1 / 0\n", "ZeroDivisionError"),
        ("(", "SyntaxError"),
        ("raise SystemExit(3)\n", "SystemExit"),
        (
            "from turnchart.hooks import hook\n@hook('shout', on='nowhere')\ndef shout(payload): ...\n",
            "ValueError",
        ),
    ],
)
def test_a_plugin_that_cannot_be_imported_is_a_problem(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "plugin_bad.py").write_text(text)
    tools, (problem,) = load_plugins(["plugin_bad"], [tmp_path])
    assert tools == {}
    assert (problem.code, problem.file) == ("plugin", "plugin_bad")
    assert why in problem.message


@pytest.mark.parametrize("name", ["no_such_plugin", "", ".relative", "a/b.py"])
def test_a_plugin_that_is_not_there_is_a_problem(name: str) -> None:
    assert [problem.code for problem in load_plugins([name])[1]] == ["plugin"]
