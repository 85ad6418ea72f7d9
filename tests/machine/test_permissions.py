"""Which calls run, ask, or are denied."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from turnchart.machine.permissions import Permissions, Ruling, Verdict, merge_strictest, stricter
from turnchart.machine.points import Allow, Ask, Decision, Deny
from turnchart.machine.shell_reader import read_command
from turnchart.machine.tools import Tool, tool


def run(command: str) -> None:
    """Run."""


def path_of(path: str = ".") -> None:
    """Have a path."""


def nothing() -> None:
    """Do nothing."""


SHELL = tool(run, name="shell", subject="command", subject_kind="shell")
READ = tool(path_of, name="read_file", subject="path", subject_kind="path", effects="read")
ISSUE = tool(nothing, name="github.create_issue")
NOW = tool(nothing, name="now", effects="read")
TOOLS = (SHELL, READ, ISSUE, NOW)


def shell(permissions: Permissions, command: str) -> Verdict:
    return permissions.judge(SHELL, {"command": command}).verdict


def test_deny_beats_ask_beats_allow_beats_the_default() -> None:
    a, b, c = "shell(a *)", "shell(b *)", "shell(c *)"
    rules = Permissions(default="deny", deny=[a], ask=[a, b], allow=[a, b, c])
    assert [shell(rules, each) for each in ("a", "b", "c", "d")] == ["deny", "ask", "allow", "deny"]


@pytest.mark.parametrize(
    ("rule", "tool", "matches"),
    [
        ("shell", SHELL, True),
        ("github.create_issue", ISSUE, True),
        ("github.*", ISSUE, True),
        ("github.*", SHELL, False),
        ("*", NOW, True),
        ("*_file", READ, True),
        ("SHELL", SHELL, False),
        ("sh?ll(ls)", SHELL, True),
        ("shell(ls *)", READ, False),
    ],
)
def test_a_rule_names_tools(rule: str, tool: Tool, matches: bool) -> None:
    args = {"command": "ls"} if tool is SHELL else {}
    assert (Permissions(allow=[rule]).judge(tool, args).verdict == "allow") == matches
    assert (Permissions("allow", deny=[rule]).judge(tool, args).verdict == "deny") == matches


def test_without_rules_reads_are_allowed_and_the_rest_asks() -> None:
    assert [Permissions.reads().judge(each, {"command": "ls"}).verdict for each in TOOLS] == [
        "ask", "allow", "ask", "allow",
    ]  # fmt: skip
    assert [Permissions.all().judge(each, {"command": "ls $(x)"}).verdict for each in TOOLS] == ["allow"] * 4
    assert [Permissions().judge(each, {"command": "ls"}).verdict for each in TOOLS] == ["ask"] * 4


def test_reads_may_still_be_denied() -> None:
    rules = Permissions(by_effects=True, deny=["now"], ask=["read_file(secret/*)"])
    assert rules.judge(NOW, {}).verdict == "deny"
    assert rules.judge(READ, {"path": "secret/x"}).verdict == "ask"
    assert rules.judge(READ, {"path": "x"}).verdict == "allow"


def test_paths_are_judged_against_the_root(tmp_path: Path) -> None:
    rules = Permissions(allow=["read_file(src/*)"])
    assert rules.judge(READ, {"path": "src/../src/a"}, tmp_path).verdict == "allow"
    assert rules.judge(READ, {"path": "src/../../src/a"}, tmp_path).verdict == "ask"
    assert Permissions(allow=["read_file(.)"]).judge(READ, {}, tmp_path).verdict == "allow"


@pytest.mark.parametrize(
    ("command", "verdict"),
    [
        ("git status", "allow"),
        ("git status; ls", "allow"),
        ("git status; rm -rf ~", "ask"),
        ("git status $(date)", "ask"),
        ("git status > out", "ask"),
        ("ls; git push --force x", "deny"),
        ("git push", "ask"),
        ("sudo  rm", "deny"),
        ("A=1 sudo rm", "deny"),
        ("ls $(sudo rm)", "deny"),
        ("ls 'x", "ask"),
    ],
)
def test_shell_commands(command: str, verdict: Verdict) -> None:
    rules = Permissions(
        deny=["shell(sudo *)", "shell(git push --force *)"],
        ask=["shell(git push *)"],
        allow=["shell(git status *)", "shell(ls *)"],
    )
    assert shell(rules, command) == verdict


def test_a_command_that_no_pattern_can_allow_asks() -> None:
    rules = Permissions("allow", allow=["shell(ls *)"])
    assert rules.judge(SHELL, {"command": "ls > x"}) == Ruling(
        "ask", None, "no pattern can allow a command with a redirection to a file"
    )
    assert shell(Permissions("deny", allow=["shell(ls *)"]), "ls > x") == "deny"
    assert shell(Permissions(allow=["shell"]), "ls > x") == "allow"


def test_a_command_that_cannot_be_read_for_certain_excludes_no_rule() -> None:
    hidden = ("ls $(x)", "ls `x`", "$x y", "ls 'x")
    sudo = ["shell(sudo *)"]
    for rules in (Permissions("allow", deny=sudo), Permissions(allow=["shell"], ask=sudo)):
        assert [shell(rules, each) for each in hidden] == ["allow", "ask", "ask", "ask"]
    assert shell(Permissions("allow", deny=["read_file(x)"]), "ls `x`") == "allow"


def test_the_ruling_names_the_rule_and_says_why() -> None:
    rules = Permissions(
        deny=["shell(rm *)"], ask=["now"], allow=["shell(a *)", "shell(b *)"], by_effects=True
    )
    judged = [rules.judge(SHELL, {"command": each}) for each in ("rm x", "a; b; a", "c")]
    assert judged == [
        ("deny", "shell(rm *)", "the permission `shell(rm *)` denies it"),
        ("allow", "shell(a *), shell(b *)", "the permission `shell(a *), shell(b *)` allows it"),
        ("ask", None, "no permission is about this call of `shell`: ask"),
    ]
    assert rules.judge(NOW, {}) == ("ask", "now", "the permission `now` asks first")
    assert rules.judge(READ, {}).reason == "it only reads"


def test_a_name_alone_has_no_subject_so_patterns_deny_but_do_not_allow() -> None:
    assert Permissions(allow=["web_search"]).judge("web_search", {}).verdict == "allow"
    assert Permissions("deny", allow=["web_search(x)"]).judge("web_search", {}).verdict == "deny"
    assert Permissions("allow", deny=["web_search(x)"]).judge("web_search", {}).verdict == "deny"
    assert Permissions("allow", deny=["web_*(x)"]).judge("web_search", {}).verdict == "allow"
    assert Permissions(by_effects=True).judge("web_search", {}).verdict == "ask"


@pytest.mark.parametrize("rule", ["", "shell(", "shell()", "shell(a) ", "two words", "(a)", "shell(a)b", 3])
def test_what_is_no_rule_is_refused(rule: Any) -> None:
    with pytest.raises(ValueError, match=r"permissions\.ask: .* is no rule; write `tool`"):
        Permissions(ask=[rule])


def test_a_pattern_may_hold_parentheses_and_lines() -> None:
    assert shell(Permissions("allow", deny=["shell(*(x)\ny)"]), "a(x)\ny") == "deny"


def test_wrong_values_are_refused() -> None:
    with pytest.raises(ValueError, match=r"permissions\.default is 'maybe'"):
        Permissions("maybe")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match=r"permissions\.deny is 'shell'; it must be a list"):
        Permissions(deny="shell")


def test_permissions_are_values() -> None:
    assert Permissions(deny=["a"]) == Permissions(deny=("a",))
    assert hash(Permissions(deny=["a"])) == hash(Permissions(deny=("a",)))


def test_check_finds_patterns_without_a_subject_and_rules_without_a_tool() -> None:
    rules = Permissions(
        deny=["github.*(x)", "shell(rm *)", "Shell"], allow=["now(x)", "now", "*(x)", "web_search", "*.pem"]
    )
    assert [(each.code, each.verdict, each.rule) for each in rules.check([*TOOLS, "web_search"])] == [
        ("no-subject", "deny", "github.*(x)"),
        ("dead-permission", "deny", "Shell"),
        ("no-subject", "allow", "now(x)"),
        ("dead-permission", "allow", "*.pem"),
    ]
    both = merge_strictest(Permissions(deny=["x"]), Permissions(deny=["y"]))
    assert [each.message for each in both.check([NOW])] == [
        "no tool is named `x`; the tools are: now",
        "no tool is named `y`; the tools are: now",
    ]


def test_the_strictest_of_two_holds() -> None:
    own = Permissions(allow=["shell", "now"])
    caller = Permissions("allow", deny=["shell(sudo *)"], ask=["now"])
    for both in (merge_strictest(own, caller), merge_strictest(caller, own)):
        assert [shell(both, each) for each in ("ls", "sudo x")] == ["allow", "deny"]
        assert both.judge(NOW, {}).rule == "now"
        assert both.judge(NOW, {}).verdict == "ask"
        assert both.judge(ISSUE, {}).verdict == "ask"
    third = merge_strictest(merge_strictest(own, caller), Permissions("deny"))
    assert shell(third, "ls") == "deny"


@pytest.mark.parametrize(
    ("verdict", "decision", "holds"),
    [
        ("allow", None, "allow"),
        ("allow", Allow(), "allow"),
        ("allow", Ask("?"), "ask"),
        ("allow", Deny("no"), "deny"),
        ("ask", Allow(), "ask"),
        ("ask", Ask(), "ask"),
        ("ask", Deny(), "deny"),
        ("deny", Allow(), "deny"),
        ("deny", Ask(), "deny"),
        ("deny", None, "deny"),
    ],
)
def test_the_stricter_of_verdict_and_decision_holds(
    verdict: Verdict, decision: Decision | None, holds: Verdict
) -> None:
    assert stricter(verdict, decision) == holds


WORDS = ("sudo", "rm", "ls", "git", "status", "push", "-f", "'a b'", '"x"', "$HOME", "A=1", "\\;", "env")
GLUE = (" ", "  ", ";", " && ", "||", "|", "&", "\n", " 2>&1 ", ">x ", "$(", ")", "`", "'", '"', "#", "\\\n")
PATTERNS = ("sudo *", "rm *", "ls *", "git status *", "git *", "git push", "*", "l?", "A=1 *")
commands = st.lists(st.sampled_from(WORDS + GLUE), max_size=12).map("".join) | st.text(max_size=20)
rule_lists = st.lists(st.sampled_from([f"shell({pattern})" for pattern in PATTERNS]), max_size=4)
verdicts: st.SearchStrategy[Verdict] = st.sampled_from(["allow", "ask", "deny"])
permissions = st.builds(Permissions, default=verdicts, deny=rule_lists, ask=rule_lists, allow=rule_lists)


def goes_on(command: str) -> bool:
    """What follows may belong to the same word: something is open, or the last character escapes the next."""
    return read_command(command).doubt != "" or command.endswith("\\")


def is_empty(command: str) -> bool:
    """Nothing is there that a rule could be about, so only the default denies it."""
    read = read_command(command)
    return not read.obstacle and not any(part.raw for part in read.parts)


@given(permissions, commands, commands)
@example(Permissions(default="deny", allow=["shell(sudo *)"]), "", "sudo")
@settings(max_examples=500)
def test_more_commands_never_make_a_denied_one_allowed(rules: Permissions, command: str, more: str) -> None:
    if shell(rules, command) == "deny" and not goes_on(command) and not is_empty(command):
        assert shell(rules, f"{command}; x") != "allow"
        assert shell(rules, f"{command}; {more}") != "allow"


@given(rule_lists, rule_lists, commands)
@settings(max_examples=500)
def test_allow_needs_a_pattern_for_every_command(deny: list[str], allow: list[str], command: str) -> None:
    if shell(Permissions(deny=deny, allow=allow), command) == "allow":
        read = read_command(command)
        assert not read.obstacle
        assert [
            part.text for part in read.parts if shell(Permissions(allow=allow), part.text) != "allow"
        ] == []


@given(permissions, permissions, commands)
def test_merging_never_loosens(first: Permissions, second: Permissions, command: str) -> None:
    order = ("allow", "ask", "deny")
    both = [order.index(shell(rules, command)) for rules in (first, second)]
    assert order.index(shell(merge_strictest(first, second), command)) == max(both)
