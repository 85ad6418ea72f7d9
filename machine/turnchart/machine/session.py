"""A session: one append-only log, and the folds that are kept up to date entry by entry."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from os import PathLike
from shlex import quote
from typing import Any, Literal, NamedTuple

from turnchart.machine.brackets import FOLD as BRACKETS
from turnchart.machine.brackets import RULES, Brackets
from turnchart.machine.clock import SYSTEM_CLOCK
from turnchart.machine.context import CHECKS, Context
from turnchart.machine.context import FOLD as VIEW
from turnchart.machine.entries import ENTRIES, Entry, Frozen, new_entry
from turnchart.machine.errors import (
    AppendRefused,
    SessionCorrupt,
    SessionLocked,
    SessionReadOnly,
    named_text_of,
)
from turnchart.machine.inbox import Inbox
from turnchart.machine.message_fields import plain
from turnchart.machine.projecting import Projecting
from turnchart.machine.stores import Durability, MemoryStore, Store, cure
from turnchart.machine.tree import Tree, check_place
from turnchart.machine.writers import Writer, Writers

_log = logging.getLogger("turnchart.session")

_UNKNOWN = "this type of entry is unknown"
_MALFORMED = (KeyError, TypeError, ValueError, AttributeError, IndexError)
"""What a fold raises when an entry lacks a field, or a field is of another type."""

Validator = Callable[[Entry], str | None]
"""Is asked before an append: returns why the entry must not be, or None; raising refuses it too."""
Watcher = Callable[[Entry], object]
"""Hears every entry after it was stored. What it raises is logged; it must not append to this session."""


class Session(Tree, Projecting, Writers):
    """The only source of truth of one conversation.

    Attributes:
        entries: The log, oldest first; ``entries[i].seq == i``.
        leaf: The seq that the next entry follows; None before the first.
        view: What the model sees of the branch that ends at the leaf.
        inbox: What waits, folded from the whole log.
        brackets: Turn and step numbers and what is open, folded from the whole log.
        origin: How this object came to be: new, resumed or forked.
        barriers: An agent waits for ``flush`` before it acts on what it wrote; the store asks for it.
    """

    __slots__ = (
        "_attached", "_busy", "_now", "_refused", "_validators", "_watchers", "after_append", "barriers",
        "brackets", "entries", "inbox", "leaf", "origin", "store", "view", "writer",
    )  # fmt: skip

    def __init__(self, store: Store | None = None, *, now: Callable[[], float] = SYSTEM_CLOCK.now) -> None:
        self.store = MemoryStore() if store is None else store
        self.barriers = self.store.durability == "fsync"
        self.entries: list[Entry] = []
        self.leaf: int | None = None
        self.view = Context()
        self.inbox = Inbox()
        self.brackets = Brackets()
        self._validators: tuple[Validator, ...] = ()
        self._watchers: tuple[Watcher, ...] = ()
        self._attached = False
        self._busy = False
        self._refused: Exception | None = None
        self._now = now
        self.writer = None
        self.projection = None
        self.after_append: Callable[[], object] | None = None
        """Called when an append and its watchers are over, so it may append again; one agent's."""
        with _no_collecting():
            for entry in self.store.load():
                self._replay(entry)
        self.origin: Literal["new", "resumed", "forked"] = "resumed" if self.entries else "new"

    @property
    def id(self) -> str:
        """The id of the session in its store."""
        return self.store.id

    @property
    def read_only(self) -> bool:
        """A store refused an append; nothing more is written."""
        return self._refused is not None

    # -- opening -------------------------------------------------------------------------------

    @classmethod
    def memory(cls, id: str | None = None) -> Session:
        """Return a session that lives as long as this object."""
        return cls(MemoryStore(id))

    @classmethod
    def jsonl(cls, path: str | PathLike[str], *, durability: Durability = "flush") -> Session:
        """Open the session of one JSON-lines file, or create it; see ``Durability``.

        Raises:
            SessionCorrupt: If the file is no log of ours.
        """
        from turnchart.machine.jsonl import JsonlStore

        return cls(JsonlStore(path, durability=durability))

    @classmethod
    def sqlite(
        cls, path: str | PathLike[str], id: str | None = None, *, durability: Durability = "flush"
    ) -> Session:
        """Open a session of a SQLite file, or create it.

        Args:
            path: The file; it may hold many sessions.
            id: Which one. None: the only session of the file, or a new one in an empty file.
            durability: See ``Durability``.

        Raises:
            SessionError: If the file has several sessions and ``id`` is None; the message lists them.
            SessionCorrupt: If the file is no store of ours.
        """
        from turnchart.machine.sqlite import SqliteStore

        return cls(SqliteStore(path, id, durability=durability))

    @classmethod
    def postgres(cls, dsn: str, id: str) -> Session:
        """Open a session of a Postgres database, or create it (``pip install 'turnchart[durable]'``).

        Args:
            dsn: The address of the database, as in ``postgres://user:password@host/name``.
            id: Which session.

        Raises:
            SessionError: If psycopg is not installed, or the database cannot be reached.
            SessionCorrupt: If its tables were damaged.
        """
        from turnchart.machine.postgres import PostgresStore

        return cls(PostgresStore(dsn, id))

    # -- writing -------------------------------------------------------------------------------

    def append(
        self,
        type: str,
        data: Frozen,
        *,
        replaces: tuple[int, int] | None = None,
        sources: tuple[int, ...] | None = None,
        attempt: int | None = None,
        ignorable: bool = False,
        time: float | None = None,
    ) -> Entry:
        """Append one entry: ask the validators, store it, fold it, tell the watchers.

        Raises:
            AppendRefused: If a validator or a rule of the log refuses; nothing has changed.
            SessionLocked: If nobody attached the session and somebody else writes it; nothing has changed.
            SessionReadOnly: If the store refuses now, or refused before.
            RuntimeError: If a watcher or a validator appends while it is told of an append.
        """
        if self._refused is not None:
            raise SessionReadOnly(
                f"session {self.id} is read-only since its store failed ({self._refused}); reopen it"
            )
        if self._busy:
            raise RuntimeError("a watcher or validator must not append to the session that it watches")
        kind = _KINDS.get(type, _FOREIGN)
        entry = new_entry(
            (len(self.entries), self.leaf, type, self._now() if time is None else time, data, replaces,
             sources, attempt, ignorable, None)
        )  # fmt: skip
        refusal = self._refusal(entry, kind)
        if refusal is not None:
            raise AppendRefused(type, refusal)
        if self._validators:
            self._validate(entry)
        if self.store.__class__ is not MemoryStore:
            self._store(entry)
        self._fold(entry, kind)
        if self._watchers:
            self._tell(entry)
        if self.after_append is not None:
            self.after_append()
        return entry

    def _refusal(self, entry: Entry, kind: _Kind) -> str | None:
        """Return why an entry must not follow on this log, or None: what is stored can be loaded again."""
        if kind is _FOREIGN:
            return None if entry.ignorable else f"{_UNKNOWN}; use `custom` for what is your own"
        try:
            if kind.rule is not None and (entry.replaces is None or entry.type != "tool/result"):
                refusal = kind.rule(self.brackets, entry.data)
                if refusal is not None:
                    return refusal
            if kind.check is not None:
                kind.check(self.view, entry)
            if kind.own_check is not None:
                kind.own_check(self, entry)
        except _MALFORMED as error:
            return _said(error)
        return None

    def _validate(self, entry: Entry) -> None:
        self._busy = True
        try:
            for validator in self._validators:
                try:
                    reason = validator(entry)
                except Exception as error:  # any failure of a validator refuses
                    raise AppendRefused(entry.type, named_text_of(error)) from error
                if reason is not None:
                    raise AppendRefused(entry.type, reason)
        finally:
            self._busy = False

    def _store(self, entry: Entry) -> None:
        try:
            self.store.append(entry)
        except SessionLocked:
            raise
        except Exception as error:
            why = _unwritable(entry)
            if why is not None:
                raise AppendRefused(entry.type, why) from error
            self._refused = error
            raise SessionReadOnly(f"session {self.id} could not be written: {error}") from error

    def _fold(self, entry: Entry, kind: _Kind) -> None:
        self.entries.append(entry)
        self.leaf = entry.seq
        if kind.brackets is not None:
            kind.brackets(self.brackets, entry.data, entry.seq)
        if kind.view is not None:
            kind.view(self.view, entry)
        if kind.own is not None:
            kind.own(self, entry.data)

    def _spliced(self, data: Mapping[str, Any]) -> None:
        self.inbox.apply(data)

    def _admitted(self, data: Mapping[str, Any]) -> None:
        self.inbox.admitted(data["message"].get("id", ""))

    def _settled(self, _data: Mapping[str, Any]) -> None:
        self.inbox.give_up()

    def _moved(self, data: Mapping[str, Any]) -> None:
        self.leaf = _target(data, len(self.entries) - 1)
        self._rebuild()

    def _replay(self, entry: Entry) -> None:
        """Take an entry of the store into the folds.

        Raises:
            SessionCorrupt: If it cannot follow on the entries before it.
        """
        refusal = None
        if entry.seq != len(self.entries):
            refusal = f"it stands where entry {len(self.entries)} belongs"
        elif entry.parent != self.leaf:
            refusal = f"it follows {entry.parent}, not {self.leaf}"
        elif entry.type not in ENTRIES and not entry.ignorable:
            refusal = f"{_UNKNOWN}; a newer Turnchart may know it"
        try:
            if refusal is None and entry.foreign_id is None:
                refusal = self.brackets.refusal(entry.type, entry.data, entry.replaces)
            if refusal is None:
                kind = _KINDS.get(entry.type, _FOREIGN)
                if kind.own_check is not None:
                    kind.own_check(self, entry)
                self._fold(entry, kind)
        except _MALFORMED as error:
            refusal = _said(error)
        if refusal is not None:
            said = f"session {self.id} ({self.store.where}): entry {entry.seq} `{entry.type}`: {refusal}"
            path = getattr(self.store, "path", None)
            if path is not None and (entry.type in ENTRIES or entry.ignorable):
                said = f"{said}. {cure(f'{quote(self.id)} --store {quote(str(path))}')}"
            raise SessionCorrupt(said)

    def _tell(self, entry: Entry) -> None:
        self._busy = True
        try:
            for watcher in self._watchers:
                try:
                    watcher(entry)
                except Exception:  # noqa: BLE001  # a watcher may raise what it likes
                    _log.exception("a watcher of session %s failed on entry %d", self.id, entry.seq)
        finally:
            self._busy = False

    def _rebuild(self) -> None:
        before, self.view = self.view, Context()
        for entry in self.path():
            self.view.add(entry)
        self.view.header, self.view.generation = before.header, before.generation + 1

    # -- watching ------------------------------------------------------------------------------

    def validate(self, fn: Validator) -> Callable[[], None]:
        """Ask ``fn`` before each append; return a function that stops that."""
        self._validators = (*self._validators, fn)

        def stop() -> None:
            self._validators = tuple(each for each in self._validators if each is not fn)

        return stop

    def watch(self, fn: Watcher) -> Callable[[], None]:
        """Tell ``fn`` of each entry after it was stored; return a function that stops that."""
        self._watchers = (*self._watchers, fn)

        def stop() -> None:
            self._watchers = tuple(each for each in self._watchers if each is not fn)

        return stop

    # -- the store ------------------------------------------------------------------------------

    def attach(self, now: Callable[[], float] | None = None, writer: Writer | None = None) -> None:
        """Become the writer of this session until ``close``: take the lock, and ``recover``.

        Args:
            now: Where the times of entries come from, from now on.
            writer: The agent; it does what is asked for in an open turn at the end of the step.

        Raises:
            SessionLocked: If somebody else writes it: another process, another object, or another agent.
        """
        if self._attached:
            raise SessionLocked(
                f"session {self.id} is being written by another agent of this process; leave that one first"
            )
        self.store.lock()
        self._attached = True
        self.writer = writer
        if now is not None:
            self._now = now
        try:
            self.recover()
        except BaseException:
            self.close()
            raise

    def recover(self) -> None:
        """Close what a crash left open and put back what it left unread; not while a turn runs.

        Raises:
            AppendRefused: If a validator refuses; what was appended is right, and a later call goes on.
            SessionReadOnly: If the store refuses.
        """
        closers = tuple(self.brackets.closers(self.entries))
        if not closers:
            return
        time = self.entries[-1].time
        # The claimed batch first: were this cut off too, the end of the turn would make it unknown.
        for data in self.inbox.put_back(self.inbox.claimed):
            self.append("agent/inbox/spliced", data, time=time)
        for type, data, more in closers:
            self.append(type, data, **more)

    async def flush(self) -> None:
        """Wait until everything appended so far is as safe as the store makes it.

        Raises:
            SessionReadOnly: If the medium fails; what was appended may not be safe.
        """
        try:
            await self.store.flush()
        except OSError as error:
            self._refused = error
            raise SessionReadOnly(f"session {self.id} could not be written: {error}") from error

    def close(self) -> None:
        """Give the session back; a second call does nothing."""
        self._attached = False
        self.writer = None
        self.store.close()

    def copy(self, entries: Iterable[Entry], *, stored: bool = False) -> None:
        """Append entries of another session as they are; only for a session without entries.

        Those that are ``stored`` already are only taken into the folds.

        Raises:
            SessionCorrupt: If they do not follow on each other; the store holds those before.
            SessionReadOnly: If the store refuses.
        """
        for entry in entries:
            self._replay(entry)
            if not stored:
                self._store(entry)


