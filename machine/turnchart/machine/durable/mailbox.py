"""What people and programs want of a session, whoever works on it: a table that its worker empties.

    turnchart.tickets(session, last)    the number of the last turn that was asked for
    turnchart.wishes(id, session, ticket, kind, body, made, token, done, result)

A wish leaves the list of open ones in the transaction that writes its entry, so none is lost and none is
fulfilled twice. Who makes one rings the bell ``turnchart`` with the id of the session.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, Literal, LiteralString, NamedTuple

from turnchart.machine.entries import Entry, Frozen, encodable, encode
from turnchart.machine.errors import SessionLocked
from turnchart.machine.inbox import Inbox
from turnchart.machine.messages import Message, message
from turnchart.machine.postgres_database import Database

if TYPE_CHECKING:
    from sqlalchemy import Connection as Transaction

    from turnchart.machine.postgres import PostgresStore

Kind = Literal["prompt", "steer", "inject", "abort", "decide"]
WAKING: Final = ("prompt", "steer")
"""The kinds that a turn is asked for with."""
PATIENCE: Final = 0.2
"""Seconds after which who listens looks whether it should end."""
BELL: Final = "turnchart"
"""The channel on which the id of a session is told that has a new wish."""
LARGEST: Final = 6000
"""Bytes that are told at once; a notification takes 8,000."""

_SCHEMA: Final[tuple[LiteralString, ...]] = (
    "CREATE TABLE turnchart.tickets (session text PRIMARY KEY, last bigint NOT NULL)",
    """CREATE TABLE turnchart.wishes (id bigserial PRIMARY KEY, session text NOT NULL, ticket bigint NOT NULL,
        kind text NOT NULL, body text NOT NULL, made timestamptz NOT NULL DEFAULT clock_timestamp(),
        token text UNIQUE NOT NULL, done timestamptz, result text)""",
    "CREATE INDEX open_wishes ON turnchart.wishes (session, id) WHERE done IS NULL",
)
MAKE: Final = """
    WITH t AS (INSERT INTO turnchart.tickets AS k VALUES (%(session)s, %(more)s)
        ON CONFLICT (session) DO UPDATE SET last = k.last + %(more)s RETURNING last)
    INSERT INTO turnchart.wishes (session, ticket, kind, body, token)
        SELECT %(session)s, last, %(kind)s, %(body)s, %(token)s FROM t RETURNING id, ticket"""
"""Makes a wish. The session's row in ``tickets`` is locked first, so the ids follow the order in time."""
MADE: Final = "SELECT id FROM turnchart.wishes WHERE token = %(token)s"
"""Finds the wish of a token: whoever lost the connection while it made one does not know if it is there."""
_OPEN: Final = """
    SELECT id, ticket, kind, body FROM turnchart.wishes WHERE session = %s AND done IS NULL ORDER BY id"""

_MAKE_IN_FILE: Final = (
    """INSERT INTO turnchart_tickets AS k VALUES (:session, :more)
        ON CONFLICT (session) DO UPDATE SET last = k.last + :more RETURNING last""",
    """INSERT INTO turnchart_wishes (session, ticket, kind, body, token)
        VALUES (:session, :ticket, :kind, :body, :token) RETURNING id""",
)


class Wish(NamedTuple):
    """One thing that somebody wants of a session.

    Attributes:
        id: Greater than those of all wishes of the session before it.
        ticket: The number of the turn that was asked for with it, or last before it.
        kind: What is wanted.
        body: The messages, the reason, or the answer.
    """

    id: int
    ticket: int
    kind: Kind
    body: Mapping[str, Any]

    @property
    def message_id(self) -> str:
        """The id of its first message in the conversation."""
        return f"w{self.id}"

    def messages(self) -> list[Message]:
        """Return its messages, with ids that show where they come from."""
        said = [dict(each) for each in self.body["messages"]]
        return [
            message(each | {"id": f"{self.message_id}.{i}" if i else self.message_id})
            for i, each in enumerate(said)
        ]


def prepare(db: Database) -> None:
    """Make the tables where there are none."""
    db.make_tables("wishes", _SCHEMA)


def make(db: Transaction, values: Mapping[str, Any]) -> tuple[int, int, bool]:
    """Make a wish in somebody's transaction, once for its token, and ring the bell.

    Returns:
        Its id, its ticket, and whether it is new.
    """
    if db.dialect.name == "sqlite":
        return _make_in_file(db, values)
    made = db.exec_driver_sql(MADE, values).one_or_none()
    if made is not None:
        return int(made[0]), 0, False
    id, ticket = db.exec_driver_sql(MAKE, values).one()
    db.exec_driver_sql("SELECT pg_notify(%s, %s)", (BELL, values["session"]))
    return int(id), int(ticket), True


