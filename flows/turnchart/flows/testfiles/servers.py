"""What stands in for the tools of MCP servers in a test: no server is started unless a stub says ``real``."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Never

from turnchart.flows.testfiles.suite import Case
from turnchart.machine.tools import Tool, ToolContext

if TYPE_CHECKING:
    from turnchart.flows.load import Flow
    from turnchart.machine.mcp.servers import McpServer


def runs_servers(flow: "Flow", case: Case) -> bool:
    """Tell whether a stub asks for the real tool of a server."""
    real = [name for name, stubs in case.tools.items() if any(stub.real for stub in stubs)]
    return any(_has(server, name) for server in flow.servers for name in real)


def server_tools(flow: "Flow", case: Case) -> list[Tool]:
    """Return the tools that servers are taken to have; none where they run, and say it themselves.

    These are the tools that the flow names one by one, that the test has stubs for, and that its script
    calls. They take any arguments.
    """
    if not flow.servers or runs_servers(flow, case):
        return []
    found: dict[str, Tool] = {}
    for server in flow.servers:
        for name in (*(server.known or ()), *case.tools, *_called(flow, case)):
            if _has(server, name):
                found.setdefault(name, _tool(server, name))
    return list(found.values())


def _tool(server: "McpServer", name: str) -> Tool:
    return Tool(
        name, "", _never, execution=server.execution, timeout=server.timeout, takes_ctx=True, is_async=True,
        input_schema={},
    )  # fmt: skip


async def _never(args: dict[str, Any], ctx: ToolContext) -> Never:
    raise AssertionError(f"{ctx.tool} was called with {args}, although no server runs")


def _has(server: "McpServer", name: str) -> bool:
    start = server.named("")
    return name.startswith(start) and server.wants(name.removeprefix(start))


def _called(flow: "Flow", case: Case) -> Iterator[str]:
    """Yield the names of the tools that the scripts call."""
    scripts = list(case.scripts.values())
    if not scripts and flow.script is not None:
        scripts.append(flow.script.steps)
    for steps in scripts:
        for step in steps:
            yield from (call.tool for call in step.calls)
