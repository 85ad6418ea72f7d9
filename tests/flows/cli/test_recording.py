"""``run --record FILE``, and ``run --model script:FILE`` that plays it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.machine.providers.loopback import Loopback
from tests.machine.providers.wire_formats import wires

from turnchart.machine import Failure, Reply

Cli = Callable[..., Any]
Patch = pytest.MonkeyPatch

FLOW = """\
version: 1
model: {{id: 'openai:tiny', base_url: '{url}/v1', api_key_env: OWN_KEY, fallback: ['openai:other']}}
retry: {{max_attempts: 1}}
"""


def test_a_run_over_the_wire_is_recorded_and_played_without_a_key(
    cli: Cli, tmp_path: Path, monkeypatch: Patch
) -> None:
    key = "key-of-the-tests-0123456789"
    monkeypatch.setenv("OWN_KEY", key)
    answers = [Failure("overloaded"), Reply(f"From the other: {key}")]
    with Loopback(*wires("chat", answers)) as server:
        (tmp_path / "f.yaml").write_text(FLOW.format(url=server.url))
        ran = cli("run", "f.yaml", "hi", "--trust", "--record", "tape.yaml", "--store", "s.jsonl")
    assert (ran.code, ran.out) == (0, f"From the other: {key}\n")
    assert server.heard[0].headers["authorization"] == f"Bearer {key}"
    assert key not in (tmp_path / "tape.yaml").read_text()
    monkeypatch.delenv("OWN_KEY")
    played = cli("run", "f.yaml", "hi", "--trust", "--model", "script:tape.yaml")
    assert (played.code, played.out) == (0, "From the other: [redacted OWN_KEY]\n")


def test_what_is_no_recording_is_not_written_over(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "f.yaml").write_text("version: 1\nmodel: test\n")
    ran = cli("run", "f.yaml", "hi", "--record", "f.yaml")
    assert ran.code == 1
    assert "f.yaml is there, and is no recording" in ran.err


def test_a_missing_key_is_said_with_its_variable(cli: Cli, tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    (tmp_path / "f.yaml").write_text("version: 1\nmodel: 'anthropic:claude-sonnet-5'\n")
    ran = cli("run", "f.yaml", "hi")
    assert ran.code == 1
    assert "anthropic needs a key: set the environment variable ANTHROPIC_API_KEY" in ran.err


def test_no_command_that_shows_a_flow_shows_the_key(cli: Cli, tmp_path: Path, monkeypatch: Patch) -> None:
    key = "key-of-the-tests-0123456789"
    monkeypatch.setenv("OWN_KEY", key)
    (tmp_path / "f.yaml").write_text(FLOW.format(url="http://127.0.0.1:1"))
    for command in (["show", "f.yaml", "--resolved"], ["check", "f.yaml"], ["diagram", "f.yaml"]):
        ran = cli(*command)
        assert ran.code == 0
        assert key not in ran.out + ran.err
