"""``require_command``: a turn does not end while a check fails."""

from math import inf
from typing import TYPE_CHECKING

from turnchart.hooks.builtin._output import end_of
from turnchart.hooks.params import Command
from turnchart.hooks.registry import hook
from turnchart.machine.points import Continue

if TYPE_CHECKING:
    from turnchart.machine.points import TurnStopping


@hook("require_command", on="turn_stopping")
async def require_command(payload: "TurnStopping", *, command: Command, reason: str) -> Continue | None:
    """Send the turn back with `reason` and the end of the output unless `command` ends with exit code 0.

    The command starts in the root, without a shell. `timeout` on the entry says how long it may take: 30
    seconds unless given, and what takes longer ends the turn with an error.
    """
    done = await payload.run(command, timeout=inf)  # the hook itself is timed
    if done.exit_code == 0:
        return None
    output = end_of(done.output, done.errors) or f"[exit code {done.exit_code}]"
    return Continue(f"{reason}\n\n{output}")
