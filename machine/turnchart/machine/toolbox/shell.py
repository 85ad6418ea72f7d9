"""The built-in tool ``shell``: one command for ``/bin/sh``, in a process group of its own."""

import os
import re
import signal
import subprocess
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import anyio
from anyio.abc import Process

from turnchart.machine.entries import Frozen
from turnchart.machine.messages import Text
from turnchart.machine.paths import inside, resolved
from turnchart.machine.points import ToolOutcome
from turnchart.machine.tools import Tool, ToolContext, ToolFailed, tool

from ._known import MAX_OUTPUT, SHELL, TIMEOUT, Folders

GRACE = 2.0
"""Seconds between SIGTERM and SIGKILL."""
LINGER = 0.2
"""Seconds in which a command that has ended may still write through what it left in the background."""
SECRET_ENDINGS = ("_KEY", "_TOKEN", "_SECRET", "_PASSWORD")

EnvFrom = Iterable[str | Mapping[str, str]]


def shell_tool(
    root: Path | str,
    *,
    cwd: str = ".",
    timeout: float = TIMEOUT,
    max_output: int = MAX_OUTPUT,
    env_from: EnvFrom = (),
    hidden: frozenset[str] = frozenset(),
    outside: Folders = (),
) -> Tool:
    """Make the tool ``shell`` for one root.

    Args:
        root: The folder that paths start from.
        cwd: The folder that commands start in, below the root.
        timeout: Seconds that one command may take.
        max_output: So many characters are kept: one half of the head, one of the tail.
        env_from: Names of variables that commands see in any case, or ``{NAME: OTHER}``.
        hidden: Names of variables that they do not see.
        outside: Folders outside of the root that ``cwd`` may be in.

    Raises:
        PermissionError: If ``cwd`` is outside the root and these folders.
    """
    opened = resolved(root, outside)
    inside(root, cwd, opened)
    passed = tuple(env_from)

    async def shell(command: str, ctx: ToolContext) -> ToolOutcome:
        """Run a command with /bin/sh and return what it wrote, and its exit code.

        Args:
            command: The command line. It cannot read input, and what it starts ends with it.
            ctx: The call.
        """
        folder = inside(root, cwd, opened)
        if not folder.is_dir():
            raise ToolFailed(f"there is no folder `{cwd}` to start in", "NotFound")
        output = Output(max_output, ctx.progress)
        argv = ("/bin/sh", "-c", command)
        code = await run_argv(argv, folder, environment(passed, hidden), timeout, output)
        return outcome_of_run(output, code, timeout)

    return tool(shell, **SHELL)


def environment(env_from: EnvFrom, hidden: frozenset[str]) -> dict[str, str]:
    """Return our environment as a command may see it."""
    seen = {
        name: value
        for name, value in os.environ.items()
        if name not in hidden and not name.upper().endswith(SECRET_ENDINGS)
    }
    for given in env_from:
        pairs = {given: given} if isinstance(given, str) else given
        seen |= {name: os.environ[ours] for name, ours in pairs.items() if ours in os.environ}
    return seen


async def run_argv(
    argv: Sequence[str], folder: Path, env: Mapping[str, str], seconds: float, output: "Output"
) -> int | None:
    """Run a program to its end and return its exit code; None after so many seconds.

    However this ends, nothing of the process group is left running.

    Raises:
        OSError: If it cannot be started.
    """
    reading, writing = os.pipe()
    try:
        os.set_blocking(reading, False)
        process = await _start(argv, folder, env, writing)
        try:
            with anyio.move_on_after(seconds):
                await _follow(process, reading, output)
                return process.returncode
            return None
        finally:
            with anyio.CancelScope(shield=True):
                await _end(process, reading, output)
    finally:
        os.close(reading)


async def _start(argv: Sequence[str], folder: Path, env: Mapping[str, str], writing: int) -> Process:
    """Start the program; nobody cancels between its start and our knowing of it."""
    try:
        with anyio.CancelScope(shield=True):
            return await anyio.open_process(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=writing,
                stderr=writing,
                cwd=folder,
                env=env,
                start_new_session=True,
            )
    finally:
        os.close(writing)
    raise AssertionError("a shielded scope swallows nothing")


