"""Where a flow lives: its root, and the files that it may name."""

import os
from pathlib import Path
from typing import NamedTuple

from turnchart.flows.problems import Problem, quoted
from turnchart.flows.source import Node, Source

_MARKS = (".git", "pyproject.toml")


class Place(NamedTuple):
    """Where a flow lives.

    Attributes:
        root: What tools and programs work in.
        reach: The folder that every file it names must be in; the root, but for shipped flows their own.
    """

    root: Path
    reach: Path


def place_of(path: Path) -> Place:
    """Return the place of a flow.

    Its root is the nearest folder at or above it with .git or pyproject.toml, else its own folder.
    """
    own = Path(os.path.abspath(path)).parent
    for folder in (own, *own.parents):
        if any(os.path.exists(folder / mark) for mark in _MARKS):
            return Place(folder, folder)
    return Place(own, own)


def beside(source: Source, text: str) -> tuple[Path, str]:
    """Return where a path that a file wrote leads, relative to that file, and how messages name it."""
    return source.path.parent / text, os.path.normpath(os.path.join(os.path.dirname(source.name), text))


def outside(node: Node, text: str, target: Path, reach: Path) -> Problem | None:
    """Return a problem if a path leaves the folder it must be in, links and ``..`` followed."""
    try:
        inside = target.resolve().is_relative_to(reach.resolve())
    except (OSError, ValueError, RuntimeError):
        return node.problem("bad-value", f"{quoted(text)} is no path")
    if inside:
        return None
    help = "the project is the nearest folder with .git or pyproject.toml, else the folder of the flow"
    return node.problem("path-outside", f"{quoted(text)} leaves the project", help=help)
