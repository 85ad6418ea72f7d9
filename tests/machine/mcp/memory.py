"""Servers written with the SDK that run in the process of the test: all is real but the pipe."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
from mcp.server.mcpserver import Context, MCPServer
from mcp.shared.memory import create_client_server_memory_streams

from turnchart.machine.mcp import connection
from turnchart.machine.mcp.servers import Address, McpServer, Program
from turnchart.machine.mcp.transports import LastWords, watched


class Memory:
    """The servers of a test, by their program or their address.

    Attributes:
        started: What was started, in order.
        refuse: Raised instead of starting anything.
    """

    def __init__(self, make: Callable[["Memory"], MCPServer]) -> None:
        self.started: list[str] = []
        self.refuse: Exception | None = None
        self.running: list[tuple[anyio.CancelScope, Any]] = []
        self._make = make

    def transport(
        self, where: Program | Address, root: Path, words: LastWords, over: Callable[[], None], limit: float
    ) -> Any:
        """Stand in for the function that starts programs."""
        del root, words, limit
        self.started.append(str(where))
        return watched(self._streams(), over)

    def kill(self) -> None:
        """End the server that was started last, in the middle of whatever it does, without a last word."""
        scope, sending = self.running[-1]
        sending.close()
        scope.cancel()

    @asynccontextmanager
    async def _streams(self) -> AsyncGenerator[Any]:
        if self.refuse is not None:
            raise self.refuse
        server = self._make(self)._lowlevel_server  # pyright: ignore[reportPrivateUsage]  # nothing public runs on streams
        async with (
            create_client_server_memory_streams() as (ours, theirs),
            anyio.create_task_group() as group,
        ):

            async def run() -> None:
                with anyio.CancelScope() as scope:
                    self.running.append((scope, theirs[1]))
                    reading, writing = cast(Any, theirs)
                    await server.run(reading, writing, server.create_initialization_options())
                for stream in theirs:
                    await stream.aclose()

            group.start_soon(run)
            yield ours
            group.cancel_scope.cancel()


def offering(memory: Memory) -> MCPServer:
    """Return a server with some tools."""
    server = MCPServer("offering")

    async def add(a: int, b: int = 1) -> str:
        """Add two numbers."""
        return str(a + b)

    async def issue(number: str) -> str:
        """Tell of an issue."""
        return f"issue {number}"

    async def slowly(ctx: Context[Any, Any], steps: int = 2) -> str:
        """Tell how far it is."""
        for step in range(steps):
            await ctx.report_progress(step + 1, steps, f"step {step + 1}")
        return "done"

    async def wait() -> str:
        """Never come back."""
        await anyio.sleep_forever()
        return "never"

    async def die() -> str:
        """End the server."""
        memory.kill()
        await anyio.sleep_forever()
        return "never"

    async def fail() -> str:
        """Fail."""
        raise ValueError("no luck")

    async def grow(ctx: Context[Any, Any]) -> str:
        """Offer one tool more, and one less."""
        server.add_tool(issue, name="grown")
        server.remove_tool("fail")
        await ctx.notify_tools_changed()
        return "grown"

    for fn in (add, slowly, wait, die, fail, grow):
        server.add_tool(fn)
    server.add_tool(issue, name="issue.get by-id")
    return server


def use(patch: pytest.MonkeyPatch, make: Callable[[Memory], MCPServer] = offering) -> Memory:
    """Let every server of this test be one of these."""
    memory = Memory(make)
    patch.setattr(connection, "transport", memory.transport)
    return memory


def program(name: str = "off", **how: Any) -> McpServer:
    """Return a server that would be a program."""
    return McpServer.stdio(name, ["serve", "it"], **how)
