"""A server on this machine that answers as it is told, byte by byte, over real HTTP.

It runs on a loop of its own in a thread, so that a test can speak to it from asyncio and from trio.
"""

import asyncio
import json
import threading
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

SSE = "text/event-stream"
HOLD = object()
"""In a body: send nothing more, and wait until the client leaves."""
CUT = object()
"""In a body: close the connection amid the answer."""


@dataclass(frozen=True)
class Wire:
    """One answer: status, headers, and a body in pieces, each sent on its own."""

    body: Sequence[Any] = ()
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict[str, str])
    type: str = SSE


@dataclass
class Heard:
    """One request as it came in."""

    path: str
    headers: dict[str, str]
    body: Any


class Loopback:
    """Answers requests in order; the last answer is repeated where ``forever`` says so.

    Attributes:
        heard: The requests that came.
        left: Is set when a client has left before its answer was over.
    """

    def __init__(self, *answers: Wire, forever: bool = False) -> None:
        self.answers = deque(answers)
        self.heard: list[Heard] = []
        self.left = threading.Event()
        self.connections = 0
        self._forever = forever
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=512))
        self._port = server.sockets[0].getsockname()[1]
        self._ready.set()
        self._loop.run_forever()
        server.close()
        for task in (tasks := asyncio.all_tasks(self._loop)):
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while await self._one(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            self.left.set()
        except asyncio.CancelledError:
            pass  # the server stops
        finally:
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = await reader.readline()
        if not head:
            return False
        headers: dict[str, str] = {}
        while (line := await reader.readline()) not in (b"\r\n", b""):
            name, _, value = line.decode("latin-1").partition(":")
            headers[name.strip().lower()] = value.strip()
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        self.heard.append(Heard(head.split()[1].decode(), headers, json.loads(body) if body else None))
        if not self.answers:
            answer = Wire(
                [b'{"error": {"message": "the test has no more answers"}}'], 400, type="application/json"
            )
        else:
            answer = self.answers[0] if self._forever and len(self.answers) == 1 else self.answers.popleft()
        return await self._answer(answer, reader, writer)

    async def _answer(self, answer: Wire, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        sent = {"content-type": answer.type, "transfer-encoding": "chunked", **answer.headers}
        lines = "".join(f"{name}: {value}\r\n" for name, value in sent.items())
        writer.write(f"HTTP/1.1 {answer.status} Scripted\r\n{lines}\r\n".encode())
        for piece in answer.body:
            if piece is CUT:
                await writer.drain()
                return False
            if piece is HOLD:
                await writer.drain()
                await reader.read(1)
                self.left.set()
                return False
            writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            await writer.drain()
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True


def events(*items: Any, named: bool = False, done: bool = False) -> list[bytes]:
    """Return server-sent events of JSON objects; ``named`` repeats the type of each."""
    found: list[bytes] = []
    for item in items:
        name = f"event: {item['type']}\n" if named else ""
        found.append(f"{name}data: {json.dumps(item)}\n\n".encode())
    return [*found, b"data: [DONE]\n\n"] if done else found


def refused(status: int, body: Any, headers: dict[str, str] | None = None) -> Wire:
    """Return an error as providers answer it: JSON with a status."""
    return Wire([json.dumps(body).encode()], status, headers or {}, "application/json")


def every_cut(frames: Sequence[bytes]) -> Iterable[tuple[int, list[Any]]]:
    """Yield a stream cut behind each of its events, with how many came."""
    for count in range(len(frames)):
        yield count, [*frames[:count], CUT]
