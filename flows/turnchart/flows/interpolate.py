"""References, filled in after parsing: ``${env:NAME}``, ``${env:NAME:-default}`` and ``${param:NAME}``.

They count in plain, double-quoted and block scalars, never in single quotes and never in keys. ``$${`` is the
only escape. As in the shell, a default also stands in for an empty variable.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from turnchart.flows.problems import Problem, meant, nearest, quoted, sentence
from turnchart.flows.source import Mark, Scalar

_OPEN: Final = re.compile(r"\$?\$\{")
_BODY: Final = re.compile(r"env:([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PARAM: Final = "param:"


class Filled(str):
    """Text that held references; whether it is a number is decided by the field that it stands in."""

    __slots__ = ()


class Reference(NamedTuple):
    """One ``${...}`` in a scalar."""

    text: str
    body: str | None
    """What stands between the braces; None where they are never closed."""
    nth: int
    """How many ``${`` come before it."""


def has_references(node: Scalar) -> bool:
    """Tell whether a scalar holds a reference or an escape."""
    return node.style != "single" and not node.broken and "${" in node.text


def fill(
    node: Scalar, env: Mapping[str, str] | None, params: Mapping[str, str | None] = MappingProxyType({})
) -> tuple[str | None, list[Problem]]:
    """Return the text with its references filled in, None where one cannot be, and what is wrong.

    Args:
        node: A scalar for which ``has_references`` holds.
        env: The variables; None leaves references unknown and only looks at how they are written.
        params: The params that are declared; None for one whose value is not known.
    """
    problems: list[Problem] = []
    parts: list[str] = []
    known = True
    for part in _split(node.text):
        if isinstance(part, str):
            parts.append(part)
            continue
        value, problem = _value(node, part, env, params)
        if problem is not None:
            problems.append(problem)
        known = known and value is not None
        parts.append(value or "")
    return ("".join(parts) if known else None), problems


def _split(text: str) -> list[str | Reference]:
    """Return the text and the references in it, in order."""
    parts: list[str | Reference] = []
    at = 0
    while found := _OPEN.search(text, at):
        parts.append(text[at : found.start()])
        if found[0] == "$${":
            parts.append("${")
            at = found.end()
            continue
        close = text.find("}", found.end())
        end = close + 1 if close >= 0 else len(text)
        body = text[found.end() : close] if close >= 0 else None
        parts.append(Reference(text[found.start() : end], body, text.count("${", 0, found.start())))
        at = end
    parts.append(text[at:])
    return parts


def _value(
    node: Scalar, reference: Reference, env: Mapping[str, str] | None, params: Mapping[str, str | None]
) -> tuple[str | None, Problem | None]:
    if reference.body is not None and reference.body.startswith(_PARAM):
        return _param(node, reference, reference.body.removeprefix(_PARAM), params)
    found = _BODY.fullmatch(reference.body) if reference.body is not None else None
    if found is None or "${" in (found[2] or ""):
        return None, _misspelt(node, reference)
    if env is None:
        return None, None
    name, default = found[1], found[2]
    value = env.get(name)
    if default is not None:
        return value or default, None
    if value is None:
        message = f"environment variable {name} is not set"
        near = nearest(name, env)
        help = sentence(
            f"{near} is set; did you mean that?" if near else "",
            f"a default is written ${{env:{name}:-value}}",
        )
        return None, node.source.problem("env-missing", message, _place(node, reference), help=help)
    return value, None


def _param(
    node: Scalar, reference: Reference, name: str, params: Mapping[str, str | None]
) -> tuple[str | None, Problem | None]:
    if name in params:
        return params[name], None
    if _NAME.fullmatch(name):
        near = meant(name, params) or f"declare it at the top: params: {{{name}: {{}}}}."
        help, message = (
            sentence(near, f"params: {', '.join(params) or 'none'}"),
            f"no param named {quoted(name)}",
        )
        return None, node.source.problem("unknown-param", message, _place(node, reference), help=help)
    help = "write ${param:NAME}; a default stands where it is declared: params: {NAME: {default: VALUE}}"
    message = f"{quoted(reference.text)} is no reference to a param"
    return None, node.source.problem("env-syntax", message, _place(node, reference), help=help)


def _misspelt(node: Scalar, reference: Reference) -> Problem:
    at = _place(node, reference)
    body = reference.body
    help = f"{_cure(body)} (text that holds ${{ is written $${{, or stands in single quotes)"
    message = f"{quoted(reference.text)} is no reference to a variable"
    return node.source.problem("env-syntax", message, at, help=help)


def _cure(body: str | None) -> str:
    if body is None:
        return "close it with }"
    if body.startswith("env:"):
        name, _, rest = body.removeprefix("env:").partition(":")
        if "${" in rest:
            return "a default cannot hold another reference"
        if _NAME.fullmatch(name) and rest:
            return f"a default is written ${{env:{name}:-{rest.lstrip('-=?+')}}}"
        return "a name is made of letters, digits and _; a default is written ${env:NAME:-value}"
    words: list[str] = re.split(r"[.:\-=]", body.strip(), maxsplit=1)
    kind, last = words[0], words[-1].lstrip("-")
    if len(words) > 1 and meant(kind, ["param"]) and _NAME.fullmatch(last):
        return f"did you mean ${{param:{last}}}?"
    if len(words) > 1 and meant(kind, ["env"]) and _NAME.fullmatch(last):
        return f"did you mean ${{env:{last}}}?"
    if _NAME.fullmatch(kind):
        default = f":-{last}" if len(words) > 1 and last else ""
        return f"write ${{env:{kind}{default}}}"
    return "write ${env:NAME}"


def _place(node: Scalar, reference: Reference) -> Mark:
    """Return where a reference stands; the whole scalar where escapes hide it."""
    lines, left = node.source.lines, reference.nth
    first = reference.text.split("\n", 1)[0]
    for number in range(node.line, len(lines) + 1):
        start = lines[number - 1].find("${", node.column - 1 if number == node.line else 0)
        while start >= 0 and left:
            left -= 1
            start = lines[number - 1].find("${", start + 2)
        if start >= 0:
            exact = lines[number - 1].startswith(first, start)
            return Mark(number, start + 1, len(first)) if exact else Mark(node.line, node.column, node.length)
    return Mark(node.line, node.column, node.length)
