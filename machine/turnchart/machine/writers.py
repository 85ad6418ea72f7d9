"""What people and programs may write to a session, beside the turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from turnchart.machine.entries import Frozen, freeze
from turnchart.machine.message_fields import plain
from turnchart.machine.messages import Content, CustomMessage

if TYPE_CHECKING:
    from turnchart.machine.brackets import Brackets
    from turnchart.machine.entries import Entry

Later = Callable[[Callable[[], object]], object]
"""Does an act at the end of the running step."""


class Writers:
    """The writers of a session. While a turn of an agent is open they write at the end of its step, in order.

    Attributes:
        later: Takes what is asked for in an open turn; None where no agent writes the session.
    """

    __slots__ = ()

    if TYPE_CHECKING:
        brackets: Brackets
        entries: list[Entry]
        later: Later | None
        _now: Callable[[], float]

        def append(self, type: str, data: Frozen) -> Entry:
            """Append one entry."""
            ...

    def append_custom(self, kind: str, data: Any) -> Entry | None:
        """Append an entry of a kind of one's own; the model does not see it.

        Returns:
            The entry; None where a turn is open and it will be written at the end of the step.

        Raises:
            TypeError: If the data is no JSON.
            ValueError: If it holds a number that JSON cannot hold.
        """
        return self._write("custom", Frozen(kind=plain("kind", kind), data=freeze(data)))

    def append_custom_message(self, kind: str, content: Content) -> Entry | None:
        """Append a message of a kind of one's own; ``register_message`` says what the model sees of it."""
        return self._write("custom_message", Frozen(message=CustomMessage(kind, content, time=self._now())))

    def append_label(self, seq: int, text: str | None) -> Entry | None:
        """Give an entry a name; None or blank text takes it away.

        Raises:
            IndexError: If there is no such entry.
        """
        _check_place(seq, self.entries, " to label")
        named = "" if text is None else plain("text", text).strip()
        return self._write("label", Frozen(target=seq, text=named) if named else Frozen(target=seq))

    def set_name(self, text: str) -> Entry | None:
        """Give the session a name, on one line."""
        return self._write("session_info", Frozen(name=" ".join(plain("text", text).split())))

    def navigate(self, seq: int | None) -> Entry:
        """Move to another place of the tree: the next entry follows ``seq``, or starts a new root.

        Raises:
            AppendRefused: If a turn is open.
            IndexError: If there is no such entry.
        """
        if seq is not None:
            _check_place(seq, self.entries)
        return self.append("leaf", Frozen(target=seq))

    def _write(self, type: str, data: Frozen) -> Entry | None:
        if self.later is None or not self.brackets.turn_open:
            return self.append(type, data)
        self.later(partial(self.append, type, data))
        return None


def _check_place(seq: object, entries: Sequence[object], what: str = "") -> None:
    if type(seq) is not int:
        raise TypeError(f"an entry is named by its number, not by {seq!r}")
    if not 0 <= seq < len(entries):
        raise IndexError(f"there is no entry {seq}{what}; the log has {len(entries)}")
