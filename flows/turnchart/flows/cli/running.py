"""A whole run: an agent is opened, talked to, and closed; then it is said where its session is."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from shlex import quote
from shutil import which
from typing import TYPE_CHECKING, Any, Final

import anyio

from turnchart.flows.cli.approve import BEFOREHAND, Beforehand, at_terminal, on_stdin
from turnchart.flows.cli.conversation import COMPLETED, INTERRUPTED, OTHERWISE, Conversation
from turnchart.flows.cli.ending import Ending
from turnchart.flows.cli.json_lines import listener, to_stream, turn_record
from turnchart.flows.cli.lines import Lines
from turnchart.flows.cli.places import Shelf
from turnchart.flows.cli.plan import Plan
from turnchart.flows.cli.render import Render, Screen
from turnchart.flows.cli.streams import excuse, forgive
from turnchart.flows.cli.words import one_line
from turnchart.machine.agent import Agent
from turnchart.machine.approvals import Approver
from turnchart.machine.driver import first_error
from turnchart.machine.entries import Entry, Frozen
from turnchart.machine.errors import CompactionFailed, ScriptError, TurnFailed
from turnchart.machine.session import Session, info
from turnchart.machine.turn import Turn

if TYPE_CHECKING:
    from turnchart.flows.cli.chat.chat import Chat

NAME: Final = "turnchart"
_CUT_OFF: Final = 128
"""Exit codes above it say that a signal ended the process."""


class Run:
    """One run of an agent on the command line.

    Args:
        agent: Not open yet.
        plan: What is said to it.
        shelf: Where its session is kept.
        about: What the session says of the flow that it is used with.
        approve: How every question is answered; None asks somebody.
        as_json: Talk to a program, not to a person.
        again: Makes the agent anew, for another session.
        verbose: Tell also what is left out otherwise.
        judged: The answer of a turn has to fit a schema; nothing else goes to stdout.
    """

    def __init__(
        self,
        agent: Agent,
        plan: Plan,
        shelf: Shelf,
        about: Mapping[str, str],
        approve: Beforehand | None = None,
        *,
        as_json: bool = False,
        again: Callable[[Session], Agent] | None = None,
        verbose: bool = False,
        judged: bool = False,
    ) -> None:
        self._agent = agent
        self._again = again
        self._verbose = verbose
        self._judged = judged
        self._next: Session | None = None
        self._plan = plan
        self._shelf = shelf
        self._about = about
        self._approve: Beforehand | None = approve
        self._emit = to_stream() if as_json else None
        self._screen = Screen()
        self._lines = Lines()

    def whole(self) -> int:
        """Do it all, and return the exit code of the process."""
        forgive()
        self._shelf.prepare()
        try:
            code = anyio.run(self._open)
        except KeyboardInterrupt:
            code = INTERRUPTED
        except BaseExceptionGroup as group:
            raise first_error(group) from group
        finally:
            self._screen.close()
        if self._emit is None and self._agent.session.entries:
            for line in hints(self._agent.session.id, self._shelf):
                self._screen.line(line)
        if code > _CUT_OFF:
            excuse()  # as where the terminal was closed
        return code

    async def _open(self) -> int:
        """Talk, and go on with every session that the person changes to; return the exit code."""
        code = await self._talk()
        while self._next is not None and self._again is not None:
            self._agent, self._next = self._again(self._next), None
            code = await self._talk()
        return code

    async def _talk(self) -> int:
        """Talk in one session; who ends the process ends it wherever it is, and nothing runs on by itself."""
        ending, code = Ending(), INTERRUPTED
        async with ending.inside():
            code = await self._session(ending)
        if ending.heard:
            self._next = None
            return _CUT_OFF + ending.heard
        return code

    async def _session(self, ending: Ending) -> int:
        agent = self._agent
        greet = self._greeter(agent)
        whole = self._emit is None and not (self._plan.prompts or self._plan.compact) and whole_terminal()
        talk = Conversation(agent, self._screen, self._lines, self._shelf)
        chat = self._chat_of(agent) if whole else None
        if chat is not None:
            agent.approver = None if self._approve is None else BEFOREHAND[self._approve]
        else:
            self._hear(agent)
            agent.approver = self._approver(talk)
        code, before = INTERRUPTED, len(agent.session.entries)
        try:
            async with agent:
                greet()
                self._introduce()
                if self._plan.compact:
                    code = await self._compact()
                    if code != COMPLETED or not self._plan.prompts:
                        return code
                async with ending.lent():
                    if self._plan.prompts:
                        code = await talk.turns(self._plan.prompts, self._plan.inputs, self._report)
                    elif chat is not None:
                        code = await chat.run(self._plan.inputs)
                        self._next = chat.next
                    else:
                        code = await talk.chat(self._plan.inputs)
                        self._next = talk.next
        except ScriptError as error:  # replies that nobody asked for
            if code <= _CUT_OFF and not any(map(_aborted, agent.session.entries[before:])):
                self._note(str(error))
        return code

    def _greeter(self, agent: Agent) -> Callable[[], None]:
        """Return what greets: once the session is ours, and before all else that is said of it."""
        lines = [] if self._emit is not None else list(greeting(agent, self._shelf))
        if not lines:
            return lambda: None

        def greet() -> None:
            stop()
            while lines:
                self._screen.line(lines.pop(0))

        stop = agent.on("*", lambda signal, abort: greet())
        return greet

    def _hear(self, agent: Agent) -> None:
        """Show what an agent does from now on."""
        if self._emit is not None:
            agent.on("*", listener(self._emit))
            if self._verbose:
                from turnchart.flows.cli.verbose import emit_hooks

                emit_hooks(agent, self._emit)
            return
        render = Render(agent, self._screen, verbose=self._verbose, judged=self._judged)
        agent.on("*", render)
        if self._verbose:
            from turnchart.flows.cli.verbose import tell_details

            tell_details(agent, render.say)

    def _chat_of(self, agent: Agent) -> "Chat":
        """Return a chat with everything that a terminal can do."""
        from turnchart.flows.cli.chat.chat import Chat

        chat = Chat(agent, self._shelf, verbose=self._verbose)
        if self._verbose:
            from turnchart.flows.cli.verbose import tell_details

            tell_details(agent, chat.note)
        return chat

    async def _compact(self) -> int:
        """Make the conversation shorter, and say what came of it; return the exit code."""
        try:
            came = await self._agent.compact()
        except CompactionFailed as failed:
            self._note(str(failed))
            return COMPLETED if failed.code == "nothing" and self._plan.prompts else OTHERWISE
        if self._emit is not None:
            self._emit({"type": "compacted", **came._asdict()})
            return COMPLETED
        self._note(f"about {came.tokens_before} tokens became {came.tokens_after}")
        if came.summary and not self._plan.prompts:
            self._screen.whole_answer(came.summary)
        return COMPLETED

    def _introduce(self) -> None:
        """Note in the session which flow it is used with, where it does not say so yet."""
        session = self._agent.session
        known = info(session)
        if known.get("digest") != self._about["digest"]:
            if known.get("digest"):
                self._note(f"the flow is not the one that this session was last used with ({known['path']})")
            session.append("session_info", Frozen(self._about))

    def _approver(self, talk: Conversation) -> Approver | None:
        """Return who answers questions; None where there is nobody."""
        if self._approve is not None:
            return BEFOREHAND[self._approve]
        if self._emit is not None:
            return on_stdin(self._emit, self._lines.read)
        if not (self._lines.by_hand and sys.stderr.isatty()):
            return None
        return at_terminal(self._screen, self._lines.read if self._plan.prompts else talk.answer)

    def _report(self, came: Turn | TurnFailed) -> None:
        """Say what a prompt came to, where the signals did not say it."""
        if self._emit is not None:
            self._emit(_record(came, self._agent.session.id))
        elif isinstance(came, TurnFailed):
            self._note(str(came))

    def _note(self, text: str) -> None:
        if self._emit is None:
            self._screen.line(f"  {one_line(text, 1000)}", "slow")
        else:
            self._emit({"type": "notice", "text": text, "source": "turnchart"})


def _aborted(entry: Entry) -> bool:
    return entry.type == "turn/end" and entry.data["reason"] == "aborted"


def _record(came: Turn | TurnFailed, session: str) -> dict[str, Any]:
    """Return the last line of a prompt; one that no turn took gets a turn without a number."""
    if isinstance(came, Turn):
        return turn_record(came, session)
    return turn_record(Turn(0, "error", error=came), session)


def greeting(agent: Agent, shelf: Shelf) -> Iterator[str]:
    """Yield what is to be known of a session that goes on."""
    session = agent.session
    if session.origin == "new":
        return
    yield f"session {one_line(session.id)} goes on in {shelf.path}"
    if session.store.dropped:
        yield f"  left out: {session.store.dropped}"
    if session.brackets.turn_open:
        yield f"  turn {session.brackets.turn} was cut off; it is closed as interrupted"
    waiting = agent.queued
    count = len(waiting.next_step) + len(waiting.next_turn)
    if count:
        yield f"  {count} {'message waits' if count == 1 else 'messages wait'} and will be taken first"


def hints(id: str, shelf: Shelf) -> Iterator[str]:
    """Yield the commands that show what was recorded."""
    if shelf.kind == "memory":
        return
    name, store, called = quote(id), shelf.options(), program()
    shown = f"{store} -- {name}" if id.startswith("-") else f" {name}{store}"
    yield f"session {one_line(id)} is kept in {shelf.path}"
    yield f"  read it:   {called} sessions show{shown}"
    yield f"  draw it:   {called} diagram --session {name} --view sequence{store}"
    yield f"  verify it: {called} verify{shown}"


def whole_terminal() -> bool:
    """Tell whether all three streams are a terminal that can be drawn on."""
    streams = (sys.stdin, sys.stdout, sys.stderr)
    return os.environ.get("TERM", "dumb") != "dumb" and all(stream.isatty() for stream in streams)


def program() -> str:
    """Return what calls this program again: its name, or its path where PATH does not lead there."""
    called, found = Path(sys.argv[0]), which(NAME)
    if called.name != NAME or (found and called.exists() and called.samefile(found)):
        return NAME
    return quote(str(called))
