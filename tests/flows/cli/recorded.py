"""Recorded sessions for the tests of the command line."""

import anyio

from turnchart.flows.cli.places import shelf
from turnchart.machine.agent import Agent
from turnchart.machine.messages import ToolCall
from turnchart.machine.scripted import Reply, ScriptedModel
from turnchart.machine.session import Session
from turnchart.machine.tools import tool


@tool
def nod() -> str:
    """Nod."""
    return "yes"


async def talk(session: Session) -> Session:
    """Record two turns; the first has two steps."""
    session.set_name("a name")
    model = ScriptedModel([Reply("see", tool_calls=[ToolCall("nod")]), "done", "again"])
    async with Agent(model, prompt="Be short.", tools=[nod], session=session) as agent:
        await agent.prompt("first")
        await agent.prompt("second")
    return session


def recorded(store: str, id: str) -> Session:
    """Record a session in a place, as the command line names it."""
    return anyio.run(talk, shelf(store).open(id, "x"))
