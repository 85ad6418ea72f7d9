"""An agent that works for another one: where its log goes, what it may not do, and whom it asks."""

from typing import TYPE_CHECKING

import anyio

from turnchart.machine.approvals import Answer, Question, Refuse
from turnchart.machine.entries import Frozen
from turnchart.machine.jsonl import JsonlStore
from turnchart.machine.permissions import Permissions
from turnchart.machine.session import Session
from turnchart.machine.sqlite import SqliteStore
from turnchart.machine.stores import MemoryStore, Store

if TYPE_CHECKING:
    from turnchart.machine.outfit import Outfit


def child_session(parent: Session, call_id: str) -> Session:
    """Return a new session beside another one, for what a tool call of it does.

    It is kept where the parent is, as ``PARENT.SEQ`` with the seq of the call; in memory where the store of
    the parent is of a kind of your own.
    """
    seq = next(
        (
            entry.seq
            for entry in reversed(parent.entries)
            if entry.type == "tool/call" and entry.data["call_id"] == call_id
        ),
        len(parent.entries),
    )
    return Session(_store_beside(parent.store, f"{parent.id}.{seq}"))


def _store_beside(store: Store, id: str) -> Store:
    if isinstance(store, SqliteStore):
        return SqliteStore(store.path, id, durability=store.durability)
    if isinstance(store, JsonlStore):
        path = store.path.with_name(f"{id}{store.path.suffix}")
        return JsonlStore(path, id=id, durability=store.durability)
    return MemoryStore(id)


def link(child: Session, parent: Session, call_id: str) -> None:
    """Write into a child for which call of which session it works."""
    child.append("session_info", Frozen(parent=Frozen(session=parent.id, call_id=call_id)))


def restrictions(permissions: Permissions) -> Permissions:
    """Return the deny and ask rules alone: what an agent hands on to those that work for it."""
    also = tuple(restrictions(each) for each in permissions.also)
    return Permissions("allow", permissions.deny, permissions.ask, also=also)


async def ask_through(caller: "Outfit", question: Question) -> Answer:
    """Ask whoever answers for a calling agent, one question at a time.

    The wait counts towards no limit of the caller's turn.
    """
    now = caller.turning
    while now.asking is not None:
        await now.asking.wait()
    asked, now.asking = caller.clock.now(), anyio.Event()
    try:
        return await caller.approver(question) if caller.approver is not None else Refuse("no approver")
    finally:
        now.waited += caller.clock.now() - asked
        now.asking.set()
        now.asking = None
