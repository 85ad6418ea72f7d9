"""Where sessions are kept, and how the command line names a session."""

import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Final, Literal

from turnchart.machine.errors import SessionError
from turnchart.machine.records import record

if TYPE_CHECKING:
    from turnchart.machine.entries import Entry
    from turnchart.machine.session import Session
    from turnchart.machine.sqlite import SessionInfo
    from turnchart.machine.stores import Store

Kind = Literal["sqlite", "file", "folder", "memory", "registered"]
FILE: Final = "sessions.db"
"""The SQLite file in the folder of this program."""
_LISTED: Final = 20
Broken = Callable[[SessionError], object]
"""Hears of a file that is no session, or a damaged one."""


@record
class Shelf:
    """Where sessions are kept.

    Attributes:
        kind: A SQLite file, one JSON-lines file, a folder of these, memory, or a store of a plug-in.
        path: The file or folder; of a store of a plug-in, its name.
        given: How it was named on the command line; empty where it is the usual one.
        home: The folder of this program, where that has to be made first.
    """

    kind: Kind
    path: Path
    given: str = ""
    home: Path | None = None

    def options(self) -> str:
        """Return what has to be added to a command so that it finds the same place."""
        return f" --store {shlex.quote(self.given)}" if self.given else ""

    def open(self, id: str | None, flow: str) -> "Session":
        """Open a session to go on with it: the one with this id, which may be new, or else a new one.

        A single file holds one session, which is continued without an id too.

        Raises:
            SessionError: If there is no such place, or it holds something else.
        """
        from turnchart.machine.session import Session

        if self.kind == "memory":
            return Session.memory(id)
        if self.kind == "sqlite":
            return Session.sqlite(self.path, id or self.new_id(flow))
        from turnchart.machine.jsonl import JsonlStore

        if self.kind == "file":
            return Session(JsonlStore(self.path, id=id))
        if not id:
            return Session(JsonlStore(self._file(self.new_id(flow))))
        return Session(JsonlStore(self._file(id if id in self.ids() else self._named(id) or id)))

    def new(self, id: str) -> "Store":
        """Return the store of a session that is not there yet; nothing is written.

        Raises:
            SessionError: If there is a session with this id, or the place cannot hold another one.
        """
        from turnchart.machine.jsonl import JsonlStore
        from turnchart.machine.sqlite import SqliteStore

        if self.kind == "file" and self.path.exists():
            raise SessionError(f"{self.path} is there already; choose another file")
        if id in self.ids() or self._named(id) is not None:
            raise SessionError(f"there is a session {id!r} in {self.path} already; give another id with --id")
        if self.kind == "sqlite":
            return SqliteStore(self.path, id)
        return JsonlStore(self.path if self.kind == "file" else self._file(id), id=id)

    def look(self, id: str) -> "Store":
        """Return the store of a session that is there, by its id or how that begins; nothing is written.

        Raises:
            SessionError: If there is no such session, or several; the message lists them.
        """
        id = self.whole_id(id)
        if self.kind == "sqlite":
            from turnchart.machine.sqlite import SqliteStore

            return SqliteStore(self.path, id)
        from turnchart.machine.jsonl import JsonlStore

        return JsonlStore(self.path if self.kind == "file" else self._file(id))

    def whole_id(self, start: str) -> str:
        """Return the id that is this text, or the only one that begins with it.

        Raises:
            SessionError: If there is none, or several; the message lists them.
        """
        known = self.ids()
        if start in known:
            return start
        renamed = self._named(start)
        if renamed is not None:
            return renamed
        found = [id for id in known if start and id.startswith(start)]
        if len(found) == 1:
            return found[0]
        if found:
            raise SessionError(f"{start!r} begins the ids of several sessions: {_listed(found)}")
        raise SessionError(
            f"there is no session {start!r} in {self.path}; the sessions are: {_listed(known) or 'none'}"
        )

    def only(self) -> "Store":
        """Return the store of the only session that is there.

        Raises:
            SessionError: If there is none, or several; the message lists them.
        """
        if self.kind == "file":
            from turnchart.machine.jsonl import JsonlStore

            return JsonlStore(self.path)
        known = self.ids()
        if len(known) == 1:
            return self.look(known[0])
        if not known:
            raise SessionError(f"there are no sessions in {self.path}")
        raise SessionError(
            f"{self.path} holds {len(known)} sessions; name one of them with"
            f"{self.options() or f' --store {shlex.quote(str(self.path))}'}: {_listed(known)}"
        )

    def ids(self) -> "list[str]":
        """Return the ids of the sessions that there are; of a folder, the names of its files.

        Raises:
            SessionError: If it cannot be read.
        """
        if self.kind == "folder":
            return sorted(path.stem for path in self.path.glob("*.jsonl"))
        if self.kind == "file":
            return [self.only().id] if self.path.exists() else []
        if self.kind == "sqlite":
            from turnchart.machine.sqlite import session_ids

            return session_ids(self.path)
        return []

    def list(self, broken: Broken | None = None) -> "list[SessionInfo]":
        """Return what there is, the oldest session first; in a folder each by the name of its file.

        Args:
            broken: Hears of each file of a folder that cannot be read; the others are listed. None: it is
                raised.

        Raises:
            SessionError: If it cannot be read.
        """
        if self.kind == "sqlite":
            from turnchart.machine.sqlite import list_sessions

            return list_sessions(self.path)
        found: list[SessionInfo] = []
        for store in self.stores(broken):
            try:
                found.append(_info(store, Path(store.where).stem if self.kind == "folder" else store.id))
            except SessionError as error:
                _tell(broken, error)
        return sorted(found, key=lambda info: (info.created, info.id))

    def stores(self, broken: Broken | None = None) -> "Iterator[Store]":
        """Yield the store of each JSON-lines file, by the names of the files.

        Args:
            broken: Hears of each file that is no session. None: raise it.

        Raises:
            SessionError: If one is no session, or cannot be read.
        """
        from turnchart.machine.jsonl import JsonlStore

        for path in [self.path] if self.kind == "file" else sorted(self.path.glob("*.jsonl")):
            if path.is_file():
                try:
                    yield JsonlStore(path)
                except SessionError as error:
                    _tell(broken, error)

    def _named(self, id: str) -> str | None:
        """Return the name of the file of a folder that says inside to be this session; None where none does.

        Raises:
            SessionError: If several do; the message lists them.
        """
        if self.kind != "folder":
            return None
        found = [Path(store.where).stem for store in self.stores(lambda error: None) if store.id == id]
        if len(found) > 1:
            raise SessionError(
                f"several files of {self.path} hold a session {id!r}; name one: {_listed(found)}"
            )
        return found[0] if found else None

    def _file(self, id: str) -> Path:
        if "/" in id or id in ("", ".", ".."):
            raise SessionError(f"{id!r} cannot be the name of a file; choose another id for the session")
        return self.path / f"{id}.jsonl"

    def new_id(self, flow: str) -> str:
        """Return an id that no session has, named after a flow."""
        known = self.ids()
        while (id := named_after(flow)) in known:
            pass
        return id

    def prepare(self) -> None:
        """Make the folder of this program, which no repository should hold, where it will be needed.

        Raises:
            SessionError: If it cannot be made.
        """
        if self.home is not None and not self.home.exists():
            try:
                self.home.mkdir(parents=True, exist_ok=True)
                (self.home / ".gitignore").write_text("*\n", "utf-8")
            except OSError as error:
                raise SessionError(
                    f"{self.home} cannot be made: {error.strerror}; name another place for sessions with"
                    " --store, or another folder with TURNCHART_HOME"
                ) from error


