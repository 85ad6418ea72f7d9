import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from turnchart.flows.check import check_flow, examine
from turnchart.flows.problems import Problem

Codes = list[tuple[str, int, int]]


def codes(problems: list[Problem]) -> Codes:
    return [(problem.code, problem.line, problem.column) for problem in problems]


def write(folder: Path, text: str, name: str = "a.yaml") -> Path:
    (folder / name).write_text(textwrap.dedent(text).lstrip())
    return folder / name


def test_a_good_flow_has_no_problems(tmp_path: Path) -> None:
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "p.md").write_text("Be kind.")
    write(tmp_path, "- Hello\n", "script.yaml")
    flow = write(
        tmp_path,
        """
        version: 1
        name: all
        description: Everything at once.
        x-common: &limits {max_steps: 5}
        model:
          id: script:script.yaml
          settings: {max_tokens: 10, temperature: 1, top_p: 0.5, thinking: high}
          extra: {anything: [goes]}
          context_window: 1000
        prompt:
          - file: prompts/p.md
          - text: And brief, ${env:NAME:-friend}.
        tools:
          - read_file
          - {use: shell, as: sh, with: {timeout: "${env:LIMIT}"}, execution: exclusive}
        permissions: {default: ask, deny: ['sh(rm *)'], allow: [read_file]}
        hooks:
          session_start: [{use: notify, with: {text: hi}}]
          pre_tool:
            - {use: deny_commands, id: no-rm, tools: [sh], timeout: 5, with: {patterns: [rm], message: No.}}
          post_tool: [{use: redact_secrets, on_error: stop}, {use: audit_log, with: {path: logs/a.jsonl}}]
          turn_stopping:
            - {use: require_tool_call, with: {tool: sh, reason: Test.}, max_continues: 2, disabled: true}
        queues: {steering: one-at-a-time, follow_up: all}
        retry: {max_attempts: 2, base_delay: 0.5, max_delay: 1, honor_retry_after: false, retry_on: [timeout]}
        session: {store: jsonl, path: sessions}
        limits: *limits
        """,
    )
    checked = examine(flow, env={"LIMIT": "5"})
    assert checked.problems == []
    assert checked.parts is not None
    assert checked.parts.file.limits.max_steps == 5
    assert [tool.name for tool in checked.tools] == ["read_file", "sh"]


def test_without_variables_their_values_are_not_judged(tmp_path: Path) -> None:
    flow = write(tmp_path, 'version: 1\nmodel: test\nlimits: {max_steps: "${env:N}"}\ndescription: ${N}\n')
    assert codes(check_flow(flow, env=None)) == [("env-syntax", 4, 14)]
    assert codes(check_flow(flow, env={})) == [("env-missing", 3, 22), ("env-syntax", 4, 14)]


def test_a_missing_file_is_one_problem(tmp_path: Path) -> None:
    (problem,) = check_flow(tmp_path / "none.yaml")
    assert (problem.code, problem.line) == ("file-missing", 0)


@pytest.mark.parametrize(
    ("name", "help"),
    [
        ("demoo", 'did you mean "demo"? flows that come along: '),
        ("nothing-like-it", "flows that come along: "),
        ("demoo.yaml", ""),
        ("folder/demoo", ""),
    ],
)
def test_a_missing_file_may_be_meant_as_the_name_of_a_flow(name: str, help: str) -> None:
    (problem,) = check_flow(name)
    assert problem.help.startswith(help)
    assert bool(problem.help) is bool(help)


def test_messages_name_the_file_as_it_was_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "sub", "version: 1\nextends: ../base.yaml\nzz: 1\n", "a.yaml")
    write(tmp_path, "version: 1\nyy: 1\n", "base.yaml")
    (tmp_path / "pyproject.toml").touch()
    assert [problem.file for problem in check_flow("sub/a.yaml")] == ["base.yaml", "sub/a.yaml"]


def test_a_value_behind_an_alias_is_told_once(tmp_path: Path) -> None:
    flow = write(tmp_path, "version: 1\nx-a: &a {max_stepz: 1}\nlimits: *a\n")
    assert codes(check_flow(flow)) == [("unknown-key", 2, 10)]


BAD = {
    "a tag": "name: !!python/object/apply:os.system ['touch {touched}']\n",
    "an import path": "hooks:\n  session_start: [{{use: os.system, with: {{command: 'touch {touched}'}}}}]\n",
    "an import path of a tool": "tools: ['subprocess.run', 'plugin:tool', '../plugin.py']\n",
    "a missing parent": "extends: gone.yaml\nhooks:\n  session_start: [{{run: [touch, '{touched}']}}]\n",
    "a program": "hooks:\n  session_start: [{{run: [touch, '{touched}']}}]\n",
    "a wrong plug-in key": "plugins: [plugin]\n",
}


@pytest.mark.parametrize("what", BAD)
def test_looking_at_a_file_runs_nothing(tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    touched = tmp_path / "touched"
    (tmp_path / "plugin.py").write_text(f"open({str(touched)!r}, 'w')\n")
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "version: 1\nmodel: test\n" + BAD[what].format(touched=touched))
    problems = check_flow("a.yaml", trust=True)
    assert what == "a program" or problems
    assert not touched.exists()
    assert "plugin" not in sys.modules


def test_a_plugin_brings_hooks_and_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "check_plugin", raising=False)
    write(
        tmp_path,
        """
        from turnchart.hooks import hook, PreTool
        from turnchart.machine import tool

        @tool
        def add(a: int, b: int) -> int:
            "Add."
            return a + b

        @hook("check_plugin_hook", on="pre_tool")
        def check_plugin_hook(payload: PreTool, *, word: str) -> None:
            "Nothing."
        """,
        "check_plugin.py",
    )
    write(
        tmp_path,
        """
        version: 1
        tools: [add]
        hooks:
          pre_tool: [{use: check_plugin_hook, with: {word: x}, tools: [add]}]
        """,
    )
    assert [code for code, *_ in codes(check_flow("a.yaml"))] == ["unknown-tool", "unknown-hook"]
    assert check_flow("a.yaml", plugins=["check_plugin"]) == []


HEAVY = (
    "statemachine",
    "rich",
    "graphviz",
    "sqlite3",
    "pydantic_ai",
    "mcp",
    "turnchart.machine.chart",
    "trio",
)


def run(code: str) -> str:
    path = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


@pytest.mark.parametrize(
    "text", ["version: 1\nmodel: test\ntools: [shell]\n", "version: 1\nzz: 1\ntools: [x]\n"]
)
def test_checking_loads_no_engine_and_nothing_to_draw_or_call_models(tmp_path: Path, text: str) -> None:
    flow = write(tmp_path, text + "hooks:\n  pre_tool: [{use: redact_secrets}]\n")
    code = (
        f"import sys; from turnchart.flows import check_flow; check_flow({str(flow)!r});"
        f" print([m for m in {HEAVY!r} if m in sys.modules])"
    )
    assert run(code) == "[]\n"


def test_the_package_itself_loads_nothing() -> None:
    assert (
        run("import sys, turnchart.flows; print('yaml' in sys.modules, 'pydantic' in sys.modules)")
        == "False False\n"
    )
