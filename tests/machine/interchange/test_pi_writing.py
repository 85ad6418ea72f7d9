"""A log of ours as a pi session file: what is kept, and where it follows."""

from typing import Any

import pytest

from turnchart.machine.agent import Agent
from turnchart.machine.entries import Entry, Frozen
from turnchart.machine.interchange.pi_reading import Reading
from turnchart.machine.interchange.pi_writing import iso, lines
from turnchart.machine.messages import ToolCall, ToolResultMessage, UserMessage
from turnchart.machine.scripted import Reply, ScriptedModel
from turnchart.machine.session import Session
from turnchart.machine.tools import tool

Line = dict[str, Any]


@tool
def nod() -> str:
    """Nod."""
    return "yes"


async def talked(session: Session) -> Session:
    model = ScriptedModel([Reply("see", tool_calls=[ToolCall("nod")]), "done", "again"])
    async with Agent(model, prompt="Be short.", tools=[nod], session=session) as agent:
        await agent.prompt("first")
        await agent.prompt("second")
    return session


def written(session: Session) -> list[Line]:
    return list(lines(session.entries, session.leaf, session.id, "/here"))


def texts(made: list[Line]) -> list[str]:
    said = (line["message"]["content"] for line in made if line["type"] == "message")
    return ["".join(block.get("text", f"[{block.get('name')}]") for block in content) for content in said]


async def test_a_conversation_is_its_messages_in_a_row() -> None:
    header, *made = written(await talked(Session.memory("mine")))
    assert (header["type"], header["version"], header["id"], header["cwd"]) == ("session", 3, "mine", "/here")
    assert texts(made) == ["first", "see[nod]", "yes", "done", "second", "again"]
    assert [line["parentId"] for line in made] == [None, *(line["id"] for line in made[:-1])]
    assert len({line["id"] for line in made}) == len(made)


async def test_the_same_log_gives_the_same_lines() -> None:
    session = await talked(Session.memory("mine"))
    assert written(session) == written(session)


async def test_what_is_exported_can_be_imported() -> None:
    session = await talked(Session.memory("mine"))
    made, reading, again = written(session), Reading(), Session.memory("mine")
    again.copy([entry for line in made for entry in reading.take(line)])
    assert written(again) == made
    assert [message.text for message in again.context()] == [message.text for message in session.context()]


async def test_a_branch_follows_what_it_left_and_the_leaf_is_where_the_log_is() -> None:
    session = await talked(Session.memory("mine"))
    first = next(entry for entry in session.entries if entry.type == "user/message")
    session.navigate(first.seq)
    session.append_custom("mine", 1)
    session.append_label(first.seq, "start")
    made = written(session)[1:]
    custom, label = made[-2:]
    assert (custom["customType"], custom["data"], custom["parentId"]) == ("mine", 1, made[0]["id"])
    assert (label["targetId"], label["label"], label["parentId"]) == (made[0]["id"], "start", custom["id"])
    session.navigate(first.seq)
    leaf = written(session)[-1]
    assert (leaf["type"], leaf["targetId"], leaf["parentId"]) == ("leaf", made[0]["id"], label["id"])


def seen(lines: list[Line]) -> list[str]:
    """Return the texts that a model sees of a file, where it is imported."""
    reading, session = Reading(), Session.memory("again")
    session.copy([entry for line in lines for entry in reading.take(line)])
    return [message.text for message in session.context()]


@pytest.mark.parametrize("keeps", [True, False])
def test_a_compaction_names_what_it_kept(keeps: bool) -> None:
    session = Session.memory("mine")
    one, two = (session.append("user/message", Frozen(message=UserMessage(text))) for text in ("one", "two"))
    data = Frozen(
        summary="so far", first_kept=two.seq if keeps else None, retained_tail=(two.seq,) if keeps else (),
        tokens_before=9, usage=Frozen(input=1), details=Frozen(read_files=("a.py",)),
    )  # fmt: skip
    session.append("compaction", data, replaces=(one.seq, (one if keeps else two).seq))
    session.append("user/message", Frozen(message=UserMessage("three")))
    made = written(session)
    line = made[3]
    assert (line["type"], line["summary"], line["tokensBefore"]) == ("compaction", "so far", 9)
    assert (line.get("firstKeptEntryId"), "retainedTail" in line) == (made[2]["id"] if keeps else None, False)
    assert (line["usage"]["totalTokens"], line["details"]) == (1, {"read_files": ("a.py",)})
    assert seen(made) == [message.text for message in session.context()]


def test_a_summary_of_a_branch_is_kept_and_a_shortened_result_is_not() -> None:
    session = Session.memory("mine")
    one = session.append("user/message", Frozen(message=UserMessage("one")))
    session.append("user/message", Frozen(message=UserMessage("two")))
    session.navigate(one.seq, summary="left")
    line = written(session)[-1]
    assert (line["type"], line["summary"], line["fromId"]) == ("branch_summary", "left", "00000001")
    result = ToolResultMessage("c", "nod", "long")
    entries = [
        Entry(0, None, "tool/result", 0.0, Frozen(message=result, outcome="ok")),
        Entry(1, 0, "tool/result", 0.0, Frozen(message=result.with_content("short"), outcome="ok"), (0, 0)),
        Entry(2, 1, "custom", 0.0, Frozen(kind="mine", data=1)),
    ]
    _, kept, custom = lines(entries, 2, "mine", "/here")
    assert kept["message"]["content"] == [{"type": "text", "text": "long"}]
    assert custom["parentId"] == kept["id"]


def test_an_empty_session_is_its_header() -> None:
    assert written(Session.memory("mine")) == [
        {
            "type": "session",
            "version": 3,
            "timestamp": "1970-01-01T00:00:00.000Z",
            "cwd": "/here",
            "id": "mine",
        }
    ]


def test_changes_of_the_session_are_kept() -> None:
    session = Session.memory("mine")
    session.set_name("a name")
    session.append_custom_message("mine", "hello", details={"n": 1})
    info, said = written(session)[1:]
    assert (info["type"], info["name"]) == ("session_info", "a name")
    assert (said["type"], said["customType"], said["details"]) == ("custom_message", "mine", {"n": 1})
    assert said["content"] == [{"type": "text", "text": "hello"}]


def test_a_new_id_takes_none_that_was_imported() -> None:
    header = {
        "type": "session",
        "version": 3,
        "id": "s",
        "timestamp": "2026-01-02T03:04:05Z",
        "cwd": "/there",
    }
    line = {"type": "custom", "id": "00000002", "parentId": None, "timestamp": "2026-01-02T03:04:05Z"}
    reading, session = Reading(), Session.memory("s")
    session.copy([entry for each in (header, {**line, "customType": "x"}) for entry in reading.take(each)])
    session.append_custom("mine", 1)
    first, *_, last = written(session)
    assert first == header
    assert (last["id"], last["parentId"]) == ("000000020", "00000002")


def test_a_time_is_written_in_milliseconds() -> None:
    assert iso(1767323045.678) == "2026-01-02T03:04:05.678Z"
    assert iso(-1) == "1970-01-01T00:00:00.000Z"
    assert iso(1e99).startswith("9999-12-31")
