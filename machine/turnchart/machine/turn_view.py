"""What a payload knows of the running turn, and how hooks reach the world."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

from turnchart.machine.entries import Entry, Frozen
from turnchart.machine.records import record

Outcome = Literal["ok", "error", "denied", "aborted"]
"""How a tool call ended."""


class Ran(Protocol):
    """What a program that a hook started gave back."""

    @property
    def exit_code(self) -> int:
        """0 is success."""
        ...

    @property
    def output(self) -> str:
        """What it wrote to standard output."""
        ...

    @property
    def errors(self) -> str:
        """What it wrote to standard error."""
        ...


class World(Protocol):
    """How a hook reaches the world: every way is traced, cancelled with the turn, and stubbed in tests."""

    @property
    def root(self) -> str:
        """The folder that files and programs start from."""
        ...

    def now(self) -> float:
        """Return the time in Unix seconds, on the clock that tests fake."""
        ...

    async def run(  # the time limit is on the clock that tests fake
        self,
        argv: Sequence[str],
        *,
        stdin: str = "",
        timeout: float = 30,  # noqa: ASYNC109  # a limit on the clock that tests fake
        env: Mapping[str, str] | None = None,
        cwd: str = ".",
    ) -> Ran:
        """Run a program without a shell, in the root or a folder below it; return what it gave back."""
        ...

    async def ask_model(self, model: str, prompt: str) -> str:
        """Ask a model one question and return its text."""
        ...

    def read(self, path: str) -> str:
        """Return the text of a file below the root."""
        ...

    def append(self, path: str, text: str) -> None:
        """Append text to a file below the root; folders are created."""
        ...

    def notice(self, text: str) -> None:
        """Tell the user something: the signal ``notice``."""
        ...

    def inject(self, text: str, source: str) -> None:
        """Put something into the inbox for the next request, without waking the agent."""
        ...


@record
class Call:
    """One tool call of this turn."""

    call_id: str
    tool: str
    arguments: Frozen | str
    outcome: Outcome | None = None
    """None while it runs."""
    step: int = 0


class TurnView:
    """The running turn, read from the log, so that it is the same after a kill and a resume.

    Everything is computed when it is asked for, from the entries since ``turn/start``.
    """

    __slots__ = ("_entries", "_start", "number")

    def __init__(self, number: int = 0, entries: Sequence[Entry] = (), start: int = 0) -> None:
        self.number = number
        self._entries = entries
        self._start = start

    def _all(self, kind: str) -> list[Entry]:
        return [
            self._entries[i] for i in range(self._start, len(self._entries)) if self._entries[i].type == kind
        ]

    @property
    def prompt(self) -> str:
        """The text of the first message that was admitted."""
        users = self._all("user/message")
        return _text(users[0].data["message"]) if users else ""

    @property
    def steps(self) -> int:
        """How many steps began."""
        return len(self._all("step/start"))

    @property
    def calls(self) -> tuple[Call, ...]:
        """The tool calls in the order in which they started."""
        outcomes = {
            (entry.data["step"], entry.data["message"]["call_id"]): entry.data["outcome"]
            for entry in self._all("tool/result")
            if entry.replaces is None
        }
        return tuple(
            Call(d["call_id"], d["tool"], d["arguments"], outcomes.get((d["step"], d["call_id"])), d["step"])
            for d in (entry.data for entry in self._all("tool/call"))
        )

    @property
    def continues(self) -> int:
        """How often a ``turn_stopping`` hook sent the turn on."""
        return sum(1 for entry in self._all("hook/result") if entry.data.get("decision") == "continue")

    def continues_of(self, id: str) -> int:
        """How often the hook with this id sent the turn on."""
        return sum(
            1
            for entry in self._all("hook/result")
            if entry.data.get("decision") == "continue" and entry.data["id"] == id
        )

    @property
    def usage(self) -> Mapping[str, int]:
        """Tokens of the turn so far, summed over its answers: input, output, cache_read, cache_write."""
        total: dict[str, int] = {}
        for entry in self._all("assistant/message"):
            for name, count in entry.data["message"].get("usage", {}).items():
                total[name] = total.get(name, 0) + count
        return total


def _text(message: Mapping[str, Any]) -> str:
    return "".join(part["text"] for part in message["content"] if part["type"] == "text")


NO_TURN = TurnView()
