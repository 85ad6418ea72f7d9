"""What a model is asked for a summary: instructions, the conversation as text, the files it touched. Pure."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, cast

from turnchart.machine.cutting import clipped
from turnchart.machine.entries import encode
from turnchart.machine.messages import CustomMessage, Message, as_user, to_llm

RESULT_CHARS = 2000
"""So much of a tool's result goes into the text of a conversation."""

SYSTEM = (
    "You write summaries of conversations between a user and an AI agent, for an agent that will go on with"
    " the work and sees nothing but your summary. Do not answer anything in the conversation and do not go on"
    " with it. Write the summary and nothing else."
)
_FORM = """\
Use these headings, and leave none out (write "none" where there is nothing):

## Goal
What the user wants to reach.
## Constraints & Preferences
What the user asked for or ruled out.
## Progress
### Done
### In Progress
### Blocked
## Key Decisions
Each with its reason.
## Next Steps
In order.
## Critical Context
Names, paths, numbers, error messages and quotes that the work needs, exactly as they are."""
_FIRST = "Summarise the conversation above."
_UPDATE = (
    "The conversation above goes on from the previous summary. Write one summary of both: keep what still"
    " holds, add what is new, move what was finished to Done, and bring Next Steps up to date. Nothing that"
    " the previous summary says and that still matters may be lost."
)
_PREFIX = """\
The text above is the beginning of one long turn; the rest of that turn stays readable behind your summary.
Summarise the beginning under these headings:

## Original Request
What the user asked for in this turn.
## Early Progress
What was done and decided so far.
## Context for the Rest
What a reader of the rest must know."""
_TURN = "## The beginning of the turn that goes on"

_FORGED: Final = re.compile(
    r"\[(?=(?:User|Assistant|Assistant thinking|Assistant tool calls|Tool result)\]:)"
    r"|<(?=/?(?:conversation|previous-summary)>)",
    re.IGNORECASE,
)
"""What would pass for the beginning of another message, or for the end of the conversation."""
_ESCAPED: Final = r"\g<0>\\"

READS = frozenset(("read", "read_file"))
WRITES = frozenset(("write", "edit", "write_file", "edit_file"))
"""The tools whose ``path`` is followed."""


def summary_prompt(parts: Sequence[str], previous: str, focus: str) -> str:
    """Return what asks for a summary, or for a newer one of an earlier."""
    return _prompt(parts, previous, f"{_UPDATE if previous else _FIRST}\n\n{_FORM}", focus)


def prefix_prompt(parts: Sequence[str], previous: str, focus: str) -> str:
    """Return what asks for a summary of the beginning of a turn."""
    return _prompt(parts, previous, _PREFIX, focus)


def _prompt(parts: Sequence[str], previous: str, instructions: str, focus: str) -> str:
    said = ["<conversation>\n" + "\n\n".join(parts) + "\n</conversation>"]
    if previous:
        said.append(f"<previous-summary>\n{previous}\n</previous-summary>")
    said.append(instructions)
    if focus:
        said.append(f"Additional focus: {focus}")
    return "\n\n".join(said)


def joined(summary: str, prefix: str) -> str:
    """Return one summary of what came before a turn, and of the beginning of that turn."""
    return "\n\n".join(part for part in (summary, prefix and f"{_TURN}\n\n{prefix}") if part)


# -- the conversation as text --------------------------------------------------------------------------


def as_text(messages: Iterable[Message]) -> list[str]:
    """Return messages as texts with a label each; what people and models said is never cut.

    A label that stands in a text, as a tool may write one, has a backslash: only whole messages have labels.
    """
    return [part for each in messages for part in _texts(each)]


def _texts(said: Message) -> Iterator[str]:
    if said["role"] == "assistant":
        thoughts = "".join(part["thinking"] for part in said["content"] if part["type"] == "thinking")
        asked = "; ".join(_call(part) for part in said["content"] if part["type"] == "tool_call")
        labelled = {"Assistant thinking": thoughts, "Assistant": said.text, "Assistant tool calls": asked}
    elif said["role"] == "tool_result":
        text = said.text
        more = len(text) - RESULT_CHARS
        if more > 0:
            text = f"{text[:RESULT_CHARS]}\n[... {more} more characters truncated]"
        labelled = {"Tool result": text}
    else:
        labelled = {"User": _shown(said)}
    yield from (f"[{label}]: {_FORGED.sub(_ESCAPED, text)}" for label, text in labelled.items() if text)


def _shown(said: Message) -> str:
    if said["role"] == "system":
        return ""
    try:
        shown = to_llm(said)
    except ValueError:  # the rule of its kind fails
        shown = as_user(cast(CustomMessage, said))
    return shown.text if shown is not None else ""


def _call(part: Mapping[str, Any]) -> str:
    arguments = part["arguments"]
    if not isinstance(arguments, Mapping):
        return f"{part['name']}({arguments})"
    given = cast("Mapping[str, Any]", arguments)
    return f"{part['name']}({', '.join(f'{name}={encode(value)}' for name, value in given.items())})"


def chunks(parts: Sequence[str], most: int) -> Iterator[list[str]]:
    """Yield parts in groups of at most so many characters; a part that is longer loses its middle."""
    group: list[str] = []
    length = 0
    for part in parts:
        part = clipped(part, most * 3 // 4, most // 8) if len(part) > most else part
        if group and length + len(part) > most:
            yield group
            group, length = [], 0
        group.append(part)
        length += len(part)
    if group:
        yield group


# -- the files of a conversation -----------------------------------------------------------------------


class Files:
    """Which files were read and modified, by the calls that succeeded."""

    def __init__(self) -> None:
        self._read: set[str] = set()
        self._modified: set[str] = set()

    def remember(self, details: Any) -> None:
        """Take what an earlier compaction says."""
        if isinstance(details, Mapping):
            known = cast("Mapping[str, Any]", details)
            for field, ours in (
                ("read_files", self._read), ("readFiles", self._read),
                ("modified_files", self._modified), ("modifiedFiles", self._modified),
            ):  # fmt: skip
                ours.update(path for path in known.get(field, ()) if isinstance(path, str))

    def follow(self, messages: Iterable[Message]) -> None:
        """Take the calls of messages; those that failed touched nothing."""
        asked: dict[str, tuple[set[str], str]] = {}
        for said in messages:
            if said["role"] == "assistant":
                for part in said["content"]:
                    path = _path(part)
                    if path is not None:
                        asked[part["id"]] = (self._read if part["name"] in READS else self._modified), path
            elif said["role"] == "tool_result":
                ours, path = asked.pop(said["call_id"], (set[str](), ""))
                if path and not said["is_error"]:
                    ours.add(path)

    def details(self) -> dict[str, tuple[str, ...]]:
        """Return what the log keeps: read and not modified, and modified; sorted, empty ones left out."""
        found = {"read_files": self._read - self._modified, "modified_files": self._modified}
        return {name: tuple(sorted(paths)) for name, paths in found.items() if paths}


def _path(part: Mapping[str, Any]) -> str | None:
    if part["type"] != "tool_call" or part["name"] not in READS | WRITES:
        return None
    arguments = part["arguments"]
    path: Any = cast("Mapping[str, Any]", arguments).get("path") if isinstance(arguments, Mapping) else None
    return path if isinstance(path, str) else None
