from collections.abc import Callable
from pathlib import Path
from typing import Any

Cli = Callable[..., Any]
PARENT = "version: 1\nmodel: test\nhooks:\n  pre_tool: [{use: redact_secrets}]\n"
CHILD = """\
version: 1
extends: base.yaml
tools: [shell]
model: {api_key_env: NOT_SET_HERE, base_url: "${env:NOT_SET_HERE}"}
limits: {max_steps: "${env:NOT_SET_HERE}"}
hooks:
  pre_tool:
    - inherit
    - {use: deny_commands, timeout: "${env:NOT_SET_HERE}", with: {patterns: [rm]}}
    - {run: [sh, -c, "exit ${env:NOT_SET_HERE}"]}
"""


def write(folder: Path) -> None:
    (folder / "base.yaml").write_text(PARENT, "utf-8")
    (folder / "flow.yaml").write_text(CHILD, "utf-8")


def test_the_file_as_it_counts_needs_no_variable(cli: Cli, tmp_path: Path) -> None:
    write(tmp_path)
    ended = cli("show", "flow.yaml", "--resolved")
    assert (ended.code, ended.err) == (0, "")
    assert "- use: redact_secrets " in ended.out
    assert "# base.yaml:4" in ended.out
    assert 'max_steps: "${env:NOT_SET_HERE}"' in ended.out
    assert cli("show", "flow.yaml").out == ended.out


def test_the_chains_need_no_variable(cli: Cli, tmp_path: Path) -> None:
    write(tmp_path)
    ended = cli("show", "flow.yaml", "--hooks")
    assert (ended.code, ended.err) == (0, "")
    numbers = [line.split()[0] for line in ended.out.splitlines() if line[:3].strip().isdigit()]
    assert numbers == ["1.", "2.", "3."]
    assert "exit ${env:NOT_SET_HERE}" in ended.out


def test_what_is_wrong_is_told_beside_it(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "flow.yaml").write_text("version: 1\nhooks:\n  pre_tool: [{use: nobody}]\n", "utf-8")
    ended = cli("show", "flow.yaml", "--hooks")
    assert ended.code == 1
    assert "use nobody (not known here)" in ended.out
    assert "[unknown-hook]" in ended.err


def test_nothing_can_be_shown_of_what_cannot_be_read(cli: Cli) -> None:
    ended = cli("show", "gone.yaml")
    assert (ended.code, ended.out, "[file-missing]" in ended.err) == (1, "", True)


def test_one_view_at_a_time(cli: Cli) -> None:
    assert cli("show", "demo", "--resolved", "--hooks").code == 2
    assert "no-destructive" in cli("show", "demo", "--hooks").out
