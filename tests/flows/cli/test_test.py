import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[..., Any]
FLOW = "version: 1\nmodel: test\ntools: [shell]\n"
TESTS = """\
version: 1
flow: flow.yaml
tests:
  - name: it answers
    prompt: Hello.
    expect: {text: ok}
  - name: it answers otherwise
    prompt: Hello.
    expect: {text: no}
"""


@pytest.fixture
def files(tmp_path: Path) -> Callable[..., None]:
    """Write a flow and its tests."""

    def write(tests: str = TESTS, flow: str = FLOW) -> None:
        (tmp_path / "flow.yaml").write_text(flow, "utf-8")
        (tmp_path / "flow.test.yaml").write_text(tests, "utf-8")

    return write


def test_every_test_below_the_folder_is_played(cli: Cli, files: Callable[..., None]) -> None:
    files()
    ended = cli("test")
    assert ended.code == 1
    assert ended.out.splitlines() == [
        "passed  flow.test.yaml::it answers",
        "failed  flow.test.yaml::it answers otherwise",
        "    flow.test.yaml:9: the last answer should be 'no', not 'ok'",
        "    the walk was: idle > claiming > pre_step > requesting > stopping > idle",
        "1 passed, 1 failed",
    ]


def test_what_passes_ends_well(cli: Cli, files: Callable[..., None]) -> None:
    files()
    ended = cli("test", "-k", "answers", "flow.test.yaml")
    assert ended.code == 1
    files(TESTS.replace("text: no", "text: ok"))
    ended = cli("test", ".")
    assert (ended.code, ended.out.splitlines()[-1]) == (0, "2 passed")


def test_only_tests_with_a_word_in_their_name(cli: Cli, files: Callable[..., None]) -> None:
    files()
    ended = cli("test", "-k", "otherwise")
    assert (ended.code, ended.out.splitlines()[-1]) == (1, "1 failed")
    ended = cli("test", "-k", "nothing")
    assert ended.code == 2
    assert "no test has 'nothing' in its name" in ended.err


def test_no_files_is_wrong_usage(cli: Cli) -> None:
    ended = cli("test")
    assert ended.code == 2
    assert "they are named *.test.yaml and name a flow" in ended.err


def test_a_file_that_is_wrong_is_told_and_the_others_are_played(
    cli: Cli, files: Callable[..., None], tmp_path: Path
) -> None:
    files(TESTS.replace("text: no", "text: ok"))
    (tmp_path / "bad.test.yaml").write_text("version: 1\nflow: flow.yaml\ntsts: []\n", "utf-8")
    ended = cli("test")
    assert ended.code == 1
    assert "bad.test.yaml:3:1: error: unknown key" in ended.out
    assert ended.out.splitlines()[-1] == "2 passed, 1 file with problems"


def test_a_file_that_is_not_there_is_told(cli: Cli) -> None:
    ended = cli("test", "none.test.yaml")
    assert ended.code == 1
    assert "[file-missing]" in ended.out


def test_results_as_json(cli: Cli, files: Callable[..., None]) -> None:
    files()
    ended = cli("test", "--format", "json")
    assert ended.code == 1
    passed, failed = json.loads(ended.out)
    assert passed == {
        "file": "flow.test.yaml", "line": 4, "name": "it answers", "outcome": "passed", "report": "",
    }  # fmt: skip
    assert (failed["outcome"], failed["line"]) == ("failed", 7)
    assert "should be 'no'" in failed["report"]


def test_what_is_real_and_not_trusted_is_refused(
    cli: Cli, files: Callable[..., None], tmp_path: Path
) -> None:
    (tmp_path / "check.sh").write_text("#!/bin/sh\n", "utf-8")
    (tmp_path / "check.sh").chmod(0o755)
    files(
        "version: 1\nflow: flow.yaml\ntests: [{name: a, prompt: b, commands: {check.sh: {real: true}}}]\n",
        f"{FLOW}hooks:\n  pre_step: [{{run: [./check.sh]}}]\n",
    )
    ended = cli("test")
    assert ended.code == 3
    assert "[not-trusted]" in ended.err
    assert cli("test", "--trust").code == 0


def test_a_tool_that_acts_for_real_needs_somebody_who_agreed(
    cli: Cli, files: Callable[..., None], tmp_path: Path
) -> None:
    script = "[{call: shell, args: {command: touch made}}, {text: done}]"
    case = f"{{name: a, prompt: b, approve: all, model: {script}, tools: {{shell: {{real: true}}}}}}"
    files(f"version: 1\nflow: flow.yaml\ntests:\n  - {case}\n", "version: 1\nmodel: test\ntools: [shell]\n")
    ended = cli("test")
    assert ended.code == 3
    assert 'the tool "shell" would act for real' in ended.err
    assert "flow.test.yaml:4:" in ended.err
    assert cli("test", "--trust").code == 0
    assert not (tmp_path / "made").exists()


def test_ctrl_c_ends_it(cli: Cli, files: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*given: object) -> None:
        raise KeyboardInterrupt

    files()
    monkeypatch.setattr("turnchart.flows.testfiles.playing.play_case", interrupted)
    assert cli("test").code == 130
