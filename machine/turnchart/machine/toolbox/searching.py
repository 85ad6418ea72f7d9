"""The built-in tool ``search_files``: lines that a pattern matches, below a root."""

import json
import sys
from pathlib import Path

from turnchart.machine.paths import glob_regex, inside, resolved
from turnchart.machine.tools import Tool, ToolContext, ToolFailed, tool

from . import _search
from ._known import MAX_MATCHES, MAX_OUTPUT, SEARCH_FILES, SEARCH_TIMEOUT, Folders, naming
from .shell import Output, environment, run_argv

_WIDEST = 500
"""So many characters of a line are shown."""


def search_files_tool(
    root: Path | str,
    *,
    max_matches: int = MAX_MATCHES,
    max_output: int = MAX_OUTPUT,
    timeout: float = SEARCH_TIMEOUT,
    outside: Folders = (),
) -> Tool:
    """Make the tool ``search_files`` for one root.

    Args:
        root: The folder that paths start from.
        max_matches: So many lines are shown at once.
        max_output: So many characters are shown at once: one half of the head, one of the tail.
        timeout: Seconds that one search may take.
        outside: Folders outside of the root that may be searched too.
    """
    opened = resolved(root, outside)

    async def search_files(
        pattern: str,
        ctx: ToolContext,
        path: str = ".",
        files: str = "**",
        ignore_case: bool = False,
        literal: bool = False,
    ) -> str:
        """Search the lines of text files, and return those that match as path:line: text.

        Args:
            pattern: A regular expression, as Python reads it.
            ctx: The call.
            path: The folder or file to search, relative to the project.
            files: A glob for the files below it, as in `*.py` or `src/**/*.md`.
            ignore_case: Whether upper and lower case are the same.
            literal: Whether the pattern is plain text, not a regular expression.
        """
        target = inside(root, path, opened)
        if not target.exists():
            raise ToolFailed(f"there is no file or folder `{path}`", "NotFound")
        output = Output(max_output, ctx.progress)
        asked = {
            "folder": str(target), "name": _name(path), "pattern": pattern, "files": _wanted(files),
            "ignore_case": ignore_case, "literal": literal, "most": max_matches, "width": _WIDEST,
        }  # fmt: skip
        argv = (sys.executable, "-I", "-S", "-X", "utf8", _search.__file__, json.dumps(asked))
        code = await run_argv(
            argv, target if target.is_dir() else target.parent, environment((), frozenset()), timeout, output
        )
        return _answer(output.text(), code, pattern, timeout)

    return naming(tool(search_files, **SEARCH_FILES), opened)


def _name(path: str) -> str:
    """Return how matches name the folder: as the model did."""
    return "" if path in (".", "./", "") else path.removeprefix("./").rstrip("/")


def _wanted(files: str) -> str:
    glob = files.removeprefix("./")
    return glob_regex(glob if "/" in glob else f"**/{glob}", across=False).pattern


def _answer(text: str, code: int | None, pattern: str, timeout: float) -> str:
    if code == _search.BAD_PATTERN:
        wrong = f"`{pattern}` is no regular expression: {text.strip()}; for plain text say literal=true"
        raise ToolFailed(wrong, "BadPattern")
    if code is None:
        raise ToolFailed(
            f"it took longer than {timeout:g} s; give a simpler pattern or a narrower path", "Timeout"
        )
    if code:
        raise ToolFailed(f"the search ended with exit code {code}: {text.strip()}", "SearchFailed")
    return text or f"[nothing matches `{pattern}`]"
