"""A server on this machine that answers as it is told, over real HTTP: uvicorn, in a process of its own.

A process of the tests starts it when it first needs one, and shares it among its tests; each has a script of
its own there, at an address of its own. It ends with the process that started it.
"""

import atexit
import json
import subprocess
import sys
import threading
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cache
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Final, Self

SSE = "text/event-stream"
HOLD: Final = {"do": "hold"}
"""In a body: send nothing more, and wait until the client leaves."""
CUT: Final = {"do": "cut"}
"""In a body: close the connection amid the answer."""
RESET: Final = {"do": "reset"}
"""In a body: break the connection, so that what is on its way is lost."""


@dataclass(frozen=True)
class Wire:
    """One answer.

    Attributes:
        body: In pieces, each sent on its own as one chunk; among them HOLD, CUT, RESET and seconds to wait.
        status: Of the answer.
        headers: Besides the type.
        type: Of the content.
        raw: The body is all that is sent: status and headers too. Only for what no server would send, as
            ASGI cannot: what is no HTTP.
    """

    body: Sequence[Any] = ()
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict[str, str])
    type: str = SSE
    raw: bool = False

    def told(self) -> dict[str, Any]:
        """Return it as the server takes it."""
        body = [each.decode("latin-1") if isinstance(each, bytes) else each for each in self.body]
        headers = {"content-type": self.type, **self.headers}
        return {"status": self.status, "headers": headers, "body": body, "raw": self.raw}


@dataclass
class Heard:
    """One request as it came in; ``begun``: when its answer began, in nanoseconds of the monotonic clock."""

    path: str
    headers: dict[str, str]
    body: Any
    begun: int


class _Server:
    """The process of the server, and how it is spoken to."""

    def __init__(self) -> None:
        file = Path(__file__).with_name("loopback_server.py")
        self.process = subprocess.Popen(
            [sys.executable, str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        atexit.register(self._end)
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())
        self._line = HTTPConnection("127.0.0.1", self.port, timeout=60)
        self._lock = threading.Lock()

    def _end(self) -> None:
        self._line.close()
        with self.process:
            assert self.process.stdin is not None
            self.process.stdin.close()
            self.process.wait(10)

    def ask(self, op: str, **given: Any) -> dict[str, Any]:
        """Do something in the server, and return what it says."""
        with self._lock:
            return _asked(self._line, op, given)

    def wait(self, op: str, **given: Any) -> dict[str, Any]:
        """Do something that takes its time, and keep nobody from asking meanwhile."""
        with closing(HTTPConnection("127.0.0.1", self.port, timeout=60)) as line:
            return _asked(line, op, given)


def _asked(line: HTTPConnection, op: str, given: dict[str, Any]) -> dict[str, Any]:
    line.request("POST", "/control", json.dumps({"op": op, **given}))
    response = line.getresponse()
    said = response.read()
    assert response.status == 200, said
    found: dict[str, Any] = json.loads(said)
    return found


@cache
def _server() -> _Server:
    return _Server()


class _Waited:
    """Something that happens at the server."""

    def __init__(self, id: int, what: str) -> None:
        self._id = id
        self._what = what

    def wait(self, seconds: float) -> bool:
        """Wait for it; tell whether it happened."""
        return bool(_server().wait("wait", id=self._id, what=self._what, seconds=seconds)["happened"])


class Loopback:
    """Answers requests in order; the last answer is repeated where ``forever`` says so.

    Attributes:
        url: Where it is reached.
        came: That a request has come.
        left: That a client has left before its answer was over.
    """

    def __init__(self, *answers: Wire, forever: bool = False) -> None:
        self._answers = [each.told() for each in answers]
        self._forever = forever
        self._over: dict[str, Any] | None = None
        self._id = 0
        self.url = ""

    def __enter__(self) -> Self:
        server = _server()
        self._id = server.ask("script", answers=self._answers, forever=self._forever)["id"]
        self.url = f"http://127.0.0.1:{server.port}/s/{self._id}"
        self.came, self.left = _Waited(self._id, "came"), _Waited(self._id, "left")
        return self

    def __exit__(self, *_: object) -> None:
        self._over = _server().ask("over", id=self._id)

    @property
    def heard(self) -> list[Heard]:
        """The requests that came, also when the server is over."""
        return [Heard(**each) for each in self._said()["heard"]]

    @property
    def connections(self) -> int:
        """How many connections these came over."""
        count: int = self._said()["connections"]
        return count

    def _said(self) -> dict[str, Any]:
        return self._over if self._over is not None else _server().ask("heard", id=self._id)


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


def every_cut(frames: Sequence[bytes], how: Any = CUT) -> Iterable[tuple[int, list[Any]]]:
    """Yield a stream cut behind each of its events, with how many came."""
    for count in range(len(frames)):
        yield count, [*frames[:count], how]
