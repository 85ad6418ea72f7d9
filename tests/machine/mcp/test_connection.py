import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import MCPError
from mcp.client.subscriptions import SubscriptionLost
from mcp.server.mcpserver import Context, MCPServer
from mcp_types import (
    CONNECTION_CLOSED,
    INVALID_REQUEST,
    CallToolResult,
    ListToolsResult,
    ServerCapabilities,
    ToolsCapability,
)
from tests.machine.mcp.memory import Memory, program, use

from turnchart.machine import McpError, McpServer, ToolContext, ToolFailed
from turnchart.machine.mcp.connection import Connection

NAMES = ["add", "slowly", "wait", "die", "fail", "grow", "issue.get by-id"]


@asynccontextmanager
async def connected(server: McpServer | None = None) -> AsyncGenerator[Connection]:
    """Give a connection with its task."""
    server = server or program()
    connection = Connection(server.name, server.where, server.timeout, Path())
    async with anyio.create_task_group() as group:
        group.start_soon(connection.run)
        yield connection
        connection.stop()


async def text(connection: Connection, tool: str, **args: Any) -> str:
    outcome = await connection.call(tool, args, ToolContext())
    return "".join(block["text"] for block in outcome.content)


async def test_it_connects_when_somebody_asks(memory: Memory) -> None:
    async with connected() as connection:
        assert memory.started == []
        await connection.up()
        await connection.up()
        assert [tool.name for tool in connection.offered] == NAMES
        assert await text(connection, "add", a=2, b=3) == "5"
        assert await text(connection, "issue.get by-id", number="7") == "issue 7"
    assert memory.started == ["serve"]


async def test_half_a_character_goes_over_as_one_that_nobody_knows(memory: Memory) -> None:
    async with connected() as connection:
        assert await text(connection, "issue.get by-id", number="\ud83d.") == "issue \ufffd."


async def test_progress_is_told(memory: Memory) -> None:
    told: list[Any] = []
    async with connected() as connection:
        await connection.call("slowly", {"steps": 2}, ToolContext(report=told.append))
    assert told == ["1/2 step 1", "2/2 step 2"]


async def test_many_calls_at_once(memory: Memory) -> None:
    found: dict[int, str] = {}

    async def add(number: int) -> None:
        found[number] = await text(connection, "add", a=number)

    async with connected() as connection, anyio.create_task_group() as group:
        for number in range(20):
            group.start_soon(add, number)
    assert found == {number: str(number + 1) for number in range(20)}


async def test_a_tool_that_fails_and_one_that_is_not_there(memory: Memory) -> None:
    async with connected() as connection:
        failed = await connection.call("fail", {}, ToolContext())
        assert (failed.is_error, failed.outcome) == (True, "error")
        try:
            said = await text(connection, "nothing")
        except ToolFailed as refused:  # newer servers refuse it, older ones answer with an error
            said = str(refused)
        assert "nothing" in said
        assert await text(connection, "add", a=1) == "2"


async def test_a_server_that_dies_in_a_call_is_started_again_for_the_next(memory: Memory) -> None:
    async with connected() as connection:
        with pytest.raises(
            ToolFailed, match="The connection to MCP server off was lost during the call"
        ) as lost:
            await connection.call("die", {}, ToolContext())
        assert lost.value.name == "MCP_LOST"
        assert await text(connection, "add", a=1) == "2"
        assert await text(connection, "add", a=2) == "3"
    assert memory.started == ["serve", "serve"]


async def test_every_call_of_a_server_that_dies_ends(memory: Memory) -> None:
    said: list[str] = []

    async def wait() -> None:
        with pytest.raises(ToolFailed) as lost:
            await connection.call("wait", {}, ToolContext())
        said.append(lost.value.name)

    async with connected() as connection:
        await connection.up()
        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            memory.kill()
    assert said == ["MCP_LOST"] * 3


async def test_a_server_that_died_between_calls_is_started_again(memory: Memory) -> None:
    async with connected() as connection:
        first = await connection.up()
        memory.kill()
        await first.lost.wait()
        assert await text(connection, "add", a=1) == "2"
    assert memory.started == ["serve", "serve"]


