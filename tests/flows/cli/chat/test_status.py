import pytest
from rich.cells import cell_len

from turnchart.flows.cli.chat.status import Status, count
from turnchart.machine.agent import Agent
from turnchart.machine.messages import ToolCall
from turnchart.machine.scripted import Reply, ScriptedModel
from turnchart.machine.states import State
from turnchart.machine.tools import tool


@tool
def nod() -> str:
    """Nod."""
    return "yes"


@pytest.mark.parametrize(
    ("tokens", "short"),
    [(0, "0"), (999, "999"), (1000, "1.0k"), (12_345, "12.3k"), (345_678, "346k"), (2_000_000, "2.0M")],
)
def test_numbers_are_short(tokens: int, short: str) -> None:
    assert count(tokens) == short


async def test_what_goes_on_in_one_line() -> None:
    usage = {"input": 1200, "output": 30, "cache_read": 300}
    model = ScriptedModel([Reply(tool_calls=[ToolCall("nod")], usage=usage), "done"], id="some:model")
    async with Agent(model, tools=[nod]) as agent:
        status = Status(agent)
        agent.on("session/event", lambda signal, _: status.take(signal.data["entry"]))
        assert status.line(80) == "idle · some:model · /help"
        agent.follow_up("go")
        await agent.until(State.TOOLING)
        agent.steer("quick")
        agent.follow_up("and then")
        agent.follow_up("and last")
        assert status.line(80) == "tooling · step 1 · queued 1+2 · 1.5k in 30 out · some:model · /help"
        assert status.line(40) == "tooling · step 1 · queued 1+2 · /help"
        assert status.line(12) == "tooling"
        status.asking = True
        assert status.line(20) == "answer? · tooling"
        for width in range(100):
            assert cell_len(status.line(width)) <= width
        agent.clear()
        agent.go_on()
        await agent.idle()
        assert Status(agent).line(80) == "idle · 1.5k in 30 out · some:model · /help"


async def test_the_cost_where_it_is_known() -> None:
    usage = {"input": 10, "output": 5, "cost": 0.0125}
    async with Agent(ScriptedModel([Reply("one", usage=usage), Reply("two", usage=usage)])) as agent:
        status = Status(agent)
        agent.on("session/event", lambda signal, _: status.take(signal.data["entry"]))
        await agent.prompt("go")
        await agent.prompt("go")
        assert "$0.0250" in status.line(80)
