"""A page on this machine that follows a running session: it only reads, and nobody else gets an answer."""

import json
import os
import sys
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from secrets import token_urlsafe
from threading import Lock
from typing import Any, Self
from urllib.parse import SplitResult, parse_qs, urlsplit

from turnchart.diagrams import html_page, session_overlay, state_diagram
from turnchart.diagrams.overlay import Overlay
from turnchart.diagrams.page import entries_data, rows_data
from turnchart.machine.errors import TurnchartError
from turnchart.machine.stores import Store

ADDRESS = "127.0.0.1"


class Server:
    """Serves one session on the loopback address, at a path that nobody can guess.

    Attributes:
        url: Where the page is.
    """

    def __init__(self, store: Store, again: Callable[[], Store], port: int = 0) -> None:
        """Take a port.

        Args:
            store: The session.
            again: Returns its store anew, to read what came since.
            port: 0 takes a free one.

        Raises:
            OSError: If the port is taken.
        """
        self._watched = _Watched(store, again)
        self._token = token_urlsafe(24)
        self._http = _Http((ADDRESS, port), self._handler())
        self.port: int = self._http.server_address[1]
        self.url = f"http://{ADDRESS}:{self.port}/{self._token}/"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._http.server_close()

    def run(self) -> None:
        """Answer until ``stop``, or until it is interrupted."""
        self._http.serve_forever(poll_interval=0.1)

    def stop(self) -> None:
        """End ``run``, from another thread."""
        self._http.shutdown()

    def answer(self, host: str, target: str) -> tuple[HTTPStatus, str, str]:
        """Return status, content type and body of the answer to one request.

        Args:
            host: What the browser says it asks: another name than this machine's is a page that found a way
                to point its own name here.
            target: Path and query.
        """
        if host not in (f"{ADDRESS}:{self.port}", f"localhost:{self.port}"):
            return HTTPStatus.FORBIDDEN, "text/plain", "this page is for this machine alone\n"
        try:
            return self._found(urlsplit(target))
        except TurnchartError as error:
            return HTTPStatus.SERVICE_UNAVAILABLE, "text/plain", f"{error}\n"

    def _found(self, asked: SplitResult) -> tuple[HTTPStatus, str, str]:
        if asked.path == f"/{self._token}/":
            overlay = self._watched.overlay()
            return HTTPStatus.OK, "text/html", html_page(overlay, live="entries")
        if asked.path == f"/{self._token}/entries":
            start = parse_qs(asked.query).get("from", ["0"])[0]
            if not (start.isascii() and start.isdigit()):
                return HTTPStatus.BAD_REQUEST, "text/plain", "from is the number of an entry\n"
            return HTTPStatus.OK, "application/json", json.dumps(self._since(int(start)))
        return HTTPStatus.NOT_FOUND, "text/plain", "there is nothing here\n"

    def _since(self, start: int) -> dict[str, Any]:
        overlay = self._watched.overlay()
        record = overlay.record
        assert record is not None, "a session has a record"
        return {
            "entries": entries_data(overlay, record, start),
            "refused": record.refused,
            "rows": rows_data(overlay),
            "state": state_diagram(overlay),
        }

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            """Answers GET alone, and logs nothing: the path holds the token."""

            def do_GET(self) -> None:
                """Answer a request."""
                status, kind, body = server.answer(self.headers.get("Host", ""), self.path)
                content = body.encode()
                self.send_response(status)
                self.send_header("Content-Type", f"{kind}; charset=utf-8")
                self.send_header("Content-Length", str(len(content)))
                self.send_header("Cache-Control", "no-store")
                self.send_header("Referrer-Policy", "no-referrer")
                self.send_header("X-Content-Type-Options", "nosniff")
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

        return Handler


class _Http(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a browser that went away."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Watched:
    """A session that is read anew only where its files changed."""

    def __init__(self, store: Store, again: Callable[[], Store]) -> None:
        self._store: Store | None = store
        self._again = again
        self._files = [Path(store.where), Path(f"{store.where}-wal")]
        self._stamp: list[tuple[int, int] | None] | None = None
        self._lock = Lock()
        self._overlay = Overlay()

    def overlay(self) -> Overlay:
        """Return what the session did so far."""
        with self._lock:
            stamp = [_stamp(file) for file in self._files]
            if stamp != self._stamp:
                store, self._store = self._store or self._again(), None
                self._overlay = session_overlay(store.load(), f"session {store.id}")
                self._stamp = stamp
            return self._overlay


def _stamp(file: Path) -> tuple[int, int] | None:
    try:
        found = os.stat(file)
    except FileNotFoundError:
        return None
    return found.st_mtime_ns, found.st_size
