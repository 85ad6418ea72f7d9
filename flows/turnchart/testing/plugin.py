"""The pytest plugin, loaded by pytest wherever Turnchart is installed.

It is imported at the start of every pytest run of every project that has Turnchart in its environment, so
nothing of Turnchart is imported at the top of this file: a hook that needs some imports it when it is called.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from turnchart.machine.table import Table
    from turnchart.testing.clock import FakeClock
    from turnchart.testing.collecting import SuiteFile
    from turnchart.testing.fixtures import AgentFrom, ScriptedFactory


def pytest_report_header() -> str:
    """Say which Turnchart is under test."""
    from turnchart.machine.version import VERSION

    return f"turnchart: {VERSION}"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the coverage of the lifecycle."""
    group = parser.getgroup("turnchart", "tests of agents")
    group.addoption(
        "--lifecycle-coverage",
        action="store_true",
        help="say how much of the lifecycle the agents of all tests walked: states, edges, outcomes of"
        " guards, pairs of rows, and hooks that acted",
    )
    group.addoption(
        "--lifecycle-coverage-fail-under",
        action="append",
        default=[],
        metavar="[MEASURE=]PERCENT",
        help="fail below that; without a measure, of each but hooks; may be given several times",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Count what agents walk, where that is asked for."""
    if config.getoption("--lifecycle-coverage") or config.getoption("--lifecycle-coverage-fail-under"):
        from turnchart.testing.counting import CoveragePlugin

        config.pluginmanager.register(CoveragePlugin(config), "turnchart-lifecycle-coverage")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> "SuiteFile | None":
    """Collect ``NAME.test.yaml``, where it is a test file of ours; others are left alone."""
    if not file_path.name.endswith(".test.yaml") or b"flow" not in file_path.read_bytes():
        return None
    from turnchart.flows.testfiles.reading import is_suite
    from turnchart.testing.collecting import SuiteFile

    if not is_suite(file_path):
        return None
    made: SuiteFile = SuiteFile.from_parent(parent, path=file_path)  # pyright: ignore[reportUnknownMemberType]  # pytest's keywords have no types
    return made


@pytest.fixture
def lifecycle() -> "Table":
    """The table of the lifecycle: ``lifecycle.transition(...)``, ``lifecycle.paths(...)``."""
    from turnchart.machine.table import LIFECYCLE

    return LIFECYCLE


@pytest.fixture
def fake_clock() -> "FakeClock":
    """A clock on which waiting takes no time."""
    from turnchart.testing.clock import FakeClock

    return FakeClock()


@pytest.fixture
def scripted() -> "ScriptedFactory":
    """Make scripted models: ``scripted("Hello.", Reply(...), Failure(...))``."""
    from turnchart.testing.fixtures import scripted_model

    return scripted_model


@pytest.fixture
def agent_from(
    request: pytest.FixtureRequest, tmp_path: Path, fake_clock: "FakeClock"
) -> "Iterator[AgentFrom]":
    """Make agents of flows whose models, tools and programs are played; see ``AgentFrom``."""
    from turnchart.testing.fixtures import AgentFrom

    made = AgentFrom(request.path.parent, tmp_path, fake_clock)
    yield made
    missing = made.missing()
    if missing:
        pytest.fail("\n".join(missing), pytrace=False)
