"""What is known of the built-in tools before their code is loaded: their settings, and what they keep to."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from turnchart.machine.tools import Settings

READ_FILE: "Settings" = {
    "subject": "path", "subject_kind": "path", "effects": "read", "execution": "parallel",
}  # fmt: skip
LIST_FILES: "Settings" = READ_FILE
SEARCH_FILES: "Settings" = {**READ_FILE, "timeout": None}
WRITE_FILE: "Settings" = {"subject": "path", "subject_kind": "path"}
EDIT_FILE: "Settings" = WRITE_FILE
SHELL: "Settings" = {"subject": "command", "subject_kind": "shell", "timeout": None}
SCRIPT: "Settings" = {"timeout": None}

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
