"""The pytest plugin costs the projects that have Turnchart installed, but do not use it, next to nothing."""

import os
import subprocess
import sys
from importlib.metadata import entry_points, version

from turnchart.testing import plugin

OURS_AFTER_IMPORT = """
import sys
import turnchart.testing.plugin
print(*sorted(name for name in sys.modules if name.startswith("turnchart.")))
"""


def test_pytest_finds_it_by_its_entry_point() -> None:
    [entry] = entry_points(group="pytest11", name="turnchart")
    assert entry.load() is plugin


def test_importing_it_imports_nothing_else_of_ours() -> None:
    path = os.pathsep.join(entry for entry in sys.path if entry)
    run = subprocess.run(
        [sys.executable, "-c", OURS_AFTER_IMPORT],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.split() == ["turnchart.testing", "turnchart.testing.plugin"]


def test_the_header_names_the_version() -> None:
    assert plugin.pytest_report_header() == f"turnchart: {version('turnchart')}"
