"""The log of a worker's session: written in one go, safe when it matters, and by its writer only."""

from collections.abc import Generator
from itertools import count
from typing import Any

import psycopg
import pytest

from turnchart.machine.durable import mailbox
from turnchart.machine.durable.grouped import Group, GroupedStore, place
from turnchart.machine.entries import Entry, Frozen, decode, encode
from turnchart.machine.errors import SessionError, SessionLocked, SessionReadOnly
from turnchart.machine.postgres import PostgresStore
from turnchart.machine.postgres_database import Database, database

tokens = count()


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """DBOS knows asyncio only."""
    return "asyncio"


class Counted(Group):
    """Counts what is sent to the database."""

    def __init__(self, db: Database) -> None:
        super().__init__(db)
        self.rounds: list[int] = []

    def _send(self, batches: Any) -> Any:
        self.rounds.append(len(batches))
        return super()._send(batches)


@pytest.fixture
def group(dsn: str) -> Generator[Counted]:
    db = database(dsn)
    with db.used():
        mailbox.prepare(db)
        made = Counted(db)
        yield made
        made.close()


def entry(seq: int, type: str = "custom", **data: Any) -> Entry:
    given = data or {"kind": "mine", "data": None}
    return Entry(seq, seq - 1 if seq else None, type, float(seq), Frozen(given))


def stored(dsn: str, id: str) -> list[int]:
    return [each.seq for each in PostgresStore(dsn, id).load()]


async def test_what_is_appended_in_one_go_is_one_transaction(dsn: str, group: Counted) -> None:
    one, other = GroupedStore(database(dsn), "one", group), GroupedStore(database(dsn), "other", group)
    for store in (one, other):
        store.lock()
        for seq in range(3):
            store.append(entry(seq))
    assert stored(dsn, "one") == []
    await one.flush()
    assert (stored(dsn, "one"), stored(dsn, "other")) == ([0, 1, 2], [0, 1, 2])
    assert group.rounds == [2]
    await other.flush()
    assert group.rounds == [2], "nothing was new"
    one.release()
    other.release()


async def test_it_is_written_when_the_program_waits_for_anything(dsn: str, group: Counted) -> None:
    store = GroupedStore(database(dsn), "waits", group)
    store.append(entry(0))
    assert stored(dsn, "waits") == []
    await group.written()
    assert stored(dsn, "waits") == [0]
    with pytest.raises(ValueError, match="entry 3 cannot follow the 1 entries"):
        store.append(entry(3))
    store.append(entry(1))
    store.close()
    assert stored(dsn, "waits") == [0, 1], "also where it is closed before"
    store.append(entry(2))
    store.release()
    assert stored(dsn, "waits") == [0, 1, 2]
    PostgresStore(dsn, "waits").lock()


async def test_who_lost_a_session_to_its_own_process_writes_nothing(dsn: str, group: Counted) -> None:
    db = database(dsn)
    lost = GroupedStore(db, "twice", group)
    lost.append(entry(0))
    await lost.flush()
    with psycopg.connect(dsn, autocommit=True) as other:  # as where the process was silent for too long
        other.execute("UPDATE turnchart.sessions SET holder = NULL WHERE id = 'twice'")
    mine = GroupedStore(db, "twice", group)
    mine.lock()
    lost.keep("k", '"lost"')
    mine.keep("k", '"mine"')
    with pytest.raises(SessionLocked):
        await lost.flush()
    await mine.flush()
    assert mine.kept() == {"k": '"mine"'}
    mine.release()


async def test_what_others_say_is_safe_at_once(dsn: str, group: Counted) -> None:
    store = GroupedStore(database(dsn), "says", group)
    store.append(entry(0))
    store.append(entry(1, "agent/inbox/spliced", target="next-step", start=0, inserted=({"id": "i1"},)))
    assert stored(dsn, "says") == [0, 1]
    store.release()


