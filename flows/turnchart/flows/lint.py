"""``check --lint``: what of the lifecycle can never happen with a flow applied, at the keys that cause it."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from turnchart.flows.model_checks import lint_models
from turnchart.flows.problems import Problem
from turnchart.flows.tool_checks import permissions_of
from turnchart.flows.validate import find
from turnchart.machine.config import Compaction, Limits, Queues, RetryPolicy
from turnchart.machine.lint import Given, GivenHook, lint
from turnchart.machine.table import LIFECYCLE, Table

if TYPE_CHECKING:
    from turnchart.flows.check import Checked
    from turnchart.flows.parts import Parts


def lint_flow(checked: "Checked", table: Table = LIFECYCLE) -> Iterator[Problem]:
    """Yield what is probably not meant, as warnings, and what is not known of the model, as a note.

    A flow with errors has to be right first.
    """
    parts = checked.parts
    if parts is None or any(problem.level == "error" for problem in checked.problems):
        return
    for finding in lint(table, given_of(checked, parts)):
        at = find(parts.root, finding.key).value
        yield at.problem(finding.code, finding.message, help=finding.help, level="warning")
    yield from lint_models(parts)


def given_of(checked: "Checked", parts: "Parts") -> Given:
    """Return what a flow without errors says that bears on the table."""
    file = parts.file
    retry = file.retry.model_dump(exclude={"retry_on"})
    if file.retry.retry_on is not None:
        retry["retry_on"] = tuple(file.retry.retry_on)
    return Given(
        tools={
            tool.name: tool.part.loc
            for tool in checked.tools
            if tool.part.spec.mcp is None and not tool.at_provider
        },
        more_tools=any(tool.part.spec.mcp is not None for tool in checked.tools),
        hooks=tuple(_hooks(checked, parts)),
        limits=Limits(**file.limits.model_dump()),
        queues=Queues(**file.queues.model_dump()),
        retry=RetryPolicy(**retry),
        compaction=Compaction(**file.compaction.model_dump()) if file.compaction else Compaction(),
        fallback=tuple(file.model.fallback) if file.model else (),
        permissions=permissions_of(file.permissions),
        written=frozenset(_written(parts)),
    )


def _hooks(checked: "Checked", parts: "Parts") -> Iterator[GivenHook]:
    for use in checked.hooks:
        spec = use.part.spec
        if not use.disabled:
            yield GivenHook(use.part.point.name, use.part.id, use.part.loc, spec.tools, spec.timeout)
    if parts.file.output is not None:
        yield GivenHook("turn_stopping", "output", ("output",))


def _written(parts: "Parts") -> Iterator[str]:
    for section in ("retry", "queues", "limits"):
        found = find(parts.root, (section,))
        if found.exact:
            yield from (f"{section}.{name}" for name in getattr(found.value, "fields", ()))