def _check_said(session: Session, entry: Entry) -> None:
    id = entry.data["message"].get("id")
    if id in session.inbox.said and entry.replaces is None and entry.foreign_id is None:
        raise ValueError(f"the message {id!r} is in the conversation already")


def _check_label(entry: Entry) -> None:
    check_place(entry.data["target"], range(entry.seq), " to label")
    plain("its text", entry.data.get("text") or "")


_CHECKS: Mapping[str, Callable[[Session, Entry], object]] = {
    "user/message": _check_said,
    "agent/inbox/spliced": lambda session, entry: session.inbox.check(entry.data),
    "leaf": lambda _session, entry: _target(entry.data, entry.seq),
    "label": lambda _session, entry: _check_label(entry),
}
_FOLD: Mapping[str, Callable[[Session, Mapping[str, Any]], None]] = {
    "agent/inbox/spliced": Session._spliced,  # pyright: ignore[reportPrivateUsage]  # the session's own table
    "user/message": Session._admitted,  # pyright: ignore[reportPrivateUsage]  # as above
    "assistant/message": Session._settled,  # pyright: ignore[reportPrivateUsage]  # as above
    "assistant/attempt": Session._settled,  # pyright: ignore[reportPrivateUsage]  # as above
    "turn/end": Session._settled,  # pyright: ignore[reportPrivateUsage]  # as above
    "leaf": Session._moved,  # pyright: ignore[reportPrivateUsage]  # as above
}


