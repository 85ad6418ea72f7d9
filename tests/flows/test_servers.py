from collections.abc import Callable
from pathlib import Path

import pytest
from tests.flows.conftest import Found, Write

from turnchart.flows import load_flow
from turnchart.flows.problems import Problem
from turnchart.flows.servers import may_fit
from turnchart.machine import McpServer

HUB = "mcp: {hub: {url: 'https://x.example/mcp'}}\n"


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        ("{url: 'https://x.example', bearer_env: A, headers_env: {X: B}, timeout: 5}", []),
        ("{command: [sh, -c, x], env: {A: b}, env_from: [A, {B: C}], cwd: .}", []),
        ("{command: []}", [("bad-value", 3, 22)]),
        ("{command: sh}", [("bad-value", 3, 22)]),
        ("{url: 'ftp://x'}", [("bad-value", 3, 18)]),
        ("{url: 'https://x.example', timeout: 5s}", [("bad-value", 3, 48)]),
        ("{url: 'https://x.example', env_from: [A]}", [("key-not-here", 3, 39)]),
        ("{command: [sh], headers_env: {X: A}}", [("key-not-here", 3, 28)]),
        ("{command: [sh], args: [x]}", [("unknown-key", 3, 28)]),
        ("{command: [sh], cwd: sub}", [("file-missing", 3, 33)]),
        ("{command: [sh], cwd: /etc}", [("path-outside", 3, 33)]),
        ("{command: [no-such-program-here]}", [("program", 3, 23)]),
        ("{timeout: 5}", [("missing-key", 3, 12)]),
        ("{url: 'https://x.example', bearer_env: NONE}", [("key-variable", 3, 51)]),
    ],
)
def test_servers(found: Found, server: str, expected: list[tuple[str, int, int]]) -> None:
    assert found(f"tools: [{{mcp: hub}}]\nmcp: {{hub: {server}}}\n", A="1", B="2", C="3") == expected


def test_what_of_a_server_is_used(found: Found) -> None:
    assert found(f"tools: [{{mcp: hub, only: [a], as: h, execution: parallel}}]\n{HUB}") == []
    assert found(HUB) == [("unused-server", 2, 7)]
    assert found(f"tools: [{{mcp: hubb}}, 5]\n{HUB}") == [("unknown-server", 2, 15), ("bad-value", 2, 22)]
    assert found(f"tools: [{{mcp: hub, as: a.b}}]\n{HUB}") == [("bad-value", 2, 24)]


def test_a_server_of_a_parent_that_nobody_uses_is_no_mistake(
    write: Write, problems: Callable[..., list[Problem]]
) -> None:
    write("version: 1\n" + HUB, "base.yaml")
    [told] = problems("extends: base.yaml\ntools: [shell]\n")
    assert (told.code, told.level, told.file) == ("unused-server", "note", "base.yaml")


def test_one_server_may_stand_twice_and_two_may_not_have_one_name(found: Found) -> None:
    two = "mcp: {hub: {url: 'https://x.example/a'}, bub: {url: 'https://x.example/b'}}\n"
    assert found(f"tools: [{{mcp: hub, only: [a]}}, {{mcp: hub, only: [b]}}, {{mcp: bub}}]\n{two}") == []
    assert found(f"tools: [{{mcp: hub}}, {{mcp: bub, as: hub}}]\n{two}") == [("duplicate-tool", 2, 36)]


@pytest.mark.parametrize(
    ("only", "glob", "fits"),
    [
        ((), "hub.anything at all", True),
        ((), "hub.*", True),
        ((), "*", True),
        ((), "h*", True),
        ((), "hub", False),
        ((), "hubs.a", False),
        ((), "shell*", False),
        (("get_*",), "hub.get_x", True),
        (("get_*",), "hub.set_x", False),
        (("a", "b.c"), "hub.b.c", True),
        (("a", "b.c"), "*.a", True),
        (("a", "b.c"), "hub.d*", False),
    ],
)
def test_what_a_pattern_may_be_about(only: tuple[str, ...], glob: str, fits: bool) -> None:
    assert may_fit(McpServer.stdio("hub", ["x"], only=only), glob) is fits


def test_patterns_are_dead_only_where_no_server_could_have_such_a_tool(found: Found) -> None:
    rest = "tools: [shell, {mcp: hub}]\nmcp: {hub: {url: 'https://x.example'}}\n"
    hooks = "hooks: {pre_tool: [{use: redact_secrets, tools: ['hub.*', hub.x, hubb.x, '*_file']}]}\n"
    assert [code for code, *_ in found(rest + hooks)] == ["mcp-tools", "dead-matcher"]
    rules = "permissions: {allow: ['hub.*', hub.my tool, 'hub.*(x)', hubs.x], deny: ['*.delete*']}\n"
    assert [code for code, *_ in found(rest + rules)] == ["mcp-tools", "permission-rule", "dead-permission"]


def test_no_command_sees_the_variables_of_a_server(write: Write) -> None:
    write(
        """
        version: 1
        tools: [{mcp: a}, {mcp: b}]
        mcp:
          a: {command: [sh], env_from: [ONE, {X: TWO}]}
          b: {url: 'https://x.example', bearer_env: THREE, headers_env: {X: FOUR}}
        """
    )
    flow = load_flow("flow.yaml", env={}, trust=True)
    assert flow.checked.parts is not None
    assert flow.checked.parts.variables() == {"ONE", "TWO", "THREE", "FOUR"}


def test_the_agent_gets_the_servers(write: Write, tmp_path: Path) -> None:
    write("#!/bin/sh\n", "bin/serve").chmod(0o755)
    write(
        """
        version: 1
        model: test
        tools:
          - {mcp: a, only: [x, y], as: z, execution: parallel}
          - mcp: b
        mcp:
          a: {command: [./bin/serve, -v], env: {A: b}, env_from: [{X: TWO}], cwd: bin, timeout: 5}
          b: {url: 'https://x.example', bearer_env: THREE}
        """
    )
    flow = load_flow("flow.yaml", env={"TWO": "", "THREE": ""}, trust=True)
    first = McpServer.stdio(
        "z", [str(tmp_path / "bin" / "serve"), "-v"], env={"A": "b"}, env_from={"X": "TWO"}, cwd="bin",
        timeout=5, only=["x", "y"], execution="parallel",
    )  # fmt: skip
    second = McpServer.http("b", "https://x.example", bearer_env="THREE")
    assert flow.servers == (first, second)
    third = McpServer.stdio("c", ["x"])
    agent = flow.agent(mcp=[third])
    assert agent.mcp is not None
    assert agent.mcp.servers == (first, second, third)
    assert [reach.what for reach in flow.reaches] == ["A=b ./bin/serve -v", "https://x.example"]
    notes = [line for lines in flow.overlay().notes.values() for line in lines]
    assert "tools: z.x, z.y, b.*" in notes
