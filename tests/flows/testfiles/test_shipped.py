"""The tests of the flows that come along pass."""

from pathlib import Path

import pytest

from turnchart.flows import Flow
from turnchart.flows.testfiles.finding import load_suite
from turnchart.flows.testfiles.judging import differences
from turnchart.flows.testfiles.playing import play_case
from turnchart.flows.testfiles.suite import Case

pytestmark = pytest.mark.checkout

FOLDER = Path(__file__).parents[3] / "flows"
CASES = [
    pytest.param(flow, case, id=f"{path.stem}::{case.name}")
    for path in sorted(FOLDER.glob("*.test.yaml"))
    for suite, flow in [load_suite(str(path))]
    for case in suite.cases
]


def test_the_demo_has_tests() -> None:
    assert (FOLDER / "demo.test.yaml").exists()


@pytest.mark.parametrize(("flow", "case"), CASES)
def test_the_tests_of_shipped_flows_pass(flow: Flow, case: Case) -> None:
    played = play_case(flow, case)
    assert [str(each) for each in differences(case, played)] == []
