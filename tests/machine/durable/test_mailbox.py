"""What is wanted of a session, in the order in which it was asked for."""

import json
from collections.abc import Generator
from itertools import count

import anyio
import pytest

from turnchart.machine import Agent, Reply, ScriptedModel
from turnchart.machine.durable import mailbox
from turnchart.machine.errors import SessionLocked
from turnchart.machine.messages import UserMessage, normalize_prompt_input
from turnchart.machine.postgres import PostgresStore
from turnchart.machine.postgres_database import Database

tokens = count()


@pytest.fixture(scope="module")
def db(dsn: str) -> Generator[Database]:
    one = Database(dsn)
    with one.used():
        mailbox.prepare(one)
        mailbox.prepare(one)
        yield one


def wish(db: Database, session: str, kind: str, text: str = "hi") -> tuple[int, int]:
    values = {
        "session": session, "more": int(kind in mailbox.WAKING), "kind": kind, "token": str(next(tokens)),
        "body": mailbox.body_of(normalize_prompt_input(text)),
    }  # fmt: skip
    with db.alone() as connection:
        [(id, ticket)] = connection.execute(mailbox.MAKE, values).fetchall()
        assert connection.execute(mailbox.MADE, values).fetchone() == (id,)
    return id, ticket


def test_prompts_and_steers_ask_for_turns(db: Database) -> None:
    tickets = [wish(db, "a", kind)[1] for kind in ("prompt", "abort", "steer", "inject", "prompt")]
    assert tickets == [1, 1, 2, 2, 3]
    assert wish(db, "b", "prompt")[1] == 1
    found = mailbox.open_wishes(db, "a")
    assert [each.kind for each in found] == ["prompt", "abort", "steer", "inject", "prompt"]
    assert [each.id for each in found] == sorted(each.id for each in found)


def test_the_messages_of_a_wish_have_ids_of_their_own(db: Database) -> None:
    id, _ = wish(db, "c", "prompt", "hello")
    (found,) = mailbox.open_wishes(db, "c")
    assert [(said["id"], said["content"][0]["text"]) for said in found.messages()] == [(f"w{id}", "hello")]
    body = json.loads(mailbox.body_of([UserMessage("one"), UserMessage("two")]))
    assert [said["id"] for said in found._replace(body=body).messages()] == [f"w{id}", f"w{id}.1"]


def test_half_a_character_is_kept_as_it_is(db: Database) -> None:
    wish(db, "half", "prompt", "a \ud800 b \N{GRINNING FACE}")
    (found,) = mailbox.open_wishes(db, "half")
    assert found.messages()[0].text == "a \ud800 b \N{GRINNING FACE}"


def test_a_settled_wish_has_its_result(db: Database) -> None:
    id, _ = wish(db, "e", "prompt")
    writer = PostgresStore(db.dsn, "e", db)
    with pytest.raises(SessionLocked, match="session e was taken over"):
        mailbox.settle(writer, id, {"turn": 2})
    assert [each.id for each in mailbox.open_wishes(db, "e")] == [id]
    writer.lock()
    mailbox.settle(writer, id, {"turn": 1})
    assert mailbox.open_wishes(db, "e") == []
    sql = "SELECT result FROM turnchart.wishes WHERE id = %s"
    assert db.execute(sql, (id,)).fetchone() == ('{"turn": 1}',)
    writer.close()


async def test_the_result_of_a_message_is_read_from_the_log() -> None:
    async with Agent(ScriptedModel(["one", Reply("two")])) as agent:
        first = agent.follow_up([UserMessage("hi", id="w1")])
        await agent.idle()
        agent.next_turn([UserMessage("later", id="w2")])
        entries = agent.session.entries
        assert first.messages[0]["id"] == "w1"
        assert mailbox.result_of(entries, "w1") == {
            "turn": 1, "reason": "completed", "text": "one", "steps": 1,
        }  # fmt: skip
        assert mailbox.result_of(entries, "w2") is None
        await agent.prompt("again")
        assert (mailbox.result_of(entries, "w2") or {})["turn"] == 2


def held() -> tuple[Agent, anyio.Event, anyio.Event]:
    """Return an agent that waits before it reads what it took, what says so, and what lets it go on."""
    entered, holds = anyio.Event(), anyio.Event()

    async def wait(payload: object) -> None:
        del payload
        entered.set()
        await holds.wait()

    agent = Agent(ScriptedModel([], default=Reply("ok")), hooks={"assemble": [wait]})
    return agent, entered, holds


async def test_a_turn_that_was_cut_off_before_it_read_a_message_is_its_turn() -> None:
    agent, entered, holds = held()
    async with agent:
        agent.follow_up([UserMessage("taken", id="w1")])
        agent.follow_up([UserMessage("waits", id="w2")])
        await entered.wait()
        agent.abort()
        await agent.idle()
        holds.set()
        agent.follow_up([UserMessage("read", id="w3")])
        await agent.idle()
        entries = agent.session.entries
    found = [mailbox.taken_by(entries, id) for id in ("w1", "w2", "w4")]
    assert found == [{"turn": 1, "reason": "aborted", "text": "", "steps": 0}, None, None]


async def test_a_message_that_was_taken_and_given_back_waits() -> None:
    agent, entered, _ = held()
    async with agent:
        agent.follow_up([UserMessage("taken", id="w1")])
        await entered.wait()
        agent.abort(keep_inbox=True)
        await agent.idle()
        assert mailbox.taken_by(agent.session.entries, "w1") is None
        assert agent.abort()
        assert mailbox.taken_by(agent.session.entries, "w1") is None


def test_channels_fit_whatever_the_session_is_called() -> None:
    names = {mailbox.channel("s"), mailbox.channel("x" * 500), mailbox.channel("ü'\"")}
    assert len(names) == 3
    assert all(name.isidentifier() and len(name) < 63 for name in names)
