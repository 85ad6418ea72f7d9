"""Programs that a flow names: looked up, never started."""

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from turnchart.flows.paths import Place, beside, outside
from turnchart.flows.problems import Problem, quoted
from turnchart.flows.source import AnyNode, Scalar


def looked_up(node: AnyNode, program: str, place: Place) -> Iterator[Problem]:
    """Find out whether a program is there, on this machine."""
    if not isinstance(node, Scalar):
        return
    if "/" not in program:
        if shutil.which(program) is None:
            message = f"there is no program {quoted(program)} on this machine"
            yield node.problem("program", message, help="it is looked up in PATH", level="warning")
        return
    target, name = program_path(node, program)
    wrong = None if os.path.isabs(program) else outside(node, program, target, place.reach)
    if wrong is not None:
        yield wrong
    elif not os.path.isfile(target) or not os.access(target, os.X_OK):
        message = f"the program {quoted(name)} is not there, or cannot be executed"
        help = "a name with a slash is relative to the file that wrote it"
        yield node.problem("program", message, help=help, level="warning")


def folder_problem(node: AnyNode, cwd: str, place: Place) -> Problem | None:
    """Return what is wrong with the folder, relative to the root, that a program starts in."""
    target = place.root / cwd
    wrong = outside(node, cwd, target, place.root)
    if wrong is None and not os.path.isdir(target):
        message = f"there is no folder {quoted(cwd)} to start in"
        return node.problem("file-missing", message, help="it is relative to the root", level="warning")
    return wrong


def argv_of(node: AnyNode, argv: Sequence[str]) -> tuple[str, ...]:
    """Return a program with its arguments; a name with a slash is made absolute, as the file means it."""
    if "/" not in argv[0]:
        return tuple(argv)
    return (os.path.abspath(program_path(node, argv[0])[0]), *argv[1:])


def program_path(node: AnyNode, program: str) -> tuple[Path, str]:
    """Return where a program with a slash in its name is, and how messages name it."""
    return beside(node.source, program)
