"""A real MCP server, written with the SDK: over stdin and stdout, or with a port over streamable HTTP.

    python offering.py              over stdin and stdout
    python offering.py --port N     on 127.0.0.1; 0 takes a free one, which is the first line of stdout

What it is called is what it does; ``die`` ends the process in the middle of the call.
"""

import os
import sys
from typing import Annotated, Any

import anyio
from mcp.server.mcpserver import Context, MCPServer
from pydantic import Field

server = MCPServer("offering")


@server.tool()
def add(a: int, b: Annotated[int, Field(description="the second")] = 1) -> str:
    """Add two numbers."""
    return f"{a + b} in {os.getpid()}"


@server.tool(name="issue.get by-id")
def issue(ctx_id: str) -> str:
    """Tell of an issue."""
    return f"issue {ctx_id}"


@server.tool()
async def slowly(ctx: Context[Any, Any], steps: int = 3) -> str:
    """Tell how far it is."""
    for step in range(steps):
        await ctx.report_progress(step + 1, steps, f"step {step + 1}")
    return "done"


@server.tool()
async def wait() -> str:
    """Never come back."""
    await anyio.sleep_forever()
    return "never"


@server.tool()
def die() -> str:
    """End the process."""
    print("I am dying", file=sys.stderr, flush=True)
    os._exit(3)


@server.tool()
def fail() -> str:
    """Fail."""
    raise ValueError("no luck")


@server.tool()
def variable(name: str) -> str:
    """Tell the value of a variable."""
    return os.environ.get(name, "unset")


@server.tool()
async def grow(ctx: Context[Any, Any]) -> str:
    """Offer one tool more, and one less."""

    def grown() -> str:
        """Be new."""
        return "new"

    server.add_tool(grown)
    server.remove_tool("fail")
    await ctx.notify_tools_changed()
    await ctx.session.send_tool_list_changed()
    return "grown"


def main() -> None:
    if "--port" not in sys.argv:
        server.run("stdio")
        return
    import socket

    import uvicorn

    listening = socket.create_server(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])))
    print(listening.getsockname()[1], flush=True)
    app = server.streamable_http_app()
    uvicorn.Server(uvicorn.Config(app, log_level="critical")).run(sockets=[listening])


if __name__ == "__main__":
    main()
