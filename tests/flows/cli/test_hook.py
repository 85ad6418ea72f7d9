import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[..., Any]
FLOW = """\
version: 1
model: test
tools: [shell]
hooks:
  pre_tool: [{use: deny_commands, id: no-rm, with: {patterns: [rm], message: No.}}]
"""


@pytest.fixture(autouse=True)
def _flow(tmp_path: Path) -> None:  # pyright: ignore[reportUnusedFunction]
    (tmp_path / "flow.yaml").write_text(FLOW, "utf-8")


def test_the_hooks_are_listed(cli: Cli) -> None:
    ended = cli("hook", "list")
    assert (ended.code, ended.err) == (0, "")
    lines = {line.split()[0]: line for line in ended.out.splitlines()}
    assert "(every point)" in lines["audit_log"]
    assert "(pre_tool)" in lines["deny_commands"]
    assert "keep_going" in lines
    few = cli("hook", "list", "--point", "turn_stopping").out
    assert "keep_going" in few
    assert "deny_commands" not in few


def test_one_hook_with_its_parameters(cli: Cli) -> None:
    out = cli("hook", "list", "repeat_guard").out
    assert out.startswith("repeat_guard  (post_tool)  ")
    assert "with.after = 3: " in out
    [record] = json.loads(cli("hook", "list", "deny_commands", "--json").out)
    assert (record["points"], record["observes"]) == (["pre_tool"], False)
    assert record["parameters"]["patterns"]["required"] is True
    assert record["parameters"]["message"]["required"] is False


def test_a_plug_in_adds_its_hooks(cli: Cli, tmp_path: Path) -> None:
    code = "from turnchart.hooks import PreTool, hook\n\n\n@hook('listed_own', on='pre_tool')\n"
    code += "def own(payload: PreTool) -> None:\n    'Mine.'\n"
    (tmp_path / "listed_plugin.py").write_text(code, "utf-8")
    assert "listed_own" not in cli("hook", "list").out
    assert "listed_own" in cli("hook", "list", "--plugin", "listed_plugin").out


def test_a_sample_is_what_a_program_reads(cli: Cli) -> None:
    record = json.loads(cli("hook", "sample", "pre_tool").out)
    assert (record["protocol"], record["point"], record["tool"]) == (1, "pre_tool", "shell")
    record = json.loads(cli("hook", "sample", "pre_tool", "--dialect", "claude_code").out)
    assert (record["hook_event_name"], record["tool_name"]) == ("PreToolUse", "Bash")


@pytest.mark.parametrize(
    "arguments",
    [
        ("list", "nobody"),
        ("list", "--point", "nowhere"),
        ("sample", "assemble", "--dialect", "claude_code"),
        ("sample", "pre_tool", "--dialect", "other"),
        ("test", "pre_tool"),
        (),
        ("test", "pre_tool", "flow.yaml", "--args", "{"),
        ("test", "pre_tool", "flow.yaml", "--args", "[]"),
        ("test", "pre_tool", "flow.yaml", "--payload", "gone.json"),
    ],
)
def test_wrong_usage(cli: Cli, arguments: tuple[str, ...]) -> None:
    ended = cli("hook", *arguments)
    assert (ended.code, "Errno" in ended.err) == (2, False)


def test_a_point_that_is_none(cli: Cli) -> None:
    ended = cli("hook", "sample", "pre-tool")
    assert (ended.code, 'did you mean "pre_tool"' in ended.err) == (1, True)


def test_a_chain_is_tried(cli: Cli) -> None:
    call = ("hook", "test", "pre_tool", "flow.yaml", "--tool", "shell", "--args")
    ended = cli(*call, '{"command": "rm x"}', "--expect", "deny")
    assert ended.code == 0
    assert ended.out.splitlines()[-1] == "deny: No."
    ended = cli(*call, '{"command": "ls"}', "--expect", "deny")
    assert (ended.code, ended.err) == (1, "expected deny, but it came to none\n")


@pytest.mark.parametrize(
    ("misspelt", "says"),
    [
        (("--tool", "shel"), "the flow has no tool 'shel'; its tools: shell"),
        (
            ("--expect", "denied"),
            "no 'denied'; say one of: allow, ask, deny, none, failed",
        ),
    ],
)
def test_a_misspelt_word_lets_no_guard_seem_to_work(misspelt: tuple[str, ...], says: str, cli: Cli) -> None:
    ended = cli("hook", "test", "pre_tool", "flow.yaml", *misspelt)
    assert (ended.code, says in ended.err) == (2, True)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (("--tool", "shell", "--args", '{"comand": "rm x"}'), ("--args", "`command`")),
        (("--args", '{"command": 5}'), ("--args", "command")),
        (("--payload", "-"), ("--payload", "`command`")),
    ],
)
def test_arguments_that_the_tool_would_refuse_let_no_guard_seem_to_work(
    given: tuple[str, ...], says: tuple[str, str], cli: Cli
) -> None:
    ended = cli("hook", "test", "pre_tool", "flow.yaml", *given, stdin='{"args": {"path": "x"}}')
    assert (ended.code, all(each in ended.err for each in says)) == (2, True), ended.err


def test_arguments_are_held_against_no_tool_that_is_not_given_any(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "flow.yaml").write_text(FLOW.replace("[shell]", "[read_file, list_files]"), "utf-8")
    assert cli("hook", "test", "pre_tool", "flow.yaml", "--tool", "read_file").code == 0
    assert cli("hook", "test", "pre_tool", "flow.yaml", "--args", '{"odd": 1}').code == 0
    assert cli("hook", "test", "turn_stopping", "flow.yaml").code == 0


def test_a_payload_from_a_file_or_a_pipe(cli: Cli, tmp_path: Path) -> None:
    sample = cli("hook", "sample", "pre_tool").out.replace("ls -l src", "rm x")
    (tmp_path / "payload.json").write_text(sample, "utf-8")
    ended = cli("hook", "test", "pre_tool", "flow.yaml", "--payload", "payload.json", "--json")
    record = json.loads(ended.out)
    assert (record["decision"], record["trace"][0]["id"]) == ("deny", "no-rm")
    ended = cli("hook", "test", "pre_tool", "flow.yaml", "--payload", "-", "--id", "no-rm", stdin=sample)
    assert ended.out.splitlines()[-1] == "deny: No."


def test_nothing_is_started_untrusted(cli: Cli, tmp_path: Path) -> None:
    run = f"version: 1\nhooks: {{pre_tool: [{{run: ['{sys.executable}', -c, \"open('ran', 'w')\"]}}]}}\n"
    (tmp_path / "flow.yaml").write_text(run, "utf-8")
    assert cli("hook", "test", "pre_tool", "flow.yaml").code == 3
    assert not (tmp_path / "ran").exists()
    assert cli("hook", "test", "pre_tool", "flow.yaml", "--trust").code == 0
    assert (tmp_path / "ran").exists()
