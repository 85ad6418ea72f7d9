"""The flows that come along: each is right everywhere and says what it is for; pytest plays their tests."""

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio.lowlevel
import pytest

from turnchart.flows import Shipped, check_flow, load_flow, shipped_flows
from turnchart.flows.testfiles.reading import is_suite
from turnchart.machine.clock import SystemClock

pytestmark = pytest.mark.checkout

Cli = Callable[..., Any]
FOLDER = Path(__file__).resolve().parents[3] / "flows"
FLOWS = shipped_flows()
OFFLINE = {
    "demo": "it stays in .turnchart/demo/haiku.txt.",
    "extractor": '"date": "2026-05-03"',
    "support": "Your order A1234 is settled as far as I may settle it.",
    "todo": "ALL DONE",
}
"""The flows that run without a key, and what they say in the end."""


def named(flow: Shipped) -> str:
    return flow.name


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without keys, on which the programs that flows name are there, and do nothing."""
    bin = tmp_path / "bin"
    bin.mkdir()
    for name in ("git", "pytest", "python3"):
        (bin / name).symlink_to(shutil.which("true") or "/bin/true")
    monkeypatch.setenv("PATH", f"{bin}:/bin:/usr/bin")


@pytest.mark.parametrize("flow", FLOWS, ids=named)
@pytest.mark.usefixtures("programs")
def test_a_flow_is_right_also_without_a_key(flow: Shipped, tmp_path: Path, cli: Cli) -> None:
    assert check_flow(flow.path, env={"PATH": str(tmp_path)}) == []
    test = flow.path.with_name(f"{flow.name}.test.yaml")
    assert is_suite(test)
    ended = cli("check", "--strict", flow.name, str(test))
    assert (ended.code, ended.out) == (0, f"{flow.name}, {test}: no problems\n")


@pytest.mark.parametrize("flow", FLOWS, ids=named)
def test_a_flow_says_what_it_is_for(flow: Shipped) -> None:
    assert flow.path.name == f"{flow.name}.yaml"
    assert 40 < len(flow.description) < 120
    assert flow.path.read_text("utf-8").startswith("# ")


def test_there_are_enough_and_nothing_else_lies_there() -> None:
    assert len(FLOWS) > 12
    files = {path.name for path in FOLDER.iterdir()} - {"turnchart", "scripts"}
    assert files == {f"{flow.name}{end}" for flow in FLOWS for end in (".yaml", ".test.yaml")}


@pytest.mark.parametrize("name", OFFLINE)
def test_a_flow_that_needs_no_key_runs(name: str, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    async def at_once(_self: object, _seconds: float) -> None:
        await anyio.lowlevel.checkpoint()

    monkeypatch.setattr(SystemClock, "sleep", at_once)
    ended = cli("run", name)
    assert (ended.code, OFFLINE[name] in ended.out) == (0, True)


def test_the_flows_that_need_no_key_are_those_that_play_a_script() -> None:
    scripted = {flow.name for flow in FLOWS if (load_flow(flow.path).model or "").startswith("script:")}
    assert scripted == set(OFFLINE)


@pytest.mark.parametrize(
    ("point", "said", "comes"),
    [
        ("pre_tool", {"tool": "shell", "args": {"command": "git push origin"}}, "deny: People push."),
        (
            "pre_tool",
            {"tool": "write_file", "args": {"path": "a/uv.lock", "content": ""}},
            "deny: Lock files",
        ),
        ("pre_tool", {"tool": "shell", "args": {"command": "grep x"}}, "args is now {'command': 'rg x'}"),
        ("pre_tool", {"tool": "shell", "args": {"command": "true\n" * 30}}, "ask: The command is long."),
        ("turn_stopping", {"text": "TODO: the rest"}, "continue: You left a TODO."),
        ("turn_stopping", {"text": "Done."}, "none"),
    ],
)
def test_a_hook_that_was_written_for_claude_code(
    point: str, said: dict[str, Any], comes: str, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python3").symlink_to(sys.executable)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    ended = cli("hook", "test", point, "claude-hooks", "--payload", "-", stdin=json.dumps(said))
    assert (ended.code, ended.err) == (0, "")
    assert comes in ended.out
