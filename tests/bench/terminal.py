"""How long a person waits for the first character of an answer that has begun: a chat on a real terminal.

The chat runs in a process of its own. Its model says at which time it yields its first chunk; the terminal is
read here, by the same clock.
"""

import os
import pty
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from statistics import median
from time import monotonic_ns

from tests.bench.environments import ROOT, with_turnchart

TURNS = 40
_MARK = "QX"
"""How each answer begins; nothing else on the screen says so."""


def measure() -> dict[str, dict[str, float]]:
    """Return the milliseconds that the first character takes: the median, and what nine in ten stay below."""
    print(f"the first character on a terminal, {TURNS} times", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        times = sorted(_turns(Path(folder) / "sent"))
    worst = times[len(times) * 9 // 10]
    return {
        "first character": {"value": median(times), "best": times[0]},
        "first character, 90 %": {"value": worst, "best": times[0]},
    }


def _turns(sent: Path) -> list[float]:
    child, terminal = pty.fork()
    if not child:
        os.chdir(ROOT)
        environment = with_turnchart() | {"TERM": "xterm"}
        os.execve(sys.executable, [sys.executable, "-m", "tests.bench.terminal", str(sent)], environment)
    _until(terminal, "idle")
    seen: list[int] = []
    for number in range(TURNS):
        os.write(terminal, b"go\r")
        seen.append(_until(terminal, f"{_MARK}{number:03}"))
        _until(terminal, "idle")
    os.write(terminal, b"\x04")
    os.waitpid(child, 0)
    os.close(terminal)
    begun = [int(line) for line in sent.read_text("utf-8").split()]
    return [(after - before) / 1e6 for before, after in zip(begun, seen, strict=True)]


def _until(terminal: int, text: str) -> int:
    """Read until a text has come, and return when that was, in nanoseconds."""
    seen = ""
    while text not in seen:
        seen += os.read(terminal, 65536).decode("utf-8", "replace")
    return monotonic_ns()


# -- in the other process ------------------------------------------------------------------------


def _chat(sent: Path) -> None:
    import anyio

    from turnchart.flows.cli.chat.chat import Chat
    from turnchart.flows.cli.places import MEMORY
    from turnchart.machine.abort import AbortSignal
    from turnchart.machine.agent import Agent
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
            yield TextDelta(f"{_MARK}{self.count:03} begins")
            self.count += 1
            for _ in range(20):
                await anyio.sleep(0.005)
                yield TextDelta(" and goes on")
            yield Finish("stop")

    async def run() -> None:
        async with Agent(Timed()) as agent:
            await Chat(agent, MEMORY).run()

    anyio.run(run)


if __name__ == "__main__":
    _chat(Path(sys.argv[1]))
