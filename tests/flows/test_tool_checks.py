from collections.abc import Callable
from pathlib import Path

import pytest

from turnchart.flows import load_flow
from turnchart.flows.check import examine
from turnchart.flows.tool_checks import permissions_of
from turnchart.machine.permissions import Permissions
from turnchart.machine.tools import ToolContext, run_tool

Found = Callable[..., list[tuple[str, int, int]]]
Write = Callable[..., Path]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tools: [shell, read_file, list_files]\n", []),
        ("tools: []\n", []),
        ("tools: [Shell]\n", [("unknown-tool", 2, 9)]),
        ("tools: [code_execution]\n", []),
        ("tools: [{use: web_search, as: web}]\n", [("bad-value", 2, 31)]),
        ("tools: [{use: web_fetch, execution: parallel}]\n", [("bad-value", 2, 37)]),
        ("tools: [{use: web_fetch, with: {max: 1}}]\n", [("unknown-key", 2, 33)]),
        ("tools: [{mcp: github}]\n", [("unknown-server", 2, 15)]),
        ("tools: [shell, {use: shell, as: sh}]\n", []),
        ("tools: [shell, {use: read_file, as: shell}]\n", [("duplicate-tool", 2, 37)]),
        ("tools: [{use: shell, with: {timeout: 0}}]\n", [("bad-value", 2, 38)]),
        ("tools: [{use: shell, with: {env_from: [A, 'B C']}}]\n", [("bad-value", 2, 43)]),
        ("tools: [{use: shell, with: {cwd: /etc}}]\n", [("path-outside", 2, 34)]),
        ("tools: [{use: shell, execution: fast}]\n", [("bad-value", 2, 33)]),
    ],
)
def test_tools(found: Found, text: str, expected: list[tuple[str, int, int]]) -> None:
    assert found(text) == expected


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ("allow: [shell, 'shell(ls *)', '*_files', 'read_file(src/**)']", []),
        ("deny: ['shell(']", [("permission-rule", 3, 22)]),
        ("deny: ['']", [("permission-rule", 3, 22)]),
        ("ask: ['shel(ls)']", [("dead-permission", 3, 21)]),
        ("allow: ['github.*']", [("dead-permission", 3, 23)]),
        ("allow: ['add(1)', add]", [("dead-permission", 3, 23), ("dead-permission", 3, 33)]),
        ("allow: shell", [("bad-value", 3, 22)]),
        ("deny: [write_file, agent, web_search], ask: ['edit_file(src/**)', 'write_*']", []),
        ("allow: [write_file]", [("dead-permission", 3, 23)]),
        ("deny: [wriet_file, 'hub.*']", [("dead-permission", 3, 22), ("dead-permission", 3, 34)]),
    ],
)
def test_permissions(found: Found, rules: str, expected: list[tuple[str, int, int]]) -> None:
    assert found(f"tools: [shell, read_file, list_files]\npermissions: {{{rules}}}\n") == expected


@pytest.mark.parametrize("tools", ["", "tools: [shell, 5]\n", "tools: [shell, {mcp: github}]\n"])
def test_where_not_all_tools_are_known_no_rule_is_dead(found: Found, tools: str) -> None:
    hooks = "hooks: {pre_tool: [{use: redact_secrets, tools: [x]}]}"
    told = found(f"{tools}permissions: {{allow: [anything]}}\n{hooks}\n")
    assert not {"dead-permission", "dead-matcher"} & {code for code, *_ in told}


def test_only_rules_of_the_file_that_lists_the_tools_can_be_dead(write: Write) -> None:
    write("version: 1\ntools: [shell, read_file]\npermissions: {deny: [read_file]}\n", "base.yaml")
    write("version: 1\nextends: base.yaml\ntools: [shell]\npermissions: {deny: [listfiles]}\n")
    assert [(p.code, p.file, p.line) for p in examine("flow.yaml").problems] == [
        ("dead-permission", "flow.yaml", 4)
    ]


def test_a_house_rule_in_advance_holds_for_every_child(write: Write) -> None:
    write(
        "from turnchart.machine import tool\n\n@tool\ndef pay(sum: int) -> int:\n    return sum\n", "payer.py"
    )
    rules = "permissions: {deny: ['shell(sudo *)'], ask: [pay]}\n"
    write(f"version: 1\ntools: [read_file]\n{rules}", "house.yaml")
    write("version: 1\nextends: house.yaml\n")
    assert examine("flow.yaml", ["payer"]).problems == []
    [unknown] = examine("flow.yaml").problems
    assert (unknown.code, unknown.file, unknown.line) == ("dead-permission", "house.yaml", 3)