class _Kind(NamedTuple):
    """What one type of entry is asked, and which folds take it in; all in one place for a quick append."""

    rule: Callable[[Brackets, Mapping[str, Any]], str | None] | None = None
    check: Callable[[Context, Entry], object] | None = None
    own_check: Callable[[Session, Entry], object] | None = None
    brackets: Callable[[Brackets, Mapping[str, Any], int], None] | None = None
    view: Callable[[Context, Entry], object] | None = None
    own: Callable[[Session, Mapping[str, Any]], None] | None = None


_FOREIGN = _Kind()
_KINDS: Mapping[str, _Kind] = {
    type: _Kind(
        RULES.get(type),
        CHECKS.get(type),
        _CHECKS.get(type),
        BRACKETS.get(type),
        VIEW.get(type),
        _FOLD.get(type),
    )
    for type in ENTRIES
}


def _unwritable(entry: Entry) -> str | None:
    """Return why no store could hold an entry; None where it is the store that failed."""
    if not isinstance(entry.data, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  # foreign
        return f"its data is a {type(entry.data).__name__}, not an object"
    try:
        entry.line()
    except (TypeError, ValueError, RecursionError) as error:
        return f"it is no JSON: {error}"
    return None


def _target(data: Mapping[str, Any], seq: int) -> int | None:
    """Return where a ``leaf`` entry with this seq moves to."""
    target = data["target"]
    if target is not None and type(target) is not int:
        raise TypeError(f"it moves to {target!r}, which is no number of an entry")
    if target is not None and not 0 <= target < seq:
        raise ValueError(f"there is no entry {target} before it")
    found: int | None = target
    return found


def _said(error: Exception) -> str:
    return f"it lacks {error}" if isinstance(error, KeyError) else str(error)


@contextmanager
def _no_collecting() -> Generator[None]:
    """Keep the collector from looking again and again at a log that only grows while it is loaded."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def info(session: Session) -> Mapping[str, Any]:
    """Return the merged ``session_info`` entries of a session."""
    merged: dict[str, Any] = {}
    for entry in session.entries:
        if entry.type == "session_info":
            merged |= entry.data
    return merged
