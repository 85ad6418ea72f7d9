"""The chains of a flow in words: every hook in the order in which it runs, and what it may do there."""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from turnchart.flows.output import ID, where
from turnchart.flows.parts import HookPart, Parts
from turnchart.flows.secrets import masked
from turnchart.flows.source import MapNode, as_written
from turnchart.hooks.registry import HOOKS, HookSpec
from turnchart.machine.points import POINTS, Point

if TYPE_CHECKING:
    from turnchart.flows.check import Checked

_SHOWN: Final = ("tools", "timeout", "on_error", "max_continues", "with", "env", "env_from", "cwd", "dialect")
"""Keys of an entry that are shown, as they are written."""


def chains(checked: "Checked") -> Iterator[str]:
    """Yield the lines about the hooks of a flow; a line says so where it has none."""
    parts = checked.parts
    found = [(point, parts.hooks.get(point.name, [])) for point in POINTS.values()] if parts else []
    judged = parts is not None and parts.file.output is not None
    if not judged and not any(chain for _, chain in found):
        yield "no hooks"
        return
    assert parts is not None, "hooks are parts"
    first = True
    for point, chain in found:
        if chain or (judged and point.name == "turn_stopping"):
            if not first:
                yield ""
            first = False
            yield from _chain(point, chain, parts)


def _chain(point: Point, chain: list[HookPart], parts: Parts) -> Iterator[str]:
    states = ", ".join(state.value for state in point.states) or "every state"
    yield f"{point.name}  ({point.kind}, in {states}): {point.does}"
    yield f"  if a hook fails or is late: {_failure(point)}"
    off = set(parts.file.disable_hooks)
    acting = [part for part in chain if not _observes(part)]
    observers = [part for part in chain if _observes(part)]
    for number, part in enumerate(acting, 1):
        yield from _hook(f"{number}.", part, off)
    if parts.file.output is not None and point.name == "turn_stopping":
        yield f"  {len(acting) + 1}. {ID}  the last answer fits output.schema  {where(parts)}"
    for part in observers:
        yield from _hook("after:", part, off)


def _failure(point: Point) -> str:
    return point.failure if point.on_error is None else f"on_error, {point.on_error} unless said otherwise"


def _hook(number: str, part: HookPart, off: set[str]) -> Iterator[str]:
    state = "  (off)" if part.spec.disabled or part.id in off else ""
    yield f"  {number} {part.id}{state}  {_what(part)}  {part.where}"
    given: dict[str, Any] = as_written(part.node) if isinstance(part.node, MapNode) else {}
    for key in _SHOWN:
        if key in given:
            yield f"       {key}: {masked(json.dumps(given[key], ensure_ascii=False))}"
    spec = _spec(part)
    own = spec.defaults.on_error if spec is not None else None
    if own and part.point.on_error and "on_error" not in given:
        yield f"       on_error: {own} (its own)"


def _what(part: HookPart) -> str:
    if part.spec.run is not None:
        return masked(f"run {json.dumps(part.spec.run, ensure_ascii=False)}")
    name = part.spec.use or ""
    return f"use {name}" if _spec(part) is not None else f"use {name} (not known here)"


def _spec(part: HookPart) -> HookSpec | None:
    return HOOKS.get(part.spec.use) if part.spec.use is not None else None


def _observes(part: HookPart) -> bool:
    spec = _spec(part)
    return spec is not None and spec.defaults.observes
