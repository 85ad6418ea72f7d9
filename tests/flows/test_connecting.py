import sys
from pathlib import Path

import pytest
from tests.flows.conftest import Write

from turnchart.flows.check import examine
from turnchart.flows.cli.main import main
from turnchart.flows.connecting import connect
from turnchart.flows.problems import NotTrusted

PLAIN = Path(__file__).parents[1] / "machine" / "mcp" / "plain.py"


def flow(tools: str, rest: str = "", command: str | None = None) -> str:
    argv = command or f"[{sys.executable}, {PLAIN}, get_issue, list issues]"
    return f"version: 1\nmodel: test\ntools: [{tools}]\nmcp:\n  hub: {{command: {argv}}}\n{rest}"


def told(write: Write, text: str) -> list[tuple[str, str, int, str, str]]:
    write(text)
    checked = examine("flow.yaml")
    return [
        (each.level, each.code, each.line, each.message, each.help) for each in connect(checked, trust=True)
    ]


def test_the_tools_of_a_server_are_told(write: Write) -> None:
    assert told(write, flow("{mcp: hub}", "permissions: {allow: [hub.get_issue, 'hub.list*']}\n")) == [
        ("note", "mcp-tools", 3, "tools: hub.get_issue, hub.list issues", "")
    ]


def test_what_matches_nothing_is_a_warning_with_the_list(write: Write) -> None:
    rest = (
        "permissions: {allow: [hub.get_isue, '*_issue', shell], deny: ['hub.x*']}\n"
        "hooks: {pre_tool: [{use: redact_secrets, tools: ['hub.z*', 'hub.get*']}]}\n"
    )
    tools = "tools of MCP servers: hub.get_issue"
    assert told(write, flow("shell, {mcp: hub, only: [get_*, 'set_*']}", rest)) == [
        ("note", "mcp-tools", 3, "tools: hub.get_issue", ""),
        (
            "warning", "dead-matcher", 3, 'pattern "set_*" matches no tool of the MCP server',
            "its tools: get_issue, list issues",
        ),
        (
            "warning", "dead-permission", 6, 'permission "hub.get_isue" matches no tool of this agent',
            f'did you mean "hub.get_issue"? {tools}',
        ),
        ("warning", "dead-permission", 6, 'permission "hub.x*" matches no tool of this agent', tools),
        ("warning", "dead-matcher", 7, 'tool pattern "hub.z*" matches no tool of this agent', tools),
    ]  # fmt: skip


def test_a_server_that_cannot_be_started_is_an_error(write: Write) -> None:
    command = "[/bin/sh, -c, 'echo one >&2; echo two >&2; exit 1']"
    [(level, code, line, message, help)] = told(
        write, flow("{mcp: hub}", "permissions: {allow: ['hub.*']}\n", command)
    )
    assert (level, code, line) == ("error", "mcp-connect", 3)
    assert message.startswith("MCP server hub (/bin/sh) cannot be started: ")
    assert help == "one\ntwo"


def test_nothing_is_started_before_somebody_agreed(write: Write, tmp_path: Path) -> None:
    write(flow("{mcp: hub}", command=f"[/bin/sh, -c, 'touch {tmp_path}/started']"))
    checked = examine("flow.yaml")
    with pytest.raises(NotTrusted, match="this flow starts /bin/sh"):
        connect(checked)
    assert not (tmp_path / "started").exists()


def test_a_flow_without_servers_has_nobody_to_ask(write: Write) -> None:
    write("version: 1\nmodel: test\nzz: 1\n")
    checked = examine("flow.yaml")
    assert connect(checked) is checked.problems


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[object, str]:
    with pytest.raises(SystemExit) as ended:
        main(["check", "--connect", *arguments])
    out, err = capsys.readouterr()
    return ended.value.code, out + err


def test_on_the_command_line(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    write(flow("{mcp: hub}"))
    code, said = run(capsys, "flow.yaml")
    assert code == 3
    assert "[not-trusted]" in said
    code, said = run(capsys, "--trust", "flow.yaml")
    assert code == 0
    assert "note: tools: hub.get_issue, hub.list issues [mcp-tools]" in said
    assert "flow.yaml: 1 note" in said


def test_of_a_flow_with_errors_no_server_is_asked(
    write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(flow("{mcp: hub}", "zz: 1\n", f"[/bin/sh, -c, 'touch {tmp_path}/started']"))
    code, said = run(capsys, "--trust", "flow.yaml")
    assert code == 1
    assert "unknown-key" in said
    assert not (tmp_path / "started").exists()