def test_a_rule_on_a_tool_that_has_another_name_here_is_dead(write: Write) -> None:
    write("version: 1\ntools: [{use: shell, as: sh}]\npermissions: {deny: ['shell(sudo *)', 'she*']}\n")
    problems = examine("flow.yaml").problems
    assert [(p.code, p.line, p.column) for p in problems] == [
        ("dead-permission", 3, 22),
        ("dead-permission", 3, 39),
    ]
    assert problems[0].help == 'the tool shell is named "sh" here. tools: sh'


def test_a_pattern_needs_a_subject(write: Write) -> None:
    write(
        "from turnchart.machine import tool\n\n@tool\ndef add(a: int) -> int:\n    return a\n",
        "subjectless.py",
    )
    write("version: 1\ntools: [add]\npermissions: {allow: [add, 'add(1)']}\n")
    (problem,) = examine("flow.yaml", ["subjectless"]).problems
    assert (problem.code, problem.line, problem.column) == ("permission-rule", 3, 28)
    assert "has no subject" in problem.message


def test_an_entry_names_its_tool_and_says_how_it_runs(write: Write) -> None:
    write("version: 1\ntools: [{use: read_file, as: look, execution: exclusive}]\n")
    (named,) = examine("flow.yaml").tools
    assert named.tool is not None
    assert (named.name, named.tool.name, named.tool.execution) == ("look", "look", "exclusive")


def test_a_tool_of_a_plugin_takes_no_parameters(write: Write) -> None:
    write(
        "from turnchart.machine import tool\n\n@tool\ndef sub(a: int) -> int:\n    return a\n", "bare_tool.py"
    )
    write("version: 1\ntools: [{use: sub, with: {a: 1}}]\n")
    assert [p.code for p in examine("flow.yaml", ["bare_tool"]).problems] == ["bad-value"]


def test_without_permissions_reading_is_allowed_and_the_rest_asks() -> None:
    assert permissions_of(None) == Permissions.reads()


def test_what_may_be_about_a_tool_whose_name_is_wrong_is_not_told_as_well(found: Found) -> None:
    rest = (
        "permissions: {allow: ['shell(ls)', nothing]}\n"
        "hooks: {pre_tool: [{use: deny_commands, tools: [shell], with: {patterns: [a]}}]}\n"
    )
    assert found(f"tools: [shel]\n{rest}") == [("unknown-tool", 2, 9)]
    assert found(f"tools: [shell]\n{rest}") == [("dead-permission", 3, 36)]


SCRIPT = "use: script, as: build, with: {description: Build., command: "


@pytest.mark.parametrize(
    ("rest", "expected"),
    [
        ("[sh, -c, 'true']}", []),
        ("[no-such-program]}", [("program", 2, 72)]),
        ("[../build.sh]}", [("path-outside", 2, 72)]),
        ("[sh, '{x}']}", [("bad-value", 2, 40)]),
        ("[sh, '{x}'], args: {x: {type: path}}, subject: x}", []),
        ("[sh, '{x}'], args: {x: {type: text}}}", [("bad-value", 2, 101)]),
        ("[sh], cwd: ..}", [("path-outside", 2, 82)]),
        ("[]}", [("bad-value", 2, 71)]),
    ],
)
def test_scripts(found: Found, rest: str, expected: list[tuple[str, int, int]]) -> None:
    assert found(f"tools: [{{{SCRIPT}{rest}}}]\n") == expected


async def test_a_script_is_agreed_to_and_its_program_is_relative_to_its_file(write: Write) -> None:
    script = write("#!/bin/sh\necho built in $(basename $PWD)\n", "scripts/build.sh")
    script.chmod(0o755)
    write(f"version: 1\ntools: [{{{SCRIPT}[./build.sh]}}}}]\n", "scripts/flow.yaml")
    flow = load_flow("scripts/flow.yaml", trust=True)
    assert [(reach.kind, reach.what) for reach in flow.reaches] == [("program", "./build.sh")]
    outcome = await run_tool(flow.tools[0], {}, ToolContext())
    assert outcome.content[0]["text"] == f"built in {script.parents[1].name}\n[exit code 0]"
