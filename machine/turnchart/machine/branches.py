"""What the model reads of a branch that was left. Pure; a log alone says it."""

from collections.abc import Mapping
from typing import Any, cast

from turnchart.machine.messages import UserMessage

LEFT = "branch_summary"
"""The source of the message that stands for a branch that was left."""

_INTRODUCES = "Before this, the conversation went another way, which was left. What that way came to:"
_FILES = (("read_files", "read-files"), ("modified_files", "modified-files"))


def branch_message(data: Mapping[str, Any], time: float) -> UserMessage | None:
    """Return what the model reads of a ``branch_summary`` entry; None where its summary is blank.

    Args:
        data: The data of the entry.
        time: When it was written, in Unix seconds.

    Raises:
        KeyError: If a field is missing.
        TypeError: If the summary is no text, or ``from`` names no entry.
    """
    summary, left = data["summary"], data["from"]
    if not isinstance(summary, str):
        raise TypeError(f"its summary is a {type(summary).__name__}, not text")
    if left is not None and type(left) is not int:
        raise TypeError(f"it comes from {left!r}, which is no number of an entry")
    if not summary.strip():
        return None
    found = data.get("details")
    details: Mapping[str, Any] = cast("Mapping[str, Any]", found) if isinstance(found, Mapping) else {}
    parts = [f"{_INTRODUCES}\n\n<summary>\n{summary}\n</summary>"]
    for field, tag in _FILES:
        paths = details.get(field)
        if isinstance(paths, tuple | list) and paths:
            parts.append("\n".join([f"<{tag}>", *map(str, cast("list[Any]", paths)), f"</{tag}>"]))
    return UserMessage("\n\n".join(parts), time=time, source=LEFT)
