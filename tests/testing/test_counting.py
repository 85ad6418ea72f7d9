"""``pytest --lifecycle-coverage``, tried with pytest inside of pytest."""

from collections.abc import Callable
from typing import Any

import pytest

from turnchart.machine.driver import Driver

Inner = Callable[..., Any]

TESTS = """
    import anyio
    from turnchart.machine import Agent, ScriptedModel


    def test_a_turn():
        async def turn():
            async with Agent(ScriptedModel(["a"])) as agent:
                await agent.prompt("x")

        anyio.run(turn)
"""


class Terminal:
    """Stands in for the reporter that prints the summary."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def section(self, title: str) -> None:
        self.lines.append(f"== {title}")

    def write_line(self, text: str, **style: bool) -> None:
        self.lines += text.splitlines()


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (["--lifecycle-coverage"], 0),
        (["--lifecycle-coverage-fail-under=90"], 1),
        (["--lifecycle-coverage-fail-under=states=60"], 0),
        (["--lifecycle-coverage-fail-under=states=60", "--lifecycle-coverage-fail-under=edges=50"], 1),
        ([], 0),
    ],
)
def test_the_gate_fails_a_run_that_walked_too_little(inner: Inner, options: list[str], code: int) -> None:
    ran = inner(*options, test_gate__py=TESTS)
    assert ran.code == code, ran.texts
    assert list(ran.outcomes.values()) == ["passed"]
    assert Driver.counted is None


def test_a_failing_run_keeps_its_own_code(inner: Inner) -> None:
    assert inner("--lifecycle-coverage-fail-under=1", test_red__py="def test_red(): assert 0").code == 1
    ran = inner("--lifecycle-coverage-fail-under=1", "-k", "nothing", test_red__py="")
    assert ran.code == pytest.ExitCode.NO_TESTS_COLLECTED


@pytest.mark.parametrize("wrong", ["many", "rows=9"])
def test_a_gate_that_is_written_wrong_is_refused(
    inner: Inner, wrong: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = inner(f"--lifecycle-coverage-fail-under={wrong}", test_gate__py=TESTS)
    assert (ran.code, ran.outcomes) == (pytest.ExitCode.USAGE_ERROR, {})
    assert f"--lifecycle-coverage-fail-under: '{wrong}' is neither" in capsys.readouterr().err


def test_the_measures_are_printed(
    request: pytest.FixtureRequest, pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    from turnchart.testing.counting import CoveragePlugin

    monkeypatch.setattr(pytestconfig.option, "lifecycle_coverage_fail_under", ["edges=50"])
    monkeypatch.setattr(pytestconfig.option, "verbose", 0)
    monkeypatch.setattr(pytestconfig.option, "numprocesses", None, raising=False)  # that of this very run
    monkeypatch.delattr(pytestconfig, "workerinput", raising=False)
    plugin = CoveragePlugin(pytestconfig)
    plugin.pytest_runtest_logfinish()
    monkeypatch.setattr(request.session, "exitstatus", pytest.ExitCode.OK)
    plugin.pytest_sessionfinish(request.session)
    terminal = Terminal()
    plugin.pytest_terminal_summary(terminal)  # type: ignore[arg-type]  # what of it is used
    assert request.session.exitstatus == pytest.ExitCode.TESTS_FAILED
    assert terminal.lines[:2] == ["== lifecycle coverage", "states    0 of 8    0.0 %"]
    assert terminal.lines[-1] == "FAIL: edges 0.0 % is less than 50 %"


def test_tests_in_several_processes_are_refused(
    pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    from turnchart.testing.counting import CoveragePlugin

    monkeypatch.setattr(pytestconfig.option, "numprocesses", 2, raising=False)
    with pytest.raises(pytest.UsageError, match="leave out -n"):
        CoveragePlugin(pytestconfig)


FLOW = """
    version: 1
    model: test
    tools: [shell]
    hooks:
      pre_tool:
        - use: deny_commands
          id: no-rm
          with: {patterns: [rm]}
        - use: deny_commands
          id: no-mv
          with: {patterns: [mv]}
"""
SUITE = """
    version: 1
    flow: counted.yaml
    tests:
      - name: nothing is removed
        prompt: Clean up.
        model: [{call: shell, args: {command: rm x}}, No.]
        expect: {reason: completed}
"""


def test_conversations_in_test_files_count_with_the_hooks_of_their_flow(inner: Inner) -> None:
    gates = [f"--lifecycle-coverage-fail-under={gate}" for gate in ("hooks=50", "states=70")]
    files = {"counted__yaml": FLOW, "counted__test__yaml": SUITE}
    ran = inner(*gates, **files)
    assert (ran.code, list(ran.outcomes.values())) == (0, ["passed"]), ran.texts
    assert inner("--lifecycle-coverage-fail-under=hooks=51", **files).code == 1
