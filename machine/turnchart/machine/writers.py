"""What people and programs may write to a session, beside the turn."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, overload

from turnchart.machine.entries import Entry, Frozen, freeze
from turnchart.machine.errors import AppendRefused, SessionError
from turnchart.machine.message_fields import plain
from turnchart.machine.messages import Content, CustomMessage
from turnchart.machine.tree import check_place, settled

if TYPE_CHECKING:
    from turnchart.machine.brackets import Brackets
    from turnchart.machine.context import Context

_MALFORMED = (KeyError, TypeError, ValueError, AttributeError)


class Write(NamedTuple):
    """Something that was asked for while a step ran.

    Attributes:
        type: The type of the entry.
        data: Its data.
        fresh: Its message gets its id when it is written.
    """

    type: str
    data: Frozen
    fresh: bool = False


class Writer(Protocol):
    """The agent that writes a session."""

    def write(self, type: str, data: Frozen, *, fresh: bool = False) -> Entry | None:
        """Write an entry: at once between turns, else at the end of the running step."""
        ...

    async def summarize(self, seq: int | None) -> Entry:
        """Move to another place, with a summary of what is left that the model writes."""
        ...


class Writers:
    """The writers of a session. While a turn of an agent is open they write at the end of its step, in order.

    Attributes:
        writer: The agent that writes the session; None where there is none.
    """

    __slots__ = ()

    if TYPE_CHECKING:
        brackets: Brackets
        entries: list[Entry]
        leaf: int | None
        view: Context
        writer: Writer | None
        _now: Any

        def append(self, type: str, data: Frozen) -> Entry:
            """Append one entry."""
            ...

    def append_custom(self, kind: str, data: Any) -> Entry | None:
        """Append an entry of a kind of one's own; the model sees it only where a projector says what.

        Returns:
            The entry; None where a turn is open and it will be written at the end of the step.

        Raises:
            TypeError: If the data is no JSON.
            ValueError: If it holds a number that JSON cannot hold.
        """
        return self._write("custom", Frozen(kind=plain("kind", kind), data=freeze(data)))

    def append_custom_message(
        self, kind: str, content: Content, *, display: bool = True, details: Any = None
    ) -> Entry | None:
        """Append a message of a kind of one's own; ``register_message`` says what the model sees of it.

        Args:
            kind: The kind.
            content: What it says.
            display: User interfaces show it.
            details: What programs read of it.
        """
        said = CustomMessage(kind, content, display=display, details=details, time=self._now())
        return self._write("custom_message", Frozen(message=said))

    def append_label(self, seq: int, text: str | None) -> Entry | None:
        """Give an entry a name; None or blank text takes it away.

        Raises:
            IndexError: If there is no such entry.
        """
        check_place(seq, self.entries, " to label")
        named = "" if text is None else plain("text", text).strip()
        return self._write("label", Frozen(target=seq, text=named) if named else Frozen(target=seq))

    def set_name(self, text: str | None) -> Entry | None:
        """Give the session a name, on one line; None or blank text takes it away."""
        named = "" if text is None else plain("text", text)
        return self._write("session_info", Frozen(name=" ".join(named.split())))

    @overload
    def navigate(self, seq: int | None, *, summary: str = "") -> Entry: ...
    @overload
    def navigate(self, seq: int | None, summarize: Literal[False], *, summary: str = "") -> Entry: ...
    @overload
    def navigate(self, seq: int | None, summarize: Literal[True]) -> Awaitable[Entry]: ...
    def navigate(
        self, seq: int | None, summarize: bool = False, *, summary: str = ""
    ) -> Entry | Awaitable[Entry]:
        """Move to another place of the tree: the next entry follows ``seq``, or starts a new root.

        No call is parted from its result: from an answer that calls tools, and from what stands between it
        and its results, the move goes on to the last of them. What waits in the inbox stays.

        Args:
            seq: The place; None for before the first entry.
            summarize: Let the model of the agent that writes the session sum up what is left: await it then.
            summary: A summary of what is left, written by somebody else.

        Returns:
            The ``leaf`` entry, or the ``branch_summary`` entry where there is one.

        Raises:
            AppendRefused: If a turn is open, or a validator refuses; nothing has moved.
            IndexError: If there is no such entry.
            SessionError: If ``summarize`` is asked for where no agent writes the session.
            AgentBusy: If ``summarize`` is asked for while the agent works.
        """
        if seq is not None:
            check_place(seq, self.entries)
        if not summarize:
            told = Frozen(summary=plain("summary", summary)) if summary else None
            return self.move(seq, told)
        if self.writer is None:
            raise SessionError("no agent writes this session, so no model can sum up what is left here")
        return self.writer.summarize(seq)

    def move(self, seq: int | None, summary: Frozen | None = None, left: int | None = None) -> Entry:
        """Do what ``navigate`` says, with the data of a summary.

        Args:
            seq: The place, which exists.
            summary: What the ``branch_summary`` entry says beside where it comes from; None for no entry.
            left: The leaf that it sums up; None for the current one.
        """
        before = self.leaf
        moved = self.append("leaf", Frozen(target=None if seq is None else settled(self.entries, seq)))
        if summary is None:
            return moved
        try:
            return self.append(
                "branch_summary", Frozen({"from": before if left is None else left, **summary})
            )
        except AppendRefused:
            self.append("leaf", Frozen(target=before))
            raise

    def _write(self, type: str, data: Frozen) -> Entry | None:
        if self.writer is None or not self.brackets.turn_open:
            return self.append(type, data)
        check_write(self, type, data)
        return self.writer.write(type, data)


def check_write(session: Writers, type: str, data: Frozen) -> None:
    """Do nothing where the log could take an entry: who asks for it hears now what is wrong with it.

    Raises:
        AppendRefused: If it could not.
    """
    try:
        session.view.check(Entry(len(session.entries), session.leaf, type, 0.0, data))
    except _MALFORMED as error:
        raise AppendRefused(type, str(error)) from error
