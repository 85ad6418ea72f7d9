"""The format as a JSON Schema, for editors: with the hooks and the tools that a project has.

It is made from what ``check`` reads: the models of ``schema``, the table of hook points, and the parameters
of every hook and tool. It takes whatever ``check`` takes. What needs more than one place of a file (a matcher
that matches no tool, an id that is given twice), other files or this machine is found by ``check`` only. It
is written in draft 7, which all editors know.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

from pydantic import BaseModel

from turnchart.flows import schema
from turnchart.flows.key_notes import NOTES
from turnchart.flows.merge import INHERIT, REPLACE
from turnchart.flows.schema import FlowFile
from turnchart.flows.tool_checks import AGENT, AgentParams
from turnchart.hooks.claude_code import EVENTS
from turnchart.hooks.registry import HOOKS, HookSpec
from turnchart.hooks.stores import STORES
from turnchart.machine.points import POINTS, Point
from turnchart.machine.toolbox import AT_PROVIDER, TOOLBOX

Json: TypeAlias = dict[str, Any]

DRAFT: Final = "http://json-schema.org/draft-07/schema#"
REFERENCE: Final[Json] = {"$ref": "#/$defs/reference"}
_LIMITS: Final = {
    "gt": "exclusiveMinimum", "ge": "minimum", "lt": "exclusiveMaximum", "le": "maximum",
}  # fmt: skip
"""What pydantic leaves in its own words where a validator of ours goes first."""
_PLAIN_TYPES: Final = ("integer", "number", "boolean")


def project_schema(tools: Iterable[str] = ()) -> Json:
    """Return the schema of a flow.

    Args:
        tools: Names of tools that plug-ins bring; the hooks that are registered count as well.
    """
    whole = _tidy(FlowFile.model_json_schema(by_alias=True), maybe=True)
    defs: Json = whole.pop("$defs")
    _explain({"FlowFile": whole, **defs})
    _short_forms(defs)
    defs["reference"] = {
        "type": "string",
        "pattern": r"\$\{(env|param):",
        "description": "A variable: ${env:NAME}, or ${env:NAME:-default}.",
    }
    defs["ToolEntry"] = _tool_entry(defs.pop("ToolEntry"), defs, list(tools))
    hook = defs.pop("HookEntry")
    used = _hook_params(defs)
    if "ExtensionEntryMap" in defs:
        defs["ExtensionEntryMap"]["properties"]["use"] = known = _or_reference({"enum": list(used)})
        defs["ExtensionEntryMap"]["allOf"] = list(used.values())
        defs["ExtensionEntry"]["anyOf"][0] = known
    if "SessionSpec" in defs:
        _session(defs)
    defs["ServerSpec"]["allOf"] = _one_kind_of_server()
    whole["properties"]["mcp"]["propertyNames"] = {"pattern": schema.TOOL_NAME}
    whole["properties"]["hooks"] = {
        "type": "object",
        "description": "The chains of hooks, by hook point; each runs from top to bottom.",
        "properties": {point.name: _chain(point, hook, defs, used) for point in POINTS.values()},
        "additionalProperties": False,
    }
    whole["properties"]["prompt"] = _prompt(whole["properties"]["prompt"])
    whole["properties"]["version"] = {"const": schema.VERSION}
    whole["patternProperties"] = {"^x-": True}
    whole["allOf"] = [_whole_without_parent(whole["properties"], defs)]
    return {
        "$schema": DRAFT,
        "title": "A flow of Turnchart",
        **{key: value for key, value in whole.items() if key != "title"},
        "$defs": dict(sorted(defs.items())),
    }


# -- from pydantic --------------------------------------------------------------------------------


def _tidy(node: Any, *, maybe: bool) -> Any:
    """Return a schema of pydantic as it is meant in a file.

    Titles go; single values may be references to variables; with ``maybe`` a key must have a value.
    """
    if isinstance(node, list):
        return [_tidy(each, maybe=maybe) for each in node]  # pyright: ignore[reportUnknownVariableType]  # plain data
    if not isinstance(node, dict):
        return node
    given: Json = node  # pyright: ignore[reportUnknownVariableType]  # plain data
    if maybe and {"type": "null"} in given.get("anyOf", ()):
        given = _without_null(given)
    found: Json = {}
    for key, value in given.items():
        if key in ("properties", "$defs", "patternProperties"):
            found[key] = {name: _tidy(each, maybe=maybe) for name, each in value.items()}
        elif key == "default":
            if value not in (None, [], {}):
                found[key] = value
        elif key not in ("title", "discriminator"):
            found[_LIMITS.get(key, key)] = _tidy(value, maybe=maybe)
    if "patternProperties" in found:
        found.setdefault("additionalProperties", False)
        if given["patternProperties"].get(schema.VARIABLE, {}).get("pattern") == schema.VARIABLE:
            return _either({"type": "string", "pattern": schema.VARIABLE}, found)
    return _or_reference(found)


def _explain(models: Mapping[str, Json]) -> None:
    """Say of every key what it means, for editors."""
    for name, notes in NOTES.items():
        for key, node in models[name]["properties"].items():
            node["description"] = notes[key]


def _without_null(given: Json) -> Json:
    kinds = [kind for kind in given["anyOf"] if kind != {"type": "null"}]
    rest = {key: value for key, value in given.items() if key != "anyOf"}
    return {**kinds[0], **rest} if len(kinds) == 1 else {**rest, "anyOf": kinds}


def _or_reference(found: Json) -> Json:
    """Let a single value that is more than any text also be a reference to a variable."""
    closed = found.keys() & {"enum", "const", "pattern", "format", "minLength"}
    if not (closed or found.get("type") in _PLAIN_TYPES):
        return found
    told: Json = {key: found[key] for key in ("description", "default") if key in found}
    return {**told, "anyOf": [{key: found[key] for key in found if key not in told}, REFERENCE]}


def _either(*kinds: Json) -> Json:
    return {"anyOf": [*kinds]}


# -- short forms ----------------------------------------------------------------------------------

_MODEL: Final[Json] = {"type": "string", "description": "The id of a model: provider:name."}


def _short_forms(defs: Json) -> None:
    """Let text stand for a map where it may; the models know that only as code."""
    for name in [name for name in defs if name not in ("ToolEntry", "HookEntry")]:
        model: Any = getattr(schema, name, None)
        if model is None or not _takes_text(model):
            continue
        long = defs.pop(name)
        if name == "PromptPart":
            long["oneOf"] = [{"required": ["file"]}, {"required": ["text"]}]
        defs[f"{name}Map"] = long
        text: Json = {"type": "string"}
        if name == "ModelSpec":
            text = long["properties"]["id"]
        defs[name] = _either(text, {"$ref": f"#/$defs/{name}Map"})


def _takes_text(model: type[BaseModel]) -> bool:
    """Tell whether text may stand for the map that a model reads."""
    validators = model.__pydantic_decorators__.model_validators
    return any(each.info.mode == "before" for each in validators.values())


def _prompt(found: Json) -> Json:
    one: Json = {"$ref": "#/$defs/PromptPart"}
    told = {key: found[key] for key in ("description",) if key in found}
    return {**told, "anyOf": [one, {"type": "array", "items": one}]}


def _whole_without_parent(properties: Json, defs: Json) -> Json:
    """Return the rule that maps are whole in a file without a parent; else the parent may have the rest."""
    needed: Json = {}
    for key, node in properties.items():
        name = str(node.get("$ref", "")).removeprefix("#/$defs/")
        found: Json = defs[f"{name}Map"] if f"{name}Map" in defs else defs.get(name, {})
        if found.get("required"):
            needed[key] = {"if": {"type": "object"}, "then": {"required": found.pop("required")}}
    return {"if": {"not": {"required": ["extends"]}}, "then": {"properties": needed}}


def _session(defs: Json) -> None:
    """Name the stores that there are, and what each takes."""
    spec: Json = defs["SessionSpec"]
    spec["properties"]["store"] = {
        "description": spec["properties"]["store"]["description"],
        **_or_reference({"enum": list(STORES.names())}),
    }
    rules: list[Json] = [
        _for_store("memory", {"path": False, "with": {"maxProperties": 0}}),
        *(_for_store(name, {"with": {"maxProperties": 0}}) for name in ("jsonl", "sqlite")),
    ]
    for name in STORES.names():
        found = STORES.get(name)
        if found is not None:
            rule = _when(name, _params(found.params), defs, "store")
            rules.append(
                _for_store(name, {"path": False, **rule["then"]["properties"]}, rule["then"].get("required"))
            )
    spec["allOf"] = rules


def _for_store(name: str, properties: Json, required: list[str] | None = None) -> Json:
    then: Json = {"properties": properties}
    if required:
        then["required"] = required
    return {"if": {"properties": {"store": {"const": name}}, "required": ["store"]}, "then": then}


def _one_kind_of_server() -> list[Json]:
    """Return the rules for what may stand beside what in an MCP server; a parent may have the rest."""
    other = {"command": ("url", *schema.URL_ONLY), "url": schema.COMMAND_ONLY}
    return [
        {"if": {"required": [key]}, "then": {"properties": dict.fromkeys(keys, False)}}
        for key, keys in other.items()
    ]


# -- tools ----------------------------------------------------------------------------------------


def _tool_entry(entry: Json, defs: Json, own: list[str]) -> Json:
    params: dict[str, type[BaseModel]] = {name: found.params for name, found in TOOLBOX.items()}
    params[AGENT] = AgentParams
    known = sorted({*params, *own})
    properties: Json = dict(entry["properties"])
    server = {name: properties.pop(name) for name in ("mcp", "only") if name in properties}
    rules: list[Json] = []
    for name in known:
        given: Json = {"maxProperties": 0} if name in own else _params(params[name])
        rules.append(_when(name, given, defs, "tool"))
    there = [name for name in AT_PROVIDER if name not in own]
    rules.append(
        {
            "if": {"properties": {"use": {"enum": there}}, "required": ["use"]},
            "then": {"properties": {"as": False, "execution": False}},
        }
    )
    used: Json = {
        "type": "object",
        "properties": {**properties, "use": _or_reference({"enum": known})},
        "required": ["use"],
        "additionalProperties": False,
        "allOf": rules,
    }
    defs["ToolUse"] = used
    defs["ToolServer"] = {
        "type": "object",
        "properties": {**server, "as": properties["as"], "execution": properties["execution"]},
        "required": ["mcp"],
        "additionalProperties": False,
    }
    long: Json = {
        "type": "object",
        "if": {"required": ["mcp"]},
        "then": {"$ref": "#/$defs/ToolServer"},
        "else": {"$ref": "#/$defs/ToolUse"},
    }
    return {"description": entry.get("description", ""), "anyOf": [_or_reference({"enum": known}), long]}


def _params(model: type[BaseModel]) -> Json:
    found: Json = _tidy(model.model_json_schema(by_alias=True), maybe=False)
    return found


def _when(name: str, params: Json, defs: Json, kind: str) -> Json:
    """Return the rule for ``with:`` of one hook or tool; nested models of its parameters go to the rest."""
    nested: Mapping[str, Any] = params.pop("$defs", {})
    defs.update(nested)
    defs[f"{kind}:{name}"] = params
    then: Json = {"properties": {"with": {"$ref": f"#/$defs/{kind}:{name}"}}}
    if params.get("required"):
        then["required"] = ["with"]
    return {"if": {"properties": {"use": {"const": name}}, "required": ["use"]}, "then": then}


# -- hooks ----------------------------------------------------------------------------------------


def _hook_params(defs: Json) -> Mapping[str, Json]:
    """Return the rule for ``with:`` of every hook."""
    specs = [spec for name in HOOKS.names() if (spec := HOOKS.get(name)) is not None]
    return {spec.name: _when(spec.name, _params_of(spec), defs, "hook") for spec in specs}


def _params_of(spec: HookSpec) -> Json:
    return _params(spec.params)


def _chain(point: Point, entry: Json, defs: Json, rules: Mapping[str, Json]) -> Json:
    taken = {
        "on_error": point.on_error is not None, "tools": point.tools,
        "max_continues": point.name == "turn_stopping", "dialect": point.name in EVENTS,
    }  # fmt: skip
    properties = {key: value for key, value in entry["properties"].items() if taken.get(key, True)}
    run = {key: properties.pop(key) for key in ("run", *schema.RUN_ONLY) if key in properties}
    given = properties.pop("with")
    names = list(HOOKS.names(point.name))
    defs[f"{point.name}:use"] = {
        "type": "object",
        "properties": {**properties, "use": _or_reference({"enum": names}), "with": given},
        "required": ["use"],
        "additionalProperties": False,
        "allOf": [rules[name] for name in names],
    }
    use: Json = {"$ref": f"#/$defs/{point.name}:use"}
    long: Json = {"type": "object", "if": {"required": ["run"]}, "then": False, "else": use}
    if point.run:
        defs[f"{point.name}:run"] = {
            "type": "object",
            "properties": {**{key: properties[key] for key in properties if key != "use"}, **run},
            "required": ["run"],
            "additionalProperties": False,
        }
        long["then"] = {"$ref": f"#/$defs/{point.name}:run"}
    return {
        "type": "array",
        "description": f"{point.does} ({point.kind})",
        "items": _either({"enum": [INHERIT, REPLACE]}, long),
    }
