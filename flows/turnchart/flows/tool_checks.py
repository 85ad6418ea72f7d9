"""What is wrong with the tools of a flow, and with the permissions that speak of them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from turnchart.flows.parts import Parts, ToolPart, not_yet
from turnchart.flows.paths import outside
from turnchart.flows.problems import Problem, meant, quoted, sentence
from turnchart.flows.schema import PermissionRules
from turnchart.flows.source import AnyNode
from turnchart.flows.validate import Reading
from turnchart.machine.permissions import Permissions, Verdict
from turnchart.machine.toolbox import TOOLBOX, make

if TYPE_CHECKING:
    from turnchart.machine.tools import Tool

NOT_YET: Final = ("write_file", "edit_file", "agent", "script", "web_search", "web_fetch", "code_execution")
"""Tools of the format that this version may lack."""


@dataclass(frozen=True)
class Named:
    """A tool of the flow. Checking does not make it, since that would load its code.

    Attributes:
        part: Its entry.
        maker: Makes it; None where it cannot be made.
        subject: The parameter that permissions match.
    """

    part: ToolPart
    maker: "Callable[[], Tool] | None" = None
    subject: str | None = None

    @property
    def name(self) -> str:
        """What the model, matchers and permissions call it."""
        return self.part.name

    @cached_property
    def tool(self) -> "Tool | None":
        """The tool itself; None where it cannot be made."""
        return finished(self.part, self.maker()) if self.maker is not None else None


def check_tools(parts: Parts, reading: Reading, root: Path, own: "Mapping[str, Tool]") -> list[Named]:
    """Look the tools of a flow up; what is wrong goes to ``reading.problems``.

    Args:
        parts: The flow.
        reading: Collects the problems.
        root: What tools work in.
        own: Tools of plug-ins, by name.
    """
    found: list[Named] = []
    seen: dict[str, ToolPart] = {}
    hidden = parts.variables()
    for part in parts.tools:
        found.append(_named(part, reading, root, own, hidden))
        first = seen.setdefault(part.name, part)
        if first is not part:
            message = f"two tools have the name {quoted(part.name)}"
            help = f"the first is on line {first.node.line}; give one another name with as:"
            reading.problems.append(part.at("as").problem("duplicate-tool", message, help=help))
    return found


def _named(
    part: ToolPart, reading: Reading, root: Path, own: "Mapping[str, Tool]", hidden: frozenset[str]
) -> Named:
    name = part.spec.use or ""
    if name in own:
        if part.spec.arguments:
            message = f"tool {quoted(name)} takes no parameters"
            reading.problems.append(part.at("with").problem("bad-value", message, help="delete with:"))
        return Named(part, partial(own.__getitem__, name), own[name].subject)
    if name not in TOOLBOX:
        reading.problems.append(_unknown(part, own))
        return Named(part)
    found = TOOLBOX[name]
    params = reading.valid(found.params, part.at("with"), (*part.loc, "with"), part.spec.arguments)
    if params is None:
        return Named(part)
    try:
        found.check(root, params)
    except (PermissionError, ValueError):
        reading.problems.append(_leads_out(part, root))
        return Named(part)
    return Named(part, partial(make, name, root, params.model_dump(), hidden), found.subject)


def _leads_out(part: ToolPart, root: Path) -> Problem:
    """Return the problem of a parameter that leads out of the root."""
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
    if name in NOT_YET:
        return not_yet(node, f"tool {quoted(name)}")
    known = [*TOOLBOX, *own]
    help = sentence(
        meant(name, known),
        f"tools: {', '.join(known)}. Yours come in by a plug-in; a file cannot import",
    )
    return node.problem("unknown-tool", f"no tool named {quoted(name)}", help=help)


# -- permissions ----------------------------------------------------------------------------------

_LISTS: Final[tuple[Verdict, ...]] = ("deny", "ask", "allow")


def check_permissions(parts: Parts, tools: Sequence[Named]) -> Iterator[Problem]:
    """Find rules that are written wrong, or can match nothing."""
    rules = parts.file.permissions
    if rules is None:
        return
    for verdict in _LISTS:
        for i, text in enumerate(getattr(rules, verdict)):
            yield from _rule(parts, verdict, parts.at("permissions", verdict, i), text, tools)


def permissions_of(rules: PermissionRules | None) -> Permissions:
    """Return the permissions of a flow; without any, tools that only read are allowed and the rest asks."""
    if rules is None:
        return Permissions.reads()
    return Permissions(rules.default or "ask", rules.deny, rules.ask, rules.allow)


def _rule(
    parts: Parts, verdict: Verdict, node: AnyNode, text: str, tools: Sequence[Named]
) -> Iterator[Problem]:
    try:
        rule = _single(verdict, text)
    except ValueError:
        help = "write tool, server.tool, a glob of these, or tool(pattern)"
        yield node.problem("permission-rule", f"{quoted(text)} is no permission rule", help=help)
        return
    names = [each.name for each in tools]
    name = text.partition("(")[0]
    about = [each for each in tools if each.name == name or fnmatchcase(each.name, name)]
    if not parts.knows_tools(node) or any(each.maker is None for each in about):
        return
    for wrong in rule.check([each for each in tools if each.maker is not None]):
        if wrong.code == "dead-permission":
            help = sentence(meant(name, names), f"tools: {', '.join(names) or 'none'}")
            message = f"permission {quoted(text)} matches no tool of this agent"
            yield node.problem("dead-permission", message, help=help)
        else:
            yield node.problem("permission-rule", f"permission {quoted(text)}: {wrong.message}")


def _single(verdict: Verdict, text: str) -> Permissions:
    rules: dict[str, list[str]] = {verdict: [text]}
    return Permissions(deny=rules.get("deny", ()), ask=rules.get("ask", ()), allow=rules.get("allow", ()))
