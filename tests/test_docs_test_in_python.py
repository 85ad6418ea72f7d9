"""Everything that docs/how-to/test-in-python.md shows runs."""

import re
from pathlib import Path

import pytest

from turnchart.machine import Agent, Reply, ScriptedModel, ToolCall, tool
from turnchart.testing import LifecycleCoverage, WalkDiffers, record
from turnchart.testing.coverage import MEASURES, least_of

pytestmark = pytest.mark.checkout

PAGE = (Path(__file__).parents[1] / "docs" / "how-to" / "test-in-python.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
OFF = ("terminal", "cacheprovider", "faulthandler", "timeout", "capture", "unraisableexception")


def blocks(kind: str) -> list[str]:
    return [text for name, text in BLOCKS if name == kind]


def test_every_block_is_of_a_kind_that_is_checked_here() -> None:
    assert [kind for kind, _ in BLOCKS] == ["python", "text", "sh", "text"]


class Outcomes:
    """Collects what became of the tests."""

    def __init__(self) -> None:
        self.passed: set[str] = set()
        self.texts = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self.passed.add(report.nodeid.partition("::")[2].partition("[")[0])
        self.texts += report.longreprtext if report.failed else ""

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self.texts += report.longreprtext if report.failed else ""


def test_the_five_tests_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [text] = blocks("python")
    monkeypatch.chdir(tmp_path)
    (tmp_path / text.partition("\n")[0].removeprefix("# ")).write_text(text, "utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\n", "utf-8")
    ran = Outcomes()
    off = [option for name in OFF for option in ("-p", f"no:{name}")]
    code = pytest.main(["-c", "pytest.ini", "--import-mode=importlib", *off], plugins=[ran])
    assert code == 0, ran.texts
    assert ran.passed == set(re.findall(r"def (test_\w+)", text))
    assert len(ran.passed) == 5


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def test_a_walk_is_shown_as_on_the_page() -> None:
    model = ScriptedModel([Reply(tool_calls=[ToolCall("add", {"a": 1, "b": 2})]), "3"])
    async with Agent(model, tools=[add]) as agent:
        recording = record(agent)
        await agent.prompt("x")
    with pytest.raises(WalkDiffers) as differs:
        recording.assert_walk("idle>claiming>pre_step>requesting>stopping>idle")
    assert f"{differs.value}\n" == blocks("text")[0]


def test_the_measures_are_those_of_the_program() -> None:
    _, shown = blocks("text")
    lines = LifecycleCoverage().report().splitlines()
    wholes = [re.findall(r"of (\d+)", line) for line in shown.splitlines()[:2]]
    assert wholes == [re.findall(r"of (\d+)", line) for line in lines if line.startswith(("states", "edges"))]
    assert re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE) == list(MEASURES)


def test_the_options_are_right() -> None:
    [commands] = blocks("sh")
    gates = re.findall(r"fail-under=(\S+)", commands)
    assert [least_of([gate]) for gate in gates] == [
        {"states": 90, "edges": 90, "guards": 90, "pairs": 90},
        {"edges": 100},
    ]
