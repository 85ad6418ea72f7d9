import io
import os

import pytest

from turnchart.flows.cli.render import Render, Screen, asks
from turnchart.machine.agent import Agent
from turnchart.machine.approvals import Question
from turnchart.machine.messages import Failure, ToolCall
from turnchart.machine.points import Deny, PreTool
from turnchart.machine.scripted import Reply, ScriptedModel
from turnchart.machine.states import State
from turnchart.machine.tools import ToolContext, ToolFailed, tool


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def plain_screen() -> tuple[Screen, io.StringIO, io.StringIO]:
    out, err = io.StringIO(), io.StringIO()
    return Screen(out, err), out, err


# -- the screen --


def test_states_that_follow_each_other_share_a_line() -> None:
    screen, out, err = plain_screen()
    for name in ("idle", "claiming", "pre-step"):
        screen.state(name)
    screen.line("  a retry")
    screen.state("requesting")
    screen.close()
    assert err.getvalue() == "idle > claiming > pre-step\n  a retry\nrequesting\n"
    assert out.getvalue() == ""


def test_in_a_pipe_the_answer_stays_whole() -> None:
    screen, out, err = plain_screen()
    screen.answer("one ")
    screen.line("  meanwhile")
    screen.answer("two")
    screen.end_answer()
    screen.end_answer()
    assert (out.getvalue(), err.getvalue()) == ("one two\n", "  meanwhile\n")


def test_on_one_terminal_no_line_begins_inside_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    both = Terminal()
    screen = Screen(both, both)
    screen.state("requesting")
    screen.answer("half an ")
    screen.line("  meanwhile")
    screen.answer("answer")
    screen.state("stopping")
    screen.close()
    assert both.getvalue() == "requesting\nhalf an \n  meanwhile\nanswer\nstopping\n"


def test_where_a_pipe_may_lead_to_the_terminal_no_line_of_it_begins_inside_the_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As in ``turnchart run ... | cat``, where what goes into the pipe is on the terminal at once."""
    monkeypatch.setenv("NO_COLOR", "1")
    both: list[str] = []
    reading, writing = os.pipe()
    with os.fdopen(reading), os.fdopen(writing, "w") as out:
        monkeypatch.setattr(out, "write", both.append)
        err = Terminal()
        monkeypatch.setattr(err, "write", both.append)
        screen = Screen(out, err)
        screen.state("requesting")
        screen.answer("half an ")
        screen.line("  meanwhile")
        screen.answer("answer")
        screen.state("stopping")
        screen.end_answer()
        screen.state("idle")
        screen.line("  turn 1 completed")
        screen.answer("more")
        screen.ask(">")
        screen.close()
    assert "".join(both) == (
        "requesting\nhalf an \n  meanwhile\nanswer\nstopping > idle\n\n  turn 1 completed\nmore\n> \n"
    )


@pytest.mark.parametrize(
    ("variables", "coloured"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)],
)
def test_colours(variables: dict[str, str], coloured: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    err = Terminal()
    Screen(io.StringIO(), err).line("denied", "bad")
    assert err.getvalue() == ("\x1b[31mdenied\x1b[0m\n" if coloured else "denied\n")


def test_a_question_leaves_the_cursor_behind_it() -> None:
    screen, _, err = plain_screen()
    screen.state("tooling")
    screen.ask("sure?")
    assert err.getvalue() == "tooling\nsure? "


def test_a_question_in_words() -> None:
    question = Question("c1", "shell", {"command": "rm \x1b[2J"}, "a rule asks")
    assert asks(question) == '  may shell run? {"command": "rm \\u001b[2J"}  (a rule asks)'
    assert asks(Question("c1", "shell", {"command": "true; " * 100 + "rm -rf /"})).endswith('rm -rf /"}')


# -- an agent on the screen --


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
    return "done"


def no_b(payload: PreTool) -> Deny | None:
    return Deny("not that") if payload.args.get("at") == "b" else None


async def shown(model: ScriptedModel, *, steer: str = "") -> tuple[str, str]:
    screen, out, err = plain_screen()
    async with Agent(model, tools=[look, dig], hooks={"pre_tool": [no_b]}) as agent:
        agent.on("*", Render(agent, screen))
        if steer:
            agent.follow_up("go")
            await agent.until(State.TOOLING)
            agent.steer(steer)
            agent.follow_up("and then")
            agent.inject("by the way", source="a plug-in")
            agent.go_on()
            await agent.idle()
        else:
            await agent.prompt("go")
    screen.close()
    return out.getvalue(), err.getvalue()


async def test_a_turn_with_tools_and_a_denial() -> None:
    calls = [
        ToolCall("look", {"at": "a"}),
        ToolCall("look", {"at": "b"}),
        ToolCall("look", {"at": "nothing"}),
    ]
    out, err = await shown(ScriptedModel([Reply("See:", tool_calls=calls), "done"]))
    assert out == "See:\ndone\n"
    lines = err.splitlines()
    assert lines[:4] == [
        "idle > claiming > pre-step > requesting",
        "tooling",
        '  look {"at": "a"}',
        "  look ok: saw a␛[2J",
    ]
    assert any(line.startswith("  pre_tool no_b (") and line.endswith("): deny: not that") for line in lines)
    assert "  look denied: Denied: not that (hook no_b)" in lines
    assert "  look error: there is nothing" in lines
    assert lines[-3:] == [
        "stopping > claiming > pre-step > requesting",
        "stopping > idle",
        "  turn 1 completed after 2 steps",
    ]


async def test_retries_and_errors() -> None:
    out, err = await shown(
        ScriptedModel([Failure("overloaded", retry_after=0), Failure("quota", message="spent")])
    )
    assert out == ""
    assert err.splitlines() == [
        "idle > claiming > pre-step > requesting > retrying",
        "  request failed: overloaded",
        "  overloaded: again in 0 s (retry 1, policy)",
        "requesting > retrying",
        "  request failed: quota: spent",
        "idle",
        "  error: model request failed (quota): spent",
        "  turn 1 error after 1 step",
    ]


async def test_what_comes_in_while_it_works() -> None:
    model = ScriptedModel([Reply(tool_calls=[ToolCall("dig")]), "one", "two"])
    _, err = await shown(model, steer="quick")
    assert (
        "tooling\n  steering: quick\n  queued: and then\n  added by a plug-in: by the way\n  dig {}\n" in err
    )
    assert "deep" not in err, "a quick call needs no progress"
    assert "stopping > claiming" in err
    assert "  turn 2 completed after 1 step\n" in err


async def test_the_progress_of_a_long_call_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnchart.flows.cli.render.PATIENCE", 0.0)
    _, err = await shown(ScriptedModel([Reply(tool_calls=[ToolCall("dig")]), "done"]))
    assert "  dig: deep\n  dig ok: done\n" in err
