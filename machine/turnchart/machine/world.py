"""How hooks and tools of one agent reach the world: programs, files, models, the clock, the user."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterable, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import anyio
from anyio.abc import Process

from turnchart.machine.clock import Clock
from turnchart.machine.paths import inside
from turnchart.machine.records import record

PASSED_VARIABLES = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "TMPDIR")
"""What a program that a hook starts sees of our environment, besides ``LC_*``."""
MOST_KEPT = 8 * 1024 * 1024
"""So many bytes of each stream of a program are kept at least: of more, the last ones."""
LAST_WORDS = 0.2
"""In seconds, so long is the end of what a killed program wrote waited for: others may hold the pipe open."""


@record
class Finished:
    """What a program gave back."""

    exit_code: int
    output: str
    errors: str


def cut_short(error: BaseException, errors: str) -> None:
    """Keep with an error what the program that it cut short had written to stderr until then."""
    cast("Any", error).errors_of_program = errors


def errors_of(error: BaseException) -> str:
    """Return what a program had written to stderr when this error, or being cancelled, cut it short."""
    wrote = getattr(error, "errors_of_program", "")
    return wrote if isinstance(wrote, str) else ""


def passed_environment() -> dict[str, str]:
    """Return what programs may see of our environment."""
    return {
        name: value
        for name, value in os.environ.items()
        if name in PASSED_VARIABLES or name.startswith("LC_")
    }


class AgentWorld:
    """The world of one agent; ``points.World`` says what each method is for."""

    __slots__ = ("_ask", "_clock", "_inject", "_notice", "_root")

    def __init__(
        self,
        root: Path,
        clock: Clock,
        notice: Callable[[str], None],
        ask: Callable[[str, str], Awaitable[str]],
        inject: Callable[[str, str], None] | None = None,
    ) -> None:
        self._root = root
        self._clock = clock
        self._notice = notice
        self._ask = ask
        self._inject = inject

    @property
    def root(self) -> str:
        """The folder that files and programs start from."""
        return str(self._root)

    def now(self) -> float:
        """Return Unix seconds."""
        return self._clock.now()

    async def run(
        self,
        argv: Sequence[str],
        *,
        stdin: str = "",
        timeout: float = 30,  # noqa: ASYNC109  # a limit on the clock that tests fake
        env: Mapping[str, str] | None = None,
        cwd: str = ".",
    ) -> Finished:
        """Run a program without a shell, in the root or a folder below it, and return what it gave back.

        Raises:
            PermissionError: If ``cwd`` leads out of the root.
            TimeoutError: If it takes longer than ``timeout`` seconds; it is killed. What it had written to
                stderr until then is told by ``errors_of``, also of whatever else cuts it short.
            OSError: If it cannot be started.
        """
        folder = self._root if cwd == "." else self._inside(cwd)
        output, errors = bytearray(), bytearray()
        try:
            with self._clock.timeout(timeout):
                process = await _start(argv, folder, passed_environment() | dict(env or {}))
                try:
                    await _communicate(process, stdin.encode(), output, errors)
                    code = await process.wait()
                except BaseException:
                    with (
                        suppress(anyio.BrokenResourceError, anyio.ClosedResourceError),
                        anyio.move_on_after(LAST_WORDS, shield=True),
                    ):
                        _kill_group(process.pid)
                        await _read(process.stderr, errors)
                    raise
                finally:
                    with anyio.CancelScope(shield=True):
                        _kill_group(process.pid)
                        await process.aclose()
        except BaseException as error:
            cut_short(error, errors.decode(errors="replace"))
            raise
        return Finished(code, output.decode(errors="replace"), errors.decode(errors="replace"))

    async def ask_model(self, model: str, prompt: str) -> str:
        """Ask a model one question and return its text."""
        return await self._ask(model, prompt)

    def read(self, path: str) -> str:
        """Return the text of a file below the root.

        Raises:
            PermissionError: If the path leads out of the root.
            OSError: If the file cannot be read.
        """
        return self._inside(path).read_text(encoding="utf-8", errors="replace")

    def append(self, path: str, text: str) -> None:
        """Append text to a file below the root; folders are created.

        Raises:
            PermissionError: If the path leads out of the root.
            OSError: If the file cannot be written.
        """
        file = self._inside(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a", encoding="utf-8") as out:
            out.write(text)

    def notice(self, text: str) -> None:
        """Tell the user something."""
        self._notice(text)

    def inject(self, text: str, source: str) -> None:
        """Put something into the inbox for the next request, without waking the agent.

        Raises:
            RuntimeError: If there is no inbox here.
        """
        if self._inject is None:
            raise RuntimeError("there is no inbox here")
        self._inject(text, source)

    def _inside(self, path: str) -> Path:
        return inside(self._root, path)


async def _start(argv: Sequence[str], folder: Path, env: Mapping[str, str]) -> Process:
    """Start a program; nobody cancels between its start and our knowing of it."""
    with anyio.CancelScope(shield=True):
        return await anyio.open_process(list(argv), cwd=folder, env=env, start_new_session=True)
    raise AssertionError("a shielded scope swallows nothing")


async def _communicate(process: Process, given: bytes, output: bytearray, errors: bytearray) -> None:
    """Give a program its input, and read what it writes to the end."""
    async with anyio.create_task_group() as group:
        group.start_soon(_read, process.stdout, output)
        group.start_soon(_read, process.stderr, errors)
        if process.stdin is not None:
            with suppress(anyio.BrokenResourceError, BrokenPipeError, ConnectionError):
                await process.stdin.send(given)
            await process.stdin.aclose()


async def _read(stream: AsyncIterable[bytes] | None, kept: bytearray) -> None:
    """Read a stream to its end; of one without end only the last part is kept."""
    if stream is not None:
        async for data in stream:
            kept += data
            if len(kept) > 2 * MOST_KEPT:
                del kept[:-MOST_KEPT]


def _kill_group(leader: int) -> None:
    """Kill what is left of the process group of a program that was started as a session of its own."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)
