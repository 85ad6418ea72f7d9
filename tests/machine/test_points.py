"""The contract of the hook points, against a copy of the table in docs that was typed by hand."""

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from turnchart.machine import points
from turnchart.machine.clock import SYSTEM_CLOCK
from turnchart.machine.entries import Entry, Frozen
from turnchart.machine.messages import AssistantMessage, Text, UserMessage
from turnchart.machine.points import POINTS, Call, Payload, PostTool, PreTool, TurnStopping, TurnView
from turnchart.machine.world import AgentWorld

# point | states | kind | fields that stay | that may change | decisions | on_error | failure | run | tools
TABLE = """
session_start | idle | all | source | | AddContext | warn | does not start | yes | no
session_end | idle | all | reason | | | | reported | yes | no
assemble | claiming | rewrite | | sections contexts tools | | stop | turn error | yes | no
pre_step | pre_step | gate | | messages starts_request_series | Reject Enter | | turn error | yes | no
request | requesting | rewrite | calls | model settings thinking tools | | stop | turn error | yes | no
context | requesting | rewrite | | messages | | warn | turn error | yes | no
convert | requesting | rewrite | | llm_messages | | | turn error | no | no
stream | requesting | wrap | request | | | | turn error | no | no
request_error | retrying | first answer | kind status retry_after attempt model message fallback | | Retry GiveUp | | turn error | yes | no
pre_tool | tooling | gate | tool subject subject_name call_id | args | Allow Ask Deny | | call denied | yes | yes
tool | tooling | wrap | tool args call_id | | | | error result | no | yes
post_tool | tooling | rewrite | tool args call_id outcome | content details is_error usage terminate context | Block | warn | withheld | yes | yes
after_step | stopping | first answer | message results | | Stop | | turn error | yes | no
turn_stopping | stopping | first answer | text reason continues max_continues | | Continue | | turn error | yes | no
compact | pre_step retrying maintenance | first answer | trigger range tokens | | Veto Summary | | reported | yes | no
on_signal | | observer | signal data | | | | reported | yes | no
"""  # noqa: E501  # a table
ROWS = [[cell.strip() for cell in line.split("|")] for line in TABLE.strip().splitlines()]


def test_the_points_stand_in_the_order_of_the_table() -> None:
    assert list(POINTS) == [row[0] for row in ROWS]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_point_is_what_the_table_says(row: list[str]) -> None:
    name, states, kind, stays, changes, decisions, on_error, failure, run, tools = row
    point = POINTS[name]
    own = {field.name for field in fields(point.payload)} - {field.name for field in fields(Payload)}
    assert point.name == name
    assert " ".join(point.states) == states
    assert point.kind == kind
    assert point.gate is (kind == "gate")
    assert own == {*stays.split(), *changes.split()}
    assert point.payload.may_change == {*changes.split()}
    assert [kind.__name__ for kind in point.decisions] == decisions.split()
    assert (point.on_error or "") == on_error
    assert point.failure == failure
    assert point.run is (run == "yes")
    assert point.tools is (tools == "yes")
    assert point.does


def test_on_error_may_be_written_where_the_table_says() -> None:
    assert list(points.WITH_ON_ERROR) == [row[0] for row in ROWS if row[6]]


@pytest.mark.parametrize("point", POINTS.values(), ids=lambda point: point.name)
def test_every_field_of_a_payload_has_a_default(point: points.Point) -> None:
    payload = point.payload()
    assert payload.turn is points.NO_TURN
    assert payload.memory == {}
    assert payload.json()["id"] == ""


@pytest.mark.parametrize("point", POINTS.values(), ids=lambda point: point.name)
def test_replace_refuses_every_field_that_may_not_change(point: points.Point) -> None:
    payload = point.payload()
    for field in fields(payload):
        if field.name not in payload.may_change:
            with pytest.raises(TypeError, match=rf"{field.name} cannot be changed by a hook; it may change "):
                payload.replace(**{field.name: None})


def test_replace_changes_what_may_change_and_nothing_else() -> None:
    given = PreTool(tool="shell", args={"command": "ls"}, id="a")
    changed = given.replace(args={"command": "ls -h"})
    assert (changed.tool, changed.args, changed.id) == ("shell", {"command": "ls -h"}, "a")
    assert given.args == {"command": "ls"}
    assert changed.changed(given) == ("args",)
    assert given.changed(given) == ()


def test_decisions_differ_in_their_words() -> None:
    kinds = {kind for point in POINTS.values() for kind in point.decisions}
    words = {kind.word for kind in kinds}
    assert len(words) == len(kinds)
    assert "" not in words


def test_a_payload_without_a_world_says_how_to_get_one() -> None:
    with pytest.raises(RuntimeError, match="PreTool was made without a world"):
        _ = PreTool().now


@pytest.mark.anyio
async def test_a_payload_reaches_the_world_that_it_was_given(tmp_path: Path) -> None:
    told: list[str] = []

    async def ask(model: str, prompt: str) -> str:
        return f"{model} says yes to {prompt}"

    (tmp_path / "notes").write_text("text")
    payload = PreTool(world=AgentWorld(tmp_path, SYSTEM_CLOCK, told.append, ask))
    assert payload.now > 0
    assert (await payload.run(["cat"], stdin="hello")).output == "hello"
    assert await payload.ask_model("m", "it") == "m says yes to it"
    assert payload.read("notes") == "text"
    payload.notice("hello")
    assert told == ["hello"]


def test_post_tool_tells_its_text() -> None:
    assert PostTool(content=(Text("a"), Text("b"))).text == "ab"


def test_what_a_command_hook_reads() -> None:
    read = TurnStopping(text="done", agent="a", step=2, id="x").json()
    assert read == {
        "agent": "a", "flow": "", "session": "", "id": "x", "turn": {"number": 0, "prompt": "", "steps": 0},
        "step": 2, "text": "done", "reason": "completed", "continues": 0, "max_continues": 8,
    }  # fmt: skip


def entry(seq: int, type: str, **data: Any) -> Entry:
    return Entry(seq, seq - 1 if seq else None, type, 0.0, Frozen(data))


LOG = [
    entry(0, "user/message", message=UserMessage("of the turn before")),
    entry(1, "turn/start", turn=2),
    entry(2, "user/message", message=UserMessage("hello")),
    entry(3, "step/start", turn=2, step=1),
    entry(4, "assistant/message", message=AssistantMessage("a", usage={"input": 5, "output": 1})),
    entry(5, "tool/call", turn=2, step=1, call_id="c1", tool="shell", arguments=Frozen(command="ls")),
    entry(6, "tool/call", turn=2, step=1, call_id="c2", tool="shell", arguments="{"),
    entry(7, "tool/result", turn=2, step=1, message=Frozen(call_id="c1"), outcome="ok"),
    entry(8, "hook/result", id="again", decision="continue"),
    entry(9, "hook/result", id="other", decision="continue"),
    entry(10, "hook/result", id="again", decision="deny"),
    entry(11, "assistant/message", message=AssistantMessage("b", usage={"input": 7})),
]


def test_the_turn_is_read_from_the_log() -> None:
    turn = TurnView(2, LOG, 1)
    assert (turn.number, turn.prompt, turn.steps) == (2, "hello", 1)
    assert turn.calls == (
        Call("c1", "shell", Frozen(command="ls"), "ok", 1),
        Call("c2", "shell", "{", None, 1),
    )
    assert (turn.continues, turn.continues_of("again"), turn.continues_of("nobody")) == (2, 1, 0)
    assert turn.usage == {"input": 12, "output": 1}
    assert points.NO_TURN.prompt == ""
