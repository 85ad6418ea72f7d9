"""The arguments of a call as a model gives them, an object or text, and the error that says what is wrong."""

import json
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any, Never, cast

from turnchart.machine.entries import Frozen
from turnchart.machine.errors import TurnchartError

ECHO = 500
"""So many characters of wrong arguments are shown to the model again."""
LISTED = 20
"""So many problems of one call are listed."""


class ToolArgumentError(TurnchartError):
    """The arguments of a call do not fit the tool.

    Attributes:
        tool: The name of the tool.
        problems: What is wrong, field by field; the field is empty where it is the whole.
    """

    def __init__(self, tool: str, problems: Sequence[tuple[str, str]], given: object) -> None:
        self.tool = tool
        self.problems = tuple(problems)
        listed = [f"- `{name}`: {what}" if name else f"- {what}" for name, what in self.problems[:LISTED]]
        if len(self.problems) > LISTED:
            listed.append(f"- and {len(self.problems) - LISTED} more")
        wrong = "\n".join(listed)
        super().__init__(f"the arguments of tool `{tool}` are wrong:\n{wrong}\nreceived: {echo(given, ECHO)}")


def json_object(tool: str, arguments: Mapping[str, Any] | str) -> Mapping[str, Any]:
    """Return what a model gave as an object; nothing at all is the empty one.

    Raises:
        ToolArgumentError: If it is text that is no JSON object.
    """
    if not isinstance(arguments, str):
        return arguments
    if not arguments.strip():
        return Frozen()
    try:
        value = json.loads(arguments, parse_constant=_no_number, parse_float=_number)
    except RecursionError:
        raise ToolArgumentError(tool, [("", "they are nested too deeply")], arguments) from None
    except ValueError as error:
        raise ToolArgumentError(tool, [("", f"they must be a JSON object: {error}")], arguments) from None
    if not isinstance(value, dict):
        kind = "null" if value is None else type(value).__name__
        raise ToolArgumentError(tool, [("", f"they must be a JSON object, not {kind}")], arguments)
    return cast("dict[str, Any]", value)


def _number(text: str) -> float:
    value = float(text)
    if not isfinite(value):
        raise ValueError(f"{text} is larger than any number that can be held")
    return value


def _no_number(text: str) -> Never:
    raise ValueError(f"{text} is no JSON number")


def echo(given: object, most: int) -> str:
    """Return what a model gave as JSON, cut after ``most`` characters."""
    try:
        text = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False, default=repr)
    except (TypeError, ValueError, RecursionError):
        return f"a {type(given).__name__} that is no JSON"
    return text if len(text) <= most else f"{text[:most]}... ({len(text):,} characters)"
