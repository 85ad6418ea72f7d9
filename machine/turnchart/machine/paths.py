"""Paths below a root: nothing leads out of it, and globs are compared with what a path really names."""

import os
import re
from collections.abc import Iterable
from pathlib import Path


def inside(root: Path | str, path: Path | str, opened: Iterable[Path] = ()) -> Path:
    """Return where a path below the root really leads, links and ``..`` resolved. ``~`` is our home.

    Args:
        root: The folder that paths start from.
        path: Absolute, or relative to the root.
        opened: Other folders that it may lead to, resolved already.

    Raises:
        PermissionError: If that is outside the root and the opened folders.
        ValueError: If it can be no path.
    """
    base = os.path.realpath(root)
    real = Path(os.path.realpath(os.path.join(base, os.path.expanduser(path))))
    if not real.is_relative_to(base) and not any(real.is_relative_to(folder) for folder in opened):
        raise PermissionError(f"`{path}` leads out of the folder {base}")
    return real


def resolved(root: Path | str, folders: Iterable[Path | str]) -> tuple[Path, ...]:
    """Return folders as they are now, links and ``..`` resolved. ``~`` is ours, others start at the root.

    Raises:
        ValueError: If one can be no path.
    """
    base = os.path.realpath(root)
    return tuple(Path(os.path.realpath(os.path.join(base, os.path.expanduser(folder)))) for folder in folders)


_TOKEN = re.compile(r"\A\*\*/|/\*\*/|/\*\*\Z|\*+|\?|\[!?\]?[^\]]*\]|.", re.DOTALL)


def glob_regex(pattern: str, *, across: bool) -> re.Pattern[str]:
    """Return the regular expression of a glob over paths with ``/``; compare with ``fullmatch``.

    ``**`` crosses folders: ``**/x`` is ``x`` in any folder, ``a/**`` is ``a`` and everything in it. ``*``
    and ``?`` do so only if they may go ``across``.
    """
    step = "." if across else "[^/]"
    folders = {"**/": "(?:.*/)?", "/**/": "/(?:.*/)?", "/**": "(?:/.*)?", "*": f"{step}*", "?": step}
    found: list[str] = []
    for token in _TOKEN.findall(pattern):
        if token in folders:
            found.append(folders[token])
        elif token.startswith("**"):
            found.append(".*")
        else:
            found.append(_one_of(token) if len(token) > 1 else re.escape(token))
    return re.compile("".join(found), re.DOTALL)


def _one_of(token: str) -> str:
    """Return a ``[...]`` of a glob; one that means nothing stands for itself."""
    body = token[1:-1]
    start = "[^" if body.startswith("!") else "["
    chars = (char if char == "-" else re.escape(char) for char in body.removeprefix("!"))
    made = start + "".join(chars).replace("--", r"-\-") + "]"
    try:
        re.compile(made)
    except re.error:
        return re.escape(token)
    return made
