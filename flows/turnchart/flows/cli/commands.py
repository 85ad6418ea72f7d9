"""What a person may say to a chat itself: words that begin with a slash."""

import re
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from anyio import to_thread

from turnchart.flows.cli.places import Shelf
from turnchart.flows.cli.words import one_line, text_of, why
from turnchart.machine.agent import Agent
from turnchart.machine.errors import AgentBusy, AppendRefused, RequestFailed, TurnchartError
from turnchart.machine.inbox import Item
from turnchart.machine.session import Session
from turnchart.machine.table import LIFECYCLE

if TYPE_CHECKING:
    from turnchart.flows.cli.diagram import Format, View

Say = Callable[[str], None]
_WORD: Final = re.compile(r"/([a-z][a-z-]*)(?:\s+(.*))?", re.DOTALL)
_FORMATS: Final[Mapping[str, "Format"]] = {
    ".html": "html", ".md": "md", ".mmd": "mermaid", ".dot": "dot", ".svg": "svg", ".png": "png",
}  # fmt: skip


class Commands:
    """Carries out what is said with a slash.

    Attributes:
        draft: What the person may say again in another way; empty for nothing.
        leaving: The chat is over.
        next: The session that the chat goes on with; None for the same one.
    """

    def __init__(self, agent: Agent, shelf: Shelf, say: Say) -> None:
        self._agent = agent
        self._shelf = shelf
        self._say = say
        self.draft = ""
        self.leaving = False
        self.next: Session | None = None

    async def take(self, line: str) -> bool:
        """Carry out a line that is a command; return whether it was one."""
        found = _WORD.fullmatch(line.strip())
        if found is None:
            return False
        command = COMMANDS.get(found[1])
        if command is None:
            self._say(
                f"there is no /{found[1]}; /help lists what there is, and //{found[1]} says it to the agent"
            )
            return True
        try:
            await command.run(self, (found[2] or "").strip())
        except (AgentBusy, AppendRefused):
            self._say(f"/{found[1]} has to wait until the turn is over; Ctrl-C cuts it off")
        except (TurnchartError, RequestFailed, ValueError, IndexError, OSError) as error:
            self._say(f"/{found[1]}: {one_line(why(error), 1000)}")
        return True

    # -- looking ---------------------------------------------------------------------------------

    async def _help(self, _said: str) -> None:
        for name, command in COMMANDS.items():
            usage = f"/{name} {command.takes}".rstrip()
            self._say(f"{usage:<20} {command.does}")
        self._say("")
        self._say("What is typed while a turn runs steers it. A word with two slashes is said to the agent.")

    async def _state(self, _said: str) -> None:
        agent = self._agent
        taken = ", ".join(event.value for event in LIFECYCLE.accepts(agent.state))
        self._say(f"{agent.state.shown} (takes {taken})")
        now = agent.turning
        self._say(
            f"turn {now.number}, step {now.step}"
            if agent.status == "running"
            else f"{now.number} {'turn' if now.number == 1 else 'turns'} so far"
        )
        self._say(f"model {one_line(agent.session.view.model or agent.model_id)}")
        self._say(f"tools {one_line(', '.join(agent.active_tools()), None) or 'none'}")
        self._say(f"session {one_line(agent.session.id)}, {len(agent.session.entries)} entries")

    async def _queue(self, said: str) -> None:
        items = self._waiting()
        word, _, rest = said.partition(" ")
        match word:
            case "":
                for number, (where, item) in enumerate(items, 1):
                    self._say(f"{number}  {where}: {one_line(said_in(item))}")
                if not items:
                    self._say("nothing waits")
                elif self._agent.parked:
                    self._say("It is parked: /queue resume goes on with it.")
            case "clear":
                self._say(f"{len(self._agent.clear())} discarded")
            case "drop":
                if not (rest.isdecimal() and 0 < int(rest) <= len(items)):
                    raise ValueError("say /queue drop and the number of what waits, as /queue lists it")
                self._agent.remove(items[int(rest) - 1][1].id)
            case "resume":
                if not self._agent.resume():
                    self._say("nothing waits")
            case _:
                raise ValueError("say /queue, /queue drop N, /queue clear or /queue resume")

    def _waiting(self) -> list[tuple[str, Item]]:
        steps, turns, riders = self._agent.queued
        named = (("next step", steps), ("next turn", turns), ("with the next turn", riders))
        return [(where, item) for where, items in named for item in items]

    # -- the tree --------------------------------------------------------------------------------

    async def _tree(self, said: str) -> None:
        if said:
            moved = await self._agent.navigate(_seq(said))
            self.draft = moved.text
            self._say(
                "before the first entry now" if moved.leaf is None else f"behind entry {moved.leaf} now"
            )
            return
        from turnchart.flows.cli.sessions_tree import tree

        for line in tree(self._agent.session.entries):
            self._say(line)

    async def _fork(self, said: str) -> None:
        agent = self._agent
        at = _seq(said) if said else None
        if agent.status == "running":
            raise AgentBusy(agent.state)
        self.next = agent.session.fork(at, into=self._beside())
        self._say(f"session {one_line(agent.session.id)} stays as it is; this goes on in {self.next.id}")

    def _beside(self) -> Session:
        if self._shelf.kind == "memory":
            return Session.memory()
        return Session(self._shelf.new(self._shelf.new_id(self._agent.name)))

    # -- changing --------------------------------------------------------------------------------

    async def _compact(self, said: str) -> None:
        came = await self._agent.compact(said)
        self._say(f"about {came.tokens_before} tokens became {came.tokens_after}")

    async def _model(self, said: str) -> None:
        agent = self._agent
        if said:
            await agent.find_model(said)
            agent.set_model(said)
            self._say(f"from the next step on: {one_line(said)}")
        else:
            self._say(f"{one_line(agent.session.view.model or agent.model_id)}; /model ID asks another one")

    async def _diagram(self, said: str) -> None:
        from turnchart.diagrams import session_overlay
        from turnchart.flows.cli.diagram import draw

        session = self._agent.session
        file = Path(said or re.sub(r"[^\w.-]", "-", session.id) + ".html")
        format = _FORMATS.get(file.suffix)
        if format is None:
            raise ValueError(f"{file.name} must end with one of: {', '.join(_FORMATS)}")
        view: View = "state" if format in ("dot", "svg", "png") else "sequence"
        drawn = session_overlay(session.entries, f"session {session.id}")
        made = draw(drawn, view, format, detail=False)
        await to_thread.run_sync(_write, file, made)
        self._say(f"drawn in {one_line(str(file), None)}")

    async def _follow_up(self, said: str) -> None:
        self._agent.follow_up(said)

    async def _quit(self, _said: str) -> None:
        self.leaving = True


