"""What the built-in tools keep to unless a flow says otherwise. Apart, so that it is known without them."""

MAX_CHARS = 50_000
"""So many characters ``read_file`` shows at once."""
MAX_ENTRIES = 1_000
"""So many names ``list_files`` shows at once."""
MAX_OUTPUT = 30_000
"""So many characters are kept of what a command wrote."""
TIMEOUT = 120.0
"""Seconds that a command may take."""
