"""Keys that the environment holds: no command, no session, no trace and no error says them."""

import io
import json
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

from turnchart.flows import load_flow
from turnchart.hooks.tracing import trace

Cli = Callable[..., Any]

KEYS = {
    "OPENAI_API_KEY": "sk-proj-planted0000000000000001",
    "ANTHROPIC_API_KEY": "sk-ant-planted0000000000000002",
    "GOOGLE_API_KEY": "AIzaPlanted000000000000000000000000003",
    "SERVICE_TOKEN": "planted-token-0000000000000004",
    "MODEL_PASS": "planted-pass-00000000000000005",
    "HOOK_PASS": "planted-hook-00000000000000006",
}
FLOW = """\
version: 1
name: keys
model:
  id: {model}
  api_key_env: MODEL_PASS
  base_url: http://127.0.0.1:9/v1
tools: [shell]
permissions: {{default: allow}}
retry: {{max_attempts: 1}}
hooks:
  pre_tool:
    - run: [python3, -c, 'import os, sys; print(os.environ, file=sys.stderr); os.environ["HOOK_PASS"]']
      env_from: [HOOK_PASS]
"""
SCRIPT = """\
- {{call: shell, args: {{command: env; cat /proc/self/environ}}}}
- {{fail: auth, message: "the provider says no"}}
"""


@pytest.fixture(autouse=True)
def planted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)


def write(folder: Path, model: str = "script:script.yaml") -> str:
    (folder / "keys.yaml").write_text(FLOW.format(model=model), "utf-8")
    (folder / "script.yaml").write_text(SCRIPT.format(), "utf-8")
    return "keys.yaml"


def said(text: str) -> list[str]:
    """Return the names of the keys whose value stands in a text."""
    return [name for name, value in KEYS.items() if value in text]


def written(folder: Path) -> str:
    """Return every file below a folder."""
    return "\n".join(
        path.read_bytes().decode("utf-8", "replace") for path in folder.rglob("*") if path.is_file()
    )


@pytest.mark.usefixtures("renderer")
def test_a_run_and_all_that_shows_it(cli: Cli, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    flow = write(tmp_path)
    caplog.set_level(logging.DEBUG)
    shown: list[str] = []
    for command in (
        "run keys.yaml go --trust --session kept", "run keys.yaml go --trust --json", "sessions show kept",
        "run keys.yaml go --trust --verbose", "run keys.yaml go --trust --json --verbose",
        "sessions show kept --why", "sessions export kept", "verify kept", "diagram --session kept",
        "diagram --session kept --view sequence --detail", "diagram keys.yaml --format html",
        "show keys.yaml", "show keys.yaml --resolved", "show keys.yaml --hooks",
        "check keys.yaml --format json", "check keys.yaml --here", "schema",
    ):  # fmt: skip
        ended = cli(*command.split())
        assert ended.code == (1 if command.startswith("run") else 0), ended
        shown.append(ended.out + ended.err)
    whole = "\n".join([*shown, caplog.text, written(tmp_path)])
    assert "PATH=" in whole  # the tool did print its environment
    assert "the provider says no" in whole
    assert said(whole) == []
    assert flow in whole


async def test_a_trace_with_everything_that_was_said(tmp_path: Path) -> None:
    (tmp_path / "script.yaml").write_text(
        "[{text: 'The key is " + KEYS["OPENAI_API_KEY"] + "', call: shell, args: {command: 'echo "
        + KEYS["ANTHROPIC_API_KEY"] + "'}}, {fail: auth, message: 'bad key " + KEYS["OPENAI_API_KEY"] + "'}]",
        "utf-8",
    )  # fmt: skip
    (tmp_path / "keys.yaml").write_text(
        "version: 1\nname: keys\nmodel: script:script.yaml\ntools: [shell]\npermissions: {default: allow}\n",
        "utf-8",
    )
    out = io.StringIO()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter(out=out)))
    agent = load_flow("keys.yaml").agent()
    trace(agent, provider=provider, content=True)
    async with agent:
        await agent.prompt("go")
    provider.shutdown()
    assert "[redacted openai_key]" in out.getvalue()
    assert said(out.getvalue()) == []


def test_a_provider_that_cannot_be_reached(cli: Cli, tmp_path: Path) -> None:
    pytest.importorskip("pydantic_ai")
    for model in ("openai:gpt-5", "anthropic:claude-sonnet-4-5"):
        write(tmp_path, model)
        ended = cli("run", "keys.yaml", "go", "--trust", "--json")
        assert ended.code == 1
        last = json.loads(ended.out.splitlines()[-1])
        assert last["reason"] == "error"
        assert said(ended.out + ended.err + written(tmp_path)) == []
    assert "pydantic_ai" in sys.modules