async def test_a_server_that_does_not_come_back_says_why(memory: Memory) -> None:
    async with connected() as connection:
        first = await connection.up()
        memory.refuse = OSError("no such program")
        memory.kill()
        await first.lost.wait()
        for _ in range(2):
            with pytest.raises(
                McpError, match=r"MCP server off \(serve\) cannot be started: no such program"
            ):
                await connection.call("add", {"a": 1}, ToolContext())
        memory.refuse = None
        assert await text(connection, "add", a=1) == "2"


async def test_one_that_does_not_answer_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent(MCPServer):
        async def list_tools(self) -> Any:
            await anyio.sleep_forever()

    use(monkeypatch, lambda _: Silent("silent"))
    async with connected(program(timeout=0.01)) as connection:
        with pytest.raises(McpError, match=r"cannot be started: it did not answer within 0\.01 seconds"):
            await connection.up()


@pytest.mark.usefixtures("memory")
async def test_an_answer_that_breaks_the_protocol_is_told_by_its_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def lists(*_: Any, **__: Any) -> Any:
        return ListToolsResult.model_validate({"tools": [{"name": "a"}]})

    async def answers(*_: Any, **__: Any) -> Any:
        return CallToolResult.model_validate({"content": "no list"})

    async with connected() as connection:
        await connection.up()
        monkeypatch.setattr("mcp.Client.call_tool", answers)
        with pytest.raises(ToolFailed, match=r"^its answer breaks the protocol: content: Input should be"):
            await text(connection, "add", a=1)
    monkeypatch.setattr("mcp.Client.list_tools", lists)
    async with connected() as connection:
        with pytest.raises(McpError) as raised:
            await connection.up()
    assert str(raised.value) == (
        "MCP server off (serve) cannot be started: its answer breaks the protocol:"
        " tools.0.inputSchema: Field required"
    )