async def test_a_wish_is_done_with_the_entry_that_it_becomes(dsn: str, group: Counted) -> None:
    db, store = database(dsn), GroupedStore(database(dsn), "wish", group)
    wishes: list[int] = []
    with db.alone() as connection:
        for token in "abc":
            values = {"session": "wish", "more": 1, "kind": "prompt", "token": token, "body": "{}"}
            wishes.append(connection.execute(mailbox.MAKE, values).fetchall()[0][0])

    def open_ones() -> list[int]:
        return [wish.id for wish in mailbox.open_wishes(db, "wish")]

    store.fulfil(wishes[0])
    store.append(entry(0, "agent/inbox/spliced", target="next-turn", start=0, inserted=({"id": "i1"},)))
    assert open_ones() == wishes, "it is not in the log yet"
    await store.flush()
    assert open_ones() == wishes[1:]
    store.fulfil(wishes[1])
    store.fulfil(None)
    store.fulfil_at_end(wishes[2])
    store.append(entry(1))
    await store.flush()
    assert open_ones() == wishes[1:]
    store.append(entry(2, "turn/end", turn=1, reason="aborted", steps=0))
    await store.flush()
    assert open_ones() == [wishes[1]], "what was taken back got no entry"
    store.release()


def wish(db: Database, session: str, kind: str) -> int:
    values = {"session": session, "more": 1, "kind": kind, "token": f"{session} {next(tokens)}", "body": "{}"}
    with db.alone() as connection:
        return int(connection.execute(mailbox.MAKE, values).fetchall()[0][0])


def open_wishes(db: Database, session: str) -> list[int]:
    return [each.id for each in mailbox.open_wishes(db, session)]


async def test_an_answer_is_done_with_what_it_decided_or_the_end_of_its_turn(
    dsn: str, group: Counted
) -> None:
    db, store = database(dsn), GroupedStore(database(dsn), "answers", group)
    heard, unheard = (wish(db, "answers", "decide") for _ in range(2))
    store.fulfil_with("c1", heard)
    store.fulfil_with("c2", unheard)
    store.append(entry(0))
    await store.flush()
    assert open_wishes(db, "answers") == [heard, unheard], "no decision is in the log"
    store.append(entry(1, "approval/decided", turn=1, step=1, call_id="c1", outcome="approved"))
    await store.flush()
    assert open_wishes(db, "answers") == [unheard]
    store.append(entry(2, "turn/end", turn=1, reason="aborted", steps=1))
    await store.flush()
    assert open_wishes(db, "answers") == []
    store.release()


async def test_what_becomes_no_entry_is_done_by_the_writer_only(dsn: str, group: Counted) -> None:
    db = database(dsn)
    mine, lost = GroupedStore(db, "mine", group), GroupedStore(db, "not mine", group)
    for store in (mine, lost):
        store.append(entry(0))
    await mine.flush()
    with psycopg.connect(dsn, autocommit=True) as other:
        other.execute("UPDATE turnchart.sessions SET epoch = epoch + 1 WHERE id = 'not mine'")
    kept = wish(db, "not mine", "abort")
    mine.done(wish(db, "mine", "abort"))
    lost.done(kept)
    await mine.flush()
    assert open_wishes(db, "mine") == []
    with pytest.raises(SessionLocked, match="was taken over by"):
        await lost.flush()
    assert open_wishes(db, "not mine") == [kept]
    with pytest.raises(SessionLocked):
        lost.done(kept)
    mine.release()


async def test_half_of_a_surrogate_pair_is_kept_as_json_spells_it(dsn: str, group: Counted) -> None:
    store = GroupedStore(database(dsn), "half", group)
    store.lock()
    store.keep("key", encode(Frozen(text="\ud83d ü")))
    await store.flush()
    assert decode(store.kept()["key"]) == {"text": "\ud83d ü"}
    store.release()


