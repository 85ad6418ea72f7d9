"""Where a log is kept: the protocol of a store, and the one in memory."""

from collections.abc import Iterable
from itertools import count
from json import JSONDecodeError
from typing import Final, Literal, Protocol

from turnchart.machine.entries import Entry
from turnchart.machine.errors import SessionError

Durability = Literal["flush", "fsync"]
"""``flush``: a killed process loses nothing appended. ``fsync``: a power cut loses nothing flushed, and an
agent flushes after each settlement, before each tool body and at the end of the turn."""

BUILTIN_STORES: Final = ("memory", "jsonl", "sqlite")
"""The kinds of stores that come along, by the names that flows give them."""

_ids = count(1)


DAMAGED = (ValueError, RecursionError, KeyError, TypeError, OverflowError)
"""What reading a line raises that is no entry."""


def why(error: Exception) -> str:
    """Say in words why a line is no entry."""
    if isinstance(error, JSONDecodeError):
        return f"no valid JSON: {error.msg} at character {error.pos + 1}"
    if isinstance(error, KeyError):
        return f"no entry: it lacks {error}"
    if isinstance(error, RecursionError):
        return "no valid JSON: it is nested too deeply"
    return f"no {'entry' if isinstance(error, TypeError | OverflowError) else 'valid JSON'}: {error}"


def cure(which: str) -> str:
    """Say what to do about a damaged file; ``which`` names its session on the command line."""
    return (
        "The file was damaged or changed by hand: restore a copy, or run"
        f" `turnchart sessions repair {which}`, which writes one of what can be saved"
    )


def strangers_touch(path: object) -> str:
    """Say that a file is no longer the one that is written."""
    return (
        f"{path} was deleted, replaced or changed by somebody else while it was written here;"
        " what it lacks is still in this session object"
    )


def usable_id(id: str) -> str:
    """Return the id of a session.

    Raises:
        SessionError: If it is no text that UTF-8 can hold, as a file name of other bytes is none.
    """
    try:
        id.encode()
    except UnicodeEncodeError:
        raise SessionError(f"the session id {id!r} is no text that UTF-8 can hold; choose another") from None
    return id


class Store(Protocol):
    """Keeps the entries of one session, in order.

    Appends are synchronous: when ``append`` returns, a killed process can no longer lose the entry.
    """

    @property
    def id(self) -> str:
        """The id of the session."""
        ...

    @property
    def where(self) -> str:
        """Where the log is kept, for people: a path, or ``memory``."""
        ...

    @property
    def durability(self) -> Durability:
        """``fsync``: an agent waits for ``flush`` at its barriers, before it acts on what it wrote."""
        ...

    @property
    def dropped(self) -> str:
        """What loading left out (a torn last line), in words; empty where nothing."""
        ...

    def load(self) -> Iterable[Entry]:
        """Yield the entries, oldest first. Writes nothing and takes no lock.

        Raises:
            SessionCorrupt: If the stored log is not what this program writes.
        """
        ...

    def lock(self) -> None:
        """Become the one writer of this session; a second call by the writer does nothing.

        Raises:
            SessionLocked: If another process or object is the writer, or was so since the log was loaded.
        """
        ...

    def append(self, entry: Entry) -> None:
        """Store the next entry; takes the lock first if nobody did.

        Raises:
            SessionLocked: If the lock cannot be had.
            ValueError: If the entry is not the next one of the log.
            Exception: Whatever the medium raises. The entry is then not stored, not even in part.
        """
        ...

    async def flush(self) -> None:
        """Wait until what was appended is as safe as this store can make it."""
        ...

    def close(self) -> None:
        """Give up the lock and the medium; a second call does nothing, and a later append locks again."""
        ...


class MemoryStore:
    """Keeps nothing beyond the session object itself."""

    __slots__ = ("id",)
    where = "memory"
    durability: Durability = "flush"
    dropped = ""

    def __init__(self, id: str | None = None) -> None:
        self.id = id or f"memory-{next(_ids)}"

    def load(self) -> Iterable[Entry]:
        """Yield nothing: what was in memory is gone."""
        return ()

    def lock(self) -> None:
        """Do nothing: nobody else can reach this memory."""

    def append(self, entry: Entry) -> None:
        """Do nothing: the session object keeps the entries."""

    async def flush(self) -> None:
        """Do nothing: there is nothing safer than memory here."""

    def close(self) -> None:
        """Do nothing."""
