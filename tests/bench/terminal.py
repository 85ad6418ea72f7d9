"""How long a person waits for the first character of an answer that has begun: a chat on a real terminal.

The chat runs in a process of its own. Its model says at which time it yields its first chunk; the terminal is
read here, by the same clock.
"""

import os
import pty
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from statistics import median
from time import monotonic_ns
from typing import TYPE_CHECKING

from tests.bench.environments import ROOT, with_turnchart

if TYPE_CHECKING:
    from turnchart.machine.models import Model

TURNS = 40
_MARK = "QX"
"""How each answer begins; nothing else on the screen says so."""


def measure() -> dict[str, dict[str, float]]:
    """Return the milliseconds that the first character takes: the median, and what nine in ten stay below."""
    print(f"the first character on a terminal, {TURNS} times", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        sent = Path(folder) / "sent"
        seen = asked("tests.bench.terminal", str(sent))
        return figures("first character", [int(line) for line in sent.read_text("utf-8").split()], seen)


def figures(name: str, begun: Sequence[int], seen: Sequence[int]) -> dict[str, dict[str, float]]:
    """Return the figures of the nanoseconds at which answers began, and at which they were seen."""
    times = sorted((after - before) / 1e6 for before, after in zip(begun, seen, strict=True))
    worst = times[len(times) * 9 // 10]
    return {
        name: {"value": median(times), "best": times[0]},
        f"{name}, 90 %": {"value": worst, "best": times[0]},
    }


def mark(number: int) -> str:
    """Return how the answer of a turn begins."""
    return f"{_MARK}{number:03}"


def asked(module: str, argument: str) -> list[int]:
    """Speak to the chat that a module begins; return the nanoseconds at which each answer could be seen."""
    child, terminal = pty.fork()
    if not child:
        os.chdir(ROOT)
        environment = with_turnchart() | {"TERM": "xterm"}
        os.execve(sys.executable, [sys.executable, "-m", module, argument], environment)
    rest = _until(terminal, "idle")
    seen: list[int] = []
    for number in range(TURNS):
        os.write(terminal, b"go\r")
        rest = _until(terminal, mark(number), rest)
        seen.append(monotonic_ns())
        rest = _until(terminal, "idle", rest)
    os.write(terminal, b"\x04")
    os.waitpid(child, 0)
    os.close(terminal)
    return seen


def _until(terminal: int, text: str, seen: str = "") -> str:
    """Read on until a text has come; return what came behind it."""
    while text not in seen:
        seen += os.read(terminal, 65536).decode("utf-8", "replace")
    return seen.partition(text)[2]


# -- in the other process ------------------------------------------------------------------------


async def chat(model: "Model") -> None:
    """Chat with a model on this terminal."""
    from turnchart.flows.cli.chat.chat import Chat
    from turnchart.flows.cli.places import MEMORY
    from turnchart.machine.agent import Agent

    async with Agent(model) as agent:
        await Chat(agent, MEMORY).run()


def _timed(sent: Path) -> "Model":
    import anyio

    from turnchart.machine.abort import AbortSignal
    from turnchart.machine.models import Chunk, Finish, ModelRequest, PreparedCall, RequestConfig, TextDelta

    class Timed:
        id = "timed"

        def __init__(self) -> None:
            self.count = 0

        async def prepare(self, config: RequestConfig, abort: AbortSignal) -> PreparedCall:
            return PreparedCall(config, self.answer)

        async def answer(self, request: ModelRequest) -> AsyncIterator[Chunk]:
            await anyio.sleep(0.1)
            with sent.open("a", encoding="utf-8") as file:
                print(monotonic_ns(), file=file)
            yield TextDelta(f"{mark(self.count)} begins")
            self.count += 1
            for _ in range(20):
                await anyio.sleep(0.005)
                yield TextDelta(" and goes on")
            yield Finish("stop")

    return Timed()


if __name__ == "__main__":
    import anyio

    anyio.run(chat, _timed(Path(sys.argv[1])))
