"""``ask_unless``: a person says yes to everything that is not on a list."""

from typing import TYPE_CHECKING

from turnchart.hooks.builtin._subject import judged
from turnchart.hooks.params import Pattern
from turnchart.hooks.registry import hook
from turnchart.machine.points import Ask

if TYPE_CHECKING:
    from turnchart.machine.points import PreTool


@hook("ask_unless", on="pre_tool")
def ask_unless(
    payload: "PreTool",
    *,
    exact: tuple[str, ...] = (),
    patterns: tuple[Pattern, ...] = (),
    reason: str = "it is not on the list of what runs without asking",
) -> Ask | None:
    """Ask before a call unless its subject is one of `exact`, or is matched as a whole by one of `patterns`.

    `reason` is what the person reads. A tool without a subject is asked for unless all its texts are listed.
    """
    listed = judged(payload)
    if listed and all(text in exact or any(p.fullmatch(text) for p in patterns) for text in listed):
        return None
    return Ask(reason)
