"""The built-in tools, made for one root by factories.

The factories are loaded when they are first used: a flow is checked without them.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from ._known import AT_PROVIDER as AT_PROVIDER
from .table import TOOLBOX as TOOLBOX
from .table import make as make
from .table import names as names

if TYPE_CHECKING:
    from .elsewhere import provider_tool as provider_tool
    from .files import list_files_tool as list_files_tool
    from .files import read_file_tool as read_file_tool
    from .script import script_tool as script_tool
    from .searching import search_files_tool as search_files_tool
    from .shell import shell_tool as shell_tool
    from .writing import edit_file_tool as edit_file_tool
    from .writing import write_file_tool as write_file_tool

_FACTORIES = {
    "edit_file_tool": "writing", "list_files_tool": "files", "provider_tool": "elsewhere",
    "read_file_tool": "files", "script_tool": "script", "search_files_tool": "searching",
    "shell_tool": "shell", "write_file_tool": "writing",
}  # fmt: skip


if not TYPE_CHECKING:  # checkers read the imports above, and complain of a name that is not there

    def __getattr__(name):
        module = _FACTORIES.get(name)
        if module is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.{module}"), name)
