"""The built-in tools, made for one root by factories.

The factories are loaded when they are first used: a flow is checked without them.
"""

from typing import TYPE_CHECKING, Any

from .table import TOOLBOX as TOOLBOX
from .table import make as make
from .table import names as names

if TYPE_CHECKING:
    from .files import list_files_tool as list_files_tool
    from .files import read_file_tool as read_file_tool
    from .shell import shell_tool as shell_tool

_FACTORIES = {"list_files_tool": "files", "read_file_tool": "files", "shell_tool": "shell"}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    module = _FACTORIES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{module}"), name)
