"""What is known of the built-in tools before their code is loaded: their settings, and what they keep to."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from turnchart.machine.tools import Settings, Tool

Folders = Sequence[Path | str]
"""Folders outside of the root that a tool may work in too; relative ones start at the root."""


def naming(tool: "Tool", opened: Sequence[Path]) -> "Tool":
    """Return a tool whose description names the folders that are open to it beside the root."""
    if not opened:
        return tool
    folders = ", ".join(f"`{folder}`" for folder in opened)
    return replace(tool, description=f"{tool.description} Beside the project, paths may lead to {folders}.")


READ_FILE: "Settings" = {
    "subject": "path", "subject_kind": "path", "effects": "read", "execution": "parallel",
}  # fmt: skip
LIST_FILES: "Settings" = READ_FILE
SEARCH_FILES: "Settings" = {**READ_FILE, "timeout": None}
WRITE_FILE: "Settings" = {"subject": "path", "subject_kind": "path"}
EDIT_FILE: "Settings" = WRITE_FILE
SHELL: "Settings" = {"subject": "command", "subject_kind": "shell", "timeout": None}
SCRIPT: "Settings" = {"timeout": None}

AT_PROVIDER: "Mapping[str, str]" = MappingProxyType({
    "code_execution": "Run code in a sandbox of the provider.",
    "web_fetch": "Read a page of the web, at the provider.",
    "web_search": "Search the web, at the provider.",
})  # fmt: skip
"""The tools that run at the provider, and what each does there."""

MAX_CHARS = 50_000
"""So many characters ``read_file`` shows at once, unless a flow says otherwise."""
MAX_ENTRIES = 1_000
"""So many names ``list_files`` shows at once."""
MAX_MATCHES = 200
"""So many lines ``search_files`` shows at once."""
MAX_EDITED = 10_000_000
"""So many bytes a file may have that ``edit_file`` edits."""
MAX_OUTPUT = 30_000
"""So many characters ``shell`` and ``script`` keep of what a command wrote."""
TIMEOUT = 120.0
"""Seconds that ``shell`` and ``script`` give a command."""
SEARCH_TIMEOUT = 30.0
"""Seconds that ``search_files`` may take."""
