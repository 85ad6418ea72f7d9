"""The command line inside this process, in an empty folder."""

import io
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from turnchart.flows.cli import main


class Ended(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str


Cli = Callable[..., Ended]


@pytest.fixture
def hangs_up() -> Iterator[None]:
    """Let this process hear of a terminal that is gone, also where whoever runs the tests ignores that."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cli:
    """Run a command; ``stdin`` is what is piped in."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TURNCHART_HOME", raising=False)

    def run(*arguments: str, stdin: str = "") -> Ended:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode()), "utf-8"))
        with pytest.raises(SystemExit) as end:
            main(arguments)
        code = end.value.code
        out, err = capsys.readouterr()
        return Ended(code if isinstance(code, int) else 1, out, err)

    return run


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], io.TextIOWrapper]]:
    """Make a pipe that holds some text, then its end."""
    made: list[io.TextIOWrapper] = []

    def pipe(text: str) -> io.TextIOWrapper:
        reading, writing = os.pipe()
        os.write(writing, text.encode())
        os.close(writing)
        made.append(os.fdopen(reading, "r", encoding="utf-8"))
        return made[-1]

    yield pipe
    for stream in made:
        stream.close()


FLOW = """\
version: 1
name: small
model: script:script.yaml
tools: [shell]
"""


@pytest.fixture
def flow(tmp_path: Path) -> Callable[..., str]:
    """Write a flow with its script, and return the path."""

    def write(script: str, more: str = "", name: str = "small.yaml") -> str:
        (tmp_path / name).write_text(FLOW + more, "utf-8")
        (tmp_path / "script.yaml").write_text(script, "utf-8")
        return str(tmp_path / name)

    return write
