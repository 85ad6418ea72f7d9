"""``check``: everything that is wrong with a flow, at once. Nothing that the flow names is started.

Reading goes in steps: text to nodes (``source``), parents (``merge``), nodes to parts (``parts``), and what
the parts mean (``checks``, ``tool_checks``, ``hook_checks``).
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from turnchart.flows.checks import check_settings
from turnchart.flows.merge import read_merged
from turnchart.flows.model_checks import check_models
from turnchart.flows.parts import Parts, parts_of
from turnchart.flows.paths import Place, place_of
from turnchart.flows.problems import Problem, in_order, meant, sentence
from turnchart.flows.shipped import find_shipped, shipped_flows
from turnchart.flows.validate import Reading

if TYPE_CHECKING:
    from turnchart.flows.hook_checks import HookUse
    from turnchart.flows.plugins import ProjectPlugins
    from turnchart.flows.session_checks import StoreUse
    from turnchart.flows.tool_checks import Named
    from turnchart.machine.tools import Tool


@dataclass(slots=True, eq=False)
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
        store: The registered store of its sessions; None for a built-in one.
        plugins: What its project names; None where it names none.
        trusted: Somebody agreed to import these.
        above: The flows that it is a tool of, outermost first.
        missing: The params that have no value.
        problems: What is wrong, sorted by position.
    """

    path: Path
    shown: str
    place: Place
    shipped: bool
    parts: Parts | None = None
    tools: "list[Named]" = field(default_factory=list["Named"])
    hooks: "list[HookUse]" = field(default_factory=list["HookUse"])
    store: "StoreUse | None" = None
    plugins: "ProjectPlugins | None" = None
    trusted: bool = True
    above: tuple[Path, ...] = ()
    missing: list[Problem] = field(default_factory=list[Problem])
    problems: list[Problem] = field(default_factory=list[Problem])


def check_flow(
    path: str | os.PathLike[str],
    plugins: Iterable[str] = (),
    env: Mapping[str, str] | None = os.environ,
    trust: bool = False,
    lint: bool = False,
) -> list[Problem]:
    """Return every problem of a flow, sorted by position.

    Args:
        path: The file, or the name of a shipped flow.
        plugins: Modules whose hooks and tools the flow may name; they are imported.
        env: The variables that ``${env:NAME}`` reads; None checks without any.
        trust: Plug-ins that the project names are imported, whether somebody agreed to that or not. Of what
            the flow itself names nothing is started in any case.
        lint: Say also what of the lifecycle can never happen with this flow, as warnings.
    """
    checked = examine(path, plugins, env, trust)
    if not lint:
        return checked.problems
    from turnchart.flows.lint import lint_flow

    return in_order([*checked.problems, *lint_flow(checked)])


def examine(
    path: str | os.PathLike[str],
    plugins: Iterable[str] = (),
    env: Mapping[str, str] | None = os.environ,
    trust: bool = False,
    *,
    params: Mapping[str, Any] = MappingProxyType({}),
    unexpanded: bool = False,
) -> Checked:
    """Look at a flow, and return what it is made of and what is wrong with it.

    ``params`` are values by name. ``unexpanded`` leaves references to variables as they are written, for
    those who show a flow.
    """
    checked = _located(os.fspath(path))
    own, wrong = _plugins(checked, list(plugins), trust)
    reading = Reading(env, wrong, unexpanded=unexpanded)
    _read(checked, reading, own, params)
    found = reading.problems if checked.trusted else map(_perhaps, reading.problems)
    checked.problems = in_order(found)
    return checked


def _examine_inner(
    outer: Checked,
    around: Reading,
    own: "Mapping[str, Tool]",
    path: Path,
    shown: str,
    params: Mapping[str, Any],
) -> Checked:
    """Look at a flow that is a tool of another one: it lives where that does, and knows its plug-ins.

    Raises:
        FlowCycle: If it is among the flows that it is a tool of.
    """
    from turnchart.flows.subflows import FlowCycle

    above = (*outer.above, outer.path.resolve())
    if path.resolve() in above:
        raise FlowCycle([*above, path])
    checked = Checked(path, shown, outer.place, outer.shipped, trusted=outer.trusted, above=above)
    reading = Reading(around.env, unexpanded=around.unexpanded)
    _read(checked, reading, own, params)
    found = [*reading.problems, *checked.missing]
    checked.problems = in_order(found if checked.trusted else map(_perhaps, found))
    return checked


def _read(checked: Checked, reading: Reading, own: "Mapping[str, Tool]", params: Mapping[str, Any]) -> None:
    merged = read_merged(checked.path, checked.shown, checked.place)
    if merged.root is None and not os.path.lexists(checked.path):
        reading.problems += [each._replace(help=_meant_flow(checked.shown)) for each in merged.problems]
        return
    reading.problems += merged.problems
    if merged.root is None:
        return
    if params or "params" in merged.root.fields:
        from turnchart.flows.params import missing_params, read_params

        read_params(merged.root, reading, params)
        checked.missing = list(missing_params(merged.root, reading.params))
    checked.parts = parts_of(merged.root, reading)
    _meaning(checked, checked.parts, reading, own)


# -- plug-ins -------------------------------------------------------------------------------------


