"""``output``: the last answer of a turn must be JSON that fits a schema; else the turn goes on."""

import json
import os
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from turnchart.flows.parts import Parts
from turnchart.flows.paths import Place, beside, outside
from turnchart.flows.problems import FlowError, Problem, quoted
from turnchart.flows.source import AnyNode, as_written, read_file
from turnchart.flows.validate import find
from turnchart.machine.errors import TurnchartError

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

    from turnchart.flows.check import Checked
    from turnchart.machine.bound import BoundHook
    from turnchart.machine.points import Continue, TurnStopping

EXTRA: Final = "pip install 'turnchart[output]'"
ID: Final = "output"
"""The id of the hook that holds answers against the schema."""
_LARGEST: Final = 1024 * 1024


class Output(NamedTuple):
    """What the last answer must look like.

    Attributes:
        schema: The JSON Schema.
        where: ``file:line`` of it.
    """

    schema: Mapping[str, Any]
    where: str

    @property
    def prompt(self) -> str:
        """What the model is told."""
        written = json.dumps(self.schema, ensure_ascii=False, separators=(",", ":"))
        return (
            "Your last answer must be one JSON value that fits the JSON Schema below, and nothing else: no"
            f" text around it, no code fence.\n{written}"
        )

    def hook(self) -> "BoundHook":
        """Return the hook that holds the last answer against it.

        Raises:
            TurnchartError: If the library for that is not installed.
        """
        from turnchart.machine.bound import bind

        return bind("turn_stopping", _Judge(_validator(self.schema)), id=ID, where=self.where)


class _Judge:
    """Sends the turn back while the answer does not fit."""

    def __init__(self, validator: "Validator") -> None:
        self._validator = validator

    def __call__(self, payload: "TurnStopping") -> "Continue | None":
        from turnchart.machine.points import Continue

        wrong = self._wrong(payload.text)
        if wrong is None:
            return None
        return Continue(
            f"Your answer does not fit the JSON Schema: {wrong}. Answer with the JSON value alone."
        )

    def _wrong(self, text: str) -> str | None:
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            return f"it is no JSON ({error})"
        found = next(iter(self._validator.iter_errors(value)), None)
        return None if found is None else f"at {found.json_path}: {found.message[:500]}"


def _validator(schema: Mapping[str, Any]) -> "Validator":
    """Return what checks values; it reads nothing but this schema, so a reference elsewhere is an error."""
    try:
        from jsonschema.validators import Draft202012Validator, validator_for
        from referencing import Registry
    except ImportError as error:
        raise TurnchartError(f"output needs the library jsonschema: {EXTRA}") from error
    kind = validator_for(schema, default=Draft202012Validator)
    return kind(schema, registry=Registry())


# -- reading --------------------------------------------------------------------------------------


def output_of(checked: "Checked") -> Output:
    """Return what a flow without errors says of its output.

    Raises:
        FlowError: If the file of the schema has changed meanwhile, and is none any more.
    """
    assert checked.parts is not None, "a flow is made of a file without errors"
    found = _schema(checked.parts, checked.place)
    if isinstance(found, Problem):
        raise FlowError([found])
    return Output(found, where(checked.parts))


def where(parts: Parts) -> str:
    """Return ``file:line`` of the schema, where the hook that holds answers against it is said to stand."""
    node = parts.at("output", "schema")
    return f"{node.source.name}:{node.line}"


def check_output(parts: Parts, place: Place) -> Iterator[Problem]:
    """Find what is wrong with the schema."""
    if parts.file.output is None:
        return
    found = _schema(parts, place)
    if isinstance(found, Problem):
        yield found
        return
    node = parts.at("output", "schema")
    if find_spec("jsonschema") is None:
        message = "output needs the library jsonschema, which is not installed here"
        yield node.problem("extra", message, help=EXTRA, level="warning")
        return
    from jsonschema.exceptions import SchemaError
    from jsonschema.validators import Draft202012Validator, validator_for

    try:
        validator_for(found, default=Draft202012Validator).check_schema(found)
    except SchemaError as error:
        at = find(node, list(error.absolute_path)).value
        yield at.problem("json-schema", f"not a valid JSON Schema: {error.message[:200]}")


def _schema(parts: Parts, place: Place) -> dict[str, Any] | Problem:
    """Return the schema: what stands in the flow, or in the file that it names."""
    node = parts.at("output", "schema")
    given = parts.file.output.shape if parts.file.output is not None else None
    found = _of_file(node, given, place) if isinstance(given, str) else given
    if isinstance(found, Problem):
        return found
    if not isinstance(found, dict):
        return node.problem("bad-value", "output.schema must be a JSON Schema, or name a file that holds one")
    return cast("dict[str, Any]", found)


def _of_file(node: AnyNode, text: str, place: Place) -> Any:
    target, name = beside(node.source, text)
    wrong = outside(node, text, target, place.reach)
    if wrong is not None:
        return wrong
    if not os.path.isfile(target):
        help = "the path is relative to the file that wrote it"
        return node.problem("file-missing", f"the schema {quoted(name)} is not there", help=help)
    if target.suffix == ".json":
        return _of_json(node, target, name)
    document = read_file(target, name)
    if document.root is None or document.problems:
        return document.problems[0] if document.problems else None
    return as_written(document.root)


def _of_json(node: AnyNode, target: Path, name: str) -> Any:
    if target.stat().st_size > _LARGEST:
        return node.problem("file-size", f"the schema {quoted(name)} is larger than 1 MiB")
    try:
        return json.loads(target.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        return node.problem("json-schema", f"the schema {quoted(name)} is no JSON: {error}")
