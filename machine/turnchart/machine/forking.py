"""Copying a session into a new one: all of it, or up to a place."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

from turnchart.machine.entries import Frozen
from turnchart.machine.errors import AppendRefused, SessionError
from turnchart.machine.stores import MemoryStore, Store
from turnchart.machine.tree import check_place, labels, settled

if TYPE_CHECKING:
    from collections.abc import Callable

    from turnchart.machine.session import Session

Position = Literal["at", "before"]
"""Whether a fork takes an entry along, or goes back to before it."""


def fork(
    session: Session, at: int | None, position: Position, into: Session, now: Callable[[], float]
) -> Session:
    """Fill an empty session with what another one has, see ``Session.fork``.

    Args:
        session: The one that is copied.
        at: The entry that the fork goes on from; None copies all.
        position: Whether it takes that entry along.
        into: The empty one.
        now: Where the times of the entries come from that only the fork has.
    """
    from turnchart.machine.session import Session

    if session.brackets.turn_open:
        raise AppendRefused("leaf", f"turn {session.brackets.turn} is open; fork the session when it is over")
    if position not in ("at", "before"):
        raise ValueError(f"position is {position!r}; it must be `at` or `before`")
    if into.entries:
        raise SessionError(f"session {into.id} has entries already; a fork needs an empty one")
    copied, leaf = _copied(session, at, position)
    create = getattr(into.store, "create", None)
    made = into if create is None else Session(MemoryStore(into.id), now=now)
    try:
        made.copy(session.entries[:copied])
        made.recover()  # a place inside a turn cuts that turn off
        _forget_inbox(made)
        made.append("session_info", _info(session, at, leaf))
        now_named, named = labels(session.entries), labels(made.entries)
        for target in {**named, **now_named}:
            text = now_named.get(target)
            if target < copied and named.get(target) != text:
                made.append("label", Frozen(target=target, text=text) if text else Frozen(target=target))
        made.append("leaf", Frozen(target=leaf))
        if create is not None:  # all of it or nothing: half a fork would have an inbox that is not its own
            create(made.entries)
            into.copy(made.entries, stored=True)
    finally:
        into.close()
    into.origin = "forked"
    return into


def beside(store: Store, now: Callable[[], float]) -> Session:
    """Return a new, empty session in the same kind of store.

    Args:
        store: That of the session that is forked.
        now: Where the times of its entries come from.

    Raises:
        SessionError: If the store is of a kind that this program does not know.
    """
    from turnchart.machine.jsonl import JsonlStore
    from turnchart.machine.session import Session
    from turnchart.machine.sqlite import SqliteStore

    match store:
        case MemoryStore():
            return Session(MemoryStore(), now=now)
        case JsonlStore(path=path, durability=durability):
            names = (path.with_name(f"{path.stem}-fork{n}{path.suffix}") for n in count(1))
            free = next(name for name in names if not name.exists())
            return Session(JsonlStore(free, durability=durability), now=now)
        case SqliteStore(path=path, durability=durability):
            return Session(SqliteStore(path, uuid4().hex[:12], durability=durability), now=now)
        case _:
            raise SessionError(f"a {type(store).__name__} cannot make another: give fork(into=)")


def _copied(session: Session, at: int | None, position: Position) -> tuple[int, int | None]:
    """Return how many entries are copied, and where the fork goes on."""
    entries = session.entries
    if at is None:
        if position == "before":
            raise ValueError("a fork before an entry needs that entry: give at=")
        return len(entries), session.leaf
    check_place(at, entries, " to fork from")
    if position == "at":
        leaf = settled(entries, at)
        return leaf + 1, leaf
    if entries[at].type != "user/message":
        raise ValueError(
            f"entry {at} is a `{entries[at].type}`; a fork goes back to before a `user/message` only."
            " Fork at the entry itself instead"
        )
    return at, entries[at].parent


def _forget_inbox(into: Session) -> None:
    """Let a fork begin with an empty inbox: what waits is the business of the session that it comes from."""
    inbox = into.inbox
    for target, items in (
        ("next-step", inbox.next_step), ("next-turn", inbox.next_turn), ("rider", inbox.riders),
    ):  # fmt: skip
        if items:
            data = Frozen(target=target, start=0, removed_count=len(items), outcome="discarded")
            into.append("agent/inbox/spliced", data)


def _info(session: Session, at: int | None, leaf: int | None) -> Frozen:
    """Return what a fork knows of itself: what its origin said of itself, and where it comes from."""
    known: dict[str, Any] = {}
    for entry in session.entries:
        if entry.type == "session_info":
            known |= entry.data
    store = session.store
    origin = Frozen(session=session.id, where=store.where, at=at, leaf=leaf)
    return Frozen({**known, "forked": origin})
