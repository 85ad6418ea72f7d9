"""Finding test files, and loading one with the flow that it tests."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from turnchart.flows.problems import FlowError, NotTrusted, Problem, exit_code, in_order
from turnchart.flows.testfiles.reading import SUFFIX, is_suite, read_suite
from turnchart.flows.testfiles.suite import Suite

if TYPE_CHECKING:
    from turnchart.flows.load import Flow

_SKIPPED: Final = frozenset(("node_modules", "venv", "__pycache__", "build", "dist"))


def find_suites(named: Sequence[str]) -> list[str]:
    """Return the test files that a person named, in order, and those in the folders among the names.

    Without a name, those in the current folder. In folders, files that only happen to be named like test
    files are left out, and so are hidden folders and those that hold what others wrote.
    """
    found: list[str] = []
    for name in named or (".",):
        found += _below(name) if os.path.isdir(name) else [name]
    return list(dict.fromkeys(found))


def _below(folder: str) -> Iterator[str]:
    for at, folders, files in os.walk(folder):
        folders[:] = sorted(each for each in folders if not each.startswith(".") and each not in _SKIPPED)
        for name in sorted(files):
            path = os.path.normpath(os.path.join(at, name))
            if name.endswith(SUFFIX) and is_suite(Path(path)):
                yield path


def problems_of(
    name: str, plugins: Iterable[str], env: Mapping[str, str] | None, *, trust: bool = False
) -> list[Problem]:
    """Return what is wrong with a test file and with the flow that it tests. Nothing is played.

    Args:
        name: The file.
        plugins: Modules whose hooks and tools the flow may name; they are imported.
        env: The variables of the machine; None leaves their values open.
        trust: Plug-ins of the project may be imported.
    """
    from turnchart.flows.check import check_flow
    from turnchart.flows.load import flow_to_show
    from turnchart.flows.testfiles.checking import check_suite

    suite, problems = read_suite(name)
    if suite is None:
        return problems
    problems = [*problems, *check_flow(suite.flow, plugins, env=env, trust=trust)]
    if not exit_code(problems):
        flow = flow_to_show(suite.flow, plugins)
        found = check_suite(suite, flow)
        problems += found if flow.checked.trusted else map(_perhaps, found)
    return in_order(problems)


def _perhaps(problem: Problem) -> Problem:
    """Return a problem as a warning where a plug-in that nobody agreed to may bring what is named."""
    brought = problem.code in ("unknown-id", "unknown-tool", "dead-permission")
    return problem._replace(level="warning") if brought else problem


def load_suite(name: str, plugins: Iterable[str] = (), *, trust: bool = False) -> tuple[Suite, "Flow"]:
    """Read a test file and load its flow. Nothing is played.

    Args:
        name: The file.
        plugins: Modules whose hooks and tools the flow may name; they are imported.
        trust: What the flow starts or reaches was agreed to.

    Raises:
        FlowError: If anything is wrong with the file or with the flow; it holds every problem.
        NotTrusted: If a test lets a tool act for real, or the project has plug-ins, and nobody agreed.
    """
    from turnchart.flows.load import load_flow
    from turnchart.flows.testfiles.checking import check_suite, real_tools
    from turnchart.flows.trust import plugin_reaches

    suite, problems = read_suite(name)
    if suite is None:
        raise FlowError(problems)
    try:
        flow = load_flow(suite.flow, plugins, trust=trust)
    except FlowError as error:
        raise FlowError([*problems, *error.problems]) from None
    if flow.checked.plugins is not None and not flow.checked.trusted:  # without them it is another flow
        raise NotTrusted([reach.problem() for reach in plugin_reaches(flow.checked.plugins)])
    found: list[Problem] = in_order([*problems, *check_suite(suite, flow)])
    if exit_code(found):
        raise FlowError(found)
    acting = [] if trust or flow.checked.shipped else real_tools(suite, flow)
    if acting:
        raise NotTrusted(acting)
    return suite, flow
