"""A flow that comes along, copied to be changed: with its test, its parents, and the files that they name."""

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from turnchart.flows.checks import SCRIPT
from turnchart.flows.source import read_file, scalars
from turnchart.machine.errors import TurnchartError


def copy_flow(path: Path, name: str, into: Path) -> list[Path]:
    """Copy a flow and its test as ``name``, and beside them what they name; return what was written.

    Raises:
        TurnchartError: If one of the files is there already; then nothing was written.
    """
    folder, test = path.parent, path.with_suffix(".test.yaml")
    own = {path: into / f"{name}.yaml", test: into / f"{name}.test.yaml"}
    copies = {file: own.get(file, into / os.path.relpath(file, folder)) for file in _files(path, test)}
    there = [os.path.relpath(copy, into) for copy in copies.values() if copy.exists()]
    if there:
        raise TurnchartError(f"{' and '.join(there)} {'is' if len(there) == 1 else 'are'} there already")
    for file, copy in copies.items():
        copy.parent.mkdir(parents=True, exist_ok=True)
        if file in own:
            copy.write_text(_renamed(file.read_text("utf-8"), path.stem, name), "utf-8")
        else:
            shutil.copy(file, copy)  # a program stays one
    return list(copies.values())


def _files(path: Path, test: Path) -> list[Path]:
    """Return a flow, its test, and every file of its folder that one of them names, or that these name."""
    found = [path, test] if test.is_file() else [path]
    for file in found:  # it grows meanwhile
        if file.suffix == ".yaml":
            found += [named for named in _named(file, path.parent) if named not in found]
    return found


def _named(file: Path, folder: Path) -> Iterator[Path]:
    root = read_file(file).root
    for node in scalars(root) if root is not None else ():
        named = os.path.normpath(file.parent / node.text.removeprefix(SCRIPT))
        if os.path.isfile(named) and Path(named).is_relative_to(folder):
            yield Path(named)


def _renamed(text: str, old: str, new: str) -> str:
    """Return the text of a flow or a test under another name; also what its comments say to run."""
    old = re.escape(old)
    text = re.sub(rf"^name: {old}$", f"name: {new}", text, flags=re.MULTILINE)
    text = re.sub(rf"(turnchart [a-z ]+ ){old}(?![\w.-])", rf"\g<1>{new}.yaml", text)
    return re.sub(rf"(?:flows/|(?<![\w/.-])){old}(?=(?:\.test)?\.yaml\b)", new, text)
