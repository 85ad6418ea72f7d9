import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from turnchart.flows.cli.verbose import dispatch_lines, dispatch_record, emit_hooks, tell_details
from turnchart.hooks.tracing import trace
from turnchart.machine import Agent, Failure, Reply, ScriptedModel, ToolCall, tool
from turnchart.machine.bound import Remarked
from turnchart.machine.chain import bind
from turnchart.machine.points import PreTool
from turnchart.machine.verdict import Dispatch
from turnchart.testing import FakeClock

Cli = Callable[..., Any]


@tool
def look() -> str:
    return "seen"


LOOK = Reply("", tool_calls=[ToolCall("look", {})], usage={"input": 1200, "output": 5})


def called(**said: Any) -> Dispatch:
    given: dict[str, Any] = {
        "point": "pre_tool", "id": "check", "where": "a.yaml:3", "decision": None, "reason": "",
        "changed": (),
        "error": None, "seconds": 0.25,
    }  # fmt: skip
    return Dispatch(**{**given, **said})


def test_a_hook_without_an_opinion_is_told_of_too() -> None:
    assert list(dispatch_lines(called())) == ["  pre_tool check (a.yaml:3): no opinion  (250.0 ms)"]
    assert dispatch_record(called()) == {
        "type": "hook", "point": "pre_tool", "id": "check", "where": "a.yaml:3", "seconds": 0.25,
    }  # fmt: skip


def test_every_line_of_stderr_is_told_and_none_can_command_a_terminal() -> None:
    told = list(dispatch_lines(called(stderr="one\n\x1b[31mtwo", decision="deny", reason="r" * 900)))
    assert told[0] == f"  pre_tool check (a.yaml:3): deny: {'r' * 900}  (250.0 ms)"
    assert told[1:] == ["    check | one", "    check | ␛[31mtwo"]


async def test_a_run_in_detail() -> None:
    async def program(payload: PreTool) -> Remarked:
        return Remarked(None, "looked at it")

    def silent(payload: PreTool) -> None:
        return None

    clock, told = FakeClock(), list[str]()
    model = ScriptedModel([LOOK, Failure("rate_limit", retry_after=2), Reply("done", delay=3)])
    agent = Agent(
        model,
        tools=[look],
        hooks={"pre_tool": [program, bind("pre_tool", silent, where="x.py:1")]},
        clock=clock,
    )
    tell_details(agent, told.append)
    async with agent:
        await agent.prompt("go")
    assert told[0].startswith("  request: model ")
    assert told[0].endswith("; tools look")
    assert told[1] == "  answered after 0.0 ms, first piece after 0.0 ms: tokens 1,200 in, 5 out"
    assert told[2].startswith("  pre_tool program (")
    assert told[2].endswith("): no opinion  (0.0 ms)")
    assert told[3:] == [
        "    program | looked at it",
        "  pre_tool silent (x.py:1): no opinion  (0.0 ms)",
        "  look took 0.0 ms",
        "  attempt over after 0.0 ms, first piece after 0.0 ms",
        "  attempt 2 begins",
        "  answered after 3.00 s, first piece after 3.00 s",
        "  turn 1: 3 requests in 5.00 s: tokens 1,200 in, 5 out",
    ]


async def test_a_hook_that_fails_and_ends_the_turn_is_told_of() -> None:
    def broken(payload: object) -> None:
        raise ValueError("boom")

    heard: list[Any] = []
    agent = Agent(
        ScriptedModel(), hooks={"request": [bind("request", broken, where="x.py:1")]}, clock=FakeClock()
    )
    emit_hooks(agent, heard.append)
    async with agent:
        await agent.prompt("go")
    assert heard == [
        {
            "type": "hook", "point": "request", "id": "broken", "where": "x.py:1",
            "error": "ValueError: boom",
            "seconds": 0.0,
        }
    ]  # fmt: skip


async def test_an_observer_of_signals_is_told_of_only_where_it_has_something_to_say() -> None:
    async def program(payload: Any) -> Remarked | None:
        return Remarked(None, "an entry") if payload.signal == "agent/status" else None

    heard: list[Any] = []
    agent = Agent(ScriptedModel(["hi"]), hooks={"on_signal": [program]}, clock=FakeClock())
    emit_hooks(agent, heard.append)
    async with agent:
        await agent.prompt("go")
    assert [each["stderr"] for each in heard] == ["an entry", "an entry"]


async def test_an_agent_that_is_traced_stays_so() -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    heard: list[Any] = []

    def silent(payload: PreTool) -> None:
        return None

    agent = Agent(
        ScriptedModel([LOOK, "done"]), tools=[look], hooks={"pre_tool": [silent]}, clock=FakeClock()
    )
    trace(agent, provider=provider)
    emit_hooks(agent, heard.append)
    async with agent:
        await agent.prompt("go")
    assert [each["id"] for each in heard] == ["silent"]
    names = [span.name for span in exporter.get_finished_spans()]
    assert "hook.pre_tool" in names
    assert sum(name.startswith("chat ") for name in names) == 2


# -- on the command line --

FLOW = """\
version: 1
model: script:script.yaml
tools: [list_files]
hooks:
  pre_tool:
    - {run: [PYTHON, note.py], id: note}
"""


@pytest.fixture
def noted(tmp_path: Path) -> str:
    """A flow with a program that writes to stderr and has no opinion."""
    (tmp_path / "note.py").write_text("import sys\nprint('looked', file=sys.stderr)\n", "utf-8")
    (tmp_path / "script.yaml").write_text("[{call: list_files, args: {}}, done]\n", "utf-8")
    (tmp_path / "flow.yaml").write_text(FLOW.replace("PYTHON", json.dumps(sys.executable)), "utf-8")
    return "flow.yaml"


def test_stderr_of_a_program_is_shown_with_verbose_and_else_not(cli: Cli, noted: str) -> None:
    quiet = cli("run", noted, "hi", "--trust")
    assert (quiet.code, quiet.out) == (0, "done\n")
    assert "looked" not in quiet.err
    loud = cli("run", noted, "hi", "--trust", "--verbose")
    assert (loud.code, loud.out) == (0, "done\n")
    assert "  pre_tool note (flow.yaml:6): no opinion  (" in loud.err
    assert "    note | looked\n" in loud.err
    assert cli("run", noted, "hi", "--trust", "-v").out == "done\n"


def test_as_json_it_is_in_the_entry_and_with_verbose_there_is_a_line_a_hook(cli: Cli, noted: str) -> None:
    lines = [json.loads(line) for line in cli("run", noted, "hi", "--trust", "--json").out.splitlines()]
    (entry,) = [
        each["entry"]["data"]
        for each in lines
        if each["type"] == "session/event" and each["entry"]["type"] == "hook/result"
    ]
    assert (entry["id"], entry["stderr"]) == ("note", "looked")
    assert "hook" not in {each["type"] for each in lines}
    out = cli("run", noted, "hi", "--trust", "--json", "--verbose").out
    (line,) = [each for each in map(json.loads, out.splitlines()) if each["type"] == "hook"]
    assert (line["point"], line["id"], line["stderr"]) == ("pre_tool", "note", "looked")


def test_it_is_read_again_from_the_session_and_where_hooks_are_tried(cli: Cli, noted: str) -> None:
    cli("run", noted, "hi", "--trust", "--session", "s")
    assert "pre_tool note (flow.yaml:6): stderr: looked" in cli("sessions", "show", "s").out
    tried = cli("hook", "test", "pre_tool", noted, "--tool", "list_files", "--trust")
    assert "    stderr: looked" in tried.out