def named_after(flow: str) -> str:
    """Return an id for a session of a flow, which hardly any other has."""
    name = re.sub(r"[^\w.-]+", "-", flow).strip("-.") or "session"
    return f"{name}-{token_hex(3)}"


def fill(store: "Store", entries: "Iterable[Entry]") -> None:
    """Write all entries of a session that is not there yet.

    All or none, where the store can create or delete; in another one stays what was written before a failure.

    Raises:
        SessionError: If they cannot be written.
    """
    create = getattr(store, "create", None)
    if create is not None:
        create(entries)
        return
    ours = False
    try:
        for entry in entries:
            store.append(entry)
            ours = True
    except BaseException:
        store.close()
        delete = getattr(store, "delete", None)
        if ours and delete is not None:
            with suppress(SessionError):
                delete()
        raise
    store.close()


MEMORY: Final = Shelf("memory", Path())
"""Where sessions are kept that nobody keeps."""


def home() -> Path:
    """Return the folder in which this program keeps things: ``.turnchart``, or what TURNCHART_HOME names."""
    return Path(os.environ.get("TURNCHART_HOME") or ".turnchart")


def usual() -> Shelf:
    """Return where sessions are kept when nothing else was said."""
    return Shelf("sqlite", home() / FILE, home=home())


def shelf(store: str | None) -> Shelf:
    """Return the place that ``--store`` names: a ``.jsonl`` file, a folder of these, or a SQLite file.

    Raises:
        SessionError: If it is an address, or ``memory``: a file of that name is ``./memory``.
    """
    if store is None:
        return usual()
    if store == "memory":
        raise SessionError("no session is kept in memory; a file of that name is ./memory")
    if "://" in store:
        help = "workers take the address of a database, and Session.postgres does in Python"
        raise SessionError(f"--store takes a file or a folder, no address ({help})")
    path = Path(store)
    if path.suffix == ".jsonl":
        return Shelf("file", path, store)
    if path.is_dir() or store.endswith("/"):
        return Shelf("folder", path, store)
    return Shelf("sqlite", path, store)


