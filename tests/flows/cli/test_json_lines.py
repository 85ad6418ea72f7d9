import io
import json

from turnchart.flows.cli.json_lines import entry_record, jsonable, listener, to_stream, turn_record
from turnchart.machine.agent import Agent
from turnchart.machine.entries import SIGNALS, Entry, Frozen
from turnchart.machine.inbox import Item
from turnchart.machine.messages import Failure, ToolCall, UserMessage
from turnchart.machine.models import Finish, TextDelta
from turnchart.machine.scripted import Reply, Scripted, ScriptedModel
from turnchart.machine.tools import tool
from turnchart.machine.turn import Turn


@tool
def nod() -> str:
    """Nod."""
    return "yes"


async def test_every_signal_of_a_turn_is_a_line() -> None:
    out = io.StringIO()
    replies: list[Scripted] = [
        Failure("timeout", retry_after=0),
        Reply("é\x1b", tool_calls=[ToolCall("nod")]),
        ValueError("broken"),
    ]
    async with Agent(ScriptedModel(replies), tools=[nod]) as agent:
        agent.on("*", listener(to_stream(out)))
        await agent.prompt("go")
    assert out.getvalue().isascii()
    records = [json.loads(line) for line in out.getvalue().splitlines()]
    assert {record["type"] for record in records} < set(SIGNALS)
    entries = [record["entry"] for record in records if record["type"] == "session/event"]
    assert [entry["seq"] for entry in entries] == list(range(len(entries)))
    chunks = [record["chunk"] for record in records if record.get("frame") == "chunk"]
    assert {"type": "text_delta", "text": "é\x1b", "block": 0} in chunks
    [error] = [record["error"] for record in records if record["type"] == "agent/error"]
    assert error["type"] == "RequestFailed"


def test_the_parts_of_a_signal() -> None:
    entry = Entry(3, None, "label", 1.0, Frozen(target=1), sources=(1, 2))
    assert entry_record(entry) == {
        "seq": 3, "parent": None, "type": "label", "time": 1.0, "data": {"target": 1}, "sources": (1, 2),
    }  # fmt: skip
    assert jsonable(TextDelta("hi")) == {"type": "text_delta", "text": "hi", "block": 0}
    failed = Finish("error", Failure("quota"))
    assert jsonable(failed) == {
        "type": "finish", "reason": "error", "failure": {"kind": "quota", "message": ""},
    }  # fmt: skip
    assert jsonable(OSError("gone")) == {"type": "OSError", "message": "gone"}
    assert jsonable("as it is") == "as it is"


def test_the_last_line() -> None:
    message = UserMessage("hi")
    turn = Turn(2, "error", "half", None, ValueError("no"), 1, (Item("i1", "prompt", (message,)),))
    assert turn_record(turn, "s") == {
        "type": "turn", "session": "s", "number": 2, "reason": "error", "steps": 1, "text": "half",
        "error": {"type": "ValueError", "message": "no"}, "unadmitted": [message],
    }  # fmt: skip
    assert "error" not in turn_record(Turn(1, "completed"), "s")
