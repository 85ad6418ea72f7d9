"""What tools at the provider did for an answer, in words: they have no entries of their own in the log."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, cast

from turnchart.flows.cli.words import MALFORMED, SHORT, arguments, one_line

SHOWN: Final = 5
"""So many addresses are named."""
_OUTPUT: Final = ("stdout", "stderr", "logs", "output", "error_code", "error", "return_code")
"""What is told of code that ran, in this order."""


def provided(message: Mapping[str, Any]) -> list[str]:
    """Return what ran at the provider for an answer, a line each: every call, and what came of it."""
    try:
        return [line for part in _parts(message) for line in _lines(part)]
    except MALFORMED:
        return []  # imported from elsewhere, or changed by hand


def _parts(message: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    replay = message.get("replay")
    return cast("Mapping[str, Any]", replay).get("parts", ()) if isinstance(replay, Mapping) else ()


def _lines(part: Mapping[str, Any]) -> Iterator[str]:
    inner: Mapping[str, Any] = part.get("part", {})
    kind = inner.get("part_kind")
    if kind == "builtin-tool-call":
        yield f"{one_line(inner['tool_name'])} {arguments(_args(inner.get('args')))} (at the provider)"
    elif kind == "builtin-tool-return":
        yield f"{one_line(inner['tool_name'])}: {one_line(_came(inner.get('content')), 2 * SHORT)}"
    cited = list(dict.fromkeys(_addresses(part.get("provider_details", {}).get("citations"))))
    if cited:
        yield f"cites {one_line(_listed(cited), 2 * SHORT)}"


def _args(given: object) -> object:
    """Return arguments that came as text as what they say, so that they are written as others are."""
    if not isinstance(given, str):
        return given
    try:
        return json.loads(given)
    except ValueError:
        return given


def _came(content: object) -> str:
    """Return what came of a call: the pages that it found, what code wrote, or all of it."""
    found = list(dict.fromkeys(_addresses(content)))
    if found:
        return f"{len(found)} {'page' if len(found) == 1 else 'pages'}: {_listed(found)}"
    if isinstance(content, Mapping):
        said = cast("Mapping[str, Any]", content)
        told = [f"{name} {said[name]}" for name in _OUTPUT if said.get(name) not in (None, "", (), [])]
        return "; ".join(told) or str(said.get("status") or arguments(said))
    return arguments(content) if content else "nothing"


def _listed(addresses: Sequence[str]) -> str:
    more = f" and {len(addresses) - SHOWN} more" if len(addresses) > SHOWN else ""
    return ", ".join(addresses[:SHOWN]) + more


def _addresses(content: object) -> Iterator[str]:
    """Yield the addresses in a result, wherever they stand in it."""
    if isinstance(content, Mapping):
        for name, value in cast("Mapping[str, Any]", content).items():
            if name in ("url", "uri") and isinstance(value, str):
                yield value
            else:
                yield from _addresses(value)
    elif isinstance(content, list | tuple):
        for each in cast("Sequence[object]", content):
            yield from _addresses(each)
