"""A chat on a terminal: an agent, what it says above, and the line that a person types below."""

import math
import signal
from collections.abc import Sequence
from typing import Final

import anyio
from anyio.abc import TaskStatus
from prompt_toolkit.input import Input
from prompt_toolkit.output import Output

from turnchart.flows.cli.approve import CHOICES, NOBODY, answered
from turnchart.flows.cli.chat.editor import Editor
from turnchart.flows.cli.chat.hearing import Hearing
from turnchart.flows.cli.chat.painting import Painter
from turnchart.flows.cli.chat.status import Status
from turnchart.flows.cli.chat.transcript import Drawn, Transcript
from turnchart.flows.cli.commands import Commands, said_in, unslashed
from turnchart.flows.cli.conversation import CAUSE, COMPLETED, INTERRUPTED, ending_signals
from turnchart.flows.cli.inputs import play
from turnchart.flows.cli.places import Shelf
from turnchart.flows.cli.render import asks
from turnchart.flows.script import ScriptInput
from turnchart.machine.agent import Agent
from turnchart.machine.approvals import Answer, Question, Refuse
from turnchart.machine.session import Session

PROMPT: Final = "> "
ANSWER: Final = "y/a/n> "
HUNG_UP: Final = 129
"""The exit code where the terminal was closed, as after the signal that says so."""
HINT: Final = "Enter steers while it works, Alt-Enter queues, Ctrl-C cuts off, Ctrl-D leaves; /help"


