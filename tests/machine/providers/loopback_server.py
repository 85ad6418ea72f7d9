"""A uvicorn server on this machine that answers as it is told, event by event; ``loopback`` starts it.

    python loopback_server.py       the port is the first line of stdout; it ends when its stdin is closed

A script is made with ``POST /control {"op": "script", ...}``, and has the address ``/s/ID``; the other
operations are the methods of ``Control``. It knows nothing of what is tested, and needs nothing of it.
"""

import asyncio
import json
import os
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeAlias

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

Scope: TypeAlias = dict[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[dict[str, Any]]]
Send: TypeAlias = Callable[[dict[str, Any]], Awaitable[None]]

CONNECTIONS: dict[tuple[str, int], asyncio.Transport] = {}
"""The open connections by the address of the client."""
KEPT = 3600
"""Seconds that a connection may be idle: a client must not meet one that is just being closed."""


class Connection(H11Protocol):
    """A connection of uvicorn that can be found: ASGI can neither reset one nor send what is no HTTP."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Note it, and let each piece go at once: asyncio sees no TCP in a socket that was made before."""
        super().connection_made(transport)
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        assert self.client is not None
        CONNECTIONS[self.client] = transport

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        if self.client is not None:
            CONNECTIONS.pop(self.client, None)
        super().connection_lost(exc)


class Answer(NamedTuple):
    """One answer. A piece is text of one character a byte, seconds to wait, or what is done: an operation."""

    status: int
    headers: list[tuple[bytes, bytes]]
    pieces: list[Any]
    raw: bool


class Script:
    """What one test has answered, and what it heard."""

    def __init__(self, answers: list[dict[str, Any]], *, forever: bool) -> None:
        self.answers = deque([_answer(**each) for each in answers])
        self.forever = forever
        self.heard: list[dict[str, Any]] = []
        self.clients: dict[tuple[str, int], None] = {}
        self.came, self.left = asyncio.Event(), asyncio.Event()

    def next(self) -> Answer:
        """Return how the next request is answered; the last answer stays where it is for ever."""
        if not self.answers:
            said = '{"error": {"message": "the test has no more answers"}}'
            return _answer(400, {"content-type": "application/json"}, [said])
        return self.answers[0] if self.forever and len(self.answers) == 1 else self.answers.popleft()


def _answer(status: int, headers: dict[str, str], body: list[Any], *, raw: bool = False) -> Answer:
    pieces = [each.encode("latin-1") if isinstance(each, str) else each for each in body]
    sent = [(name.encode(), value.encode()) for name, value in headers.items()]
    return Answer(status, sent, pieces, raw)


class Control:
    """What tests ask of the server."""

    def __init__(self) -> None:
        self.scripts: dict[int, Script] = {}
        self._count = 0

    async def script(self, answers: list[dict[str, Any]], *, forever: bool) -> dict[str, Any]:
        """Take a script; return its id."""
        self._count += 1
        self.scripts[self._count] = Script(answers, forever=forever)
        return {"id": self._count}

    async def heard(self, id: int) -> dict[str, Any]:
        """Return the requests that came, and how many connections brought them."""
        script = self.scripts[id]
        return {"heard": script.heard, "connections": len(script.clients)}

    async def wait(self, id: int, what: str, seconds: float) -> dict[str, Any]:
        """Wait until a request came, or a client left before its answer was over; tell whether it did."""
        script = self.scripts[id]
        try:
            async with asyncio.timeout(seconds):
                await (script.came if what == "came" else script.left).wait()
        except TimeoutError:
            return {"happened": False}
        return {"happened": True}

    async def over(self, id: int) -> dict[str, Any]:
        """Return what was heard, close the connections, and forget the script."""
        said = await self.heard(id)
        for client in self.scripts.pop(id).clients:
            if client in CONNECTIONS:
                CONNECTIONS[client].close()
        return said


class App:
    """The ASGI application."""

    def __init__(self) -> None:
        self.control = Control()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        body = await _body(receive)
        path: str = scope["path"]
        if path == "/control":
            asked: dict[str, Any] = json.loads(body)
            said = await getattr(self.control, asked.pop("op"))(**asked)
            await _send(send, 200, [(b"content-type", b"application/json")], json.dumps(said).encode())
            return
        id, _, rest = path.removeprefix("/s/").partition("/")
        script = self.control.scripts.get(int(id))
        if script is None:  # its test is over
            await _send(send, 404, [], b"")
            return
        query = scope["query_string"].decode("latin-1")
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        request: dict[str, Any] = {
            "path": f"/{rest}{'?' if query else ''}{query}", "headers": headers,
            "body": json.loads(body) if body else None, "begun": 0,
        }  # fmt: skip
        script.heard.append(request)
        script.came.set()
        script.clients[tuple(scope["client"])] = None
        await self._answered(script, request, scope, receive, send)

    async def _answered(
        self, script: Script, request: dict[str, Any], scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Send the pieces. An answer that is left amid is cut off: uvicorn then closes the connection."""
        answer = script.next()
        transport = CONNECTIONS[tuple(scope["client"])]
        if not answer.raw:
            await send({"type": "http.response.start", "status": answer.status, "headers": answer.headers})
        for piece in answer.pieces:
            match piece:
                case bytes():
                    request["begun"] = request["begun"] or time.monotonic_ns()
                    if answer.raw:
                        transport.write(piece)
                    else:
                        await send({"type": "http.response.body", "body": piece, "more_body": True})
                case int() | float():
                    await asyncio.sleep(piece)
                case {"do": "hold"}:
                    await receive()
                    script.left.set()
                    return
                case {"do": "reset"}:
                    _reset(transport)
                    return
                case _:  # cut
                    return
        if answer.raw:
            transport.close()
        else:
            await send({"type": "http.response.body", "body": b""})


def _reset(transport: asyncio.Transport) -> None:
    """Close a connection such that the client is told of an error, not of an end."""
    transport.get_extra_info("socket").setsockopt(
        socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0"  # on, and no time to send what waits
    )  # fmt: skip
    transport.abort()


async def _body(receive: Receive) -> bytes:
    whole = bytearray()
    while True:
        message = await receive()
        whole += message.get("body", b"")
        if not message.get("more_body"):
            return bytes(whole)


async def _send(send: Send, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _with_parent() -> None:
    """End when the one that started this does: its end of the pipe is closed then, however it ends."""
    sys.stdin.read()
    os._exit(0)


def main() -> None:
    """Serve on a free port until stdin is closed."""
    listening = socket.create_server(("127.0.0.1", 0), backlog=512)
    print(listening.getsockname()[1], flush=True)
    threading.Thread(target=_with_parent, daemon=True).start()
    config = uvicorn.Config(
        App(), http=Connection, ws="none", loop="asyncio", lifespan="off", log_level="critical",
        access_log=False, proxy_headers=False, timeout_keep_alive=KEPT, backlog=512,
    )  # fmt: skip
    uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main()
