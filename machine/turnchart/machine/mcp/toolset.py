"""The tools of all MCP servers of one agent: made of what the servers list, and changed between steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING, Final

from turnchart.machine.mcp.connection import Connection
from turnchart.machine.tools import Tool

if TYPE_CHECKING:
    from anyio.abc import TaskGroup
    from mcp_types import Tool as Offered

    from turnchart.machine.mcp.servers import McpServer
    from turnchart.machine.outfit import Outfit

LONGEST_NAME: Final = 200
SOURCE: Final = "mcp"
"""What notices about servers say where they come from."""


class Toolset:
    """The servers of one agent, each connected once.

    Attributes:
        servers: Which they are; assign others while the agent is not open.
        wrap: Makes another tool of each tool of a server; tests put stubs there.
    """

    def __init__(self, servers: Sequence[McpServer]) -> None:
        self.servers = tuple(servers)
        self.wrap: Callable[[Tool], Tool] = _as_it_is
        self._connections: list[Connection] = []
        self._own: Mapping[str, Tool] = {}
        self._made: dict[str, tuple[Offered, Tool]] = {}
        self._version = 0
        self._told: set[str] = set()

    async def open(self, agent: Outfit, group: TaskGroup) -> Callable[[], None]:
        """Connect to every server, give the agent their tools, and return what closes the connections.

        Raises:
            McpError: If a server cannot be started or reached.
        """
        self._own = {name: tool for name, tool in agent.known_tools.items() if name not in self._made}
        self._connections = []
        for server in self.servers:
            if not any(_reaches(each, server) for each in self._connections):
                self._connections.append(Connection(server.name, server.where, server.timeout, agent.root))
        for connection in self._connections:
            connection.begin()
            group.start_soon(connection.run)
        for connection in self._connections:
            await connection.up()
        self._give(agent)
        return self._stop

    def _stop(self) -> None:
        for connection in self._connections:
            connection.stop()

    async def settle(self, agent: Outfit) -> None:
        """Give the agent other tools, where a server says that its tools have changed."""
        for connection in self._connections:
            await connection.settled()
        if self._version != self._newest:
            before = set(self._made)
            self._give(agent)
            self._tell_changes(agent, before)

    @property
    def _newest(self) -> int:
        return sum(connection.version for connection in self._connections)

    def _give(self, agent: Outfit) -> None:
        self._version = self._newest
        made: dict[str, tuple[Offered, Tool]] = {}
        for server in self.servers:
            connection = next(each for each in self._connections if _reaches(each, server))
            self._check_only(agent, server, connection)
            for offered in connection.offered:
                name = server.named(offered.name)
                if server.wants(offered.name) and name not in self._own and name not in made:
                    tool = self._tool(agent, server, connection, offered)
                    if tool is not None:
                        made[name] = (offered, tool)
        self._made = made
        agent.retool({**self._own, **{name: tool for name, (_, tool) in made.items()}})

    def _tool(
        self, agent: Outfit, server: McpServer, connection: Connection, offered: Offered
    ) -> Tool | None:
        """Return a tool of a server; None where no agent could call it."""
        name = server.named(offered.name)
        known = self._made.get(name)
        if known is not None and known[0] == offered:
            return known[1]
        if not offered.name.isprintable() or not 0 < len(offered.name) <= LONGEST_NAME:
            self._tell(
                agent, f"MCP server {server.name}: a tool is left out for its name: {offered.name!r:.80}"
            )
            return None
        tool = Tool(
            name, offered.description or offered.title or "", partial(connection.call, offered.name),
            execution=server.execution, timeout=server.timeout, takes_ctx=True, is_async=True,
            input_schema=offered.input_schema,
        )  # fmt: skip
        try:
            _ = tool.schema
        except (TypeError, ValueError, RecursionError) as error:
            self._tell(agent, f"MCP server {server.name}: a tool is left out: {error}")
            return None
        return self.wrap(tool)

    # -- what is worth knowing ---------------------------------------------------------------------

    def _check_only(self, agent: Outfit, server: McpServer, connection: Connection) -> None:
        names = [offered.name for offered in connection.offered]
        for glob in server.only:
            if not any(fnmatchcase(name, glob) for name in names):
                known = ", ".join(names) or "none"
                self._tell(agent, f"MCP server {server.name} has no tool {glob!r}; its tools: {known}")

    def _tell_changes(self, agent: Outfit, before: set[str]) -> None:
        new = [name for name in self._made if name not in before]
        gone = sorted(before - self._made.keys())
        told = [f"{word}: {', '.join(names)}" for word, names in (("new", new), ("gone", gone)) if names]
        if told:
            agent.notice(f"the tools of MCP servers have changed; {'; '.join(told)}", SOURCE)

    def _tell(self, agent: Outfit, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            agent.notice(text, SOURCE)


def _as_it_is(tool: Tool) -> Tool:
    return tool


def _reaches(connection: Connection, server: McpServer) -> bool:
    return connection.reaches == (server.where, server.timeout)
