"""``repeat_guard``: a word to a model that does the same thing again and again."""

import hashlib
import json
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from turnchart.hooks.params import Glob
from turnchart.hooks.registry import hook

if TYPE_CHECKING:
    from turnchart.machine.points import PostTool

LONGEST_QUOTE = 500


@hook("repeat_guard", on="post_tool")
def repeat_guard(
    payload: "PostTool",
    *,
    after: Annotated[int, Field(gt=1)] = 3,
    details_after: Annotated[int, Field(gt=1)] = 5,
    exclude: tuple[Glob, ...] = (),
) -> "PostTool | None":
    """Remind the model at the `after`th identical call in a row, and in detail at the `details_after`th.

    Another call or a new turn starts the count anew; denied calls count; tools in `exclude` (globs) are not
    seen at all.
    """
    if any(fnmatchcase(payload.tool, glob) for glob in exclude):
        return None
    count = _count(payload)
    if count not in (after, details_after):
        return None
    reminder = (
        f"You have called `{payload.tool}` {count} times in a row with the same arguments."
        " Calling it again will not change the result: do something else, or say what keeps you from it."
    )
    if count == details_after:
        reminder += f"\narguments: {_cut(_written(payload.args))}"
        reminder += f"\nlast result ({payload.outcome}): {_cut(payload.text)}"
    return payload.replace(context="\n\n".join(filter(None, (payload.context, reminder))))


def _count(payload: "PostTool") -> int:
    """Return how often this call was made in a row; the last one is kept in the memory of the hook."""
    call = hashlib.sha256(_written([payload.tool, payload.args]).encode()).hexdigest()
    last = {"turn": payload.turn.number, "call": call}
    memory = payload.memory
    again = all(memory.get(name) == value for name, value in last.items())
    count = memory.get("count", 0) + 1 if again else 1
    memory.update(last, count=count)
    return count


def _written(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_QUOTE else text[:LONGEST_QUOTE] + "..."
