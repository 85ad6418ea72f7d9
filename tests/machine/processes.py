"""Other processes, for tests of what one process cannot show."""

import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import IO

import anyio

WRITER = """
import sys
from pathlib import Path
from turnchart.machine.session import Session

path, id, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
session = Session.sqlite(path, id) if path.suffix == ".sqlite" else Session.jsonl(path)
session.attach()
print("attached", flush=True)
while count:
    count -= 1
    print(session.append_custom("written", "x" * 500).seq, flush=True)
"""
"""Attaches, appends so many entries (for ever where it is -1) and prints the seq of each that is stored."""


def is_running(pid: int) -> bool:
    """Tell whether a process is there, and no zombie."""
    ps = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return ps.stdout.strip() != "" and not ps.stdout.startswith("Z")


async def all_end(pids: list[int]) -> bool:
    """Give killed processes the moment that they need to be gone."""
    with anyio.move_on_after(5):
        while any(is_running(pid) for pid in pids):  # noqa: ASYNC110  # other programs set no events
            await anyio.sleep(0.01)
        return True
    return False


@contextmanager
def python(code: str, *args: object) -> Generator[tuple[subprocess.Popen[str], IO[str]]]:
    """Run code in another process, with its standard output to read; kill it at the end if it still runs."""
    path = os.pathsep.join(entry for entry in sys.path if entry)
    process = subprocess.Popen(
        [sys.executable, "-c", code, *map(str, args)],
        env=os.environ | {"PYTHONPATH": path},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    with process:
        try:
            yield process, process.stdout
        finally:
            process.kill()


def run(code: str, *args: object) -> str:
    """Run code in another process to its end and return what it printed."""
    with python(code, *args) as (process, output):
        printed = output.read()
        assert process.wait() == 0, printed
        return printed
