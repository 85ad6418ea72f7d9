"""``rewrite_command``: mend a call before anybody judges it."""

import re
from typing import TYPE_CHECKING

from turnchart.hooks.params import Pattern
from turnchart.hooks.registry import hook

if TYPE_CHECKING:
    from turnchart.machine.points import PreTool


@hook("rewrite_command")
class RewriteCommand:
    r"""Replace all that `pattern` matches in the subject by `replace`, as `re.sub` does (`\1` is a group).

    A tool that declares no subject is left alone. Put this hook above those that judge the command.
    """

    pattern: Pattern
    replace: str

    def __post_init__(self) -> None:
        """Check that the replacement fits the pattern."""
        try:  # the added way to match the empty text makes sub read the replacement
            re.compile(f"{self.pattern.pattern}\n|", self.pattern.flags).sub(self.replace, "")
        except (re.error, IndexError) as error:
            raise ValueError(f"replace does not fit the pattern: {error}") from error

    def pre_tool(self, payload: "PreTool") -> "PreTool | None":
        """Rewrite one call."""
        name = payload.subject_name
        text = payload.args.get(name) if name else None
        if not isinstance(text, str):
            return None
        return payload.replace(args={**payload.args, name: self.pattern.sub(self.replace, text)})
