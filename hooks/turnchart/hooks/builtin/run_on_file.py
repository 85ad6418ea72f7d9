"""``run_on_file``: a formatter, or another program, on each file that a tool has touched."""

import os
from math import inf
from typing import TYPE_CHECKING

from turnchart.hooks.builtin._output import end_of
from turnchart.hooks.builtin._subject import root_of
from turnchart.hooks.gitignore import IgnoreRules
from turnchart.hooks.params import Command, Glob
from turnchart.hooks.registry import hook

if TYPE_CHECKING:
    from turnchart.machine.points import PostTool, Ran

PLACE = "{path}"
_ARGUMENTS = ("path", "file_path", "file", "filename")
"""What tools call the file that they work on."""


@hook("run_on_file")
class RunOnFile:
    """Run `command` on the file of a call that succeeded, where `glob` (as in a .gitignore) matches it.

    The file is what the call has as `path`, `file_path`, `file` or `filename`; it must be below the root,
    links and `..` followed. `{path}` in the command becomes its path, relative to the root, where the command
    starts. With `tell_model` the model reads what the command wrote, if anything, with the next step;
    without, a command that fails is shown to the user.
    """

    glob: Glob
    command: Command
    tell_model: bool = False

    def __post_init__(self) -> None:
        """Read the glob, and check that the command names the file."""
        if not any(PLACE in part for part in self.command):
            raise ValueError("command must hold {path}, where the file goes")
        self._rules = IgnoreRules([self.glob])

    async def post_tool(self, payload: "PostTool") -> "PostTool | None":
        """Look at one call."""
        path = self._path(payload) if payload.outcome == "ok" else None
        if path is None:
            return None
        done = await payload.run([part.replace(PLACE, path) for part in self.command], timeout=inf)
        if self.tell_model:
            return _with_context(payload, f"{self.command[0]} on {path}: ", _told(done))
        if done.exit_code:
            payload.notice(f"hook `{payload.id}`: {self.command[0]} on {path}: {_told(done)}")
        return None

    def _path(self, payload: "PostTool") -> str | None:
        """Return the file of a call as the command gets it; None where there is none that matches."""
        given = next((payload.args[name] for name in _ARGUMENTS if name in payload.args), None)
        if not isinstance(given, str):
            return None
        root = os.path.realpath(root_of(payload))
        file = os.path.realpath(os.path.join(root, given))
        path = os.path.relpath(file, root)
        if path.split(os.sep)[0] == os.pardir or not os.path.isfile(file):
            return None
        if not self._rules.matches(path.replace(os.sep, "/")):
            return None
        return f"./{path}" if path.startswith("-") else path


def _with_context(payload: "PostTool", intro: str, told: str) -> "PostTool | None":
    if not told:
        return None
    return payload.replace(context="\n\n".join(filter(None, (payload.context, intro + told))))


def _told(done: "Ran") -> str:
    """Return the end of what a command wrote, and its exit code where that is not 0."""
    text = end_of(done.output, done.errors)
    failed = f"[exit code {done.exit_code}]" if done.exit_code else ""
    return "\n".join(part for part in (text, failed) if part)