def _make_in_file(db: Transaction, values: Mapping[str, Any]) -> tuple[int, int, bool]:
    token = (values["token"],)
    made = db.exec_driver_sql("SELECT id FROM turnchart_wishes WHERE token = ?", token).one_or_none()
    if made is not None:
        return int(made[0]), 0, False
    tickets, wishes = _MAKE_IN_FILE
    (ticket,) = db.exec_driver_sql(tickets, dict(values)).one()
    (id,) = db.exec_driver_sql(wishes, {**values, "ticket": ticket}).one()
    sql = "INSERT INTO turnchart_told (channel, payload, at) VALUES (?, ?, now())"
    db.exec_driver_sql(sql, (BELL, values["session"]))
    return int(id), int(ticket), True


def result(db: Transaction, id: int) -> str | None:
    """Return what a wish came to, as JSON; None before."""
    mark, schema = ("?", "turnchart_") if db.dialect.name == "sqlite" else ("%s", "turnchart.")
    sql = f"SELECT result FROM {schema}wishes WHERE id = {mark} AND result IS NOT NULL"
    found = db.exec_driver_sql(sql, (id,)).one_or_none()
    return None if found is None else str(found[0])


def open_wishes(db: Database, session: str) -> list[Wish]:
    """Return what is wanted of a session, in the order in which it was asked for."""
    rows = db.execute(_OPEN, (session,)).fetchall()
    return [Wish(id, ticket, kind, json.loads(body)) for id, ticket, kind, body in rows]


def settle(store: PostgresStore, id: int, result: Mapping[str, Any]) -> None:
    """Say what a wish came to, as the writer of the session, to whoever waits for that.

    Raises:
        SessionLocked: If somebody else has taken the session over, and knows better.
    """
    text = json.dumps(result)
    told = f'{{"result":{id},"came":{text}}}' if len(text) < LARGEST else f'{{"result":{id}}}'
    if not store.database.settle(id, text, channel(store.id), told, store.as_writer):
        raise SessionLocked(f"session {store.id} was taken over, so what its turns came to is not known here")


def channel(session: str) -> str:
    """Return the name of the channel on which readers hear of a session."""
    return f"turnchart_{sha256(session.encode()).hexdigest()[:24]}"


def body_of(messages: Sequence[Message]) -> str:
    """Return the body of a wish that brings messages."""
    return encodable(encode(Frozen(messages=tuple(messages))))


def result_of(entries: Sequence[Entry], message_id: str) -> dict[str, Any] | None:
    """Return what came of a message: the turn that read it, or that it was discarded; None where it waits."""
    number = text = None
    for entry in entries:
        data = entry.data
        if entry.type == "user/message" and data["message"].get("id") == message_id:
            number, text = data.get("turn"), ""
        elif entry.type == "assistant/message" and number is not None and data["turn"] == number:
            text = "".join(part["text"] for part in data["message"]["content"] if part["type"] == "text")
        elif entry.type == "turn/end" and data["turn"] == number:
            return _came(entry, text or "")
    return None


def taken_by(entries: Sequence[Entry], message_id: str) -> dict[str, Any] | None:
    """Return what the turn came to that took a message and ended before it read it; None without one."""
    inbox, turn, number, before = Inbox(), 0, 0, 0
    for entry in entries:
        data = entry.data
        if entry.type == "turn/start":
            turn = data["turn"]
        elif entry.type == "agent/inbox/spliced":
            waited, outcome = inbox.find(message_id), data.get("outcome")
            inbox.apply(data)
            if inbox.find(message_id) is not None:
                number, before = 0, number if outcome == "returned" else before
            elif waited is not None:
                number = turn if outcome is None else before  # an abort gives back what it then discards
        elif entry.type == "turn/end" and number == data["turn"]:
            return _came(entry, "")
    return None


def no_turn(reason: str, **more: str) -> dict[str, Any]:
    """Return what a wish came to that no turn took."""
    return {"turn": 0, "reason": reason, "text": "", "steps": 0, **more}


def _came(end: Entry, text: str) -> dict[str, Any]:
    data = end.data
    error = {"error": data["error"]["message"]} if "error" in data else {}
    return {"turn": data["turn"], "reason": data["reason"], "text": text, "steps": data["steps"]} | error
