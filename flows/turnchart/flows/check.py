"""``check``: everything that is wrong with a flow, at once. Nothing that the flow names is started.

Reading goes in steps: text to nodes (``source``), parents (``merge``), nodes to parts (``parts``), and what
the parts mean (``checks``, ``tool_checks``, ``hook_checks``).
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from turnchart.flows.checks import check_settings
from turnchart.flows.merge import read_merged
from turnchart.flows.parts import Parts, parts_of
from turnchart.flows.paths import Place, place_of
from turnchart.flows.problems import Problem, in_order
from turnchart.flows.shipped import find_shipped
from turnchart.flows.validate import Reading

if TYPE_CHECKING:
    from turnchart.flows.hook_checks import HookUse
    from turnchart.flows.tool_checks import Named
    from turnchart.machine.tools import Tool


@dataclass(slots=True)
class Checked:
    """A flow that was looked at.

    Attributes:
        path: The file.
        shown: How messages name it.
        place: Its root.
        shipped: It came with Turnchart.
        parts: What of it can be read; None where nothing can.
        tools: Its tools, in order.
        hooks: Its hooks, in the order of the file.
        problems: What is wrong, sorted by position.
    """

    path: Path
    shown: str
    place: Place
    shipped: bool
    parts: Parts | None = None
    tools: "list[Named]" = field(default_factory=list["Named"])
    hooks: "list[HookUse]" = field(default_factory=list["HookUse"])
    problems: list[Problem] = field(default_factory=list[Problem])


def check_flow(
    path: str | os.PathLike[str],
    plugins: Iterable[str] = (),
    env: Mapping[str, str] | None = os.environ,
    trust: bool = False,
) -> list[Problem]:
    """Return every problem of a flow, sorted by position.

    Args:
        path: The file, or the name of a shipped flow.
        plugins: Modules whose hooks and tools the flow may name; they are imported.
        env: The variables that ``${env:NAME}`` reads; None checks without any.
        trust: What the flow starts or reaches was agreed to. Checking starts nothing in any case.
    """
    del trust  # plug-ins that a project names will need it
    return examine(path, plugins, env).problems


def examine(
    path: str | os.PathLike[str], plugins: Iterable[str] = (), env: Mapping[str, str] | None = os.environ
) -> Checked:
    """Look at a flow, and return what it is made of and what is wrong with it."""
    checked = _located(os.fspath(path))
    own, wrong = _plugins(checked, plugins)
    merged = read_merged(checked.path, checked.shown, checked.place)
    reading = Reading(env, [*wrong, *merged.problems])
    if merged.root is not None:
        checked.parts = parts_of(merged.root, reading)
        _meaning(checked, checked.parts, reading, own)
    checked.problems = in_order(reading.problems)
    return checked


def _plugins(checked: Checked, names: Iterable[str]) -> "tuple[dict[str, Tool], list[Problem]]":
    listed = list(names)
    if not listed:
        return {}, []
    from turnchart.flows.plugins import load_plugins

    return load_plugins(listed, (Path.cwd(), checked.path.parent))


def _meaning(checked: Checked, parts: Parts, reading: Reading, own: "Mapping[str, Tool]") -> None:
    """Find what is wrong although it is well formed. What a flow does not use is not loaded."""
    keys = parts.root.fields.keys()
    if keys & {"tools", "permissions"}:
        from turnchart.flows.tool_checks import check_permissions, check_tools

        checked.tools = check_tools(parts, reading, checked.place.root, own)
        reading.problems += check_permissions(parts, checked.tools)
    if keys & {"hooks", "disable_hooks"}:
        from turnchart.flows.hook_checks import check_hooks

        checked.hooks = check_hooks(parts, reading, checked.place, checked.tools)
    reading.problems += check_settings(parts, checked.place, reading.env)


def _located(name: str) -> Checked:
    path = Path(os.path.abspath(name))
    shipped = find_shipped(name) if not os.path.lexists(path) else None
    if shipped is not None:
        return Checked(shipped, str(shipped), Place(Path.cwd(), shipped.parent), True)
    return Checked(path, name, place_of(path), False)
