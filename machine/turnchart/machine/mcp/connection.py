"""One connection to an MCP server: opened in a task of its own, opened again when it was lost.

The SDK wants to be entered and left in one task, so ``run`` is that task; calls come from the tasks of the
tools. Connecting and listing take real time, whatever clock the agent has.
"""

from __future__ import annotations

import logging
from functools import partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anyio

from turnchart.machine.characters import whole_json
from turnchart.machine.driver import first_error
from turnchart.machine.errors import McpError, text_of
from turnchart.machine.mcp.results import outcome_of_result
from turnchart.machine.mcp.servers import Address, Program
from turnchart.machine.mcp.transports import LastWords, need_sdk, secrets, transport
from turnchart.machine.outcomes import ToolFailed
from turnchart.machine.points import ToolOutcome

if TYPE_CHECKING:
    from anyio.abc import TaskStatus
    from mcp import Client, MCPError
    from mcp_types import Tool as Offered

    from turnchart.machine.tools import ToolContext

_log = logging.getLogger("turnchart.mcp")
PAGES: Final = 100
"""So many pages of tools are read of one server."""
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
"""Seconds before a stream of changes that was lost is asked for again; they double each time."""


_TOLD: Final = 3
"""So many places are told at which an answer breaks the protocol."""


class _Attempt:
    """One try to connect, and the connection that came of it."""

    def __init__(self) -> None:
        self.done = anyio.Event()
        self.lost = anyio.Event()
        self.client: Client | None = None
        self.failure = ""
        self.words = LastWords()


