"""What the model reads in the place of what was compacted. Pure; a log alone says it."""

from collections.abc import Mapping
from typing import Any, cast

from turnchart.machine.entries import Frozen
from turnchart.machine.messages import Message, UserMessage, message

SUMMARY = "compaction"
"""The source of the message that stands for what was compacted."""

_INTRODUCES = "The earlier part of this conversation was replaced by this summary of it:"
_DROPPED = "The earlier part of this conversation was left out to make room for what follows."
_FILES = (("read_files", "read-files"), ("modified_files", "modified-files"))


def summary_message(data: Mapping[str, Any], time: float) -> UserMessage:
    """Return what the model reads of a ``compaction`` entry: its summary, and the files it names.

    Args:
        data: The data of the entry.
        time: When it was written, in Unix seconds.

    Raises:
        KeyError: If there is no summary.
        TypeError: If the summary is no text.
    """
    summary = data["summary"]
    if not isinstance(summary, str):
        raise TypeError(f"its summary is a {type(summary).__name__}, not text")
    found = data.get("details")
    details: Mapping[str, Any] = cast("Mapping[str, Any]", found) if isinstance(found, Mapping) else Frozen()
    parts = [f"{_INTRODUCES}\n\n<summary>\n{summary}\n</summary>"] if summary else []
    if details.get("dropped") or not summary:
        parts.append(_DROPPED)
    for field, tag in _FILES:
        paths = details.get(field)
        if paths:
            parts.append("\n".join([f"<{tag}>", *map(str, paths), f"</{tag}>"]))
    return UserMessage("\n\n".join(parts), time=time, source=SUMMARY)


def retained_messages(data: Mapping[str, Any]) -> list[Message]:
    """Return the messages that a ``compaction`` entry brings along itself.

    What the log still has is named there by its number; only an imported entry holds messages.

    Raises:
        TypeError: If the tail is no list, or holds something else.
        ValueError: If one of the messages is malformed.
    """
    tail = data.get("retained_tail") or ()
    if not isinstance(tail, tuple | list):
        raise TypeError("its retained_tail is no list")
    found: list[Message] = []
    for each in cast("tuple[object, ...]", tail):
        if isinstance(each, Mapping):
            found.append(message(cast("Mapping[str, Any]", each)))
        elif type(each) is not int:
            raise TypeError("its retained_tail holds something else than numbers of entries and messages")
    return found
