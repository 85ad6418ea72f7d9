"""``outside:`` of a tool: the folders outside of the root that are open to it too, and to no other tool."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from turnchart.flows.agreements import agreements_file
from turnchart.flows.parts import ToolPart
from turnchart.flows.problems import Problem, quoted
from turnchart.machine.paths import inside, resolved
from turnchart.machine.toolbox import TOOLBOX, make

if TYPE_CHECKING:
    from turnchart.flows.check import Checked
    from turnchart.flows.tool_checks import Named

OUTSIDE: Final = "outside"
"""The parameter that names them."""


def check_openings(part: ToolPart, root: Path, folders: Sequence[str]) -> Iterator[Problem]:
    """Find folders that are not there, and those that no tool may write in."""
    for i, folder in enumerate(resolved(root, folders)):
        node = part.at("with", OUTSIDE, i)
        if not os.path.isdir(folder):
            help = "a folder of outside: is absolute, or relative to the root of the project"
            message = f"the folder {quoted(str(folder))} is not there"
            yield node.problem("run-file", message, help=help, level="warning")
        kept = agreements_file()
        if _writes(part) and kept is not None and kept.resolve().is_relative_to(folder):
            message = (
                f"the folder {quoted(str(folder))} holds what people agreed to, which a tool could change"
            )
            yield node.problem("path-outside", message, help="open a folder below it")


def _writes(part: ToolPart) -> bool:
    settings = TOOLBOX[part.spec.use or ""].settings
    return settings.get("effects") != "read" and settings.get("subject_kind") != "shell"


def closed(checked: "Checked") -> "Checked":
    """Return a flow whose tools keep inside the root whatever it says: a test must not reach further."""
    return replace(checked, tools=[_closed(named) for named in checked.tools])


def _closed(named: "Named") -> "Named":
    maker = named.maker
    if named.flow is not None and maker is not None:
        from turnchart.flows.subflows import agent_tool

        inner = closed(named.flow)
        return replace(named, flow=inner, maker=partial(agent_tool, inner))
    if not isinstance(maker, partial) or maker.func is not make or not maker.args[2].get(OUTSIDE):
        return named
    name, root, given, hidden = maker.args
    kept = {key: value for key, value in given.items() if key != TOOLBOX[name].folder or _leads(root, value)}
    return replace(named, maker=partial(make, name, root, {**kept, OUTSIDE: []}, hidden))


def _leads(root: Path | str, folder: str) -> bool:
    """Tell whether a folder that programs start in is one of the root; else they start in the root itself."""
    try:
        inside(root, folder)
    except PermissionError:
        return False
    return True
