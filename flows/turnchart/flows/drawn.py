"""What the pictures draw of a flow: its hooks at their points, its settings at the states where they act."""

from typing import TYPE_CHECKING

from turnchart.diagrams import Overlay
from turnchart.flows.hook_checks import HookUse
from turnchart.flows.output import ID, where
from turnchart.flows.schema import CompactionRules, PermissionRules
from turnchart.machine.states import State

if TYPE_CHECKING:
    from turnchart.flows.load import Flow


def overlay(flow: "Flow") -> Overlay:
    """Return a flow as an overlay."""
    hooks: dict[str, tuple[str, ...]] = {}
    for use in flow.checked.hooks:
        if not use.disabled:
            point = use.part.point.name
            hooks[point] = (*hooks.get(point, ()), label(use))
    if flow.file.output is not None and flow.checked.parts is not None:
        judge = f"{ID} ({where(flow.checked.parts)})"
        hooks["turn_stopping"] = (*hooks.get("turn_stopping", ()), judge)
    return Overlay(flow.name, {state: lines for state, lines in _notes(flow).items() if lines}, hooks)


def label(use: HookUse) -> str:
    """Return a hook as one line: id, tool patterns, file and line."""
    tools = f" [{', '.join(use.part.spec.tools)}]" if use.part.spec.tools else ""
    return f"{use.part.id}{tools} ({use.part.where})"


def _notes(flow: "Flow") -> dict[State, tuple[str, ...]]:
    file = flow.file
    queues, retry, limits, model = file.queues, file.retry, file.limits, file.model
    tools = ", ".join(name for tool in flow.checked.tools for name in tool.shown)
    given = {key: value for key, value in limits.model_dump().items() if value is not None}
    retries = given.pop("max_retries")
    return {
        State.CLAIMING: (f"steering: {queues.steering}", f"follow_up: {queues.follow_up}"),
        State.PRE_STEP: _compaction(file.compaction),
        State.REQUESTING: (f"model: {model.id}",) if model else (),
        State.RETRYING: (
            f"retry: {retry.max_attempts} attempts, {retry.base_delay:g} to {retry.max_delay:g} s",
            f"limits: max_retries {retries}",
            *((f"fallback: {', '.join(model.fallback)}",) if model and model.fallback else ()),
        ),
        State.TOOLING: (f"tools: {tools}", *_permissions(file.permissions)) if tools else (),
        State.STOPPING: (f"limits: {', '.join(f'{key} {value:g}' for key, value in given.items())}",),
    }


def _compaction(rules: CompactionRules | None) -> tuple[str, ...]:
    if rules is None or rules.strategy == "none":
        return ("compaction: none",) if rules is not None else ()
    by = f", model {rules.model}" if rules.model else ""
    kept = f"last {rules.keep_last} turns kept"
    return (f"compaction: {rules.strategy} above {rules.trigger:.0%} of the window, {kept}{by}",)


def _permissions(rules: PermissionRules | None) -> tuple[str, ...]:
    if rules is None:
        return ("permissions: reads allowed, the rest asks",)
    lists = {"deny": rules.deny, "ask": rules.ask, "allow": rules.allow}
    told = [f"{verdict}: {', '.join(texts)}" for verdict, texts in lists.items() if texts]
    return (f"permissions: default {rules.default or 'ask'}", *told)
