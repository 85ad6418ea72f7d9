"""The page about the keys of a flow file, made from the JSON Schema that editors get."""

from collections.abc import Iterator
from typing import Any, TypeAlias

from tests.docs.markdown import code, page, table

from turnchart.flows.json_schema import project_schema
from turnchart.flows.key_notes import NOTES
from turnchart.machine.toolbox import TOOLBOX

Json: TypeAlias = dict[str, Any]

HEAD = """\
# The keys of a flow file

A flow is a YAML file, read as UTF-8. A key that is not listed here is an error, but for those that begin
with `x-`, which are yours. `turnchart schema --write` writes the same as a JSON Schema, with the hooks and
tools of your project, so that an editor completes and explains every key. `${env:NAME}` stands for a
variable of the environment, `${env:NAME:-default}` for one that may be missing.
"""
SECTIONS = {
    "ModelSpec": "model",
    "ModelSettings": "model.settings",
    "PromptPart": "prompt",
    "ToolEntry": "tools",
    "PermissionRules": "permissions",
    "HookEntry": "hooks",
    "ExtensionEntry": "extensions",
    "QueueModes": "queues",
    "RetryRules": "retry",
    "LimitRules": "limits",
    "CompactionRules": "compaction",
    "SessionSpec": "session",
    "ParamSpec": "params",
    "OutputSpec": "output",
    "ServerSpec": "mcp",
}
"""The models of the format, and the key below which each stands."""
SHORT = {"PromptPart": "text", "ModelSpec": "text", "ExtensionEntry": "text", "ToolEntry": "text"}
"""Maps that text may stand for."""


def flow_keys() -> str:
    """Return the page."""
    whole = project_schema()
    return page(
        HEAD,
        _keys("FlowFile", whole["properties"], required=whole["required"]),
        *(part for name in SECTIONS for part in _section(name, whole["$defs"])),
    )


def _section(name: str, defs: Json) -> Iterator[str]:
    yield f"## {SECTIONS[name]}"
    if name == "HookEntry":
        yield "Below each [hook point](hook-points.md), a list of these. [Hooks](hooks.md) tells more."
        properties = defs["pre_tool:run"]["properties"] | defs["turn_stopping:use"]["properties"]
        properties |= defs["post_tool:use"]["properties"] | {"use": {"type": "string"}}
    elif name == "ToolEntry":
        yield f"A list of names or maps. Tools that come along: {', '.join(map(code, sorted(TOOLBOX)))}."
        yield "[Tools](tools.md) tells more."
        properties = defs["ToolUse"]["properties"] | defs["ToolServer"]["properties"]
    else:
        found: Json = defs[f"{name}Map"] if f"{name}Map" in defs else defs[name]
        yield found["description"]
        properties = found["properties"]
    yield _keys(name, {key: properties[key] for key in NOTES[name]}, required=())


def _keys(name: str, properties: Json, required: tuple[str, ...]) -> str:
    rows = [
        (code(key), _type(node), _default(node, key in required), NOTES[name][key])
        for key, node in properties.items()
    ]
    return table(("key", "value", "default", "what it means"), rows)


def _default(node: Json, required: bool) -> str:
    if required:
        return "required"
    value = node.get("default")
    return "" if value is None else code(str(value).lower() if isinstance(value, bool) else value)


def _type(schema: Json | bool) -> str:
    """Return how a value is written."""
    node: Json = {} if isinstance(schema, bool) else schema
    if not node.keys() - {"description", "default"}:
        return "any"
    if "$ref" in node:
        name = str(node["$ref"]).removeprefix("#/$defs/")
        short = f"{SHORT[name]} or a " if name in SHORT else ""
        return f"{short}[map](#{SECTIONS[name].replace('.', '')})" if name in SECTIONS else "map"
    if "anyOf" in node:
        kinds = [each for each in node["anyOf"] if each != {"$ref": "#/$defs/reference"}]
        told = list(dict.fromkeys(_type(each) for each in kinds))
        return f"{told[0]}, or a {told[1]}" if told[1:] and " or " in told[0] else " or ".join(told)
    if "const" in node:
        return code(node["const"])
    if "enum" in node:
        return "text" if len(node["enum"]) > 8 else ", ".join(map(code, node["enum"]))
    return _plain(node)


def _plain(node: Json) -> str:
    kind = node.get("type")
    if kind == "array":
        return f"list of {_type(node.get('items', True))}"
    if kind == "object":
        inside: list[Json | bool] = [*node.get("patternProperties", {}).values()]
        inside.append(node.get("additionalProperties", False))
        found = next((each for each in inside if not isinstance(each, bool)), None)
        return f"map of names to {_type(found)}" if found else "map"
    bounds = {"minimum": "from", "exclusiveMinimum": "above", "maximum": "to", "exclusiveMaximum": "below"}
    limits = [f"{word} {node[key]:g}" for key, word in bounds.items() if key in node]
    return " ".join(({"string": "text", "boolean": "`true`, `false`"}.get(str(kind), str(kind)), *limits))