class Chat:
    """One agent at one terminal. What the editor asks and tells comes in here.

    Args:
        agent: Open already.
        shelf: Where its session is kept.
        painter: Makes lines of text.
        input: Where keys come from; None: the terminal.
        output: Where it is drawn; None: the terminal.
        verbose: What is left out otherwise is told by somebody else, with ``note``.

    Attributes:
        next: The session that the person wants to go on with; None to leave.
    """

    def __init__(
        self,
        agent: Agent,
        shelf: Shelf,
        painter: Painter | None = None,
        input: Input | None = None,
        output: Output | None = None,
        *,
        verbose: bool = False,
    ) -> None:
        self._agent = agent
        self._verbose = verbose
        self._transcript = Transcript(painter or Painter())
        self._status = Status(agent)
        self._commands = Commands(agent, shelf, self.note)
        self._editor = Editor(self, input, output)
        self._send, self._lines = anyio.create_memory_object_stream[tuple[str, bool]](math.inf)
        self._asked: _Asked | None = None
        self._leaving = False
        self._code = COMPLETED

    @property
    def next(self) -> Session | None:
        """The session that the person wants to go on with; None to leave."""
        return self._commands.next

    @property
    def draft(self) -> str:
        """What is typed so far."""
        return self._editor.text

    def note(self, text: str) -> None:
        """Write a line above what is typed."""
        self._transcript.line(text, "dim")
        self._editor.refresh()

    async def run(self, inputs: Sequence[ScriptInput] = ()) -> int:
        """Talk until the person leaves; return the exit code."""
        agent = self._agent
        hearing = Hearing(agent, self._transcript, self._status, self._editor.refresh, verbose=self._verbose)
        stop = agent.on("*", hearing)
        agent.approver = agent.approver or self.approve
        self.note(HINT)
        try:
            async with self._send, self._lines, anyio.create_task_group() as group:
                await group.start(self._interrupts, group.cancel_scope)
                group.start_soon(self._carry_out)
                if inputs:
                    group.start_soon(play, agent, inputs)
                if not await self._editor.run():
                    self._code = HUNG_UP
                await self._rest()
                group.cancel_scope.cancel()
        finally:
            agent.go_on()
            stop()
        return self._code

    async def _rest(self) -> None:
        """Cut off what runs, and keep what waits for the next time."""
        if self._asked is not None:
            self._asked.give(Refuse(NOBODY))
        if self._agent.status == "running":
            self._agent.abort(CAUSE, keep_inbox=True)
            await self._agent.idle()

    # -- what the editor tells -------------------------------------------------------------------

    def said(self, text: str, *, later: bool) -> None:
        """Take what was typed: an answer, a command, or something for the agent."""
        self._leaving = False
        if self._asked is not None and self._asked.armed and not later:
            self._answer(self._asked, text)
        elif text.strip():
            self._transcript.line(f"{PROMPT}{text}", "user")
            self._send.send_nowait((text, later))
        if self._asked is not None:
            self._asked.armed = True

    def typing(self, text: str) -> None:
        """Let a question take the line as soon as nothing else is typed in it. Who types is not leaving."""
        self._leaving = self._leaving and not text
        if self._asked is not None and not text:
            self._asked.armed = True

    def interrupt(self) -> None:
        """Cut off the turn, else what is typed; at rest the second one leaves."""
        agent = self._agent
        if agent.status == "running" and agent.turning.cause is None:
            cleared = [said_in(item) for item in agent.abort(CAUSE) if item["origin"] in _TYPED]
            if cleared and not self._editor.text:
                self._editor.text = "\n".join(cleared)
        elif agent.state.value == "maintenance":
            agent.abort(CAUSE, keep_inbox=True)
        elif self._editor.text:
            self._editor.text = ""
        elif agent.status == "running" or self._leaving:
            self._code = INTERRUPTED
            self._editor.close()
        else:
            self._leaving = True
            self.note("(Ctrl-D leaves, and so does Ctrl-C once more)")

    def leave(self) -> None:
        """End the chat."""
        self._editor.close()

    def draw(self, width: int, height: int) -> Drawn:
        """Give the lines above what is typed."""
        return self._transcript.draw(width, height)

    def status(self, width: int) -> str:
        """Give the line below what is typed."""
        self._status.asking = self._asked is not None
        return self._status.line(width)

    def prompt(self) -> str:
        """Give what stands before what is typed."""
        return ANSWER if self._asked is not None and self._asked.armed else PROMPT

    # -- questions -------------------------------------------------------------------------------

    async def approve(self, question: Question, /) -> Answer:
        """Ask the person. A line that they have begun is theirs until it is sent or deleted."""
        self._transcript.line(asks(question), "ask")
        self._transcript.line(f"  {CHOICES}", "ask")
        self._asked = asked = _Asked(armed=not self._editor.text)
        self._editor.refresh()
        try:
            return await asked.answer()
        finally:
            self._asked = None
            self._editor.refresh()

    def _answer(self, asked: "_Asked", text: str) -> None:
        answer = answered(text)
        if answer is None:
            self.note(f"  {CHOICES}")
        else:
            self._transcript.line(f"  {text.strip()}", "user")
            self._asked = None  # the next line is no answer, however soon it comes
            asked.give(answer)

    # -- carrying out ----------------------------------------------------------------------------

    async def _carry_out(self) -> None:
        """Do one after another what was typed; a command may take its time."""
        async for text, later in self._lines:
            if await self._commands.take(text):
                if self._commands.draft:
                    self._editor.text, self._commands.draft = self._commands.draft, ""
                if self._commands.leaving or self._commands.next is not None:
                    self._editor.close()
            elif self._agent.status == "running" and not later:
                self._agent.steer(unslashed(text))
            else:
                self._agent.follow_up(unslashed(text))
            self._editor.refresh()

    async def _interrupts(self, scope: anyio.CancelScope, *, task_status: TaskStatus[None]) -> None:
        """Hear the signal too, which others may send, and those that end the process."""
        ending = ending_signals()
        with anyio.open_signal_receiver(signal.SIGINT, *ending) as signals:
            task_status.started()
            async for heard in signals:
                if heard in ending:
                    self._code = 128 + heard
                    scope.cancel()
                else:
                    self.interrupt()


_TYPED: Final = frozenset(("steer", "follow_up", "prompt"))


class _Asked:
    """A question that waits.

    Attributes:
        armed: The next line is its answer.
    """

    def __init__(self, *, armed: bool) -> None:
        self.armed = armed
        self._given = anyio.Event()
        self._answer: Answer = Refuse(NOBODY)

    def give(self, answer: Answer) -> None:
        self._answer = answer
        self._given.set()

    async def answer(self) -> Answer:
        await self._given.wait()
        return self._answer
