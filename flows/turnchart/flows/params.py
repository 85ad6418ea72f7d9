"""Params: what a flow leaves open, and a run says: ``run --param NAME=VALUE``, written ``${param:NAME}``."""

from collections.abc import Iterator, Mapping
from typing import Any

from turnchart.flows.problems import Problem, meant, quoted, sentence
from turnchart.flows.schema import ParamSpec, ParamType
from turnchart.flows.source import AnyNode, MapNode, Scalar, value_of
from turnchart.flows.validate import Reading, shown

_WORDS: Mapping[ParamType, str] = {
    "string": "text", "integer": "a whole number", "number": "a number", "boolean": "true or false",
}  # fmt: skip


def read_params(root: MapNode, reading: Reading, given: Mapping[str, Any]) -> None:
    """Read what a flow declares into ``reading.params``, before anything that may refer to it.

    Args:
        root: The merged tree.
        reading: Takes the values, and collects what is wrong.
        given: Values by name.
    """
    fields = _declared(root)
    values: dict[str, str | None] = {}
    for name, (key, inner) in fields.items():
        spec = _spec(inner, reading)
        if spec is None:
            values[name] = None
            continue
        if spec.default is not None and _text(spec.default, spec.type) is None:
            at = inner.get("default") if isinstance(inner, MapNode) else None
            reading.problems.append(_wrong(at or inner, f"params.{name}.default", spec.type))
        chosen = given.get(name, spec.default)
        values[name] = None if chosen is None else _text(chosen, spec.type)
        if name in given and values[name] is None:
            message = f"the param {name} is {quoted(str(given[name]))}; it must be {_WORDS[spec.type]}"
            reading.problems.append(key.problem("bad-value", message))
    reading.problems += _unknown(given, values, root)
    reading.params = values


def missing_params(root: MapNode, values: Mapping[str, str | None]) -> Iterator[Problem]:
    """Find params that nobody gave a value."""
    for name, (key, _) in _declared(root).items():
        if values.get(name) is None:
            help = f"give it with --param {name}=VALUE, or params={{{name!r}: ...}}, or write a default"
            yield key.problem("param-missing", f"the param {name} has no value", help=help)


def _declared(root: MapNode) -> Mapping[str, tuple[Scalar, AnyNode]]:
    node = root.get("params")
    return node.fields if isinstance(node, MapNode) else dict[str, tuple[Scalar, AnyNode]]()


def _spec(node: AnyNode, reading: Reading) -> ParamSpec | None:
    before = len(reading.problems)
    spec = reading.valid(ParamSpec, node, ("params",), reading.plain(node))
    found = reading.problems[before:]
    help = "a default cannot refer to a param"
    reading.problems[before:] = [each._replace(help=help) for each in found if each.code == "unknown-param"]
    return spec  # the other problems are told when the whole file is read


def _text(value: object, kind: ParamType) -> str | None:
    """Return a value as it is written in a file; None where it is of another type."""
    if isinstance(value, bool):
        return str(value).lower() if kind in ("boolean", "string") else None
    if isinstance(value, int | float):
        right = kind == "number" or kind == "string" or (kind == "integer" and isinstance(value, int))
        return str(value) if right else None
    if not isinstance(value, str):
        return None
    if kind == "string":
        return str(value)
    try:
        meaning = value_of(value)
    except ValueError:
        return None
    return None if isinstance(meaning, str) else _text(meaning, kind)


def _wrong(node: AnyNode, name: str, kind: ParamType) -> Problem:
    return node.problem("bad-value", f"{name} is {shown(node)}; it must be {_WORDS[kind]}")


def _unknown(given: Mapping[str, Any], known: Mapping[str, object], root: MapNode) -> Iterator[Problem]:
    for name in given:
        if name not in known:
            help = sentence(meant(name, known), f"params: {', '.join(known) or 'none'}")
            at: AnyNode = root.fields["params"][0] if "params" in root.fields else root
            yield at.problem("unknown-param", f"the flow has no param named {quoted(name)}", help=help)
