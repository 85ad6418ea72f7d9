from pathlib import Path

from tests.machine.mcp.memory import Memory, program

from turnchart.machine import McpServer
from turnchart.machine.mcp.listing import Listing, list_tools


async def test_servers_are_asked_and_closed_again(memory: Memory) -> None:
    servers = (program("a", only=["add", "i*"]), McpServer.stdio("b", ["other"]))
    first, second = await list_tools(servers, Path())
    assert first.tools == ("a.add", "a.issue.get by-id")
    assert first.offered == second.offered
    assert second.tools == tuple(f"b.{name}" for name in second.offered)
    assert sorted(memory.started) == ["other", "serve"]


async def test_one_that_cannot_be_started_says_why(memory: Memory) -> None:
    memory.refuse = OSError("no such program")
    [listing] = await list_tools([program()], Path())
    assert listing == Listing(program(), failure="MCP server off (serve) cannot be started: no such program")
    assert listing.tools == ()


async def test_no_servers_no_listing() -> None:
    assert await list_tools([], Path()) == ()
