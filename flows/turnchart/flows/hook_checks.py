"""What is wrong with the hooks of a flow: names, points, keys, parameters, ids, tool patterns."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from turnchart.flows.extensions import add_legs
from turnchart.flows.parts import HookPart, Parts
from turnchart.flows.paths import Place, beside, outside
from turnchart.flows.problems import Problem, meant, quoted, sentence
from turnchart.flows.programs import argv_of, folder_problem, looked_up
from turnchart.flows.source import AnyNode, ListNode, MapNode
from turnchart.flows.validate import Loc, Reading, find
from turnchart.hooks.registry import HOOKS, HookSpec, ParamError, Spec
from turnchart.machine.points import POINTS, WITH_ON_ERROR

if TYPE_CHECKING:
    from turnchart.flows.tool_checks import Named

WITH_TOOLS: Final = tuple(point.name for point in POINTS.values() if point.tools)
MAX_CONTINUES: Final = 3
"""How often one hook may send a turn on, unless its entry says otherwise."""


class HookUse(NamedTuple):
    """A hook of the flow, ready to be made: its entry, what is registered, and its parameters.

    Attributes:
        part: The entry.
        spec: What is registered under its name; None for a program.
        params: What ``with:`` says, checked, with paths relative to the root.
        argv: The program and its arguments; a name with a slash is made absolute.
        disabled: By its entry or by ``disable_hooks``.
        tools: The built-in tools behind the names that the flow gave them, for a program that asks for these.
    """

    part: HookPart
    spec: HookSpec | None
    params: Mapping[str, Any] = MappingProxyType({})
    argv: tuple[str, ...] = ()
    disabled: bool = False
    tools: Mapping[str, str] = MappingProxyType({})


def check_hooks(parts: Parts, reading: Reading, place: Place, tools: "Sequence[Named]") -> list[HookUse]:
    """Look the hooks of a flow up; what is wrong goes to ``reading.problems``."""
    add_legs(parts, reading)
    hooks = parts.chain()
    _name(hooks)
    reading.problems += _ids(parts, hooks)
    off = set(parts.file.disable_hooks)
    uses: list[HookUse] = []
    for part in hooks:
        reading.problems += _keys(part)
        reading.problems += _matchers(parts, part, tools)
        reading.problems += _continues(parts, part)
        if part.spec.use is not None:
            use = _used(part, reading, place, parts)
        else:
            use = _program(part, reading, place, parts)
        if use is not None:
            uses.append(use if not (part.spec.disabled or part.id in off) else _off(use))
    return uses


def _off(use: HookUse) -> HookUse:
    return use._replace(disabled=True)


# -- ids ------------------------------------------------------------------------------------------


def _name(hooks: Sequence[HookPart]) -> None:
    """Give every hook an id: its own, else its name, with -2, -3 where that is taken."""
    taken = {part.spec.id for part in hooks if part.spec.id is not None}
    legs: dict[int, str] = {}
    for part in hooks:
        if part.spec.id is not None:
            part.id = part.spec.id
            continue
        if part.leg and id(part.node) in legs:
            part.id = legs[id(part.node)]
            continue
        name = part.spec.use or os.path.basename((part.spec.run or [""])[0])
        part.id, number = name, 1
        while part.id in taken:
            number += 1
            part.id = f"{name}-{number}"
        taken.add(part.id)
        legs[id(part.node)] = part.id


def _ids(parts: Parts, hooks: Sequence[HookPart]) -> Iterator[Problem]:
    first: dict[str, HookPart] = {}
    for part in hooks:
        before = first.setdefault(part.id, part)
        if before.node is not part.node:
            message = f"two hooks have the id {quoted(part.id)}"
            yield part.at("id").problem("duplicate-id", message, help=f"the first is at {before.where}")
    for i, id in enumerate(parts.file.disable_hooks):
        if id not in first:
            help = sentence(meant(id, first), f"ids: {', '.join(first) or 'none'}")
            node = parts.at("disable_hooks", i)
            yield node.problem("unknown-id", f"no hook has the id {quoted(id)}", help=help)


# -- keys -----------------------------------------------------------------------------------------


def _keys(part: HookPart) -> Iterator[Problem]:
    """Find keys that this point does not take."""
    given = part.node.fields.keys() if isinstance(part.node, MapNode) else ()
    point = part.point
    if "on_error" in given and point.on_error is None:
        yield _fixed(part)
    if "tools" in given and not point.tools:
        yield part.key("tools").problem(
            "key-not-here",
            f"tools is not allowed on {point.name}",
            help=f"no tool is called there; tool patterns exist on: {', '.join(WITH_TOOLS)}",
        )
    if "max_continues" in given and point.name != "turn_stopping":
        yield part.key("max_continues").problem(
            "key-not-here",
            f"max_continues is not allowed on {point.name}",
            help="only turn_stopping sends a turn on",
        )


def _fixed(part: HookPart) -> Problem:
    point = part.point
    if point.gate:
        rule = f"{point.name} is a gate: a hook that fails or times out blocks"
    else:
        rule = f"what a failing hook means on {point.name} is fixed: {point.failure}"
    help = f"{rule}. on_error exists on: {', '.join(WITH_ON_ERROR)}"
    message = f"on_error is not allowed on {point.name}"
    return part.key("on_error").problem("gate-on-error", message, help=help)


def _matchers(parts: Parts, part: HookPart, tools: "Sequence[Named]") -> Iterator[Problem]:
    if not part.point.tools or not parts.knows_tools(part.node) or any(tool.unknown for tool in tools):
        return
    for i, glob in enumerate(part.spec.tools or ()):
        if not any(tool.fits(glob) for tool in tools):
            known = [name for tool in tools if tool.maker or tool.server for name in tool.shown]
            node = part.at("tools", i)
            message = f"tool pattern {quoted(glob)} matches no tool of this agent"
            yield node.problem("dead-matcher", message, help=_matcher_help(glob, known))


def _matcher_help(glob: str, tools: Sequence[str]) -> str:
    known = f"tools: {', '.join(tools) or 'none'}"
    if "|" in glob or "," in glob:
        words = [word.strip() for word in glob.replace("|", ",").split(",")]
        return sentence(f"globs have no alternatives: write [{', '.join(words)}].", known)
    if glob.startswith(("^", ".*")) or glob.endswith(("$", ".*")):
        return sentence("patterns are globs, no regular expressions: * stands for any text.", known)
    return sentence(meant(glob, tools), known)


def _continues(parts: Parts, part: HookPart) -> Iterator[Problem]:
    own, turn = part.spec.max_continues, parts.file.limits.max_continues
    if own is not None and part.point.name == "turn_stopping" and own > turn:
        message = f"max_continues is {own}, but limits.max_continues ends the turn after {turn}"
        node = part.at("max_continues")
        yield node.problem("limit-shadowed", message, help="the smaller of the two wins", level="warning")


# -- registered hooks -----------------------------------------------------------------------------


def _used(part: HookPart, reading: Reading, place: Place, parts: Parts) -> HookUse | None:
    name, node = part.spec.use or "", part.at("use")
    spec = HOOKS.get(name)
    if spec is None:
        reading.problems.append(_unknown(part, node, name))
        return None
    if part.point.name not in spec.points:
        there = ", ".join(HOOKS.names(part.point.name))
        help = f"it runs on: {', '.join(spec.points)}. For {part.point.name} there are: {there or 'none'}"
        message = f"hook {quoted(name)} cannot run on {part.point.name}"
        reading.problems.append(node.problem("hook-event", message, help=help))
        return None
    if name == "fallback_on" and not _has_fallback(parts):
        message = "fallback_on has no model to fall back to"
        help = "write model: {id: ..., fallback: [provider:name]}"
        reading.problems.append(node.problem("no-fallback", message, help=help))
        return None
    params = _params(part, spec, reading, place)
    return HookUse(part, spec, params) if params is not None else None


def _has_fallback(parts: Parts) -> bool:
    """Tell whether the model names others; what is wrong with it otherwise is reported there."""
    model = parts.root.get("model")
    names = model.get("fallback") if isinstance(model, MapNode) else None
    return names is not None and not (isinstance(names, ListNode) and not names.items)


def _unknown(part: HookPart, node: AnyNode, name: str) -> Problem:
    here = HOOKS.names(part.point.name)
    help = sentence(
        meant(name, here) or meant(name, HOOKS.names()),
        f"hooks for {part.point.name}: {', '.join(here) or 'none'}.",
        "Yours must be registered in code or by an installed package; a file cannot import",
    )
    return node.problem("unknown-hook", f"no hook named {quoted(name)}", help=help)


def _params(part: HookPart, spec: HookSpec, reading: Reading, place: Place) -> dict[str, Any] | None:
    node = find(part.node, ("with",))
    at: AnyNode = node.value if node.exact else part.at("use")
    loc: Loc = (*part.loc, "with")
    if isinstance(part.node, MapNode) and any(p.name in part.node.fields for p in spec.parameters):
        return None  # a parameter stands beside with:, which is reported as an unknown key
    return made_parameters(
        spec, "hook", at, loc, part.spec.arguments, lambda *way: part.at("with", *way), reading, place
    )


def made_parameters(
    spec: Spec, what: str, node: AnyNode, loc: Loc, said: Mapping[str, Any], at: Callable[..., AnyNode],
    reading: Reading, place: Place,
) -> dict[str, Any] | None:  # fmt: skip
    """Return the parameters that a registered thing is made with; None where they are wrong, which is told.

    Args:
        spec: What is registered.
        what: How messages call it.
        node: Where its parameters stand, or its name.
        loc: The way to them in the file.
        said: What the file gives.
        at: Finds the node of a part of them.
        reading: Collects what is wrong.
        place: What paths are relative to.
    """
    before = len(reading.problems)
    checked = reading.valid(spec.params, node, loc, said)
    if checked is None or len(reading.problems) > before or not reading.knows(node):
        return None
    given = prepared(spec, said, at, reading, place)
    try:
        spec.make(given)
    except ParamError as error:
        message = f"{what} {quoted(spec.name)}: {error.errors[0]['msg'].removeprefix('Value error, ')}"
        reading.problems.append(node.problem("bad-value", message))
        return None
    return given


def prepared(
    spec: Spec, said: Mapping[str, Any], at: Callable[..., AnyNode], reading: Reading, place: Place
) -> dict[str, Any]:
    """Return parameters as they are called from the root: paths relative to it, programs made absolute.

    Args:
        spec: What is registered.
        said: What the file says.
        at: Finds the place of a parameter.
        reading: Collects the problems.
        place: Where the flow lives.
    """
    given = dict(said)
    for parameter in spec.parameters:
        value = given.get(parameter.name)
        if parameter.meaning == "path" and isinstance(value, str):
            given[parameter.name] = _path(at(parameter.name), value, reading, place)
        elif parameter.meaning == "command" and isinstance(value, list) and value:
            first = at(parameter.name, 0)
            argv = [str(each) for each in value]  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]  # plain data
            reading.problems += looked_up(first, argv[0], place)
            given[parameter.name] = list(argv_of(first, argv))
    return given


def _path(node: AnyNode, text: str, reading: Reading, place: Place) -> str:
    """Return a path that a file wrote, as it is called from the root; a run may be the first to write it."""
    target, name = beside(node.source, text)
    wrong = outside(node, text, target, place.reach)
    if wrong is None and not os.path.isfile(target):
        message = f"the file {quoted(name)} is not there"
        help = "the path is relative to the file that wrote it"
        wrong = node.problem("run-file", message, help=help, level="warning")
    reading.problems += [wrong] if wrong is not None else []
    if wrong is not None and wrong.level == "error":
        return text
    return os.path.relpath(target.resolve(), place.root.resolve())


# -- programs -------------------------------------------------------------------------------------


def _program(part: HookPart, reading: Reading, place: Place, parts: Parts) -> HookUse | None:
    if not part.point.run:
        points = ", ".join(point.name for point in POINTS.values() if point.run)
        message = f"a program cannot run on {part.point.name}"
        problem = part.key("run").problem("hook-event", message, help=f"run: stands on: {points}")
        reading.problems.append(problem)
        return None
    if part.spec.dialect is not None:
        from turnchart.hooks.claude_code import EVENTS  # most flows have no such program

        if part.point.name not in EVENTS:
            message = f"a program with dialect: {part.spec.dialect} cannot run on {part.point.name}"
            node = part.at("dialect")
            reading.problems.append(
                node.problem("hook-event", message, help=f"it knows: {', '.join(EVENTS)}")
            )
            return None
    if part.spec.cwd is not None:
        wrong = folder_problem(part.at("cwd"), part.spec.cwd, place)
        reading.problems += [wrong] if wrong is not None else []
    first, argv = part.at("run", 0), part.spec.run or [""]
    reading.problems += looked_up(first, argv[0], place)
    names = {tool.name: tool.spec.use for tool in parts.tools if tool.spec.use is not None}
    return HookUse(part, None, argv=argv_of(first, argv), tools=names)
