"""``require_tool_call``: a turn does not end before something was done."""

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from turnchart.hooks.builtin._subject import texts
from turnchart.hooks.params import Glob, Pattern
from turnchart.hooks.registry import hook
from turnchart.machine.points import Continue

if TYPE_CHECKING:
    from turnchart.machine.points import Call, TurnStopping


@hook("require_tool_call", on="turn_stopping")
def require_tool_call(
    payload: "TurnStopping",
    *,
    tool: Glob,
    reason: str,
    pattern: Pattern | None = None,
    succeeded: bool = False,
) -> Continue | None:
    """Send the turn back with `reason` unless a call of `tool` (a glob) ran in it.

    With `pattern`, only calls count in whose arguments it is found; with `succeeded`, only those that
    succeeded.
    """

    def counts(call: "Call") -> bool:
        return (
            fnmatchcase(call.tool, tool)
            and call.outcome in (("ok",) if succeeded else ("ok", "error"))
            and (pattern is None or any(pattern.search(text) for text in texts(call.arguments)))
        )

    return None if any(counts(call) for call in payload.turn.calls) else Continue(reason)
