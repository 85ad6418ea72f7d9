"""How a server is reached with the SDK: as a program with its last words, or at an address."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, TextIO, cast

import anyio

from turnchart.machine.addresses import login_of, readable, without_login
from turnchart.machine.errors import McpError
from turnchart.machine.masking import SHORTEST, without_secrets
from turnchart.machine.mcp.servers import Address, Program
from turnchart.machine.world import passed_environment

if TYPE_CHECKING:
    import httpx2
    from mcp.client import Transport
    from mcp.shared.message import SessionMessage

    Streams = tuple[Any, Any]
    Read = AbstractAsyncContextManager[Any]

EXTRA: Final = "pip install 'turnchart[mcp]'"
_KEPT, _LINES, _WIDEST = 4000, 5, 200
"""So many bytes of the last that a program wrote to stderr are kept; so many lines are told, cut at that."""


def need_sdk() -> None:
    """Load the SDK.

    Raises:
        McpError: If it is not installed.
    """
    try:
        import_module("mcp.client")
        import_module("jsonschema")
    except ImportError as error:
        raise McpError(f"MCP servers need the libraries mcp and jsonschema: {EXTRA}") from error
    log = logging.getLogger("mcp")
    if not log.handlers:  # else what it logs goes to stderr, tracebacks and all, where nobody set logging up
        log.addHandler(logging.NullHandler())


class LastWords:
    """Why a server may not answer: the end of its stderr, or the status with which it refused a request.

    What it was given as a secret is masked.
    """

    def __init__(self, secrets: tuple[str, ...] = ()) -> None:
        self._secrets = secrets
        self._said = b""
        self._pipe: int | None = None
        self._refused = ""

    def lines(self) -> str:
        """Return the last lines; nothing where there are none."""
        self._drain()
        text = self._refused or self._said.decode("utf-8", "replace")
        text = without_secrets(text, dict.fromkeys(self._secrets, "***"))
        lines = [line.rstrip() for line in text.splitlines() if line.strip()]
        return "\n".join(line[:_WIDEST] for line in lines[-_LINES:])

    @asynccontextmanager
    async def stderr(self) -> AsyncGenerator[TextIO]:
        """Give a file for the stderr of a program, and keep the end of what comes."""
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        try:
            with os.fdopen(writer, "w", encoding="utf-8") as file:
                async with anyio.create_task_group() as group:
                    self._pipe = reader
                    group.start_soon(self._follow)
                    yield file
                    group.cancel_scope.cancel()
        finally:
            self._drain()
            self._pipe = None
            os.close(reader)

    async def _follow(self) -> None:
        while self._pipe is not None:
            await anyio.wait_readable(self._pipe)
            self._drain()

    def _drain(self) -> None:
        while self._pipe is not None:
            try:
                more = os.read(self._pipe, 65536)
            except BlockingIOError:
                return
            if not more:
                return
            self._said = (self._said + more)[-_KEPT:]

    async def response(self, response: httpx2.Response) -> None:
        """Note what a server answered to a request over HTTP."""
        if response.status_code >= 400:
            self._refused = f"it answered {response.status_code} {response.reason_phrase}".rstrip()
        else:
            self._refused = ""


class Watched:
    """The messages of a server; tells when there are no more."""

    def __init__(self, stream: Any, over: Callable[[], None]) -> None:
        self._stream = stream
        self._over = over

    @property
    def last_context(self) -> Any:
        """The context in which the last message was sent."""
        return getattr(self._stream, "last_context", None)

    def __aiter__(self) -> Watched:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message."""
        try:
            return cast("SessionMessage | Exception", await self._stream.receive())
        except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
            self._over()
            raise

    async def aclose(self) -> None:
        """Take no more messages."""
        await self._stream.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def transport(
    where: Program | Address, root: Path, words: LastWords, over: Callable[[], None], limit: float
) -> Transport:
    """Return what connects the SDK to a server.

    Args:
        where: How it is reached.
        root: The folder of the agent.
        words: Keeps what it says last.
        over: Called when it sends nothing any more.
        limit: Seconds that connecting may take.
    """
    streams = _program(where, root, words) if isinstance(where, Program) else _address(where, words, limit)
    return cast("Transport", watched(streams, over))


@asynccontextmanager
async def watched(streams: Read, over: Callable[[], None]) -> AsyncGenerator[Streams]:
    """Give the streams of a server; ``over`` is called when it sends nothing any more."""
    async with streams as (read, write):
        yield Watched(read, over), write


@asynccontextmanager
async def _program(program: Program, root: Path, words: LastWords) -> AsyncGenerator[Streams]:
    from mcp.client.stdio import StdioServerParameters, stdio_client

    passed = {name: os.environ[ours] for name, ours in program.env_from if ours in os.environ}
    given = StdioServerParameters(
        command=program.argv[0], args=list(program.argv[1:]), cwd=root / program.cwd,
        env=passed_environment() | passed | dict(program.env),
    )  # fmt: skip
    async with words.stderr() as stderr, stdio_client(given, errlog=stderr) as streams:
        yield streams


@asynccontextmanager
async def _address(address: Address, words: LastWords, limit: float) -> AsyncGenerator[Streams]:
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    if not readable(address.url):
        raise McpError("its address cannot be read; user and password in it are percent-encoded")
    limits = httpx2.Timeout(limit, read=None)  # calls have time limits of their own
    login = login_of(address.url)
    auth = None if login is None else (login.user, login.password)
    hooks: Mapping[str, list[Any]] = {"response": [words.response]}
    async with (
        httpx2.AsyncClient(headers=headers(address), auth=auth, timeout=limits, event_hooks=hooks) as client,
        streamable_http_client(without_login(address.url), http_client=client) as streams,
    ):
        yield streams


def headers(address: Address) -> dict[str, str]:
    """Return the headers of every request.

    Raises:
        McpError: If a variable is not set; the message names it.
    """
    found = {name: _variable(ours) for name, ours in address.headers_env}
    if address.bearer_env:
        found["Authorization"] = f"Bearer {_variable(address.bearer_env)}"
    return found


def secrets(where: Program | Address) -> tuple[str, ...]:
    """Return the values that no message may show."""
    if isinstance(where, Program):
        names = [ours for _, ours in where.env_from]
        literal = [value for _, value in where.env]
    else:
        names = [where.bearer_env, *(ours for _, ours in where.headers_env)]
        login = login_of(where.url)
        literal = list(login.secrets) if login is not None else []
    values = [*literal, *(os.environ.get(name, "") for name in names)]
    return tuple(value for value in values if len(value) >= SHORTEST)


def _variable(name: str) -> str:
    value = os.environ.get(name)
    if not value:
        raise McpError(f"the environment variable {name} is not set")
    return value