def known_here(
    plugins: Iterable[str] = (), *, trust: bool = False
) -> "tuple[dict[str, Tool], list[Problem]]":
    """Register the hooks that flows in the current folder may name, and return the tools of their plug-ins.

    Args:
        plugins: Named by a person.
        trust: The plug-ins of the project are imported, whether somebody agreed to that or not.
    """
    path = Path.cwd() / "flow.yaml"
    return _plugins(Checked(path, path.name, place_of(path), False), list(plugins), trust)


def _plugins(checked: Checked, given: Sequence[str], trust: bool) -> "tuple[dict[str, Tool], list[Problem]]":
    """Import the plug-ins that a person named, and those of the project where somebody agreed to them."""
    project = None if checked.shipped else _project(checked.place.root)
    checked.plugins = project
    if not given and project is None:
        return {}, []
    from turnchart.flows.plugins import load_plugins

    tools, problems = load_plugins(given, (Path.cwd(), checked.path.parent))
    if project is not None:
        more, wrong = _of_project(checked, project, trust)
        return more | tools, [*project.problems, *wrong, *problems]
    return tools, problems


def _project(root: Path) -> "ProjectPlugins | None":
    """Return what a project says of plug-ins; None where it says nothing."""
    if not os.path.exists(root / "pyproject.toml"):
        return None
    from turnchart.flows.plugins import FILE, project_plugins

    found = project_plugins(root, os.path.relpath(root / FILE))
    return found if found.names or found.problems else None


def _of_project(
    checked: Checked, project: "ProjectPlugins", trust: bool
) -> "tuple[dict[str, Tool], list[Problem]]":
    from turnchart.flows.plugins import load_plugins
    from turnchart.flows.trust import plugin_reaches, plugins_agreed

    checked.trusted = trust or plugins_agreed(project)
    if checked.trusted:
        return load_plugins([node.text for node in project.names], project.folders)
    return {}, [reach.problem("plugin-not-trusted", "warning") for reach in plugin_reaches(project)]


def _perhaps(problem: Problem) -> Problem:
    """Return a problem as a warning where a plug-in that was not imported may know better."""
    if problem.code not in ("unknown-hook", "unknown-store", "unknown-tool"):
        return problem
    help = f"{problem.help}. A plug-in that nobody agreed to may know it"
    return problem._replace(level="warning", help=help)


# -- meaning --------------------------------------------------------------------------------------


def _meaning(checked: Checked, parts: Parts, reading: Reading, own: "Mapping[str, Tool]") -> None:
    """Find what is wrong although it is well formed. What a flow does not use is not loaded."""
    keys = parts.root.fields.keys()
    if keys & {"tools", "permissions"}:
        from turnchart.flows.tool_checks import check_permissions, check_tools

        inner = partial(_examine_inner, checked, reading, own)
        checked.tools = check_tools(parts, reading, checked.place, own, inner)
        reading.problems += check_permissions(parts, checked.tools, own)
        if any(tool.at_provider for tool in checked.tools):
            from turnchart.flows.provider_tools import check_provider_tools

            reading.problems += check_provider_tools(parts, checked.tools)
    if keys & {"hooks", "disable_hooks", "extensions"}:
        from turnchart.flows.hook_checks import check_hooks

        checked.hooks = check_hooks(parts, reading, checked.place, checked.tools)
        if not checked.trusted:
            checked.hooks = _with_unknown(parts, checked.hooks)
    if keys & {"session"}:
        from turnchart.flows.session_checks import check_session

        checked.store = check_session(parts, reading, checked.place)
    if keys & {"mcp"}:
        from turnchart.flows.servers import check_names, check_servers

        reading.problems += check_servers(parts, checked.place, reading.env)
        servers = [each.server for each in checked.tools if each.server is not None]
        reading.problems += check_names(parts, servers)
    reading.problems += check_settings(parts, checked.place, reading.env)
    reading.problems += check_models(parts)
    if keys & {"hooks", "tools", "permissions"}:
        from turnchart.flows.traps import check_traps

        there = [tool.name for tool in checked.tools if tool.at_provider]
        reading.problems += check_traps(parts, checked.place, there)


def _with_unknown(parts: Parts, uses: "Sequence[HookUse]") -> "list[HookUse]":
    """Return the hooks with those, at their places, that only a plug-in that was not imported can know."""
    from turnchart.flows.hook_checks import HookUse
    from turnchart.hooks.registry import HOOKS

    known = {id(use.part): use for use in uses}
    off = set(parts.file.disable_hooks)
    found: list[HookUse] = []
    for part in parts.chain():
        use = known.get(id(part))
        if use is None and part.spec.use is not None and HOOKS.get(part.spec.use) is None:
            use = HookUse(part, None, disabled=part.spec.disabled or part.id in off)
        if use is not None:
            found.append(use)
    return found


def _meant_flow(name: str) -> str:
    """Return the help for a file that is not there: the flow that comes along and was probably meant."""
    if os.path.dirname(name) or name.endswith((".yaml", ".yml")):
        return ""
    known = [flow.name for flow in shipped_flows()]
    return sentence(meant(name, known), f"flows that come along: {', '.join(known)}")


def _located(name: str) -> Checked:
    path = Path(os.path.abspath(name))
    shipped = find_shipped(name) if not os.path.lexists(path) else None
    if shipped is not None:
        return Checked(shipped, str(shipped), Place(Path.cwd(), shipped.parent), True)
    return Checked(path, name, place_of(path), False)
