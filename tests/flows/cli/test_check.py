import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[..., Any]


def test_a_flow_that_is_right(cli: Cli) -> None:
    assert cli("check", "demo") == (0, "demo: no problems\n", "")


def test_every_mistake_is_told_with_its_place(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "wrong.yaml").write_text("version: 1\nmodel: test\nquues: {}\ntols: []\n", "utf-8")
    ended = cli("check", "wrong.yaml")
    assert ended.code == 1
    assert 'wrong.yaml:3:1: error: unknown key "quues"' in ended.out
    assert 'did you mean "tools"?' in ended.out
    assert ended.out.endswith("wrong.yaml: 2 errors\n")


def test_problems_as_json(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "wrong.yaml").write_text("version: 1\nmodel: test\nquues: {}\n", "utf-8")
    ended = cli("check", "demo", "wrong.yaml", "--format", "json")
    assert ended.code == 1
    assert [(each["file"], each["line"], each["code"]) for each in json.loads(ended.out)] == [
        ("wrong.yaml", 3, "unknown-key")
    ]
    assert json.loads(cli("check", "demo", "--format", "json").out) == []


@pytest.mark.parametrize(("options", "code"), [((), 0), (("--strict",), 1)])
def test_warnings_count_where_they_should(
    cli: Cli, tmp_path: Path, options: tuple[str, ...], code: int
) -> None:
    text = "version: 1\nmodel: test\nprompt: [Answer shortly, in British English]\n"
    (tmp_path / "split.yaml").write_text(text, "utf-8")
    ended = cli("check", "split.yaml", *options)
    assert (ended.code, "1 warning" in ended.out) == (code, True)


def test_a_plug_in_makes_its_tools_known(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text("version: 1\nmodel: test\ntools: [greet]\n", "utf-8")
    module = "from turnchart.machine import tool\n\n\n@tool\ndef greet(name: str) -> str:\n    return name\n"
    (tmp_path / "own_tools_for_check.py").write_text(module, "utf-8")
    assert cli("check", "own.yaml").code == 1
    assert cli("check", "own.yaml", "--plugin", "own_tools_for_check").code == 0


def test_a_file_that_is_not_there(cli: Cli) -> None:
    ended = cli("check", "nothing.yaml")
    assert (ended.code, "[file-missing]" in ended.out) == (1, True)
    assert cli("check").code == 2


SUITE = """version: 1
flow: a.yaml
tests:
  - name: it answers
    prompt: hi
    expect: {reason: completed}
"""


def test_a_test_file_is_checked_with_its_flow(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("version: 1\nmodel: test\n", "utf-8")
    (tmp_path / "a.test.yaml").write_text(SUITE, "utf-8")
    assert cli("check", "a.yaml", "a.test.yaml") == (0, "a.yaml, a.test.yaml: no problems\n", "")
    (tmp_path / "a.test.yaml").write_text(SUITE.replace("reason", "raeson"), "utf-8")
    wrong = cli("check", "a.test.yaml")
    assert (wrong.code, "a.test.yaml:6:14: error" in wrong.out) == (1, True)
    (tmp_path / "a.yaml").write_text("version: 1\nmodle: test\n", "utf-8")
    (tmp_path / "a.test.yaml").write_text(SUITE, "utf-8")
    wrong = cli("check", "a.test.yaml")
    assert (wrong.code, "a.yaml:2:1: error" in wrong.out) == (1, True)


def test_lint_says_what_can_never_happen(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("version: 1\nmodel: test\nlimits: {max_steps: 1}\n", "utf-8")
    assert cli("check", "a.yaml") == (0, "a.yaml: no problems\n", "")
    told = cli("check", "a.yaml", "--lint")
    assert (told.code, "a.yaml:3:21: warning: limits.max_steps is 1" in told.out) == (0, True)
    assert cli("check", "a.yaml", "--lint", "--strict").code == 1