async def test_a_call_that_is_cancelled_is_cancelled_there_too(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    begun, over = anyio.Event(), anyio.Event()

    def make(_: Memory) -> MCPServer:
        server = MCPServer("long")

        async def work() -> str:
            begun.set()
            try:
                await anyio.sleep_forever()
            finally:
                told.append("cancelled")
                over.set()
            return ""

        server.add_tool(work)
        return server

    use(monkeypatch, make)
    async with connected() as connection:
        async with anyio.create_task_group() as group:
            group.start_soon(text, connection, "work")
            await begun.wait()
            group.cancel_scope.cancel()
        await over.wait()
        assert told == ["cancelled"]
        await connection.up()


async def test_other_tools_are_listed_when_the_server_says_so(memory: Memory) -> None:
    async with connected() as connection:
        await connection.up()
        before = connection.version
        assert await text(connection, "grow") == "grown"
        await anyio.wait_all_tasks_blocked()
        await connection.settled()
        assert connection.version == before + 1
        assert [tool.name for tool in connection.offered] == [name for name in NAMES if name != "fail"] + [
            "grown"
        ]


def use_growing(monkeypatch: pytest.MonkeyPatch, second: Callable[[], Awaitable[None]]) -> None:
    """Connect to a server whose one tool, grow, adds another; of the second listing comes what is given."""

    class Growing(MCPServer):
        times = 0

        async def list_tools(self) -> Any:
            self.times += 1
            if self.times == 2:
                await second()
            return await super().list_tools()

    def make(_: Memory) -> MCPServer:
        server = Growing("growing")

        async def grow(ctx: Context[Any, Any], name: str) -> str:
            server.add_tool(lambda: "new", name=name)
            await ctx.notify_tools_changed()
            return "grown"

        server.add_tool(grow)
        return server

    use(monkeypatch, make)


async def test_where_listing_again_fails_the_known_tools_stay(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail() -> None:
        raise RuntimeError("not again")

    use_growing(monkeypatch, fail)
    async with connected() as connection:
        await connection.up()
        with caplog.at_level(logging.WARNING, "turnchart.mcp"):
            assert await text(connection, "grow", name="a") == "grown"
            await anyio.wait_all_tasks_blocked()
            await connection.settled()
        assert [tool.name for tool in connection.offered] == ["grow"]
        assert "MCP server off cannot list its tools again" in caplog.text


def _telling(
    emit: Callable[[logging.LogRecord], None], told: anyio.Event
) -> Callable[[logging.LogRecord], None]:
    def both(record: logging.LogRecord) -> None:
        emit(record)
        told.set()

    return both


async def test_listing_again_takes_no_longer_than_the_server_has(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    use_growing(monkeypatch, anyio.sleep_forever)
    async with connected() as connection:
        await connection.up()
        connection._timeout = 0.01  # pyright: ignore[reportPrivateUsage]  # it was enough to connect
        told = anyio.Event()
        monkeypatch.setattr(caplog.handler, "emit", _telling(caplog.handler.emit, told))
        with caplog.at_level(logging.WARNING, "turnchart.mcp"):
            assert await text(connection, "grow", name="a") == "grown"
            await anyio.wait_all_tasks_blocked()
            await connection.settled()
            with anyio.fail_after(5):
                await told.wait()
        assert (
            "MCP server off cannot list its tools again: it did not answer within 0.01 seconds" in caplog.text
        )
        assert connection._fresh.is_set()  # pyright: ignore[reportPrivateUsage]  # nobody waits for it any more
        connection._timeout = 60  # pyright: ignore[reportPrivateUsage]
        assert await text(connection, "grow", name="b") == "grown"
        await anyio.wait_all_tasks_blocked()
        await connection.settled()
        assert [tool.name for tool in connection.offered] == ["grow", "a", "b"]


class Forgetful:
    """A client whose session the server forgot once."""

    def __init__(self, *errors: MCPError) -> None:
        self.errors = list(errors)
        self.calls = 0

    async def call_tool(self, *_: Any, **__: Any) -> Any:
        self.calls += 1
        raise self.errors.pop(0)


async def test_a_session_that_the_server_forgot_is_opened_again_at_once(memory: Memory) -> None:
    async with connected(McpServer.http("web", "http://127.0.0.1/mcp")) as connection:
        attempt = await connection.up()
        forgetful: Any = Forgetful(MCPError(INVALID_REQUEST, "Session terminated"))
        attempt.client = forgetful
        assert await text(connection, "add", a=1) == "2"
        assert forgetful.calls == 1
    assert len(memory.started) == 2


async def test_an_address_that_breaks_off_is_reached_anew(memory: Memory) -> None:
    async with connected(McpServer.http("web", "http://127.0.0.1/mcp")) as connection:
        attempt = await connection.up()
        broken: Any = Forgetful(MCPError(CONNECTION_CLOSED, "SSE stream ended without a response"))
        attempt.client = broken
        with pytest.raises(ToolFailed, match="was lost during the call"):
            await connection.call("add", {"a": 1}, ToolContext())
        assert await text(connection, "add", a=1) == "2"


async def test_nobody_can_ask_a_connection_that_was_stopped(memory: Memory) -> None:
    async with connected() as connection:
        await connection.up()
    with pytest.raises(McpError, match="MCP server off is not used any more"):
        await connection.up()
    assert len(memory.started) == 1


class Listening:
    """A client whose stream of changes is lost once, then tells of one change and ends."""

    def __init__(self) -> None:
        self.streams = 0
        self.server_capabilities = ServerCapabilities(tools=ToolsCapability(list_changed=True))

    @asynccontextmanager
    async def listen(self, **_: Any) -> AsyncGenerator[Any]:
        self.streams += 1
        lost = self.streams == 1

        async def changes() -> AsyncGenerator[Any]:
            if lost:
                raise SubscriptionLost("gone")
            yield "changed"

        async with aclosing(changes()) as stream:
            yield stream


async def test_a_lost_stream_of_changes_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnchart.machine.mcp.connection.FIRST_PAUSE", 0)
    made = Connection("off", program().where, 60, Path())
    client: Any = Listening()
    async with anyio.create_task_group() as group:
        await group.start(made._listen, client)  # pyright: ignore[reportPrivateUsage]  # nothing loses one at will
    assert client.streams == 2
    assert made._stale.is_set()  # pyright: ignore[reportPrivateUsage]  # the tools are to be listed again