async def _follow(process: Process, reading: int, output: "Output") -> None:
    """Read until the command has ended, and a little longer where something still holds its output."""
    closed = anyio.Event()

    async def read() -> None:
        await output.read_all(reading)
        closed.set()

    async with anyio.create_task_group() as group:
        group.start_soon(read)
        await process.wait()
        with anyio.move_on_after(LINGER):
            await closed.wait()
        group.cancel_scope.cancel()


async def _end(process: Process, reading: int, output: "Output") -> None:
    """End the whole group: ask, wait a little, kill."""
    _signal(process.pid, signal.SIGTERM)
    with anyio.move_on_after(GRACE):
        await process.wait()
        await output.read_all(reading)
    _signal(process.pid, signal.SIGKILL)
    await process.aclose()


def _signal(group: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):  # it has ended; macOS says the second of zombies
        os.killpg(group, number)


class Output:
    """What a command wrote: its head and its tail, without what would steer a terminal.

    Where something is left out between them, the cut goes between lines, or words where lines are long: half
    a secret would not be known for one by those who look for secrets.
    """

    def __init__(self, most: int, report: Callable[[str], object]) -> None:
        self._decode = getincrementaldecoder("utf-8")("replace").decode
        self._report = report
        self._most = most
        self._head = ""
        self._tail = ""
        self.written = 0
        """So many characters came."""

    async def read_all(self, reading: int) -> None:
        """Read until nobody can write any more."""
        while True:
            await anyio.wait_readable(reading)
            data = os.read(reading, 65_536)
            self.add(data)
            if not data:
                return

    def add(self, data: bytes) -> None:
        """Take the next bytes; none at all are the end."""
        text = self._decode(data, not data)
        if text and self.written < self._most:
            self._report(neutral(text))
        self.written += len(text)
        room = self._most // 2 - len(self._head)
        self._head += text[:room]
        self._tail = (self._tail + text[room:])[self._most // 2 - self._most :]

    @property
    def left_out(self) -> int:
        """So many characters were not kept."""
        return self.written - sum(map(len, self._kept()))

    def text(self) -> str:
        """Return what is kept, with a note where something is left out."""
        head, tail = self._kept()
        gap = f"\n[... {self.left_out:,} characters left out ...]\n" if self.left_out else ""
        return neutral(head + gap + tail)

    def _kept(self) -> tuple[str, str]:
        if self.written == len(self._head) + len(self._tail):
            return self._head, self._tail
        return _without_end(self._head), _without_end(self._tail[::-1])[::-1]


def _without_end(text: str) -> str:
    """Return text without its last line, which may be cut; of a long one, without its last word."""
    for end in (text.rfind("\n"), max(map(text.rfind, " \t"))):
        if end >= len(text) // 2:
            return text[:end]
    return text


_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))")
_PICTURES = (
    {code: 0x2400 + code for code in range(0x20) if chr(code) not in "\n\t"}
    | {0x7F: 0x2421}
    | dict.fromkeys(range(0x80, 0xA0), 0xFFFD)
)


def neutral(text: str) -> str:
    """Return text that cannot steer a terminal: sequences are gone, other control characters are pictures."""
    return _SEQUENCE.sub("", text).replace("\r\n", "\n").replace("\r", "\n").translate(_PICTURES)


def outcome_of_run(output: Output, code: int | None, timeout: float) -> ToolOutcome:
    """Return what a program wrote and how it ended; None: it took longer than so many seconds."""
    if code is None:
        ended = f"timed out after {timeout:g} s; the command and all that it started were ended"
    elif code < 0:
        ended = f"ended by signal {_signal_name(-code)}"
    else:
        ended = f"exit code {code}"
    text = output.text()
    between = "" if not text or text.endswith("\n") else "\n"
    details = Frozen(exit_code=code, timed_out=code is None, left_out=output.left_out)
    return ToolOutcome((Text(f"{text}{between}[{ended}]"),), details, is_error=code != 0)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)
