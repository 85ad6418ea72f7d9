"""Plug-ins: modules that a person named, on the command line or in Python. A flow can never name one.

A plug-in is imported. Its hooks register themselves with ``@hook``; its tools are those in the module.
"""

import sys
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType

from turnchart.flows.problems import Problem
from turnchart.machine.tools import Tool


def load_plugins(names: Iterable[str], folders: Iterable[Path] = ()) -> tuple[dict[str, Tool], list[Problem]]:
    """Import plug-ins and return their tools by name, and what is wrong.

    Args:
        names: Names of modules.
        folders: Where they are looked for, when they are not installed.
    """
    tools: dict[str, Tool] = {}
    problems: list[Problem] = []
    with _path(folders):
        for name in names:
            try:
                tools |= _tools(import_module(name))
            except (Exception, SystemExit) as error:  # noqa: BLE001  # whatever a module does when it is imported
                message = f"the plug-in {name} cannot be imported: {type(error).__name__}: {error}"
                problems.append(Problem("plugin", message, name, help="--plugin takes the name of a module"))
    return tools, problems


def _tools(module: ModuleType) -> dict[str, Tool]:
    return {value.name: value for value in vars(module).values() if isinstance(value, Tool)}


@contextmanager
def _path(folders: Iterable[Path]) -> Generator[None]:
    before = list(sys.path)
    sys.path += [str(folder) for folder in folders if str(folder) not in sys.path]
    try:
        yield
    finally:
        sys.path[:] = before
