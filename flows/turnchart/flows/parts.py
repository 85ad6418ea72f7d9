"""The parts of a flow, read one by one, so that a mistake in one does not hide the mistakes in the others."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from turnchart.flows import schema
from turnchart.flows.problems import Problem, meant, quoted, sentence
from turnchart.flows.schema import FlowFile, HookEntry, ToolEntry
from turnchart.flows.source import AnyNode, ListNode, MapNode, Scalar
from turnchart.flows.validate import Loc, Reading, bad_value, dotted, find, flow_item, unknown_key
from turnchart.machine.points import POINTS, Point

ELSEWHERE: Final[Mapping[str, str]] = {
    "PreToolUse": "pre_tool", "pre_tool_use": "pre_tool", "beforeToolCall": "pre_tool",
    "before_tool": "pre_tool", "PostToolUse": "post_tool", "post_tool_use": "post_tool",
    "afterToolCall": "post_tool", "after_tool": "post_tool", "Stop": "turn_stopping",
    "stop": "turn_stopping", "SessionStart": "session_start", "SessionEnd": "session_end",
    "UserPromptSubmit": "pre_step", "transformContext": "context", "convertToLlm": "convert",
    "before_model": "context", "PreCompact": "compact", "Notification": "on_signal",
}  # fmt: skip
"""What other programs call our hook points; only for the cure in a message."""


_CONTINUES: Final = "turn_stopping"


@dataclass(frozen=True, slots=True, eq=False)
class ToolPart:
    """An entry of ``tools``, with its place."""

    loc: Loc
    node: AnyNode
    spec: ToolEntry

    @property
    def name(self) -> str:
        """What the model, matchers and permissions call it; the tools of a server: how their names begin."""
        return self.spec.name or self.spec.use or self.spec.mcp or ""

    def at(self, *loc: str | int) -> AnyNode:
        """Return the node of a part of it."""
        return find(self.node, loc).value


@dataclass(slots=True, eq=False)
class HookPart:
    """An entry of a chain, with its place. The id is filled in when all entries are known.

    One of ``extensions`` has such a part, a leg, at each of its points.
    """

    point: Point
    loc: Loc
    node: AnyNode
    spec: HookEntry
    id: str = ""
    leg: bool = False

    def at(self, *loc: str | int) -> AnyNode:
        """Return the node of a part of it."""
        return find(self.node, loc).value

    def key(self, name: str) -> AnyNode:
        """Return the node of one of its keys."""
        return find(self.node, (name,)).key or self.node

    @property
    def where(self) -> str:
        """``file:line`` of the entry."""
        return f"{self.node.source.name}:{self.node.line}"


@dataclass(slots=True, eq=False)
class Parts:
    """What of a flow can be read.

    Attributes:
        root: The merged tree.
        file: Everything but tools and hooks, with defaults where something was wrong.
        tools: The tools whose entries are well formed.
        hooks: The chains, without the entries that are malformed.
        tools_source: The file that lists the tools; empty where none does.
        tools_complete: False where an entry of ``tools`` was left out, so that names may be missing.
    """

    root: MapNode
    file: FlowFile
    tools: list[ToolPart] = field(default_factory=list[ToolPart])
    hooks: dict[str, list[HookPart]] = field(default_factory=dict[str, list[HookPart]])
    tools_source: str = ""
    tools_complete: bool = True

    def at(self, *loc: str | int) -> AnyNode:
        """Return the node at a place."""
        return find(self.root, loc).value

    def knows_tools(self, node: AnyNode) -> bool:
        """Tell whether the file of a node lists all the tools, so that a name not among them is a mistake."""
        return self.tools_complete and self.tools_source == node.source.name

    def variables(self) -> frozenset[str]:
        """Return our environment variables that the flow names anywhere: no command sees them unasked."""
        named: list[Any] = [
            name for part in self.chain() for pair in part.spec.env_from for name in pair.values()
        ]
        for tool in self.tools:
            named += _names(tool.spec.arguments.get("env_from"))
        for server in self.file.mcp.values():
            named += [server.bearer_env, *server.headers_env.values()]
            named += [name for pair in server.env_from for name in pair.values()]
        named.append(self.file.model.api_key_env if self.file.model else None)
        return frozenset(name for name in named if isinstance(name, str))

    def chain(self) -> list[HookPart]:
        """Return every hook, in the order of the file."""
        return [part for chain in self.hooks.values() for part in chain]


def _names(env_from: Any) -> list[Any]:
    """Return the names in a value that should be a list of names and maps of names."""
    if isinstance(env_from, dict):
        return list(env_from.values())  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]  # plain data
    if isinstance(env_from, list):
        return [name for each in env_from for name in _names(each)]  # pyright: ignore[reportUnknownVariableType]  # plain data
    return [env_from]


def parts_of(root: MapNode, reading: Reading) -> Parts:
    """Read the parts of a merged tree; what is wrong goes to ``reading.problems``."""
    data: dict[str, Any] = {}
    for key, (name, node) in root.fields.items():
        if key.startswith("x-") or key in ("tools", "hooks", "extensions", "version"):
            continue
        if key not in schema.TOP_KEYS:
            reading.problems.append(unknown_key(name, (), schema.TOP_KEYS))
        else:
            data[key] = reading.plain(node)
    data["version"] = schema.VERSION
    file = reading.valid(FlowFile, root, (), data)
    parts = Parts(root, file or FlowFile(version=schema.VERSION))
    _tools(parts, reading)
    _hooks(parts, reading)
    return parts


def _items(node: AnyNode, loc: Loc, reading: Reading, example: str) -> tuple[AnyNode, ...]:
    if isinstance(node, ListNode):
        return node.items
    if not (isinstance(node, Scalar) and node.broken):
        problem = bad_value(node, loc, "list_type", "", {})
        text = node.text if isinstance(node, Scalar) else ""
        help = f"write [{flow_item(text)}]" if text else f"write a list: {example}"
        reading.problems.append(node.problem(problem.code, problem.message, help=help))
    return ()


# -- tools ----------------------------------------------------------------------------------------


def _tools(parts: Parts, reading: Reading) -> None:
    pair = parts.root.fields.get("tools")
    if pair is None:
        return
    parts.tools_source = pair[1].source.name
    items = _items(pair[1], ("tools",), reading, "- shell")
    parts.tools_complete = isinstance(pair[1], ListNode)
    for i, node in enumerate(items):
        part = _tool(node, ("tools", i), reading)
        if part is None:
            parts.tools_complete = False
        else:
            parts.tools.append(part)


def _tool(node: AnyNode, loc: Loc, reading: Reading) -> ToolPart | None:
    spec = reading.valid(ToolEntry, node, loc, reading.plain(node))
    if spec is None:
        return None
    part = ToolPart(loc, node, spec)
    given: Mapping[str, tuple[Scalar, AnyNode]] = node.fields if isinstance(node, MapNode) else {}
    if spec.use is None and spec.mcp is None:
        _missing_one(node, loc, reading, ("use", "mcp"))
        return None
    if "use" in given and "mcp" in given:
        message = f"{dotted(loc)} has both use and mcp"
        reading.problems.append(
            given["mcp"][0].problem("key-not-here", message, help="make two entries of it")
        )
        return None
    key, other = ("with", "use") if spec.mcp is not None else ("only", "mcp")
    if key in given:
        reading.problems.append(_not_beside(node, loc, key, other))
    return part


# -- hooks ----------------------------------------------------------------------------------------


def _hooks(parts: Parts, reading: Reading) -> None:
    pair = parts.root.fields.get("hooks")
    if pair is None:
        return
    if not isinstance(pair[1], MapNode):
        if not (isinstance(pair[1], Scalar) and pair[1].broken):
            problem = bad_value(pair[1], ("hooks",), "dict_type", "", {})
            help = "write the chains by hook point: pre_tool: [...]"
            reading.problems.append(pair[1].problem(problem.code, problem.message, help=help))
        return
    for name, (key, node) in pair[1].fields.items():
        point = POINTS.get(name)
        if point is None:
            reading.problems.append(_unknown_point(key))
            continue
        items = _items(node, ("hooks", name), reading, "- use: NAME")
        found = [_hook(item, point, ("hooks", name, i), reading) for i, item in enumerate(items)]
        parts.hooks[name] = [part for part in found if part is not None]


def _unknown_point(key: Scalar) -> Problem:
    known = schema.POINT_NAMES
    ours = ELSEWHERE.get(key.text)
    help = sentence(
        f'did you mean "{ours}"?' if ours else meant(key.text, known), f"known keys: {', '.join(known)}"
    )
    return key.problem("unknown-key", f"unknown key {quoted(key.text)} in hooks", help=help)


def _hook(node: AnyNode, point: Point, loc: Loc, reading: Reading) -> HookPart | None:
    if isinstance(node, Scalar) and node.text and not node.broken:
        message = f"{dotted(loc)} is {quoted(node.text)}; it must be a map"
        reading.problems.append(node.problem("bad-value", message, help=f"write - use: {node.text}"))
        return None
    spec = reading.valid(HookEntry, node, loc, _without_foreign(reading.plain(node), point))
    if spec is None:
        return None
    given: Mapping[str, tuple[Scalar, AnyNode]] = node.fields if isinstance(node, MapNode) else {}
    if "use" not in given and "run" not in given:
        _missing_one(node, loc, reading, ("use", "run"))
    elif "use" in given and "run" in given:
        message = f"{dotted(loc)} has both use and run"
        reading.problems.append(
            given["run"][0].problem("key-not-here", message, help="make two entries of it")
        )
    else:
        only = [(key, "run") for key in schema.RUN_ONLY] if "use" in given else [("with", "use")]
        reading.problems += [_not_beside(node, loc, key, other) for key, other in only if key in given]
    return HookPart(point, loc, node, spec) if (spec.use is None) != (spec.run is None) else None


def _without_foreign(data: Any, point: Point) -> Any:
    """Leave out what this point does not take at all: its value does not matter, and the key is reported."""
    if not isinstance(data, dict):
        return data
    taken = {
        "on_error": bool(point.on_error),
        "tools": point.tools,
        "max_continues": point.name == _CONTINUES,
    }
    return {key: value for key, value in data.items() if taken.get(key, True)}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]  # plain data


def _missing_one(node: AnyNode, loc: Loc, reading: Reading, keys: tuple[str, str]) -> None:
    given = {key: name for key, (name, _) in node.fields.items()} if isinstance(node, MapNode) else {}
    if any(key in given for key in keys):
        return  # its value is wrong, and that is reported
    near = next((name for name in given.values() if meant(name.text, keys)), None)
    if near is not None:
        return  # it is misspelt, and that is reported
    message = f"{dotted(loc)} needs one of: {', '.join(keys)}"
    reading.problems.append(node.problem("missing-key", message))


def _not_beside(node: AnyNode, loc: Loc, key: str, other: str) -> Problem:
    at = find(node, (key,)).key or node
    help = f"{key} belongs to entries with {other}"
    return at.problem("key-not-here", f"{key} is not allowed in {dotted(loc)}", help=help)