async def test_of_a_server_that_is_away_all_are_told_at_once(
    dsn: str, group: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores = [GroupedStore(database(dsn), f"away {i}", group) for i in range(3)]
    for store in stores:
        store.append(entry(0))

    def away(batches: object) -> set[str]:
        raise SessionError("the database cannot be reached")

    monkeypatch.setattr(database(dsn), "write", away)
    for store in stores:
        with pytest.raises(SessionReadOnly, match="cannot be reached"):
            await store.flush()
    assert group.rounds == [3], "nobody waits for it once more"
    for store in stores:
        store.release()


async def test_the_outcome_of_a_tool_is_kept_until_its_result_is_there(dsn: str, group: Counted) -> None:
    store = GroupedStore(database(dsn), "kept", group)
    store.lock()
    store.keep("a hook", "{}")
    store.keep(place(1, 1, "c\0"), "{}")
    await store.flush()
    store.keep(place(1, 2, "c1"), "{}")
    message = {"role": "tool_result", "call_id": "c1"}
    store.append(entry(0, "tool/result", turn=1, step=2, message=message))
    await store.flush()
    assert GroupedStore(database(dsn), "kept", group).kept() == {"a hook": "{}", "1.1.c\0": "{}"}
    store.forget()
    assert store.kept() == {}
    store.release()


async def test_who_lost_the_session_writes_nothing_and_holds_up_nobody(dsn: str, group: Counted) -> None:
    lost, other = GroupedStore(database(dsn), "lost", group), GroupedStore(database(dsn), "goes on", group)
    for store in (lost, other):
        store.append(entry(0))
    await lost.flush()
    with psycopg.connect(dsn, autocommit=True) as db:
        db.execute("UPDATE turnchart.sessions SET epoch = epoch + 1 WHERE id = 'lost'")
    for store in (lost, other):
        store.append(entry(1))
    await other.flush()
    assert (stored(dsn, "lost"), stored(dsn, "goes on")) == ([0], [0, 1])
    with pytest.raises(SessionLocked, match="was taken over by"):
        await lost.flush()
    with pytest.raises(SessionLocked, match="was taken over by"):
        lost.append(entry(2))
    lost.release()
    other.release()


async def test_what_cannot_be_written_is_told_to_its_own_session(dsn: str, group: Counted) -> None:
    broken, other = GroupedStore(database(dsn), "broken", group), GroupedStore(database(dsn), "whole", group)
    for store in (broken, other):
        store.append(entry(0))
    broken.keep("key", "no text for a database: \0")
    await other.flush()
    assert group.rounds == [2, 1, 1]
    assert (stored(dsn, "broken"), stored(dsn, "whole")) == ([], [0])
    with pytest.raises(SessionReadOnly, match=r"session broken could not be written: .*NUL"):
        broken.append(entry(1))
    broken.release()
    other.release()


async def test_an_answer_that_was_lost_with_the_connection_is_found(dsn: str, group: Counted) -> None:
    store = GroupedStore(database(dsn), "again", group)
    store.append(entry(0))
    await store.flush()
    store.append(entry(1))
    with psycopg.connect(dsn, autocommit=True) as db:  # as the write did whose answer never came
        line = entry(1).line()
        db.execute("INSERT INTO turnchart.entries VALUES ('again', 1, 'custom', 1.0, %s)", (line,))
        db.execute("UPDATE turnchart.sessions SET entries = 2 WHERE id = 'again'")
    await store.flush()
    store.append(entry(2))
    await store.flush()
    assert stored(dsn, "again") == [0, 1, 2]
    store.release()


async def test_what_is_left_to_others_is_written_before(dsn: str, group: Counted) -> None:
    store = GroupedStore(database(dsn), "left", group)
    store.append(entry(0))
    store.abandon()
    assert stored(dsn, "left") == [0]
    with pytest.raises(SessionLocked, match="was left to another writer"):
        store.append(entry(1))
