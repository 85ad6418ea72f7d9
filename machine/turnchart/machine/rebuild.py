"""Every model request, rebuilt from the log alone. Pure.

What a model saw is what the log derives, plus the last ``request/rewritten`` where a hook changed that. So a
log is enough to see, count, compare or send again what any model was asked.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from turnchart.machine.context import Context, SystemMessage
from turnchart.machine.entries import Entry, Frozen
from turnchart.machine.messages import Message, message

SETTLED = frozenset(("assistant/message", "assistant/attempt"))
"""The entries that end an attempt; each of them stands for one request."""


class Rebuilt(NamedTuple):
    """One request as the model saw it.

    Attributes:
        turn: The number of its turn.
        step: The number of its step.
        attempt: The number of the attempt inside the step, from 1.
        model: The id of the model.
        system: The system prompt; empty for none.
        messages: What the model read, oldest first.
        tools: Name, description and schema of each tool.
        settings: With what the adapter filled in.
        thinking: The thinking level; None for the provider's default.
    """

    turn: int
    step: int
    attempt: int
    model: str
    system: str
    messages: Sequence[Message]
    tools: tuple[Frozen, ...]
    settings: Frozen
    thinking: str | None


def rebuild(entries: Iterable[Entry]) -> Iterator[Rebuilt]:
    """Yield every request whose attempt the log has, in the order of the log.

    An attempt that a crash cut off left no entry, so its request is not known. Custom kinds of messages are
    shown as ``register_message`` says now.

    Raises:
        ValueError: If an entry replaces what is no part of the conversation. A log that a session opens has
            no such entry.
    """
    log = _Log()
    for entry in entries:
        log.follow(entry)
        if entry.type in SETTLED and entry.foreign_id is None and log.header is not None:
            yield log.request(entry, log.header)
        log.take(entry)


class _Log:
    """A log while it is read.

    Attributes:
        header: The data of the last ``request/header``.
    """

    def __init__(self) -> None:
        self.header: Mapping[str, Any] | None = None
        self._entries: list[Entry] = []
        self._view = Context()
        self._leaf: int | None = None
        self._shown: tuple[Message, ...] = ()
        self._rewritten = False

    def follow(self, entry: Entry) -> None:
        """Go to the branch that an entry continues."""
        if entry.parent == self._leaf:
            return
        path: list[Entry] = []
        at = entry.parent
        while at is not None:
            path.append(self._entries[at])
            at = self._entries[at].parent
        self._view = Context()
        for each in reversed(path):
            self._view.add(each)

    def take(self, entry: Entry) -> None:
        """Take the next entry in."""
        self._entries.append(entry)
        self._leaf = entry.seq
        self._view.add(entry)
        match entry.type:
            case "request/header":
                self.header = entry.data
            case "request/rewritten":
                more = tuple([_typed(each) for each in entry.data["messages"]])
                self._shown = (*self._shown[: entry.data["keep"]], *more)
                self._rewritten = True
            case "assistant/message" | "assistant/attempt" | "step/end":
                self._rewritten = False
            case _:
                pass

    def request(self, entry: Entry, header: Mapping[str, Any]) -> Rebuilt:
        """Return the request that an entry settles."""
        view = self._view
        return Rebuilt(
            entry.data["turn"], entry.data["step"], entry.attempt or 1, header["model"], view.prompt,
            self._shown if self._rewritten else view.llm_messages(), header["tools"], header["settings"],
            header["thinking"],
        )  # fmt: skip


def _typed(raw: Mapping[str, Any]) -> Message:
    return SystemMessage.of_fields(raw) if raw["role"] == "system" else message(raw)
