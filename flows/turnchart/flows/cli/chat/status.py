"""The line that says what the agent does: state, step, queues, tokens, cost, model; what fits."""

from collections.abc import Iterable, Iterator
from typing import Final

from rich.cells import cell_len

from turnchart.flows.cli.words import one_line
from turnchart.machine.agent import Agent
from turnchart.machine.entries import Entry
from turnchart.machine.statistics import statistics

BETWEEN: Final = " · "


class Status:
    """Follows one agent.

    Attributes:
        asking: A question waits for its answer.
    """

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._read = self._written = 0
        self._cost: float | None = None
        self.asking = False
        self._add(agent.session.entries)

    def take(self, entry: Entry) -> None:
        """Count what an entry says was spent."""
        if entry.type in _SPENDS:
            self._add([entry])

    def _add(self, entries: Iterable[Entry]) -> None:
        more = statistics(entries)
        self._read += more.uncached + more.cached
        self._written += more.output
        if more.cost is not None:
            self._cost = (self._cost or 0.0) + more.cost

    def line(self, width: int) -> str:
        """Return it, in at most so many columns: what matters least is left out first."""
        line = ""
        for part in self._parts():
            longer = f"{line}{BETWEEN}{part}" if line else part
            if cell_len(longer) <= width:
                line = longer
        return line

    def _parts(self) -> Iterator[str]:
        """Yield the parts, what matters most first."""
        agent = self._agent
        if self.asking:
            yield "answer?"
        yield agent.state.shown
        if agent.status == "running" and agent.turning.step:
            yield f"step {agent.turning.step}"
        waiting = agent.queued
        if waiting.next_step or waiting.next_turn:
            yield f"queued {len(waiting.next_step)}+{len(waiting.next_turn)}"
        if self._read or self._written:
            yield f"{count(self._read)} in {count(self._written)} out"
        if self._cost is not None:
            yield f"${self._cost:.4f}"
        yield one_line(agent.session.view.model or agent.model_id, 40)
        yield "/help"


_SPENDS: Final = frozenset(("assistant/message", "compaction", "branch_summary"))


def count(tokens: int) -> str:
    """Return a number in at most five characters."""
    for size, unit in ((1_000_000, "M"), (1000, "k")):
        if tokens >= size:
            short = tokens / size
            return f"{short:.1f}{unit}" if short < 100 else f"{short:.0f}{unit}"
    return str(tokens)
