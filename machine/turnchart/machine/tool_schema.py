"""The parameters of a tool's function as pydantic sees them: their JSON schema, and the check of a call.

Imported when a schema is first asked for: pydantic is slow to load.
"""

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError
from pydantic_core import ErrorDetails

from turnchart.machine.entries import Frozen, freeze
from turnchart.machine.tool_arguments import ToolArgumentError, echo
from turnchart.machine.tools import hints_of, wants_context

SHOWN = 80
"""So many characters of a wrong value are shown beside what was expected."""


class Parameters:
    """What a tool takes. ``schema`` is frozen JSON."""

    __slots__ = ("_model", "_names", "_spec", "_tool", "schema")

    def __init__(self, tool: str, fn: Callable[..., Any]) -> None:
        hints, told = hints_of(tool, fn), argument_texts(inspect.getdoc(fn) or "")
        parameters = inspect.signature(fn).parameters.values()
        given = [each for each in parameters if not wants_context(hints[each.name])]
        # pydantic gets names of its own, so that a parameter may be called `json`, `copy` or `_x`
        self._names = {f"arg_{number}": each.name for number, each in enumerate(given)}
        fields: dict[str, Any] = {
            field: (
                _described(hints[each.name], each.name, told.get(each.name)),
                ... if each.default is each.empty else each.default,
            )
            for field, each in zip(self._names, given, strict=True)
        }
        self._tool = tool
        self._spec: Frozen | None = None
        try:
            self._model = create_model(tool, __config__=ConfigDict(extra="forbid"), **fields)
            self.schema = _schema(self._model)
        except (PydanticSchemaGenerationError, PydanticUserError) as error:
            wrong = str(error).splitlines()[0]
            raise TypeError(f"tool `{tool}`: a parameter's type has no JSON schema: {wrong}") from None

    def spec(self, name: str, description: str) -> Frozen:
        """Return what the model is told of a tool with these parameters."""
        if self._spec is None or (self._spec["name"], self._spec["description"]) != (name, description):
            self._spec = Frozen(name=name, description=description, schema=self.schema)
        return self._spec

    def parse(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments to call the function with, defaults filled in.

        Raises:
            ToolArgumentError: If they do not fit.
        """
        try:
            checked = self._model.__pydantic_validator__.validate_python(_thawed(given)).__dict__
        except ValidationError as error:
            wrong = [self._problem(each) for each in error.errors(include_url=False, include_context=False)]
            raise ToolArgumentError(self._tool, wrong, given) from None
        except Exception as error:  # a validator of the user's own types
            wrong = [("", f"they cannot be checked: {type(error).__name__}: {error}")]
            raise ToolArgumentError(self._tool, wrong, given) from error
        return {name: checked[field] for field, name in self._names.items()}

    def _problem(self, error: ErrorDetails) -> tuple[str, str]:
        path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error["loc"])
        if error["type"] == "missing":
            return path[1:], "is required and missing"
        if error["type"] == "extra_forbidden":
            takes = ", ".join(self._names.values()) or "nothing"
            known = f"the tool takes {takes}" if len(error["loc"]) == 1 else "there is no such field"
            return path[1:], f"is unknown; {known}"
        return path[1:], f"{error['msg']}, not {echo(error['input'], SHOWN)}"


def _described(hint: Any, name: str, text: str | None) -> Any:
    """Return the annotation with its JSON name and description; what the user wrote in ``Field`` wins."""
    bare, own = (get_args(hint)[0], get_args(hint)[1:]) if get_origin(hint) is Annotated else (hint, ())
    return Annotated[(bare, Field(alias=name, description=text), *own)]


def _schema(model: type[BaseModel]) -> Frozen:
    made = _without_titles(model.model_json_schema())
    order = ("type", "properties", "required", "additionalProperties", "$defs")
    made.setdefault("properties", {})
    frozen: Frozen = freeze({key: made[key] for key in order if key in made})
    return frozen


def _without_titles(schema: Any, names: bool = False) -> Any:
    """Leave the titles out that pydantic makes of names; ``names``: the keys are the user's own."""
    if isinstance(schema, list):
        return [_without_titles(each) for each in schema]  # pyright: ignore[reportUnknownVariableType]  # foreign
    if not isinstance(schema, dict):
        return schema
    return {
        key: value if key in ("default", "const", "enum", "examples") and not names
        else _without_titles(value, names=not names and key in ("properties", "$defs"))
        for key, value in schema.items()  # pyright: ignore[reportUnknownVariableType]  # foreign
        if names or key != "title"
    }  # fmt: skip


def _thawed(value: Any) -> Any:
    """Copy frozen JSON into plain dicts and lists, which the tool may keep and change."""
    if value.__class__ in _SCALARS:
        return value
    if isinstance(value, dict | Mapping):
        return {key: each if each.__class__ in _SCALARS else _thawed(each) for key, each in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]  # foreign
    if isinstance(value, list | tuple):
        return [_thawed(each) for each in value]  # pyright: ignore[reportUnknownVariableType]  # foreign
    return value


_SCALARS = frozenset((str, int, float, bool, type(None)))

_SECTION = re.compile(r"^(?:Args|Arguments|Parameters):\s*$")
_ARGUMENT = re.compile(r"^\*{0,2}(\w+)(?:\s*\([^)]*\))?:\s*(.*)$")


def argument_texts(doc: str) -> dict[str, str]:
    """Return what the section ``Args:`` of a Google-style docstring says of each parameter."""
    lines = iter(doc.splitlines())
    if not any(_SECTION.match(line) for line in lines):
        return {}
    found: dict[str, str] = {}
    name, indent = "", 0
    for line in lines:
        if not line.strip():
            continue
        depth = len(line) - len(line.lstrip())
        if depth == 0:
            break
        indent = indent or depth
        start = _ARGUMENT.match(line.strip()) if depth == indent else None
        if start:
            name = start[1]
            found[name] = start[2]
        elif name:
            found[name] = f"{found[name]} {line.strip()}".strip()
    return found
