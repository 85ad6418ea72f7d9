"""Write down everything that an agent performs, and hold it against the declarations."""

from turnchart.machine.agent import Agent
from turnchart.machine.automaton import step_name
from turnchart.machine.entries import Entry
from turnchart.machine.verify import performed, verify


class Recording:
    """What an agent performed since ``record``: entries, hook points, calls and signals, in order.

    Attributes:
        names: The letters of the automaton; see ``turnchart.machine.automaton``.
    """

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self.names = agent.trace()
        agent.session.watch(self._entry)

    def _entry(self, entry: Entry) -> None:
        name = step_name(entry)
        if name is not None:
            self.names.append(name)

    def check(self) -> None:
        """Raise where the chart does not explain what was performed, or the log that came of it.

        Raises:
            AssertionError: At the first act that no walk of the chart explains, with what would have been.
        """
        mismatch = performed(self.names)
        if mismatch is not None:
            raise AssertionError(str(mismatch))
        verdict = verify(self._agent.session.entries)
        if not verdict.ok:
            from turnchart.diagrams.explain import explain  # what is legal needs no picture

            raise AssertionError(f"{verdict.message}\n\n{explain(verdict, self._agent.session.entries)}")


def record(agent: Agent) -> Recording:
    """Write down everything that the agent performs from now on."""
    return Recording(agent)
