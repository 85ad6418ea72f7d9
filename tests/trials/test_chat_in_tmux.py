"""The chat in a real terminal: tmux runs it, a test types, and reads what stands on the screen."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.machine.providers.loopback import Loopback
from tests.machine.providers.wire_formats import wires

from turnchart.machine import Failure, Reply

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed"),
]

FLOW = """\
version: 1
name: small
model: script:script.yaml
tools: [shell]
permissions: {default: ask}
"""
SCRIPT = """\
- thinking: A greeting.
  text: "# Hello\\n\\nI am **here**.\\n\\n- one\\n- two\\n\\n```python\\nprint('hi')\\n```\\n"
- {call: shell, args: {command: "sleep 60"}}
- {call: shell, args: {command: "until [ -e go ]; do sleep 0.1; done; printf 'a\\\\nb\\\\n'"}}
- It is done, *and* steered.
- That was queued.
- A summary.
"""
SERVED = """\
version: 1
model: {{id: 'anthropic:claude-sonnet-5', base_url: '{url}', api_key_env: OWN_KEY}}
"""
PROGRAM = "from turnchart.flows.cli import main; main()"


class Screen:
    """A chat in a window of tmux that nobody else uses."""

    def __init__(self, folder: Path, columns: int, **variables: str) -> None:
        self._socket = str(folder / "tmux")
        path = os.pathsep.join(entry for entry in sys.path if entry)
        given = {"PYTHONPATH": path} | variables
        self.tmux(
            "-f", os.devnull, "new-session", "-d", "-x", str(columns), "-y", "40", "-c", str(folder),
            *(part for name, value in given.items() for part in ("-e", f"{name}={value}")),
            f"{sys.executable} -c '{PROGRAM}' run small.yaml; echo ended with $?; sleep 600",
        )  # fmt: skip

    def tmux(self, *arguments: str) -> str:
        ran = subprocess.run(
            ["tmux", "-S", self._socket, *arguments], capture_output=True, text=True, check=True
        )
        return ran.stdout

    def type(self, *keys: str) -> None:
        """Press keys; what is no name of a key is typed as it is."""
        self.tmux("send-keys", *keys)

    @property
    def text(self) -> str:
        """Everything that stands on the screen and above it."""
        return self.tmux("capture-pane", "-p", "-S", "-")

    def until(self, text: str, count: int = 1) -> str:
        """Wait until a text stands there so many times."""
        deadline = time.monotonic() + 120
        while (seen := self.text).count(text) < count:
            assert time.monotonic() < deadline, seen
            time.sleep(0.05)
        return seen


@contextmanager
def chat(folder: Path, columns: int, flow: str = FLOW, **variables: str) -> Generator[Screen]:
    (folder / "small.yaml").write_text(flow, "utf-8")
    (folder / "script.yaml").write_text(SCRIPT, "utf-8")
    screen = Screen(folder, columns, **variables)
    try:
        yield screen
    finally:
        screen.tmux("kill-server")


@pytest.mark.parametrize(("columns", "colours"), [(100, {}), (40, {"NO_COLOR": "1"})], ids=["wide", "narrow"])
def test_a_whole_conversation(tmp_path: Path, columns: int, colours: dict[str, str]) -> None:
    with chat(tmp_path, columns, **colours) as screen:
        screen.until("idle · ")
        screen.type("hi there", "Enter")
        seen = screen.until("print('hi')")
        for line in ("> hi there", "│ A greeting.", "Hello", "I am here.", " • one"):
            assert line in seen.splitlines(), seen
        assert "**" not in seen

        screen.type("sleep", "Enter")
        screen.until("y/a/n>")
        screen.type("y", "Enter")
        screen.until("tooling · step 1")
        screen.type("C-c")
        screen.until("aborted after 1 step")

        screen.type("go on", "Enter")
        screen.until("y/a/n>")
        screen.type("a", "Enter")
        screen.until("tooling · step 1")
        screen.type("quickly", "Enter")
        screen.until("(steers the turn)")
        screen.type("and then", "M-Enter")
        screen.until("queued 1+1")
        (tmp_path / "go").touch()
        seen = screen.until("That was queued.")
        assert "It is done, and steered." in seen
        assert "  ok: a" in seen

        for command, answer in (
            ("/state", "4 turns so far"), ("/model", "/model ID asks"),
            ("/diagram out.mmd", "drawn in out.mmd"), ("/help", "/compact [FOCUS]"),
            ("/nothing", "there is no /nothing"), ("/tree", "<- here"), ("/compact", "became"),
        ):  # fmt: skip
            screen.type(command, "Enter")
            screen.until(answer)
        assert (tmp_path / "out.mmd").read_text("utf-8").startswith("---\ntitle:")
        screen.type("/fork", "Enter")
        screen.until("goes on in")
        screen.until("idle · ")
        screen.type("/queue", "Enter")
        screen.until("nothing waits")
        screen.type("C-d")
        seen = screen.until("ended with 0")
        widest = max(len(line) for line in seen.splitlines())
        assert widest <= columns
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM, "sessions", "list"], cwd=tmp_path, capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}, check=True,
    )  # fmt: skip
    assert len([line for line in found.stdout.splitlines() if "small-" in line]) == 2


def test_a_model_of_a_server(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    kept = str(tmp_path_factory.mktemp("state"))
    used = {"input": 2000, "output": 30}
    replies = [Reply("Hello from **afar**.", usage=used), Failure("overloaded", retry_after=0.01)]
    replies += [Reply(chunks=["It begins", 3600.0])]
    with (
        Loopback(*wires("anthropic", replies)) as server,
        chat(
            tmp_path,
            80,
            SERVED.format(url=server.url),
            OWN_KEY="key-0123456789",
            XDG_STATE_HOME=kept,
        ) as screen,
    ):
        screen.until("y/N")
        screen.type("y", "Enter")
        screen.until("idle · ")
        screen.type("hi", "Enter")
        seen = screen.until("idle · 2.0k in 30 out · $0.0")
        assert "Hello from afar." in seen
        screen.type("more", "Enter")
        seen = screen.until("It begins")
        assert "overloaded: again in 0.01 s (retry 1, policy)" in seen
        screen.type("C-c")
        screen.until("aborted after 1 step")
        assert server.left.wait(10), "the connection is closed at once"
        screen.type("C-d")
        assert "key-0123456789" not in screen.until("ended with 0")
    assert all("key-0123456789" in str(heard.headers) for heard in server.heard)
    assert len(server.heard) == 3


def test_a_terminal_that_changes_its_size(tmp_path: Path) -> None:
    with chat(tmp_path, 80) as screen:
        screen.until("idle · ")
        screen.type("hi", "Enter")
        screen.until("print('hi')")
        screen.tmux("resize-window", "-x", "40", "-y", "20")
        screen.type("half a line")
        screen.until("> half a line")
        screen.tmux("resize-window", "-x", "120", "-y", "30")
        screen.type(" more")
        screen.until("> half a line more")
        screen.type("C-c")
        screen.type("C-d")
        screen.until("ended with 0")
