"""``token_budget``: how much a turn may read."""

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from turnchart.hooks.registry import hook
from turnchart.machine.points import Reject

if TYPE_CHECKING:
    from turnchart.machine.points import PreStep


@hook("token_budget", on="pre_step")
def token_budget(payload: "PreStep", *, max_input_tokens: Annotated[int, Field(gt=0)]) -> Reject | None:
    """Reject the next step once the turn has sent `max_input_tokens` to models.

    What was read from a cache, or written into one, counts as well.
    """
    usage = payload.turn.usage
    spent = sum(usage.get(kind, 0) for kind in ("input", "cache_read", "cache_write"))
    return Reject("token budget") if spent >= max_input_tokens else None
