import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator

from turnchart.flows.cli.schema import NAME
from turnchart.flows.source import as_written, read_file

Cli = Callable[..., Any]


def test_it_is_printed_or_written(cli: Cli, tmp_path: Path) -> None:
    printed = cli("schema")
    assert printed.code == 0
    assert json.loads(printed.out)["title"] == "A flow of Turnchart"
    ended = cli("schema", "--write")
    assert (ended.code, ended.out, f"$schema=./{NAME}\n" in ended.err) == (0, "", True)
    assert (tmp_path / NAME).read_text("utf-8") == printed.out
    assert "$schema=./other.json\n" in cli("schema", "-o", "other.json").err
    assert (tmp_path / "other.json").read_text("utf-8") == printed.out


def test_plug_ins_of_the_project_count_when_somebody_agreed(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "pyproject.toml").write_text("[tool.turnchart]\nplugins = ['schema_plugin']\n", "utf-8")
    code = "from turnchart.machine import tool\n\n\n@tool\ndef greet(name: str) -> str:\n    return name\n"
    (tmp_path / "schema_plugin.py").write_text(code, "utf-8")
    ended = cli("schema")
    assert (ended.code, "[plugin-not-trusted]" in ended.err, "greet" in ended.out) == (0, True, False)
    ended = cli("schema", "--trust")
    assert (ended.code, ended.err, "greet" in ended.out) == (0, "", True)


def test_what_is_written_takes_the_starter(cli: Cli, tmp_path: Path) -> None:
    cli("init")
    cli("schema", "--write")
    root = read_file(tmp_path / "agent.yaml").root
    assert root is not None
    validator: Any = Draft7Validator(json.loads((tmp_path / NAME).read_text("utf-8")))
    assert validator.is_valid(as_written(root))
