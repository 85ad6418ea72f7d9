"""Sessions in every kind of store, opened again as another program would, and what the tree tests read."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.machine.histories import Kept

from turnchart.machine import Entry, Session, UserMessage
from turnchart.machine.entries import Frozen, decode
from turnchart.machine.messages import AssistantMessage

KINDS = ("memory", "jsonl", "sqlite")


class Place:
    """Where a session is kept.

    Attributes:
        session: The session.
    """

    def __init__(self, kind: str, folder: Path) -> None:
        self._kind = kind
        self._path = folder / f"s.{kind}"
        self.session = self._open(())

    def _open(self, entries: "tuple[Entry, ...]") -> Session:
        if self._kind == "jsonl":
            return Session.jsonl(self._path)
        if self._kind == "sqlite":
            return Session.sqlite(self._path, "s")
        return Session(Kept(Entry.of(decode(each.line())) for each in entries))

    def reopened(self) -> Session:
        """Give the session up, and return what another program finds."""
        self.session.close()
        self.session = self._open(tuple(self.session.entries))
        return self.session


def user(session: Session, text: str) -> int:
    """Write what a user says; return the number of the entry."""
    return session.append("user/message", Frozen(message=UserMessage(text))).seq


def answer(session: Session, text: str, **more: Any) -> int:
    """Write what a model answered, as an imported log has it; return the number of the entry."""
    number = session.brackets.turn + 1
    session.append("turn/start", Frozen(turn=number))
    session.append("step/start", Frozen(turn=number, step=1))
    said = AssistantMessage(text, model="test", **more)
    data = Frozen(turn=number, step=1, message=said, stream=())
    seq = session.append("assistant/message", data, attempt=1).seq
    session.append("step/end", Frozen(turn=number, step=1))
    session.append("turn/end", Frozen(turn=number, reason="completed", steps=1))
    return seq


def said(session: Session, **more: Any) -> list[tuple[str, str]]:
    """Return role and text of every message that the model sees."""
    return [(each.role, each.text) for each in session.context(**more)]


def texts(session: Session) -> list[str]:
    """Return the text of every message that the model sees."""
    return [each.text for each in session.context()]


def refused(act: Callable[[], object]) -> str:
    """Return what an act that must fail says."""
    try:
        act()
    except Exception as error:  # noqa: BLE001  # the tests look at what it says
        return f"{type(error).__name__}: {error}"
    raise AssertionError("nothing refused it")