class Command(NamedTuple):
    """A command: what it takes, what it does, and how."""

    takes: str
    does: str
    run: Callable[[Commands, str], Awaitable[None]]


# pyright: reportPrivateUsage=false
# The table names methods of the class above it.
COMMANDS: Final[Mapping[str, Command]] = {
    "state": Command("", "where the agent is, and what it has", Commands._state),
    "queue": Command("[drop N|clear]", "what waits; resume goes on with it", Commands._queue),
    "tree": Command("[ENTRY]", "the conversation as a tree; go to a place in it", Commands._tree),
    "fork": Command("[ENTRY]", "go on in a copy, of all or up to a place", Commands._fork),
    "compact": Command("[FOCUS]", "make the conversation shorter", Commands._compact),
    "model": Command("[ID]", "the model; ask another one from the next step", Commands._model),
    "diagram": Command("[FILE]", "draw the session: .html .md .mmd .svg .png .dot", Commands._diagram),
    "follow-up": Command("TEXT", "say it when the turn is over", Commands._follow_up),
    "help": Command("", "this", Commands._help),
    "quit": Command("", "leave", Commands._quit),
}


def unslashed(line: str) -> str:
    """Return what is said to the agent: of two slashes at the beginning, one."""
    return line[1:] if line.startswith("//") else line


def said_in(item: Item) -> str:
    """Return the text of an item of the inbox."""
    return " ".join(text_of(cast("Mapping[str, object]", message)) for message in item["messages"])


def _write(file: Path, made: bytes) -> None:
    """Write a file, and make its folder."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(made)


def _seq(said: str) -> int:
    if not said.isdecimal():
        raise ValueError(f"{said} is not the number of an entry; /tree lists them")
    return int(said)
