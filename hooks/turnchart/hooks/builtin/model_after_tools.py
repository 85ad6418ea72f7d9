"""``model_after_tools``: another model for what follows certain tools."""

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from turnchart.hooks.params import Glob
from turnchart.hooks.registry import hook

if TYPE_CHECKING:
    from turnchart.machine.points import Request


@hook("model_after_tools", on="request")
def model_after_tools(payload: "Request", *, tools: list[Glob], model: str) -> "Request | None":
    """Use `model` for the request that follows a step in which one of `tools` (globs) was called."""
    called = any(fnmatchcase(call.tool, glob) for call in payload.calls for glob in tools)
    return payload.replace(model=model) if called else None
