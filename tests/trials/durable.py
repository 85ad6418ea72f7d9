"""Worker processes, and what is held against the database after they were killed."""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from tests.trials.durable_worker import DEEDS

from turnchart.machine.durable import opening
from turnchart.machine.postgres import PostgresStore
from turnchart.machine.session import Session
from turnchart.machine.verify import verify

ROOT = Path(__file__).resolve().parents[2]
LEASE = 1.0
"""Seconds after which a worker of the trials counts as dead."""
PATIENCE = 90.0
"""Seconds that a trial waits for what happens soon where the machine has nothing else to do."""
ENDED = "\0"
"""Stands behind the last line of a process."""


class Process:
    """A worker in a process of its own."""

    def __init__(self, dsn: str, **given: Any) -> None:
        options = {
            "store": "", "hold": "", "version": "1", "flow": "agent", "pause": 0.0, "count": 20, "marks": "",
            "notes": True, "waits": False,
        }  # fmt: skip
        options |= {"dsn": dsn, "lease": LEASE} | given
        search = os.pathsep.join([str(ROOT), *(entry for entry in sys.path if entry)])
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.trials.durable_worker", json.dumps(options)],
            env=os.environ | {"PYTHONPATH": search}, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.pid = self._process.pid
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line.rstrip("\n"))
        self._lines.put(ENDED)

    def says(self, line: str, within: float = PATIENCE) -> None:
        """Wait until it says this."""
        until, said = time.monotonic() + within, ""
        while said != line:
            assert said != ENDED, f"it ended before it said {line!r}"
            try:
                said = self._lines.get(timeout=max(0.01, until - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"it never said {line!r}") from None

    def send(self, number: int) -> None:
        """Send it a signal."""
        os.kill(self.pid, number)

    def kill(self) -> None:
        """End it as a power cut would."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def freeze(self) -> None:
        """Stop it, as the machine under it may."""
        self.send(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        self.send(signal.SIGCONT)


@contextmanager
def workers() -> Generator[list[Process]]:
    """Kill at the end every process that was put into the list."""
    running: list[Process] = []
    try:
        yield running
    finally:
        for each in running:
            each.kill()


def prepare(dsn: str) -> None:
    """Make the table of deeds."""
    with psycopg.connect(dsn, autocommit=True) as db:
        db.execute(DEEDS)


def go(dsn: str) -> None:
    """Let the tools go on that wait."""
    with psycopg.connect(dsn, autocommit=True) as db:
        db.execute("INSERT INTO deeds (what) VALUES ('go')")


def deeds(dsn: str, what: str, session: str | None = None) -> Counter[tuple[str, str]]:
    """Return how often something was done, by session and key."""
    with psycopg.connect(dsn, autocommit=True) as db:
        rows = db.execute("SELECT session, key FROM deeds WHERE what = %s", (what,)).fetchall()
    return Counter(row for row in rows if session in (None, row[0]))


def opened(store: str, id: str) -> Session:
    """Return a session, judged."""
    session = Session(PostgresStore(store, id, opening.opened(store)))
    judged = verify(session.entries)
    assert judged.ok, f"{id}: {judged.message}"
    return session


def told(session: Session) -> list[str]:
    """Return the prompts in the order in which they entered, each once."""
    ids = [entry.data["message"]["id"] for entry in session.entries if entry.type == "user/message"]
    assert len(ids) == len(set(ids)), f"{session.id}: a message is told twice: {ids}"
    return [
        entry.data["message"]["content"][0]["text"]
        for entry in session.entries
        if entry.type == "user/message"
    ]


def results(session: Session) -> dict[str, Any]:
    """Return the result of each call; each has one."""
    found: dict[str, Any] = {}
    for entry in session.entries:
        if entry.type == "tool/result" and entry.replaces is None:
            id = entry.data["message"]["call_id"]
            assert id not in found, f"{session.id}: {id} has two results"
            found[id] = entry.data["message"]
    return found
