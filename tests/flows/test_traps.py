from collections.abc import Callable
from pathlib import Path

import pytest

from turnchart.flows.parts import parts_of
from turnchart.flows.paths import place_of
from turnchart.flows.source import MapNode, read_file
from turnchart.flows.traps import check_traps
from turnchart.flows.validate import Reading
from turnchart.machine.toolbox import AT_PROVIDER

Write = Callable[..., Path]


@pytest.fixture
def traps(write: Write) -> Callable[[str], list[tuple[str, int, str]]]:
    """Return code, line and level of the traps in a flow."""

    def traps(text: str) -> list[tuple[str, int, str]]:
        file = write(f"version: 1\n{text}\n")
        root = read_file(file).root
        assert isinstance(root, MapNode)
        parts = parts_of(root, Reading({}))
        there = [part.name for part in parts.tools if part.name in AT_PROVIDER]
        return [(p.code, p.line, p.level) for p in check_traps(parts, place_of(file), there)]

    return traps


Traps = Callable[[str], list[tuple[str, int, str]]]


@pytest.mark.parametrize(
    "command", ["[python3, hooks/gone.py]", "[bash, -e, gone.sh]", "[/usr/bin/node, gone.js]"]
)
def test_a_script_that_is_not_there(traps: Traps, command: str) -> None:
    assert traps(f"hooks: {{pre_tool: [{{run: {command}}}]}}") == [("run-file", 2, "warning")]


@pytest.mark.parametrize(
    "command",
    [
        "[python3, here.py]",
        "[python3, sub/deep.py]",
        "[python3, -c, pass]",
        "[python3, -m, gone]",
        "[echo, gone.py]",
        "[python3, gone]",
        "[python3]",
    ],
)
def test_what_is_no_missing_script(traps: Traps, write: Write, command: str) -> None:
    write("", "here.py")
    write("", "sub/deep.py")
    assert traps(f"hooks: {{pre_tool: [{{run: {command}}}]}}") == []


def test_a_script_is_looked_for_where_the_program_starts(traps: Traps, write: Write) -> None:
    write("", "sub/deep.py")
    assert traps("hooks: {pre_tool: [{run: [python3, deep.py], cwd: sub}]}") == []
    assert traps("hooks: {pre_tool: [{run: [python3, gone.py], disabled: true}]}") == []


def test_tools_of_the_provider_pass_no_hook_and_no_permission(traps: Traps) -> None:
    text = """tools: [web_search, shell]
permissions:
  deny: [web_search, 'shell(rm *)', '*']
  ask: ['web_*']
  allow: [web_search]
hooks:
  pre_tool:
    - {use: redact_secrets, tools: [web_search]}
    - {use: redact_secrets, tools: ['*', shell]}"""
    assert traps(text) == [
        ("provider-tool", 9, "warning"),
        ("provider-tool", 4, "warning"),
        ("provider-tool", 5, "warning"),
    ]


def test_nothing_to_warn_of(traps: Traps) -> None:
    assert traps("tools: [shell]\npermissions: {deny: [web_search]}") == []
