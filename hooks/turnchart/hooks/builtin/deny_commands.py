"""``deny_commands``: what a tool must never be asked to do."""

from typing import TYPE_CHECKING

from turnchart.hooks.builtin._subject import judged
from turnchart.hooks.params import Pattern
from turnchart.hooks.registry import hook
from turnchart.machine.points import Deny

if TYPE_CHECKING:
    from turnchart.machine.points import PreTool


@hook("deny_commands", on="pre_tool")
def deny_commands(payload: "PreTool", *, patterns: list[Pattern], message: str = "") -> Deny | None:
    """Deny a call when one of the `patterns` is found anywhere in its subject: for shell, the command.

    Of a tool that declares no subject, every text of its arguments is searched. `message` is what the model
    reads.
    """
    for text in judged(payload):
        for pattern in patterns:
            if pattern.search(text):
                return Deny(message or f"it matches the denied pattern {pattern.pattern!r}")
    return None
