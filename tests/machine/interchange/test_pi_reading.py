"""A pi session file becomes a log: legal, with the same tree, and with every word of it."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from tests.machine.interchange.pi_files import Line, files

from turnchart.machine.agent import Agent
from turnchart.machine.entries import Entry, decode
from turnchart.machine.interchange.fields import Malformed
from turnchart.machine.interchange.pi_reading import Reading
from turnchart.machine.interchange.pi_writing import lines
from turnchart.machine.scripted import ScriptedModel
from turnchart.machine.session import Session
from turnchart.machine.verify import verify

HEADER: Line = {
    "type": "session", "version": 3, "id": "s-1", "timestamp": "2026-01-02T03:04:05.678Z", "cwd": "/home/me",
}  # fmt: skip
BASE: Line = {"id": "a", "parentId": None, "timestamp": "2026-01-02T03:04:06.000Z"}


def said(id: str, parent: str | None, text: str) -> Line:
    message = {"role": "user", "content": [{"type": "text", "text": text}], "timestamp": 1767323046000}
    return {"type": "message", **BASE, "id": id, "parentId": parent, "message": message}


def entry(type: str, id: str, parent: str | None, **fields: Any) -> Line:
    return {"type": type, **BASE, "id": id, "parentId": parent, **fields}


def read(file: list[Line]) -> tuple[list[Entry], list[str]]:
    reading = Reading()
    entries = [entry for line in file for entry in reading.take(decode(json.dumps(line)))]
    return entries, reading.notes


def imported(file: list[Line]) -> Session:
    session = Session.memory("s-1")
    session.copy(read(file)[0])
    return session


def exported(session: Session) -> list[Line]:
    made = lines(session.entries, session.leaf, session.id, "/elsewhere")
    return [json.loads(json.dumps(line)) for line in made]


def alike(one: list[Line], other: list[Line]) -> bool:
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


@settings(max_examples=60, deadline=None)
@given(files())
def test_a_round_trip_changes_nothing(file: list[Line]) -> None:
    session = imported(file)
    assert alike(exported(session), file)
    assert verify(session.entries).ok
    ids = {entry.foreign_id: entry for entry in session.entries if entry.foreign_id is not None}
    for line in file[1:]:
        parent = ids[line["id"]].parent
        name = None if parent is None else session.entries[parent].foreign_id
        there = line["parentId"] in ids
        assert name in ((line["parentId"],) if there else (None, "s-1")), "every line follows its parent"


def texts(session: Session) -> list[str]:
    return [message.text for message in session.context()]


def test_the_context_is_that_of_the_branch() -> None:
    session = imported([HEADER, said("a", None, "one"), said("b", "a", "two"), said("c", "a", "three")])
    assert texts(session) == ["one", "three"]
    assert [entry.type for entry in session.entries] == [
        "custom", "user/message", "user/message", "leaf", "user/message",
    ]  # fmt: skip


def test_a_leaf_moves_and_the_root_of_all_can_be_left() -> None:
    file = [HEADER, said("a", None, "one"), entry("leaf", "b", "a", targetId=None), said("c", None, "other")]
    assert texts(imported(file)) == ["other"]
    file.append(entry("leaf", "d", "c", targetId="a"))
    assert texts(imported(file)) == ["one"]
    assert alike(exported(imported(file)), file)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"firstKeptEntryId": "b"}, ["SUM", "two", "after"]),
        ({"firstKeptEntryId": "a"}, ["SUM", "one", "two", "after"]),
        ({"retainedTail": [said("x", None, "kept")["message"]]}, ["SUM", "kept", "after"]),
        ({"retainedTail": [], "firstKeptEntryId": "a"}, ["SUM", "after"]),
        ({}, ["SUM", "after"]),
        ({"firstKeptEntryId": "gone"}, ["SUM", "after"]),
    ],
)
def test_a_compaction_shows_its_summary_and_what_it_kept(fields: Line, expected: list[str]) -> None:
    file = [HEADER, said("a", None, "one"), said("b", "a", "two")]
    file += [entry("compaction", "c", "b", summary="SUM", tokensBefore=9, **fields), said("d", "c", "after")]
    session = imported(file)
    seen = texts(session)
    assert "SUM" in seen[0]
    assert ["SUM", *seen[1:]] == expected
    assert alike(exported(session), file)


def test_a_later_compaction_takes_the_earlier_summary_in() -> None:
    file = [
        HEADER, said("a", None, "one"), said("b", "a", "two"),
        entry("compaction", "c", "b", summary="first", tokensBefore=9, firstKeptEntryId="b"),
        said("d", "c", "three"),
        entry("compaction", "e", "d", summary="second", tokensBefore=9, firstKeptEntryId="b"),
        said("f", "e", "four"),
    ]  # fmt: skip
    seen = texts(imported(file))
    assert "second" in seen[0]
    assert seen[1:] == ["two", "three", "four"]


def test_what_the_model_sees_of_every_kind_of_message() -> None:
    bash = {"role": "bashExecution", "command": "ls", "output": "a\nb", "exitCode": 2, "truncated": True}
    file = [
        HEADER,
        entry("message", "a", None, message=bash),
        entry("message", "b", "a", message={**bash, "output": "", "exitCode": 0, "cancelled": True}),
        entry("message", "c", "b", message={**bash, "excludeFromContext": True}),
        entry("message", "d", "c", message={"role": "branchSummary", "summary": "left"}),
        entry("message", "e", "d", message={"role": "custom", "customType": "mine", "content": "own"}),
        entry("message", "f", "e", message={"role": "never heard of"}),
        entry("custom_message", "g", "f", customType="mine", content="hello", display=False),
        entry("custom", "h", "g", customType="mine", data={"n": 1}),
    ]
    seen = [message.text for message in imported(file).view.llm_messages()]
    assert seen[0] == "Ran `ls`\n```\na\nb\n```\n(exit code 2)\n(output truncated)"
    assert seen[1] == "Ran `ls`\n(no output)\n(cancelled)\n(output truncated)"
    assert "<summary>\nleft\n</summary>" in seen[2]
    assert seen[3:] == ["own", "hello"]


def test_settings_labels_and_the_name_are_those_of_the_file() -> None:
    session = imported(
        [
            HEADER,
            entry("model_change", "a", None, provider="anthropic", modelId="claude"),
            entry("thinking_level_change", "b", "a", thinkingLevel="high"),
            entry("active_tools_change", "c", "b", activeToolNames=["read"]),
            entry("label", "d", "c", targetId="a", label=" start "),
            entry("session_info", "e", "d", name="a\nname"),
        ]
    )
    view = session.view
    assert (view.model, view.thinking, view.tools) == ("anthropic:claude", "high", ("read",))
    assert session.labels() == {1: "start"}
    assert session.name == "a name"


def test_what_a_file_names_and_lacks_is_noted() -> None:
    _, notes = read(
        [
            HEADER,
            said("a", "cut off", "one"),
            entry("label", "b", "a", targetId="cut off", label="x"),
            entry("branch_summary", "c", "b", fromId="cut off", summary="s"),
            entry("compaction", "d", "c", summary="s", tokensBefore=1, firstKeptEntryId="cut off"),
        ]
    )
    assert notes == [
        'entry "a" follows "cut off", which is not in the file: it became a root',
        'entry "b" labels "cut off", which is not in the file',
        'entry "c" comes from "cut off", which is not in the file',
        'entry "d" keeps "cut off", which is not in the file',
    ]


WRONG_HEADERS: list[tuple[Line, tuple[str, ...], str]] = [
    (said("a", None, "x"), ("type",), "the first line must be a header"),
    ({**HEADER, "version": 2}, ("version",), "version 2, and only 3 can be read; open it once with pi"),
    ({**HEADER, "version": 4}, ("version",), "version 4, and only 3 can be read; upgrade Turnchart"),
    ({name: value for name, value in HEADER.items() if name != "version"}, (), "version 1"),
    ({**HEADER, "id": ""}, ("id",), "text that is not empty"),
    ({**HEADER, "cwd": None}, ("cwd",), "`cwd` is null"),
    ({**HEADER, "timestamp": "yesterday"}, ("timestamp",), '"yesterday" is no time; it must be written like'),
    ({**HEADER, "metadata": []}, ("metadata",), "it must be an object"),
    ({**HEADER, "parentSession": 1}, ("parentSession",), "it must be text"),
]


@pytest.mark.parametrize(("header", "path", "what"), WRONG_HEADERS)
def test_a_wrong_header_is_refused(header: Line, path: tuple[str, ...], what: str) -> None:
    with pytest.raises(Malformed) as error:
        read([header])
    assert error.value.path == path
    assert what in error.value.what


def message(role: str, **fields: Any) -> Line:
    return entry("message", "b", "a", message={"role": role, **fields})


WRONG: list[tuple[Line, tuple[str | int, ...], str]] = [
    ({}, (), "`type` is missing"),
    ({**BASE, "type": 7, "id": "b"}, ("type",), "`type` is 7"),
    (said("a", "a", "again"), ("id",), 'the id "a" was given to an earlier entry'),
    ({**said("b", "a", "x"), "parentId": 1}, ("parentId",), "text or null"),
    ({**said("b", "a", "x"), "timestamp": 12}, ("timestamp",), "`timestamp` is 12"),
    (entry("message", "b", "a"), (), "`message` is missing"),
    (entry("message", "b", "a", message=[]), ("message",), "`message` is a list"),
    (message("user"), ("message",), "`content` is missing"),
    (message("user", content=[{"type": "toolCall"}]), ("message", "content", 0, "type"), '"toolCall"'),
    (message("user", content=[{"type": "text", "text": "x"}, 3]), ("message", "content", 1), "an object"),
    (message("assistant", content=[], stopReason="pending"), ("message", "stopReason"), "it is one of stop,"),
    (message("toolResult", content=[]), ("message",), "`toolCallId` is missing"),
    (entry("leaf", "b", "a", targetId="z"), ("targetId",), 'there is no entry "z" before it'),
    (entry("label", "b", "a", targetId="a", label=1), ("label",), "`label` is 1"),
    (entry("compaction", "b", "a", summary="", retainedTail=[0]), ("retainedTail", 0), "must be an object"),
    (entry("active_tools_change", "b", "a", activeToolNames=[1]), ("activeToolNames", 0), "must be text"),
    (entry("model_change", "b", "a", provider="x"), (), "`modelId` is missing"),
]


@pytest.mark.parametrize(("line", "path", "what"), WRONG)
def test_a_wrong_entry_is_refused(line: Line, path: tuple[str | int, ...], what: str) -> None:
    with pytest.raises(Malformed) as error:
        read([HEADER, said("a", None, "one"), line])
    assert error.value.path == path
    assert what in error.value.what


async def test_an_agent_goes_on_where_the_file_ends() -> None:
    call: Line = {"type": "toolCall", "id": "c", "name": "read", "arguments": {}}
    session = imported([
        HEADER,
        said("a", None, "one"),
        entry("message", "b", "a", message={"role": "assistant", "content": [call], "stopReason": "toolUse"}),
        entry(
            "message", "c", "b",
            message={"role": "toolResult", "toolCallId": "c", "toolName": "read", "content": "text"},
        ),
        entry("model_change", "d", "c", provider="", modelId="test"),
    ])  # fmt: skip
    model = ScriptedModel(["three"])
    async with Agent(model, session=session) as agent:
        turn = await agent.prompt("two")
    assert (turn.number, turn.reason) == (1, "completed")
    assert [message["role"] for message in model.requests[0].messages] == [
        "user", "assistant", "tool_result", "user",
    ]  # fmt: skip
    assert verify(session.entries).ok
    assert [line["parentId"] for line in exported(session)[5:]] == ["d", exported(session)[5]["id"]]
