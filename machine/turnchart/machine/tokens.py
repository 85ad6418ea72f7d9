"""How many tokens a conversation takes: what the provider counted first, then characters. Pure.

An estimate is what the last answer reported (all that it read, and itself), plus a quarter of the characters
of everything behind it. Before the first report, and where what was reported is no longer shown, it is
characters alone.
"""

from collections.abc import Mapping, Sequence
from math import ceil
from typing import TYPE_CHECKING, Any, Protocol

from turnchart.machine.entries import Frozen, encode
from turnchart.machine.messages import Message

if TYPE_CHECKING:
    from turnchart.machine.context import Context
    from turnchart.machine.entries import Entry

CHARS_PER_TOKEN = 4
IMAGE_CHARS = 4800
"""An image counts as much as so many characters."""


class Log(Protocol):
    """What an estimate needs of a session."""

    @property
    def view(self) -> "Context":
        """The conversation."""
        ...

    @property
    def entries(self) -> "Sequence[Entry]":
        """The log."""
        ...


def text_tokens(text: str) -> int:
    """Return the estimate of a text."""
    return ceil(len(text) / CHARS_PER_TOKEN)


def message_tokens(said: Message) -> int:
    """Return the estimate of one message: its texts, thoughts, calls and images."""
    chars = 0
    for part in said["content"]:
        match part["type"]:
            case "text":
                chars += len(part["text"])
            case "thinking":
                chars += len(part["thinking"])
            case "image":
                chars += IMAGE_CHARS
            case "tool_call":
                arguments = part["arguments"]
                written = arguments if isinstance(arguments, str) else encode(arguments)
                chars += len(part["name"]) + len(written)
            case _:
                pass
    return ceil(chars / CHARS_PER_TOKEN)


def usage_tokens(usage: Mapping[str, int]) -> int:
    """Return how much context an answer came to: all that it read, and itself."""
    total = usage.get("total", 0)
    return total or sum(usage.get(kind, 0) for kind in ("input", "output", "cache_read", "cache_write"))


def reported(said: Message) -> int:
    """Return what an answer reported; 0 where it was cut off, failed, or reported nothing."""
    if said["role"] != "assistant" or said.get("stop_reason") in ("error", "aborted"):
        return 0
    return usage_tokens(said.get("usage", {}))


class Gauge:
    """Measures one conversation again and again; each time it looks only at what is new.

    It starts anew where something was replaced, or another branch is followed.
    """

    __slots__ = ("_base", "_count", "_generation", "_header", "_reported", "_since", "_tokens", "_view")

    def __init__(self) -> None:
        self._view: Context | None = None
        self._generation = self._count = self._tokens = self._base = 0
        self._since = -1
        self._reported = False
        self._header: Frozen | None = None

    def measure(self, log: Log) -> int:
        """Return the estimate of the whole conversation, with prompt and tools."""
        view = log.view
        if view is not self._view or view.generation != self._generation:
            self._begin(view, log.entries)
        nodes = view.nodes
        for index in range(self._count, len(nodes)):
            seq, said = nodes[index]
            counted = reported(said) if seq > self._since else 0
            if counted:
                self._tokens, self._reported = counted, True
            else:
                self._tokens += message_tokens(said)
        self._count = len(nodes)
        return self._tokens if self._reported else self._tokens + self._around(view)

    def _begin(self, view: "Context", entries: "Sequence[Entry]") -> None:
        self._view, self._generation = view, view.generation
        self._count = self._tokens = 0
        self._reported, self._header = False, None
        self._since = max(
            (
                node.seq
                for node in view.nodes
                if _replaces(entries[node.seq]) and node.message["role"] != "system"
            ),
            default=-1,
        )

    def _around(self, view: "Context") -> int:
        """Return the estimate of prompt and tools, which a report would count too."""
        if view.header is not self._header or view.header is None:
            self._header = view.header
            tools: Any = view.header["tools"] if view.header is not None else ()
            self._base = text_tokens(view.prompt) + (text_tokens(encode(tools)) if tools else 0)
        return self._base


def _replaces(entry: "Entry") -> bool:
    return entry.replaces is not None or entry.type == "compaction"
