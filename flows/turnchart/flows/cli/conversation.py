"""One run: prompts go in, turns come out, and Ctrl-C cuts off a turn and not the program.

Who ends the process, or closes its terminal, ends the turn and its tools first: nothing runs on by itself.
"""

import signal
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import anyio
from anyio.abc import TaskStatus

from turnchart.flows.cli.commands import Commands, unslashed
from turnchart.flows.cli.inputs import play
from turnchart.flows.cli.lines import Lines
from turnchart.flows.cli.places import MEMORY, Shelf
from turnchart.flows.cli.render import Screen
from turnchart.flows.cli.words import one_line
from turnchart.flows.script import ScriptInput
from turnchart.machine.agent import Agent
from turnchart.machine.errors import TurnFailed
from turnchart.machine.session import Session
from turnchart.machine.turn import Turn

COMPLETED, OTHERWISE, INTERRUPTED = 0, 1, 130
"""What the process ends with."""
_ENDING: Final = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
CAUSE: Final = "user"
"""What the log says of a turn that Ctrl-C cut off."""

Report = Callable[[Turn | TurnFailed], None]
"""Is told what each prompt came to."""


def ending_signals() -> list[signal.Signals]:
    """Return the signals that end the process; one that is ignored does not, as under nohup."""
    return [each for each in _ENDING if signal.getsignal(each) is not signal.SIG_IGN]


class Conversation:
    """Talks to one agent, from its first prompt to the end of the process.

    Args:
        agent: Open already.
        screen: Where words to the person at the terminal go.
        lines: What that person types.
        shelf: Where its session is kept.
    """

    def __init__(self, agent: Agent, screen: Screen, lines: Lines, shelf: Shelf = MEMORY) -> None:
        self._agent = agent
        self._commands = Commands(agent, shelf, screen.line)
        self._screen = screen
        self._lines = lines
        self._interrupted = False
        self._ended_by = 0
        self._leaving = False
        self._over = False
        self._asked: _Asked | None = None

    async def turns(self, prompts: Sequence[str], inputs: Sequence[ScriptInput], report: Report) -> int:
        """Give the prompts, a turn each, until one does not complete; return the exit code."""

        async def talk() -> int:
            code = COMPLETED
            for prompt in prompts:
                code = await self._turn(prompt, report)
                if code != COMPLETED:
                    break
            return code

        return await self._interruptible(talk, inputs)

    async def chat(self, inputs: Sequence[ScriptInput]) -> int:
        """Take prompts line by line until there are no more; a line typed while a turn runs steers it."""

        async def talk() -> int:
            self._screen.line("Ctrl-C cuts off a turn, Ctrl-D leaves, /help says more.")
            stop = self._agent.on("agent/status", lambda signal, _: self._prompted(signal.data["status"]))
            self._prompted("idle")
            while not self._left and (line := await self._lines.read()) is not None:
                await self._take(line)
            self._over = True
            if self._asked is not None:
                self._asked.give(None)
            stop()
            self._screen.line("")
            await self._agent.idle()
            return COMPLETED

        return await self._interruptible(talk, inputs)

    @property
    def next(self) -> Session | None:
        """The session that the chat goes on with; None to leave."""
        return self._commands.next

    @property
    def _left(self) -> bool:
        return self._commands.leaving or self._commands.next is not None

    async def answer(self) -> str | None:
        """Return the next line that is typed, which answers a question; None when there are no more."""
        if self._over:
            return None
        self._asked = asked = _Asked()
        try:
            return await asked.line()
        finally:
            self._asked = None

    # -- prompts ---------------------------------------------------------------------------------

    async def _turn(self, prompt: str, report: Report) -> int:
        try:
            turn = await self._agent.prompt(prompt)
        except TurnFailed as failed:
            report(failed)
            return INTERRUPTED if self._interrupted else OTHERWISE
        report(turn)
        if self._interrupted:
            return INTERRUPTED
        return COMPLETED if turn.reason == "completed" else OTHERWISE

    async def _take(self, line: str) -> None:
        self._leaving = False
        if self._asked is not None:
            self._asked.give(line)
        elif not line.strip():
            self._prompted(self._agent.status)
        elif await self._commands.take(line):
            if self._commands.draft:
                self._screen.line(f"to be said in another way: {one_line(self._commands.draft)}")
                self._commands.draft = ""
            self._prompted(self._agent.status)
        elif self._agent.status == "running":
            self._agent.steer(unslashed(line))
        else:
            self._agent.follow_up(unslashed(line))

    def _prompted(self, status: str) -> None:
        if status == "idle":
            self._screen.ask(">")

    # -- Ctrl-C ----------------------------------------------------------------------------------

    async def _interruptible(self, talk: Callable[[], Awaitable[int]], inputs: Sequence[ScriptInput]) -> int:
        code = INTERRUPTED
        async with anyio.create_task_group() as group:
            await group.start(self._watch, group.cancel_scope)
            if inputs:
                group.start_soon(play, self._agent, inputs)
                await anyio.lowlevel.checkpoint()  # so that it waits for the first state already
            code = await talk()
            group.cancel_scope.cancel()
        self._agent.go_on()
        return 128 + self._ended_by if self._ended_by else code

    async def _watch(self, scope: anyio.CancelScope, *, task_status: TaskStatus[None]) -> None:
        ending = ending_signals()
        with anyio.open_signal_receiver(signal.SIGINT, *ending) as signals:
            task_status.started()
            async for heard in signals:
                self._interrupted = True
                if heard in ending:
                    self._ended_by = heard
                    scope.cancel()
                elif self._agent.status == "running" and self._agent.turning.cause is None:
                    self._agent.abort(CAUSE)
                elif self._agent.status == "running" or self._leaving:
                    scope.cancel()
                else:
                    self._leaving = True
                    self._screen.line("(Ctrl-D leaves, and so does Ctrl-C once more)")
                    self._prompted("idle")


class _Asked:
    """A question that waits for a line."""

    def __init__(self) -> None:
        self._given = anyio.Event()
        self._line: str | None = None

    def give(self, line: str | None) -> None:
        self._line = line
        self._given.set()

    async def line(self) -> str | None:
        await self._given.wait()
        return self._line
