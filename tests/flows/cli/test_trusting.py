import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from turnchart.flows.cli import trusting
from turnchart.flows.cli.trusting import load_to_run

Cli = Callable[..., Any]
FLOW = """\
version: 1
model: test
hooks:
  session_start: [{run: [sh, hooks/start.sh], env_from: [CI]}]
"""
PLUGIN = """
from pathlib import Path
from turnchart.hooks import SessionStart, hook
from turnchart.hooks.params import Command

Path(__file__).with_name("imported").touch()

@hook("asked_hook", on="session_start")
def asked_hook(payload: SessionStart, *, command: Command) -> None: ...
"""


class Terminal(io.StringIO):
    """A terminal at which somebody types."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "project"
    (root / "hooks").mkdir(parents=True)
    (root / ".git").mkdir()
    (root / "flow.yaml").write_text(FLOW, "utf-8")
    (root / "hooks" / "start.sh").write_text("exit 0\n", "utf-8")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return root


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch, project: Path) -> Callable[[str], None]:
    """Let somebody sit at the terminal and type this."""
    monkeypatch.chdir(project)
    monkeypatch.setattr(trusting, "by_hand", lambda: True)

    def type_(text: str) -> None:
        monkeypatch.setattr(sys, "stdin", Terminal(text))

    return type_


def test_where_nobody_can_be_asked_nothing_runs(
    cli: Cli, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)
    ended = cli("run", "flow.yaml", "hi")
    assert (ended.code, ended.out) == (3, "")
    assert "this flow starts sh hooks/start.sh with CI [not-trusted]" in ended.err
    assert not trusting.by_hand()


def test_for_once(cli: Cli, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project)
    assert cli("run", "flow.yaml", "hi", "--trust").code == 0
    assert cli("run", "flow.yaml", "hi").code == 3


def test_yes_is_kept_until_something_changes(
    typed: Callable[[str], None], project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    typed("y\n")
    assert load_to_run("flow.yaml").trusted
    asked = capsys.readouterr().err
    assert "flow wants to do what nobody agreed to yet:" in asked
    assert "  starts sh hooks/start.sh with CI  (flow.yaml:4)" in asked
    typed("")
    assert load_to_run("flow.yaml").trusted
    assert capsys.readouterr().err == ""
    text = FLOW.replace("[{run", "[{run: [sh]}, {run")
    (project / "flow.yaml").write_text(text, "utf-8")
    typed("n\n")
    assert not load_to_run("flow.yaml").trusted
    asked = capsys.readouterr().err
    assert "(1 more was agreed to before)" in asked
    assert "start.sh" not in asked
    (project / "hooks" / "start.sh").write_text("exit 1\n", "utf-8")
    (project / "flow.yaml").write_text(FLOW, "utf-8")
    typed("\n")
    assert not load_to_run("flow.yaml").trusted


def test_programs_are_not_asked_by_a_program(typed: Callable[[str], None]) -> None:
    typed("y\n")
    assert not load_to_run("flow.yaml", ask=False).trusted


def test_a_plug_in_is_asked_for_first_and_then_what_its_hooks_start(
    typed: Callable[[str], None], project: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.delitem(sys.modules, "asked_plugin", raising=False)
    (project / "pyproject.toml").write_text("[tool.turnchart]\nplugins = ['asked_plugin']\n", "utf-8")
    (project / "asked_plugin.py").write_text(PLUGIN, "utf-8")
    use = "version: 1\nhooks:\n  session_start: [{use: asked_hook, with: {command: [make]}}]\n"
    (project / "flow.yaml").write_text(use, "utf-8")
    typed("n\n")
    assert not load_to_run("flow.yaml").trusted
    assert not (project / "imported").exists()
    typed("y\ny\n")
    assert load_to_run("flow.yaml").trusted
    asked = capsys.readouterr().err
    assert asked.index("imports asked_plugin  (pyproject.toml:2)") < asked.index("starts make  (flow.yaml:3)")
