"""Write down everything that an agent performs, and hold it against the declarations."""

from turnchart.machine.agent import Agent
from turnchart.machine.automaton import step_name
from turnchart.machine.conducting import WalkDiffers
from turnchart.machine.entries import Entry
from turnchart.machine.sides import align, side_by_side
from turnchart.machine.states import State
from turnchart.machine.table import Row
from turnchart.machine.verify import performed, verify

ANY = "..."
"""Stands for any part of a walk, also for nothing."""


class Recording:
    """What an agent performed since ``record``: entries, hook points, calls and signals, in order.

    Attributes:
        names: The letters of the automaton; see ``turnchart.machine.automaton``.
    """

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._from = agent.state
        self._before = len(agent.walk())
        self._walk = agent.walk()
        self.names = agent.trace()
        agent.session.watch(self._entry)

    @property
    def rows(self) -> list[Row]:
        """The rows of the table that it took, in order."""
        return self._walk[self._before :]

    @property
    def states(self) -> tuple[State, ...]:
        """The states that it was in, the one at the beginning included."""
        return (self._from, *(row.target for row in self.rows))

    def assert_walk(self, *states: str) -> None:
        """Raise where the walk is another one.

        Args:
            states: The names in order; ``...`` stands for any part. One text may hold several, as
                ``str(path)`` does: ``idle>claiming>...>idle``.

        Raises:
            WalkDiffers: With the two walks side by side.
            ValueError: If there is no such state.
        """
        expected = [_named(name.strip()) for text in states for name in text.split(">")]
        came = [state.value for state in self.states]
        pairs = align(expected, came, str.__eq__)
        if not all(pair.fits for pair in pairs):
            lines = side_by_side(pairs, expected, came)
            raise WalkDiffers("\n".join(["the walk is another one:", *(f"  {line}" for line in lines)]))

    def check(self) -> None:
        """Raise where the chart does not explain what was performed, or the log that came of it.

        Raises:
            AssertionError: At the first act that no walk of the chart explains, with what would have been;
                of a log, with the walk that leads there.
        """
        mismatch = performed(self.names)
        if mismatch is not None:
            raise AssertionError(str(mismatch))
        verdict = verify(self._agent.session.entries)
        if not verdict.ok:
            from turnchart.diagrams.explain import explain  # what is legal needs no picture

            raise AssertionError(f"{verdict.message}\n\n{explain(verdict, self._agent.session.entries)}")

    def _entry(self, entry: Entry) -> None:
        name = step_name(entry)
        if name is not None:
            self.names.append(name)


def _named(name: str) -> str | None:
    """Return a state by its name; None for any part."""
    if name == ANY:
        return None
    try:
        return State(name.replace("-", "_")).value
    except ValueError:
        known = ", ".join(State)
        raise ValueError(f"there is no state {name!r}; the states are: {known}, or {ANY!r}") from None


def record(agent: Agent) -> Recording:
    """Write down everything that the agent performs from now on."""
    return Recording(agent)
