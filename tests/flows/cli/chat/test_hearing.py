import re

import pytest

from turnchart.flows.cli.chat.hearing import Hearing, summary
from turnchart.flows.cli.chat.painting import Painter
from turnchart.flows.cli.chat.status import Status
from turnchart.flows.cli.chat.transcript import Transcript
from turnchart.machine.agent import Agent
from turnchart.machine.messages import Failure, ToolCall
from turnchart.machine.points import Deny, PreTool
from turnchart.machine.scripted import Reply, ScriptedModel
from turnchart.machine.states import State
from turnchart.machine.tools import ToolContext, ToolFailed, tool
from turnchart.testing import FakeClock

ANSI = re.compile(r"\x1b\[[0-9;]*m")


@tool
def look(at: str) -> str:
    """Look at something."""
    if at == "nothing":
        raise ToolFailed("there is nothing", "NotFound")
    return f"saw {at}\x1b[2J"


@tool(inline=True)
def dig(ctx: ToolContext) -> str:
    """Dig."""
    ctx.progress("deep")
    return "\n".join("abcdefg")


def no_b(payload: PreTool) -> Deny | None:
    return Deny("not that") if payload.args.get("at") == "b" else None


async def shown(model: ScriptedModel, *, busy: bool = False) -> list[str]:
    transcript = Transcript(Painter(colours=False))
    drawn: list[str] = []
    async with Agent(
        model, tools=[look, dig], hooks={"pre_tool": [no_b]}, clock=FakeClock(), seed=1
    ) as agent:
        agent.on("*", Hearing(agent, transcript, Status(agent), lambda: None))
        agent.follow_up("go")
        if busy:
            await agent.until(State.TOOLING)
            agent.steer("quick")
            agent.follow_up("and then")
            agent.inject("by the way", source="a plug-in")
            agent.clear()
            agent.go_on()
        await agent.idle()
    drawn += transcript.draw(300, 10).above
    return [ANSI.sub("", line).rstrip() for line in drawn if line]


async def test_an_answer_with_its_thought() -> None:
    assert await shown(ScriptedModel([Reply("**Hi**", thinking="hm")])) == ["│ hm", "Hi"]


async def test_calls_and_what_came_of_them() -> None:
    calls = [ToolCall("look", {"at": at}) for at in ("a", "b", "nothing")]
    lines = await shown(ScriptedModel([Reply(tool_calls=[*calls, ToolCall("dig")]), "done"]))
    assert lines[:2] == ['* look {"at": "a"}', "  ok: saw a␛[2J"]
    assert lines[2] == '* look {"at": "b"}'
    assert re.fullmatch(r"  pre_tool no_b \(.*\): deny: not that", lines[3])
    assert lines[4].startswith("  denied: ")
    assert lines[5:7] == ['* look {"at": "nothing"}', "  error: there is nothing"]
    assert lines[7:] == ["* dig {}", "  ok: a", "  b", "  c", "  … 4 more lines", "done"]


async def test_failures_and_retries() -> None:
    lines = await shown(
        ScriptedModel([Failure("overloaded", message="busy"), Failure("quota", message="spent")])
    )
    assert lines[0] == "  request failed: overloaded: busy"
    assert re.fullmatch(r"  overloaded: again in .* s \(retry 1, policy\)", lines[1])
    assert lines[2] == "  request failed: quota: spent"
    assert "  turn 1 error after 1 step" in lines
    assert any(line.startswith("  error: ") for line in lines)


async def test_what_was_said_meanwhile() -> None:
    lines = await shown(ScriptedModel([Reply(tool_calls=[ToolCall("dig")]), "done"]), busy=True)
    assert "  (steers the turn)" in lines
    assert "  (queued)" in lines
    assert "  added by a plug-in: by the way" in lines
    assert "  discarded: quick" in lines


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", ["(nothing)"]),
        ("\n \n", ["(nothing)"]),
        ("one", ["one"]),
        ("a\nb\nc\nd", ["a", "b", "c", "d"]),
        ("a\nb\nc\nd\ne", ["a", "b", "c", "… 2 more lines"]),
    ],
)
def test_a_long_result_is_summed_up(text: str, lines: list[str]) -> None:
    assert summary(text) == lines
