"""``deny_paths``: files that a tool must not touch."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from turnchart.hooks.builtin._subject import judged, root_of
from turnchart.hooks.gitignore import IgnoreRules
from turnchart.hooks.params import Glob
from turnchart.hooks.registry import hook
from turnchart.machine.points import Deny

if TYPE_CHECKING:
    from turnchart.machine.points import PreTool

LONGEST_PATH = 4096


@hook("deny_paths")
class DenyPaths:
    """Deny a call when its path matches one of the `globs`, which are lines of a .gitignore at the root.

    The path is taken as written and with links and `..` resolved; one outside of the root is matched from
    `/`. Of a tool that declares no subject, every text of its arguments is taken for a path. `message` is
    what the model reads.
    """

    globs: list[Glob]
    message: str = ""

    def __post_init__(self) -> None:
        """Read the globs."""
        self._rules = IgnoreRules(self.globs)

    def pre_tool(self, payload: "PreTool") -> Deny | None:
        """Judge one call."""
        root = root_of(payload)
        for text in judged(payload):
            for path, is_folder in _places(root, text):
                if self._rules.matches(path, is_folder):
                    return Deny(self.message or f"{path} is protected")
        return None


def _places(root: str, text: str) -> Iterator[tuple[str, bool]]:
    """Return the path as it is written and as it is resolved, seen from the root."""
    if len(text) > LONGEST_PATH:
        return
    written = os.path.normpath(os.path.join(root, text))
    resolved = os.path.realpath(os.path.join(root, os.path.expanduser(text)))
    is_folder = os.path.isdir(resolved)
    for base, path in ((root, written), (os.path.realpath(root), resolved)):
        inside = os.path.relpath(path, base)
        seen = path if inside.split(os.sep)[0] == os.pardir else inside
        yield seen.replace(os.sep, "/").lstrip("/"), is_folder
