"""Sessions in a store that a plug-in registers: a place like the others, as far as the store goes along."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

from turnchart.flows.cli.places import Broken, Shelf, named_after
from turnchart.machine.errors import SessionError
from turnchart.machine.records import record

if TYPE_CHECKING:
    from turnchart.flows.session_checks import StoreUse
    from turnchart.hooks.stores import Sessions
    from turnchart.machine.session import Session
    from turnchart.machine.stores import Store


@record
class Registered(Shelf):
    """Where sessions are kept: a store of a plug-in.

    Attributes:
        sessions: What the store is.
        plugins: What a person named for it.
    """

    sessions: "Sessions | None" = None
    plugins: tuple[str, ...] = ()

    @classmethod
    def of(cls, use: "StoreUse", flow: str, plugins: Sequence[str] = ()) -> Self:
        """Return the place that a flow names; nothing is opened yet.

        Raises:
            ParamError: If the parameters do not fit.
        """
        return cls("registered", Path(use.spec.name), flow, sessions=use.sessions(), plugins=tuple(plugins))

    @property
    def _sessions(self) -> "Sessions":
        assert self.sessions is not None, "a registered store is made with what it is"
        return self.sessions

    def options(self) -> str:
        """Return what has to be added to a command so that it finds the same place."""
        import shlex

        brought = "".join(f" --plugin {shlex.quote(name)}" for name in self.plugins)
        return f" --flow {shlex.quote(self.given)}{brought}"

    def open(self, id: str | None, flow: str) -> "Session":
        """Open a session to go on with it: the one with this id, which may be new, or else a new one.

        Raises:
            SessionError: If the store fails.
        """
        from turnchart.machine.session import Session

        return Session(self._sessions.open(id or self.new_id(flow)))

    def new(self, id: str) -> "Store":
        """Return the store of a session that is not there yet; nothing is written.

        Raises:
            SessionError: If there is a session with this id, or the store fails.
        """
        store = self._sessions.open(id)
        if _has_entries(store):
            store.close()
            raise SessionError(f"there is a session {id!r} in {self.path} already; give another id with --id")
        return store

    def look(self, id: str) -> "Store":
        """Return the store of a session that is there, by its id or how that begins.

        A store that lists no sessions knows whole ids only.

        Raises:
            SessionError: If there is no such session, or several; the message lists them.
        """
        if self._sessions.listed:
            return self._sessions.open(self.whole_id(id))
        store = self._sessions.open(id)
        if not _has_entries(store):
            store.close()
            raise SessionError(
                f"there is no session {id!r} in {self.path}, which lists none: give a whole id"
            )
        return store

    def ids(self) -> "list[str]":
        """Return the ids of the sessions that there are.

        Raises:
            SessionError: If the store fails, or cannot tell.
        """
        return self._sessions.ids()

    def stores(self, broken: Broken | None = None) -> "Iterator[Store]":
        """Yield the store of each session; it is closed when the next one is asked for."""
        for id in self.ids():
            try:
                store = self._sessions.open(id)
            except SessionError as error:
                if broken is None:
                    raise
                broken(error)
                continue
            try:
                yield store
            finally:
                store.close()

    def new_id(self, flow: str) -> str:
        """Return an id that no session has, named after a flow."""
        if self._sessions.listed:
            return Shelf.new_id(self, flow)
        while self._taken(id := named_after(flow)):
            pass
        return id

    def _taken(self, id: str) -> bool:
        store = self._sessions.open(id)
        try:
            return _has_entries(store)
        finally:
            store.close()


def _has_entries(store: "Store") -> bool:
    return next(iter(store.load()), None) is not None