class Connection:
    """A server as one agent is connected to it.

    Attributes:
        name: How messages name it.
        offered: The tools that it listed last.
        version: Grows whenever these are other ones.
    """

    def __init__(self, name: str, where: Program | Address, timeout: float, root: Path) -> None:
        self.name = name
        self.offered: tuple[Offered, ...] = ()
        self.version = 0
        self._where = where
        self._timeout = timeout
        self._root = root
        self._attempt: _Attempt | None = None
        self._stopped = self._garbled = False
        self._asked = anyio.Event()
        self._stale = anyio.Event()
        self._fresh = anyio.Event()

    @property
    def reaches(self) -> tuple[Program | Address, float]:
        """What makes two servers one: how it is reached, and its time limit."""
        return self._where, self._timeout

    # -- its task ----------------------------------------------------------------------------------

    async def run(self) -> None:
        """Connect whenever somebody asks for that, until ``stop``."""
        while not self._stopped:
            await self._asked.wait()
            self._asked = anyio.Event()
            if self._attempt is not None and not self._stopped:
                await self._live(self._attempt)

    def begin(self) -> _Attempt:
        """Ask for a new connection."""
        self._attempt = attempt = _Attempt()
        self._fresh = anyio.Event()
        self._asked.set()
        return attempt

    def stop(self) -> None:
        """Let the connection be closed in good order, and none be opened any more."""
        self._stopped = True
        self._asked.set()
        if self._attempt is not None:
            self._attempt.lost.set()

    async def up(self) -> _Attempt:
        """Wait until it is connected; connect again where that was lost.

        Raises:
            McpError: If it cannot be started or reached, or does not answer in time.
        """
        if self._stopped:
            raise McpError(f"MCP server {self.name} is not used any more: its agent was closed")
        attempt = self._attempt
        if attempt is None or attempt.lost.is_set():
            attempt = self.begin()
        await attempt.done.wait()
        if attempt.client is None:
            raise McpError(attempt.failure)
        return attempt

    async def _live(self, attempt: _Attempt) -> None:
        """Connect, and stay so until the connection is lost or nobody wants it any more."""
        try:
            need_sdk()
            attempt.words = LastWords(secrets(self._where))
            with anyio.CancelScope(deadline=anyio.current_time() + self._timeout) as scope:
                await self._connected(attempt, scope)
            if scope.cancelled_caught:
                attempt.failure = self._because(
                    attempt, f"it did not answer within {self._timeout:g} seconds"
                )
        except Exception as error:  # noqa: BLE001  # whatever goes wrong there, the agent goes on
            attempt.failure = self._because(attempt, _wrong(first_error(error)))
            if attempt.client is not None and not self._stopped:
                _log.debug("the connection to MCP server %s broke", self.name, exc_info=error)
        finally:
            attempt.failure = attempt.failure or self._because(attempt, "it was closed")
            attempt.lost.set()
            attempt.done.set()
            self._fresh.set()

    async def _connected(self, attempt: _Attempt, scope: anyio.CancelScope) -> None:
        from mcp import Client

        reached = transport(self._where, self._root, attempt.words, attempt.lost.set, self._timeout)
        async with (
            Client(reached, message_handler=self._hear, cache=None) as client,
            anyio.create_task_group() as group,
        ):
            await group.start(self._listen, client)  # first, so that no change is missed
            await self._list(client)
            scope.deadline = inf
            attempt.client = client
            self._fresh.set()
            attempt.done.set()
            group.start_soon(self._list_again, client)
            await attempt.lost.wait()
            group.cancel_scope.cancel()

    def _because(self, attempt: _Attempt, said: str) -> str:
        what = "started" if isinstance(self._where, Program) else "reached"
        words = attempt.words.lines()
        told = (
            f" ({words})" if words and "\n" not in words else f"; its last words:\n{words}" if words else ""
        )
        return f"MCP server {self.name} ({self._where}) cannot be {what}: {said}{told}"

    # -- its tools ---------------------------------------------------------------------------------

    async def _list(self, client: Client) -> None:
        found: list[Offered] = []
        cursor: str | None = None
        for _ in range(PAGES):
            page = await client.list_tools(cursor=cursor)
            found += page.tools
            cursor = page.next_cursor
            if not cursor:
                break
        if tuple(found) != self.offered:
            self.offered = tuple(found)
            self.version += 1

    async def settled(self) -> None:
        """Wait until the tools are known that the server says have changed."""
        if not self._fresh.is_set():
            with anyio.move_on_after(self._timeout):
                await self._fresh.wait()

    def _changed(self) -> None:
        if self._fresh.is_set():
            self._fresh = anyio.Event()
        self._stale.set()

    async def _hear(self, message: object) -> None:
        from mcp_types import ToolListChangedNotification

        if isinstance(message, ToolListChangedNotification):
            self._changed()
        elif isinstance(message, Exception) and not self._garbled:
            self._garbled = True
            _log.warning("MCP server %s sends what is no message: its stdout is for messages only", self.name)

    async def _list_again(self, client: Client) -> None:
        while True:
            await self._stale.wait()
            self._stale = anyio.Event()
            wrong = ""
            with anyio.move_on_after(self._timeout) as scope:
                try:
                    await self._list(client)
                except Exception as error:  # noqa: BLE001  # the tools that are known stay
                    wrong = _wrong(error) or type(error).__name__
            if scope.cancelled_caught:
                wrong = f"it did not answer within {self._timeout:g} seconds"
            if wrong:
                _log.warning("MCP server %s cannot list its tools again: %s", self.name, wrong)
            if not self._stale.is_set():
                self._fresh.set()

    async def _listen(self, client: Client, *, task_status: TaskStatus[None]) -> None:
        """Hear of changes where the protocol wants that to be asked for; a lost stream is asked for again."""
        from mcp import MCPError
        from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost

        tools, pause, started = client.server_capabilities.tools, FIRST_PAUSE, False
        while tools is not None and tools.list_changed:
            try:
                async with client.listen(tools_list_changed=True) as changes:
                    if started:
                        self._changed()
                    else:
                        task_status.started()
                    started, pause = True, FIRST_PAUSE
                    async for _ in changes:
                        self._changed()
                return
            except (ListenNotSupportedError, MCPError):
                break
            except SubscriptionLost:
                await anyio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
        if not started:
            task_status.started()

    # -- calls -------------------------------------------------------------------------------------

    async def call(self, tool: str, args: dict[str, Any], ctx: ToolContext) -> ToolOutcome:
        """Call a tool by the server's own name of it.

        Raises:
            ToolFailed: If the server refuses the call, or is gone.
            McpError: If it was gone before, and does not come back.
        """
        from mcp import MCPError
        from pydantic import ValidationError

        attempt = await self.up()
        for last in (False, True):
            assert attempt.client is not None, "who is up has a client"
            try:
                result = await attempt.client.call_tool(
                    tool, whole_json(args), progress_callback=partial(_progress, ctx)
                )
                return outcome_of_result(result)
            except ValidationError as error:
                raise ToolFailed(_wrong(error), "MCP_ERROR") from error
            except MCPError as error:
                if last or not self._forgot(error):
                    raise self._failed(attempt, error) from error
            attempt.lost.set()
            attempt = await self.up()
        raise AssertionError("the second try returns or raises")

    def _forgot(self, error: MCPError) -> bool:
        """Tell whether the server knows nothing of us any more, so that it did not look at the call."""
        from mcp_types import INVALID_REQUEST

        terminated = error.code == INVALID_REQUEST and error.message == "Session terminated"
        return isinstance(self._where, Address) and terminated

    def _failed(self, attempt: _Attempt, error: MCPError) -> ToolFailed:
        from mcp_types import CONNECTION_CLOSED

        if isinstance(self._where, Address) and error.code == CONNECTION_CLOSED:
            attempt.lost.set()
        if not attempt.lost.is_set():
            words = attempt.words.lines() if isinstance(self._where, Address) else ""
            return ToolFailed(
                f"{error.message}{f' ({words})' if words else ''}", "MCP_ERROR", str(error.code)
            )
        words = attempt.words.lines()
        told = f" Its last words:\n{words}" if words else ""
        return ToolFailed(
            f"The connection to MCP server {self.name} was lost during the call, which may have taken effect"
            f" in part. It is connected again for the next call.{told}",
            "MCP_LOST",
        )


def _wrong(error: BaseException) -> str:
    """Return what went wrong; of an answer that is not as the protocol has it, where it is not."""
    from pydantic import ValidationError

    if not isinstance(error, ValidationError):
        return text_of(error)
    found = error.errors(include_url=False, include_context=False, include_input=False)
    told = [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in found]
    more = [f"and {len(told) - _TOLD} more"] if len(told) > _TOLD else []
    return f"its answer breaks the protocol: {'; '.join([*told[:_TOLD], *more])}"


async def _progress(ctx: ToolContext, progress: float, total: float | None, message: str | None) -> None:
    share = f"{progress:g}/{total:g}" if total is not None else f"{progress:g}"
    ctx.progress(f"{share} {message}" if message else share)