def declared(kind: str, path: str | None, root: Path) -> Shelf:
    """Return the place that a flow declares; its path is relative to the root."""
    if kind == "memory":
        return MEMORY
    if path is None:
        folder = home() / "sessions"
        return usual() if kind == "sqlite" else Shelf("folder", folder, f"{folder}/", home())
    at = root / path
    shown = os.path.relpath(at)
    return Shelf("sqlite", at, shown) if kind == "sqlite" else Shelf("folder", at, f"{shown}/")


def find(session: str, place: Shelf | str | None = None) -> "Store":
    """Return the store of a session that a command line names: an id, how one begins, or a file or folder.

    Args:
        session: What was written. A session of the usual place comes before a file of that name, and
            ``./NAME`` is the file.
        place: Where ids are looked up, or how that was named; None: the usual place, or what ``session``
            itself names.

    Raises:
        SessionError: If there is no such session, or several; the message lists them.
    """
    if place is None and (
        (os.path.isfile(session) and ("/" in session or session not in _usual_ids()))
        or ("/" in session and os.path.isdir(session))
    ):
        return shelf(session).only()
    return (place if isinstance(place, Shelf) else shelf(place)).look(session)


def _usual_ids() -> list[str]:
    try:
        return usual().ids()
    except SessionError:
        return []


def _listed(ids: Sequence[str]) -> str:
    from turnchart.flows.cli.words import one_line

    more = f" (the last {_LISTED} of {len(ids)})" if len(ids) > _LISTED else ""
    return ", ".join([one_line(id) for id in ids[-_LISTED:]]) + more


def _tell(broken: Broken | None, error: SessionError) -> None:
    if broken is None:
        raise error
    broken(error)


def _info(store: "Store", id: str) -> "SessionInfo":
    from turnchart.machine.sqlite import SessionInfo

    entries = list(store.load())
    names = [entry.data["name"] for entry in entries if entry.type == "session_info" and "name" in entry.data]
    changed = os.path.getmtime(store.where) if os.path.isfile(store.where) else 0.0
    return SessionInfo(
        id,
        entries[0].time if entries else changed,
        entries[-1].time if entries else changed,
        len(entries),
        str(names[-1] or "") if names else "",
        _count("turn/start", (entry.type for entry in entries)),
    )


def _count(wanted: str, types: Iterable[str]) -> int:
    return sum(type == wanted for type in types)
