"""The pages of the reference that are made from the program, each with what makes it."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.docs.commands import command_line
from tests.docs.flow_keys import flow_keys
from tests.docs.hook_points import hook_points
from tests.docs.log_and_signals import log_and_signals
from tests.docs.python_names import python_names

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "reference"
PACKAGES = ("machine", "hooks", "flows", "diagrams", "testing")
PAGES: dict[str, Callable[[], str]] = {
    "command-line.md": command_line,
    "entries-and-signals.md": log_and_signals,
    "flow-file.md": flow_keys,
    "hook-points.md": hook_points,
    **{f"python/{name}.md": partial(python_names, f"turnchart.{name}") for name in PACKAGES},
}
