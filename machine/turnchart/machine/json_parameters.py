"""The parameters of a tool whose JSON Schema comes from elsewhere, checked with jsonschema.

Imported where there is such a tool: the library belongs to the extra ``mcp``.
"""

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from turnchart.machine.entries import Frozen, freeze
from turnchart.machine.errors import TurnchartError
from turnchart.machine.tool_arguments import ToolArgumentError

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError
    from jsonschema.protocols import Validator

SHOWN = 300
"""So many characters of what the library says of one mistake are shown."""
ANYTHING = freeze({"type": "object", "properties": {}})
"""The schema that any arguments fit; the library is not needed for it."""
_FIELD = re.compile(r"[A-Za-z_]\w*")


class JsonParameters:
    """What a tool takes. ``schema`` is frozen JSON; references are followed inside of it only.

    Raises:
        TypeError: If it is no valid schema of an object.
        TurnchartError: If the library for that is not installed.
    """

    __slots__ = ("_spec", "_tool", "_validator", "schema")

    def __init__(self, tool: str, schema: Mapping[str, Any]) -> None:
        self._tool = tool
        self._spec: Frozen | None = None
        self.schema: Frozen = freeze({"type": "object", "properties": {}, **schema})
        self._validator = _validator(tool, plain_json(self.schema)) if self.schema != ANYTHING else None

    def spec(self, name: str, description: str) -> Frozen:
        """Return what the model is told of a tool with these parameters."""
        if self._spec is None or (self._spec["name"], self._spec["description"]) != (name, description):
            self._spec = Frozen(name=name, description=description, schema=self.schema)
        return self._spec

    def parse(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments as plain JSON; nothing is filled in.

        Raises:
            ToolArgumentError: If they do not fit.
        """
        args: dict[str, Any] = plain_json(given)
        if self._validator is None:
            return args
        try:
            wrong = [_problem(each) for each in _in_order(self._validator.iter_errors(args))]
        except Exception as error:  # a reference that leads nowhere, or a schema that never ends
            wrong = [("", f"they cannot be checked: {type(error).__name__}: {error}"[:SHOWN])]
            raise ToolArgumentError(self._tool, wrong, given) from error
        if wrong:
            raise ToolArgumentError(self._tool, wrong, given)
        return args


def _validator(tool: str, schema: dict[str, Any]) -> "Validator":
    try:
        from jsonschema.exceptions import SchemaError
        from jsonschema.validators import Draft202012Validator, validator_for
        from referencing import Registry
    except ImportError as error:
        need = "the library jsonschema: pip install 'turnchart[mcp]'"
        raise TurnchartError(f"the schema of tool `{tool}` needs {need}") from error
    if schema["type"] != "object" or not isinstance(schema["properties"], dict):
        raise TypeError(f"tool `{tool}`: its schema must be that of an object, not of {schema['type']!r}")
    kind = validator_for(schema, default=Draft202012Validator)
    try:
        kind.check_schema(schema)
    except SchemaError as error:
        raise TypeError(f"tool `{tool}`: no valid JSON Schema: {error.message[:SHOWN]}") from None
    return kind(schema, registry=Registry())


def _in_order(errors: "Iterable[ValidationError]") -> "list[ValidationError]":
    return sorted(errors, key=lambda error: [str(part) for part in error.absolute_path])


def _problem(error: "ValidationError") -> tuple[str, str]:
    path = ""
    for part in error.absolute_path:
        plain = isinstance(part, str) and _FIELD.fullmatch(part)
        path += f".{part}" if plain else f"[{part!r}]"
    said = error.message
    return path.removeprefix("."), said if len(said) <= SHOWN else f"{said[:SHOWN]}..."


def plain_json(value: Any) -> Any:
    """Copy frozen JSON into plain dicts and lists."""
    if isinstance(value, Mapping):
        return {key: plain_json(each) for key, each in value.items()}  # pyright: ignore[reportUnknownVariableType]  # foreign
    if isinstance(value, list | tuple):
        return [plain_json(each) for each in value]  # pyright: ignore[reportUnknownVariableType]  # foreign
    return value
