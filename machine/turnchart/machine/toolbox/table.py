"""The built-in tools by name, with the parameters that a flow gives them under ``with:``.

The code of a tool is loaded when one is made, so that a flow is checked without it.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    model_validator,
)

from turnchart.machine.paths import inside, resolved

from ._gaps import Argument, Kind, problems
from ._known import (
    AT_PROVIDER,
    EDIT_FILE,
    LIST_FILES,
    MAX_CHARS,
    MAX_ENTRIES,
    MAX_MATCHES,
    MAX_OUTPUT,
    READ_FILE,
    SCRIPT,
    SEARCH_FILES,
    SEARCH_TIMEOUT,
    SHELL,
    TIMEOUT,
    WRITE_FILE,
)

if TYPE_CHECKING:
    from turnchart.machine.tools import Settings, Tool

Count = Annotated[int, Field(ge=1)]
Folder = Annotated[str, Field(min_length=1)]
Variable = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


class _Params(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)


class _FileParams(_Params):
    outside: list[Folder] = Field(
        [],
        description="Folders outside of the root that it may work in too; relative to the root, or absolute.",
    )


class ReadFileParams(_FileParams):
    """What ``read_file`` takes."""

    max_chars: Count = Field(MAX_CHARS, description="So many characters are shown at once.")


class ListFilesParams(_FileParams):
    """What ``list_files`` takes."""

    max_entries: Count = Field(MAX_ENTRIES, description="So many names are shown at once.")


class SearchFilesParams(_FileParams):
    """What ``search_files`` takes."""

    max_matches: Count = Field(MAX_MATCHES, description="So many lines are shown at once.")
    max_output: Count = Field(MAX_OUTPUT, description="So many characters are shown at once.")
    timeout: float = Field(SEARCH_TIMEOUT, gt=0, description="Seconds that one search may take.")


class WriteFileParams(_FileParams):
    """What ``write_file`` takes."""


class EditFileParams(_FileParams):
    """What ``edit_file`` takes."""


class _ProgramParams(_Params):
    cwd: str = Field(".", description="The folder that commands start in, below the root.")
    timeout: float = Field(TIMEOUT, gt=0, description="Seconds that one command may take.")
    max_output: Count = Field(
        MAX_OUTPUT, description="So many characters are kept, of the head and the tail."
    )
    env_from: list[Variable | dict[Variable, Variable]] = Field(
        [], description="Variables that commands see although they look secret, or {NAME: OTHER}."
    )


class ShellParams(_ProgramParams):
    """What ``shell`` takes."""

    outside: list[Folder] = Field(
        [],
        description="Folders outside of the root that cwd may be in; what a command does is not held back.",
    )


_OF_TYPE: Mapping[Kind, tuple[type, ...]] = {
    "string": (str,), "path": (str,), "integer": (int,), "number": (int, float), "boolean": (bool,),
}  # fmt: skip


class ScriptArgument(_Params):
    """One argument of a ``script``."""

    type: Kind = Field("string", description="What it is; a path must stay below the root.")
    description: str = Field("", description="What the model reads about it.")
    choices: list[StrictStr | StrictInt | StrictFloat] = Field([], description="What it may be.")
    pattern: str = Field("", description="A regular expression that must match all of it.")
    default: StrictStr | StrictBool | StrictInt | StrictFloat | None = Field(
        None, description="What it is when the model does not give it; without, it must be given."
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        kinds = _OF_TYPE[self.type]
        for value in (*self.choices, *(() if self.default is None else (self.default,))):
            if not isinstance(value, kinds) or isinstance(value, bool) != (self.type == "boolean"):
                raise ValueError(f"{value!r} is no {self.type}")
        if self.choices and self.default is not None and self.default not in self.choices:
            raise ValueError(f"the default {self.default!r} is none of the choices")
        try:
            re.compile(self.pattern)
        except re.error as error:
            raise ValueError(f"not a valid regular expression: {error}") from error
        return self


class ScriptParams(_ProgramParams):
    """What ``script`` takes."""

    command: list[Annotated[str, Field(min_length=1)]] = Field(
        min_length=1, description="The program and its arguments; {name} is where an argument goes."
    )
    description: str = Field(min_length=1, description="What the model reads about the tool.")
    args: dict[Variable, ScriptArgument] = Field(
        {}, description="The arguments that the model gives, by name."
    )
    subject: str | None = Field(None, description="The argument that permissions match.")
    outside: list[Folder] = Field(
        [], description="Folders outside of the root that paths may lead to, and cwd may be in."
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        known = {name: Argument(each.type) for name, each in self.args.items()}
        for wrong in problems(self.command, known, self.subject):
            raise ValueError(wrong)
        return self


class BuiltIn(NamedTuple):
    """One built-in tool, and what is known of it before it is made.

    Attributes:
        factory: Makes it: ``factory(root, hidden, **params)``.
        reads: The model of its parameters; of a tool at the provider, its name: most flows have none.
        settings: As it is made with.
        folder: The one of its parameters that names a folder below the root; empty for none.
        program: The one of its parameters that is a program with its arguments; empty for none.
    """

    factory: "Callable[..., Tool]"
    reads: type[BaseModel] | str
    settings: "Settings"
    folder: str = ""
    program: str = ""

    @property
    def params(self) -> type[BaseModel]:
        """The model of its parameters."""
        if not isinstance(self.reads, str):
            return self.reads
        from ._provided import PROVIDED

        return PROVIDED[self.reads]

    def subject(self, params: BaseModel) -> str | None:
        """Return the parameter of the tool that permissions match, made with these parameters."""
        own: str | None = getattr(params, "subject", None)
        return own or self.settings.get("subject")

    def check(self, root: Path | str, params: BaseModel) -> None:
        """Raise what making the tool with these parameters would raise.

        Raises:
            PermissionError: If a folder among them is outside the root.
            ValueError: If it can be no folder.
        """
        opened = resolved(root, getattr(params, "outside", ()))
        if self.folder:
            inside(root, getattr(params, self.folder), opened)


def _read_file(root: Path, hidden: frozenset[str], **params: Any) -> "Tool":
    from .files import read_file_tool

    return read_file_tool(root, **params)


def _list_files(root: Path, hidden: frozenset[str], **params: Any) -> "Tool":
    from .files import list_files_tool

    return list_files_tool(root, **params)


def _search_files(root: Path, hidden: frozenset[str], **params: Any) -> "Tool":
    from .searching import search_files_tool

    return search_files_tool(root, **params)


def _write_file(root: Path, hidden: frozenset[str], **params: Any) -> "Tool":
    from .writing import write_file_tool

    return write_file_tool(root, **params)


def _edit_file(root: Path, hidden: frozenset[str], **params: Any) -> "Tool":
    from .writing import edit_file_tool

    return edit_file_tool(root, **params)


def _at_provider(name: str) -> "Callable[..., Tool]":
    def factory(root: Path, hidden: frozenset[str], **options: Any) -> "Tool":
        from .elsewhere import provider_tool

        return provider_tool(name, **options)

    return factory


def _script(root: Path, hidden: frozenset[str], **params: Any) -> "Tool":
    from .script import script_tool

    params["args"] = {name: dict(each) for name, each in params["args"].items()}
    return script_tool(root, hidden=hidden, **params)


def _shell(root: Path, hidden: frozenset[str], **params: Any) -> "Tool":
    from .shell import shell_tool

    return shell_tool(root, hidden=hidden, **params)


_HERE: Mapping[str, BuiltIn] = {
    "edit_file": BuiltIn(_edit_file, EditFileParams, EDIT_FILE),
    "list_files": BuiltIn(_list_files, ListFilesParams, LIST_FILES),
    "read_file": BuiltIn(_read_file, ReadFileParams, READ_FILE),
    "script": BuiltIn(_script, ScriptParams, SCRIPT, folder="cwd", program="command"),
    "search_files": BuiltIn(_search_files, SearchFilesParams, SEARCH_FILES),
    "shell": BuiltIn(_shell, ShellParams, SHELL, folder="cwd"),
    "write_file": BuiltIn(_write_file, WriteFileParams, WRITE_FILE),
}  # fmt: skip
_THERE = {name: BuiltIn(_at_provider(name), name, {}) for name in AT_PROVIDER}
TOOLBOX: Mapping[str, BuiltIn] = MappingProxyType(dict(sorted({**_HERE, **_THERE}.items())))
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
