import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from turnchart.flows.testfiles.finding import load_suite, problems_of
from turnchart.flows.testfiles.playing import Played, play_case

Play = Callable[..., Played]

PLAIN = Path(__file__).parents[2] / "machine" / "mcp" / "plain.py"
FLOW = """\
version: 1
model: test
tools: [{mcp: hub, only: [get_*, list]}, {mcp: hub, only: [ping], as: h}]
mcp: {hub: {command: [COMMAND]}}
permissions: {allow: ['hub.get_*'], ask: [h.ping]}
"""
NEVER = FLOW.replace("COMMAND", "/bin/sh, -c, 'touch started'")
REAL = FLOW.replace("COMMAND", f"{sys.executable}, {PLAIN}, get_issue, list, ping, get_more")


def test_tools_of_servers_are_played(play: Play, tmp_path: Path) -> None:
    played = play(
        """
        prompt: x
        approve: [h.ping]
        model: [{call: hub.get_issue, args: {n: 1}}, {call: h.ping}, {call: hub.list}, {call: hub.set}, done]
        tools: {hub.get_issue: {returns: {title: t}}, h.ping: {fails: no}}
        """,
        NEVER,
    )
    told = [(call.tool, call.decision, call.ran, call.outcome, call.result) for call in played.calls]
    assert told[:2] == [
        ("hub.get_issue", "allow", True, "ok", '{"title":"t"}'),
        ("h.ping", "ask", True, "error", "no"),
    ]
    assert [each[:4] for each in told[2:]] == [
        ("hub.list", "ask", False, "denied"),
        ("hub.set", None, False, "error"),
    ]
    assert played.faults == ()
    assert not (tmp_path / "started").exists()


def test_a_missing_stub_is_named(play: Play) -> None:
    played = play("prompt: x\napprove: all\nmodel: [{call: hub.get_x}, done]", NEVER)
    [fault] = played.faults
    assert fault.startswith("the tool 'hub.get_x' has no stub; write tools: {hub.get_x: {returns: ...}}")


def test_the_script_of_a_flow_names_tools_too(play: Play, write: Callable[..., Path]) -> None:
    write("- {call: hub.get_x}\n- done\n", "s.yaml")
    flow = NEVER.replace("model: test", "model: script:s.yaml")
    played = play("prompt: x\ntools: {hub.get_x: {returns: y}}", flow)
    assert [(call.tool, call.result) for call in played.calls] == [("hub.get_x", "y")]


def test_a_real_tool_starts_its_server_and_the_others_are_played(
    suite: Callable[..., str], loop: str, tmp_path: Path
) -> None:
    keys = """
        prompt: x
        approve: all
        model:
          - {call: hub.get_issue, args: {n: 1}}
          - {calls: [{call: hub.list}, {call: hub.get_more}, {call: hub.get_}]}
          - z
        tools: {hub.get_issue: {real: true}, hub.list: {returns: played}}
        """
    loaded, flow = load_suite(suite(keys, REAL), trust=True)
    played = play_case(flow, loaded.cases[0], loop=loop)
    told = [(call.tool, call.outcome, call.result) for call in played.calls]
    assert told[0][:2] == ("hub.get_issue", "ok")
    assert told[0][2].startswith('[{"n": 1}, "')
    assert str(tmp_path) not in told[0][2], "it works in a copy"
    assert told[1] == ("hub.list", "ok", "played")
    assert told[2][1:] == ("error", played.faults[0])
    assert told[3][2].startswith("There is no tool 'hub.get_'. The tools are: hub.get_issue, hub.list")


@pytest.mark.parametrize(
    ("keys", "codes"),
    [
        ("tools: {hub.get_issue: {returns: x}, h.ping: {returns: x}}", []),
        ("tools: {hub.ping: {returns: x}}", ["unknown-tool"]),
        ("approve: [hub.get_issue, 'h*', 'hub.list(x)']", []),
        ("approve: [hub.ping]", ["dead-permission"]),
    ],
)
def test_what_a_test_names_must_be_able_to_exist(
    suite: Callable[..., str], keys: str, codes: list[str]
) -> None:
    assert [each.code for each in problems_of(suite(f"prompt: x\n{keys}", NEVER), (), {})] == codes
