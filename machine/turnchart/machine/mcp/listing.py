"""Asking MCP servers for their tools without an agent: connected, listed, closed again."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import anyio

from turnchart.machine.errors import McpError
from turnchart.machine.mcp.connection import Connection
from turnchart.machine.mcp.servers import McpServer


class Listing(NamedTuple):
    """What came of asking one server.

    Attributes:
        server: The server.
        offered: Its own names of its tools, in its order.
        failure: Why it could not be asked; empty where it could.
    """

    server: McpServer
    offered: tuple[str, ...] = ()
    failure: str = ""

    @property
    def tools(self) -> tuple[str, ...]:
        """The names of the tools that an agent would have of it."""
        return tuple(self.server.named(name) for name in self.offered if self.server.wants(name))


async def list_tools(servers: Sequence[McpServer], root: Path) -> tuple[Listing, ...]:
    """Connect to servers, all at once, and return what each of them offers. ``root`` is their folder."""
    connections = [Connection(each.name, each.where, each.timeout, root) for each in servers]
    found: list[Listing] = []
    async with anyio.create_task_group() as group:
        for connection in connections:
            connection.begin()
            group.start_soon(connection.run)
        for server, connection in zip(servers, connections, strict=True):
            found.append(await _listed(server, connection))
        for connection in connections:
            connection.stop()
    return tuple(found)


async def _listed(server: McpServer, connection: Connection) -> Listing:
    try:
        await connection.up()
    except McpError as error:
        return Listing(server, failure=str(error))
    return Listing(server, tuple(tool.name for tool in connection.offered))
