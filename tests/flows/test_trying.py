import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from turnchart.flows.load import load_flow
from turnchart.flows.problems import NotTrusted
from turnchart.flows.samples import WrongPayload, payload_of, sample
from turnchart.flows.trying import try_hooks

Write = Callable[..., Path]

FLOW = """
version: 1
model: test
tools: [{use: shell, as: sh}, read_file]
hooks:
  pre_tool:
    - {use: rewrite_command, id: trim, with: {pattern: '^ +', replace: ''}}
    - {use: deny_commands, id: no-rm, with: {patterns: ['^rm'], message: No.}}
  session_start: [{use: notify, with: {text: Hello}}, {use: add_text, with: {text: Be kind.}}]
  tool: [{use: audit_log, with: {path: a.jsonl}}]
"""


async def test_a_chain_says_what_it_came_to(write: Write) -> None:
    write(FLOW)
    flow = load_flow("flow.yaml")
    tried = await try_hooks(
        flow, "pre_tool", payload_of("pre_tool", {"tool": "sh", "args": {"command": " rm x"}})
    )
    assert (tried.decision, tried.reason, list(tried.changes)) == ("deny", "No.", ["args"])
    assert [(each.id, each.decision, each.changed) for each in tried.trace] == [
        ("trim", None, ("args",)), ("no-rm", "deny", ()),
    ]  # fmt: skip
    lines = list(tried.lines())
    assert lines[0].startswith("  trim   changed args  (")
    assert lines[1].startswith("  no-rm  deny: No.  (")
    assert lines[-1] == "deny: No."


async def test_one_hook_alone(write: Write) -> None:
    write(FLOW)
    flow = load_flow("flow.yaml")
    given = payload_of("pre_tool", {"tool": "sh", "args": {"command": " rm x"}})
    assert (await try_hooks(flow, "pre_tool", given, "no-rm")).decision == "none"
    tried = await try_hooks(flow, "pre_tool", given, "trim")
    assert {name: dict(value) for name, value in tried.changes.items() if name == "args"} == {
        "args": {"command": "rm x"}
    }
    with pytest.raises(WrongPayload, match='did you mean "trim"'):
        await try_hooks(flow, "pre_tool", given, "trin")


async def test_what_a_hook_tells_the_user_and_the_model(write: Write) -> None:
    write(FLOW)
    tried = await try_hooks(load_flow("flow.yaml"), "session_start", sample("session_start"))
    assert (tried.decision, tried.reason, tried.notices) == ("add_context", "Be kind.", ("Hello",))
    assert "  told the user: Hello" in list(tried.lines())


async def test_the_body_of_a_tool_is_not_run(write: Write) -> None:
    file = write(FLOW)
    given = payload_of("tool", {"tool": "sh", "args": {"command": "touch ran"}})
    assert (await try_hooks(load_flow("flow.yaml"), "tool", given)).decision == "none"
    assert not file.with_name("ran").exists()
    assert file.with_name("a.jsonl").exists()


async def test_programs_run_where_somebody_agreed(write: Write) -> None:
    write(
        "import json, sys\nprint(json.dumps({'decision': 'ask', 'reason': json.load(sys.stdin)['tool']}))",
        "a.py",
    )
    write(f"version: 1\nhooks: {{pre_tool: [{{run: ['{sys.executable}', a.py]}}]}}\n")
    with pytest.raises(NotTrusted):
        await try_hooks(load_flow("flow.yaml"), "pre_tool", sample("pre_tool"))
    tried = await try_hooks(load_flow("flow.yaml", trust=True), "pre_tool", sample("pre_tool"))
    assert (tried.decision, tried.reason) == ("ask", "shell")


async def test_a_failure_that_denies_is_told_once(write: Write) -> None:
    write("version: 1\nhooks: {pre_tool: [{run: [sh, -c, 'exit 7'], id: guard}]}\n")
    tried = await try_hooks(load_flow("flow.yaml", trust=True), "pre_tool", sample("pre_tool"))
    [line, *_] = tried.lines()
    assert line.startswith("  guard  deny: hook `guard` (flow.yaml:2) failed: ")
    assert line.count("exit code 7") == 1


async def test_a_failure_is_shown(write: Write) -> None:
    write(f"version: 1\nhooks: {{after_step: [{{run: ['{sys.executable}', gone.py]}}]}}\n")
    tried = await try_hooks(load_flow("flow.yaml", trust=True), "after_step", sample("after_step"))
    assert tried.decision == "failed"
    assert "exit code 2" in tried.reason
    assert [each.error is not None for each in tried.trace] == [True]


async def test_a_stream_needs_a_model(write: Write) -> None:
    write(FLOW)
    with pytest.raises(WrongPayload, match="without a model"):
        await try_hooks(load_flow("flow.yaml"), "stream", sample("stream"))
