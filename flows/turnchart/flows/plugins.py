"""Plug-ins: what a person named, on the command line or in Python, or a project in its pyproject.toml.

A flow can never name one. A plug-in is imported; its hooks register themselves with ``@hook``, and its tools
are those in the module. A name is that of an entry point ``turnchart.plugins`` of an installed package, or of
a module; entry points that nobody named are left alone.
"""

import re
import sys
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, cast

from turnchart.flows.problems import Problem, quoted
from turnchart.flows.source import Mark, Scalar, Source, split_lines

if TYPE_CHECKING:
    from turnchart.machine.tools import Tool

GROUP: Final = "turnchart.plugins"
"""The entry points that a name is looked up in."""
FILE: Final = "pyproject.toml"
_TABLE: Final = "tool.turnchart"
_KNOWN: Final = ("plugins",)
_NAMED: Final = re.compile(r"""\btool["']?\s*(?:[]=]|\.\s*["']?turnchart\b)""")
"""What a file says that has the table, however it is written; a name alone may be that of a dependency."""


def load_plugins(
    names: Iterable[str], folders: Iterable[Path] = ()
) -> "tuple[dict[str, Tool], list[Problem]]":
    """Import plug-ins and return their tools by name, and what is wrong.

    Args:
        names: Names of entry points or of modules.
        folders: Where modules are looked for, when they are not installed.
    """
    tools: dict[str, Tool] = {}
    problems: list[Problem] = []
    places = list(folders)
    for name in names:
        try:
            tools |= _tools(_imported(name, places))
        except (Exception, SystemExit) as error:  # noqa: BLE001  # whatever a module does when it is imported
            message = f"the plug-in {name} cannot be imported: {type(error).__name__}: {error}"
            help = f"a plug-in is the name of a module, or of an entry point {GROUP}"
            problems.append(Problem("plugin", message, name, help=help))
    return tools, problems


def _imported(name: str, folders: Sequence[Path]) -> ModuleType:
    """Import a plug-in. Folders count only for one that is not installed, so that they lend it nothing."""
    module = _entry_point(name) or name
    top = module.partition(".")[0]
    if top in sys.modules or (top and find_spec(top) is not None):
        return import_module(module)
    with _path(folders):
        return import_module(module)


def _entry_point(name: str) -> str | None:
    """Return the module behind an entry point of an installed package; None where there is none."""
    from importlib.metadata import entry_points

    found = entry_points(group=GROUP, name=name)
    return next((point.module for point in found), None)


def _tools(module: ModuleType) -> "dict[str, Tool]":
    from turnchart.machine.tools import Tool

    return {value.name: value for value in vars(module).values() if isinstance(value, Tool)}


@contextmanager
def _path(folders: Iterable[Path]) -> Generator[None]:
    before = list(sys.path)
    sys.path += [str(folder) for folder in folders if str(folder) not in sys.path]
    try:
        yield
    finally:
        sys.path[:] = before


# -- the plug-ins of a project --------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class ProjectPlugins:
    """What ``[tool.turnchart]`` of a project names.

    Attributes:
        root: The folder of the project.
        names: The plug-ins, with their places.
        problems: What is wrong with the table.
    """

    root: Path
    names: list[Scalar] = field(default_factory=list[Scalar])
    problems: list[Problem] = field(default_factory=list[Problem])

    @property
    def path(self) -> Path:
        """The file that names them."""
        return self.root / FILE

    @property
    def folders(self) -> tuple[Path, ...]:
        """Where their modules are looked for, when they are not installed."""
        return (self.root, self.root / "src")

    def code(self, name: str) -> list[Path]:
        """Return the files of the project that importing a plug-in may run; none of an installed one.

        Of a package these are all its modules. What else they import is not known before they run.
        """
        top = name.partition(".")[0]
        for folder in self.folders:
            if (folder / f"{top}.py").is_file():
                return [folder / f"{top}.py"]
            if top and (folder / top).is_dir():
                return sorted((folder / top).rglob("*.py"))
        return []


def project_plugins(root: Path, shown: str = FILE) -> ProjectPlugins:
    """Return the plug-ins that the project at ``root`` names; ``shown`` is how messages name its file."""
    found = ProjectPlugins(root)
    try:
        text = found.path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return found
    if not _NAMED.search(text):  # most projects say nothing, and need no parser
        return found
    source = Source(shown, found.path, split_lines(text))
    table = _table(text, source, found.problems)
    for key in table:
        if key not in _KNOWN:
            message = f"unknown key {quoted(key)} in {_TABLE}"
            help = f"known keys: {', '.join(_KNOWN)}"
            found.problems.append(source.problem("unknown-key", message, _mark(source, key), help=help))
    names = table.get("plugins", [])
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):  # pyright: ignore[reportUnknownVariableType]  # plain data
        help = 'write plugins = ["my_package.hooks"]'
        message = f"{_TABLE}.plugins must be a list of names"
        found.problems.append(source.problem("bad-value", message, _mark(source, "plugins"), help=help))
        return found
    for name in cast("list[str]", names):
        at = _mark(source, name)
        found.names.append(Scalar(source, at.line, at.column, at.length, name))
    return found


def _table(text: str, source: Source, problems: list[Problem]) -> Mapping[str, Any]:
    import tomllib

    try:
        table: Any = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        problems.append(source.problem("plugin", f"it cannot be read: {error}", Mark(1, 1)))
        return {}
    for key in _TABLE.split("."):
        table = table.get(key, {}) if isinstance(table, dict) else {}  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]  # plain data
    return cast("Mapping[str, Any]", table) if isinstance(table, dict) else {}


def _mark(source: Source, word: str) -> Mark:
    """Return where a word stands behind the head of the table; its first line where it is not found."""
    first = next((i for i, line in enumerate(source.lines) if _TABLE in line), 0)
    pattern = re.compile(rf"(?<![\w.]){re.escape(word)}(?![\w.])")
    for i, line in enumerate(source.lines[first:], first):
        found = pattern.search(line)
        if found:
            return Mark(i + 1, found.start() + 1, len(word))
    return Mark(first + 1, 1)
