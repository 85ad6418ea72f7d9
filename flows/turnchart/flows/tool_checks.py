"""What is wrong with the tools of a flow, and with the permissions that speak of them."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pydantic import Field

from turnchart.flows.parts import Parts, ToolPart
from turnchart.flows.paths import Place, beside, outside
from turnchart.flows.problems import Problem, exit_code, meant, quoted, sentence
from turnchart.flows.programs import argv_of, looked_up
from turnchart.flows.schema import Closed, Name, PermissionRules
from turnchart.flows.servers import may_fit, server_of
from turnchart.flows.source import AnyNode
from turnchart.flows.validate import Reading
from turnchart.machine.paths import resolved
from turnchart.machine.permissions import Permissions, Verdict
from turnchart.machine.toolbox import AT_PROVIDER, TOOLBOX, make

if TYPE_CHECKING:
    from turnchart.flows.check import Checked
    from turnchart.machine.mcp.servers import McpServer
    from turnchart.machine.tools import Tool

AGENT: Final = "agent"
"""The tool that is another flow."""


class AgentParams(Closed):
    """What ``agent`` takes."""

    file: Name = Field(description="The flow, relative to the file that wrote it.")
    params: dict[str, str | int | float | bool] = Field(default={}, description="Its params, by name.")


Inner = Callable[[Path, str, Mapping[str, Any]], "Checked"]
"""Looks at a flow that is a tool of this one: where it is, how messages name it, its params."""


@dataclass(frozen=True, eq=False)
class Named:
    """A tool of the flow. Checking does not make it, since that would load its code.

    Attributes:
        part: Its entry.
        maker: Makes it; None where it cannot be made.
        subject: The parameter that permissions match.
        flow: The flow that it is; None for other tools.
        server: The MCP server whose tools it stands for; None for other tools.
        at_provider: It runs at the provider of the model.
    """

    part: ToolPart
    maker: "Callable[[], Tool] | None" = None
    subject: str | None = None
    flow: "Checked | None" = None
    server: "McpServer | None" = None
    at_provider: bool = False

    @property
    def name(self) -> str:
        """What the model, matchers and permissions call it; the tools of a server: how their names begin."""
        return self.part.name

    @property
    def shown(self) -> tuple[str, ...]:
        """Its name; of a server, those of its tools, or globs where they are not known."""
        if self.server is None:
            return (self.name if self.part.spec.mcp is None else f"{self.name}.*",)
        return tuple(self.server.named(each) for each in self.server.only or ("*",))

    @property
    def unknown(self) -> bool:
        """Whether there is no such tool, or it is wrong."""
        return self.maker is None and self.flow is None and self.server is None

    def fits(self, glob: str) -> bool:
        """Tell whether a pattern on names is about it, or may be."""
        if self.server is None and self.part.spec.mcp is not None:
            return True  # something is wrong with the server, and that is reported
        if self.server is None:
            return self.name == glob or fnmatchcase(self.name, glob)
        return may_fit(self.server, glob)

    @cached_property
    def tool(self) -> "Tool | None":
        """The tool itself; None where it cannot be made."""
        return finished(self.part, self.maker()) if self.maker is not None else None


def check_tools(
    parts: Parts, reading: Reading, place: Place, own: "Mapping[str, Tool]", inner: Inner
) -> list[Named]:
    """Look the tools of a flow up; what is wrong goes to ``reading.problems``.

    Args:
        parts: The flow.
        reading: Collects the problems.
        place: Where the flow lives; tools work in its root.
        own: Tools of plug-ins, by name.
        inner: Looks at flows that are tools.
    """
    found: list[Named] = []
    seen: dict[str, ToolPart] = {}
    hidden = parts.variables()
    for part in parts.tools:
        if part.spec.mcp is not None:
            found.append(Named(part, server=server_of(part, parts, reading)))
        elif part.spec.use == AGENT and AGENT not in own:
            found.append(_agent(part, reading, place, inner))
        else:
            found.append(_named(part, reading, place, own, hidden))
        first = seen.setdefault(part.name, part)
        if first is not part and not (part.spec.mcp and part.spec.mcp == first.spec.mcp):
            message = f"two tools have the name {quoted(part.name)}"
            help = f"the first is on line {first.node.line}; give one another name with as:"
            reading.problems.append(part.at("as").problem("duplicate-tool", message, help=help))
    return found


def _named(
    part: ToolPart, reading: Reading, place: Place, own: "Mapping[str, Tool]", hidden: frozenset[str]
) -> Named:
    name, root = part.spec.use or "", place.root
    if name in own:
        if part.spec.arguments:
            message = f"tool {quoted(name)} takes no parameters"
            reading.problems.append(part.at("with").problem("bad-value", message, help="delete with:"))
        return Named(part, partial(own.__getitem__, name), own[name].subject)
    if name not in TOOLBOX:
        reading.problems.append(_unknown(part, own))
        return Named(part)
    if name in AT_PROVIDER:
        reading.problems += _own_terms(part)
    found = TOOLBOX[name]
    params = reading.valid(found.params, part.at("with"), (*part.loc, "with"), part.spec.arguments)
    if params is None:
        return Named(part)
    try:
        found.check(root, params)
    except (PermissionError, ValueError):
        reading.problems.append(_leads_out(part, root, getattr(params, "outside", ())))
        return Named(part)
    given = params.model_dump()
    if given.get("outside"):
        from turnchart.flows.openings import check_openings  # few flows leave their root

        reading.problems += check_openings(part, root, given["outside"])
    if found.program:
        first, argv = part.at("with", found.program, 0), given[found.program]
        reading.problems += looked_up(first, argv[0], place)
        given[found.program] = list(argv_of(first, argv))
    maker = partial(make, name, root, given, hidden)
    return Named(part, maker, found.subject(params), at_provider=name in AT_PROVIDER)


def _own_terms(part: ToolPart) -> Iterator[Problem]:
    """Find what an entry says of a tool that the provider runs: under its own name, and when it likes."""
    said = {"as": part.spec.name, "execution": part.spec.execution}
    for key in [key for key, value in said.items() if value is not None]:
        message = f"tool {quoted(part.spec.use or '')} takes no {key}: it runs at the provider"
        yield part.at(key).problem("bad-value", message, help=f"delete {key}:")


def _agent(part: ToolPart, reading: Reading, place: Place, inner: Inner) -> Named:
    """Look at a flow that is a tool, and report what is wrong with it as well."""
    given = reading.valid(AgentParams, part.at("with"), (*part.loc, "with"), part.spec.arguments)
    if given is None:
        return Named(part)
    node = part.at("with", "file")
    target, name = beside(node.source, given.file)
    wrong = outside(node, given.file, target, place.reach)
    if wrong is None and not os.path.isfile(target):
        help = "the path is relative to the file that wrote it"
        wrong = node.problem("file-missing", f"the flow {quoted(name)} is not there", help=help)
    if wrong is not None:
        reading.problems.append(wrong)
        return Named(part)
    from turnchart.flows.subflows import FlowCycle, agent_tool

    try:
        flow = inner(Path(os.path.abspath(target)), name, given.params)
    except FlowCycle as cycle:
        reading.problems.append(node.problem("agent-cycle", "a flow cannot be its own tool", help=str(cycle)))
        return Named(part)
    reading.problems += flow.problems
    if exit_code(flow.problems) or flow.parts is None:
        return Named(part, flow=flow)
    return Named(part, partial(agent_tool, flow), None, flow)


def _leads_out(part: ToolPart, root: Path, opened: Sequence[str]) -> Problem:
    """Return the problem of a parameter that leads out of the root."""
    for i, text in enumerate(opened):
        try:
            resolved(root, [text])
        except ValueError:
            return part.at("with", "outside", i).problem("bad-value", f"{quoted(text)} is no path")
    texts = {key: value for key, value in part.spec.arguments.items() if isinstance(value, str)}
    for key, text in texts.items():
        wrong = outside(part.at("with", key), text, root / text, root)
        if wrong is not None:
            return wrong
    return part.at("with").problem("path-outside", f"tool {quoted(part.name)} leaves the project")


def finished(part: ToolPart, tool: "Tool") -> "Tool":
    """Return a tool with what its entry says of it."""
    changes: dict[str, Any] = {"name": part.name}
    if part.spec.execution is not None:
        changes["execution"] = part.spec.execution
    return replace(tool, **changes)


def _unknown(part: ToolPart, own: "Mapping[str, Tool]") -> Problem:
    node, name = part.at("use"), part.spec.use or ""
    known = sorted({*TOOLBOX, AGENT, *own})
    help = sentence(
        meant(name, known),
        f"tools: {', '.join(known)}. Yours come in by a plug-in; a file cannot import",
    )
    return node.problem("unknown-tool", f"no tool named {quoted(name)}", help=help)


# -- permissions ----------------------------------------------------------------------------------

_LISTS: Final[tuple[Verdict, ...]] = ("deny", "ask", "allow")


def check_permissions(parts: Parts, tools: Sequence[Named], own: Iterable[str] = ()) -> Iterator[Problem]:
    """Find rules that are written wrong, or can match nothing.

    A flow may deny a tool that it does not have, or ask about it: that holds for those who extend it.

    Args:
        parts: The flow.
        tools: What it has.
        own: The names of the tools of plug-ins.
    """
    rules = parts.file.permissions
    if rules is None:
        return
    everywhere = [*tools, *_inner_tools(tools)]
    for verdict in _LISTS:
        known = tools if verdict == "allow" else everywhere
        beside = () if verdict == "allow" else (*TOOLBOX, AGENT, *own)
        for i, text in enumerate(getattr(rules, verdict)):
            yield from _rule(parts, verdict, parts.at("permissions", verdict, i), text, known, beside)


def _inner_tools(tools: Sequence[Named]) -> Iterator[Named]:
    """Yield the tools of the flows that are tools: what a flow denies or asks about holds for them too."""
    for each in tools:
        if each.flow is not None:
            yield from each.flow.tools
            yield from _inner_tools(each.flow.tools)


def permissions_of(rules: PermissionRules | None) -> Permissions:
    """Return the permissions of a flow; without any, tools that only read are allowed and the rest asks."""
    if rules is None:
        return Permissions.reads()
    return Permissions(rules.default or "ask", rules.deny, rules.ask, rules.allow)


def _rule(
    parts: Parts, verdict: Verdict, node: AnyNode, text: str, tools: Sequence[Named], beside: Iterable[str]
) -> Iterator[Problem]:
    try:
        rule = _single(verdict, text)
    except ValueError:
        help = "write tool, server.tool, a glob of these, or tool(pattern)"
        yield node.problem("permission-rule", f"{quoted(text)} is no permission rule", help=help)
        return
    name = text.partition("(")[0]
    about = [each for each in tools if each.fits(name)]
    if name != text and about and all(each.server is not None for each in about):
        help = "the tools of MCP servers have no subject that a pattern could be compared with"
        yield node.problem("permission-rule", f"permission {quoted(text)} has a pattern", help=help)
        return
    if not parts.knows_tools(node) or any(each.maker is None for each in about):
        return
    for wrong in rule.check(about):
        if wrong.code == "dead-permission" and any(each.unknown for each in tools):
            continue  # it may be about a tool whose name is wrong, which is reported
        if wrong.code == "dead-permission":
            renamed = _renamed(name, tools)
            if not renamed and any(fnmatchcase(other, name) for other in beside):
                continue
            names = [name for each in tools for name in each.shown]
            cure = renamed or meant(name, (*names, *beside))
            help = sentence(cure, f"tools: {', '.join(names) or 'none'}")
            message = f"permission {quoted(text)} matches no tool of this agent"
            yield node.problem("dead-permission", message, help=help)
        else:
            yield node.problem("permission-rule", f"permission {quoted(text)}: {wrong.message}")


def _renamed(name: str, tools: Iterable[Named]) -> str:
    """Return what a tool is named here that a rule calls by its own name; nothing where there is none."""
    for each in tools:
        if each.part.spec.name and fnmatchcase(each.part.spec.use or "", name):
            return f"the tool {each.part.spec.use} is named {quoted(each.name)} here."
    return ""


def _single(verdict: Verdict, text: str) -> Permissions:
    rules: dict[str, list[str]] = {verdict: [text]}
    return Permissions(deny=rules.get("deny", ()), ask=rules.get("ask", ()), allow=rules.get("allow", ()))
