"""The built-in tools by name, with the parameters that a flow gives them under ``with:``.

The code of a tool is loaded when one is made, so that a flow is checked without it.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from turnchart.machine.paths import inside

from ._known import LIST_FILES, MAX_CHARS, MAX_ENTRIES, MAX_OUTPUT, READ_FILE, SHELL, TIMEOUT

if TYPE_CHECKING:
    from turnchart.machine.tools import Settings, Tool

Count = Annotated[int, Field(ge=1)]
Variable = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


class _Params(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)


class ReadFileParams(_Params):
    """What ``read_file`` takes."""

    max_chars: Count = Field(MAX_CHARS, description="So many characters are shown at once.")


class ListFilesParams(_Params):
    """What ``list_files`` takes."""

    max_entries: Count = Field(MAX_ENTRIES, description="So many names are shown at once.")


class ShellParams(_Params):
    """What ``shell`` takes."""

    cwd: str = Field(".", description="The folder that commands start in, below the root.")
    timeout: float = Field(TIMEOUT, gt=0, description="Seconds that one command may take.")
    max_output: Count = Field(
        MAX_OUTPUT, description="So many characters are kept, of the head and the tail."
    )
    env_from: list[Variable | dict[Variable, Variable]] = Field(
        [], description="Variables that commands see although they look secret, or {NAME: OTHER}."
    )


class BuiltIn(NamedTuple):
    """One built-in tool, and what is known of it before it is made.

    Attributes:
        factory: Makes it: ``factory(root, hidden, **params)``.
        params: The model of its parameters.
        settings: As it is made with.
        folder: The one of its parameters that names a folder below the root; empty for none.
    """

    factory: "Callable[..., Tool]"
    params: type[BaseModel]
    settings: "Settings"
    folder: str = ""

    @property
    def subject(self) -> str | None:
        """The parameter that permissions match."""
        return self.settings.get("subject")

    def check(self, root: Path | str, params: BaseModel) -> None:
        """Raise what making the tool with these parameters would raise.

        Raises:
            PermissionError: If a folder among them is outside the root.
            ValueError: If it can be no folder.
        """
        if self.folder:
            inside(root, getattr(params, self.folder))


def _read_file(root: Path, hidden: frozenset[str], **params: Any) -> "Tool":
    from .files import read_file_tool

    return read_file_tool(root, **params)


def _list_files(root: Path, hidden: frozenset[str], **params: Any) -> "Tool":
    from .files import list_files_tool

    return list_files_tool(root, **params)


def _shell(root: Path, hidden: frozenset[str], **params: Any) -> "Tool":
    from .shell import shell_tool

    return shell_tool(root, hidden=hidden, **params)


TOOLBOX: Mapping[str, BuiltIn] = MappingProxyType({
    "list_files": BuiltIn(_list_files, ListFilesParams, LIST_FILES),
    "read_file": BuiltIn(_read_file, ReadFileParams, READ_FILE),
    "shell": BuiltIn(_shell, ShellParams, SHELL, folder="cwd"),
})  # fmt: skip
"""The built-in tools."""


def names() -> tuple[str, ...]:
    """Return the names of the built-in tools, sorted."""
    return tuple(TOOLBOX)


def make(
    name: str,
    root: Path | str,
    params: Mapping[str, Any] | None = None,
    hidden: frozenset[str] = frozenset(),
) -> "Tool":
    """Make a built-in tool for a root.

    Args:
        name: One of ``names()``.
        root: The folder that it never leaves.
        params: What a flow wrote under ``with:``.
        hidden: Variables that no command may see, unless the tool's own ``env_from`` names them.

    Raises:
        KeyError: If there is no such tool.
        pydantic.ValidationError: If the parameters are wrong.
        PermissionError: If a folder among them is outside the root.
    """
    if name not in TOOLBOX:
        raise KeyError(f"there is no built-in tool {name!r}; they are: {', '.join(TOOLBOX)}")
    found = TOOLBOX[name]
    checked = found.params.model_validate(dict(params or {}))
    return found.factory(Path(root), hidden, **dict(checked))
