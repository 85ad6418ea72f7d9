"""What the tests of test files share: a small flow, its tests, and what came of them."""

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from turnchart.flows.testfiles.finding import load_suite
from turnchart.flows.testfiles.judging import differences, report
from turnchart.flows.testfiles.playing import Played, play_case

Write = Callable[..., Path]
Play = Callable[..., Played]
Report = Callable[..., str]

FLOW = """\
version: 1
name: small
model: anthropic:claude-sonnet-4-5
tools: [shell, read_file]
permissions:
  default: ask
  allow: [read_file, 'shell(ls *)']
  deny: ['shell(sudo *)']
hooks:
  pre_tool:
    - use: deny_commands
      id: no-destructive
      tools: [shell]
      with: {patterns: ['rm -rf']}
"""


@pytest.fixture
def suite(write: Write) -> Callable[..., str]:
    """Write the flow and a file with one test, whose keys are given, and return its name."""

    def suite(keys: str, flow: str = FLOW) -> str:
        write(flow)
        lines = textwrap.indent(textwrap.dedent(keys).strip("\n"), "    ")
        write(f"version: 1\nflow: flow.yaml\ntests:\n  - name: one\n{lines}\n", "flow.test.yaml")
        return "flow.test.yaml"

    return suite


@pytest.fixture(params=["asyncio", "trio"])
def loop(request: pytest.FixtureRequest) -> str:
    """Play on both loops."""
    name: str = request.param
    return name


@pytest.fixture
def play(suite: Callable[..., str], loop: str) -> Play:
    """Play a test whose keys are given, and return what came of it."""

    def play(keys: str, flow: str = FLOW) -> Played:
        loaded, made = load_suite(suite(keys, flow))
        return play_case(made, loaded.cases[0], loop=loop)

    return play


@pytest.fixture
def reported(suite: Callable[..., str]) -> Report:
    """Play a test whose keys are given, and return what is reported; nothing where it passed."""

    def reported(keys: str, flow: str = FLOW) -> str:
        loaded, made = load_suite(suite(keys, flow))
        [case] = loaded.cases
        played = play_case(made, case)
        found = differences(case, played)
        return report(case, played, found) if found else ""

    return reported
