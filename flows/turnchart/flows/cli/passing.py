"""The states that an agent passes, without a gap, from the moments at which it can be looked at.

Signals are heard at some states only: nothing is told between ``claiming`` and ``pre_step``. The table says
which rows lead from one seen state to the next, so what lies between is known.
"""

from collections import deque

from turnchart.machine.states import State
from turnchart.machine.table import LIFECYCLE, Row, Table


class Passing:
    """Follows one agent.

    Attributes:
        state: Where it was seen last.
    """

    def __init__(self, state: State = State.IDLE, table: Table = LIFECYCLE) -> None:
        self.state = state
        self._rows = table.rows

    def seen(self, state: State, reason: str = "") -> tuple[State, ...]:
        """Return the states that were entered since the last call, in order.

        Args:
            state: Where the agent is now.
            reason: Why its turn ended, where it rests; it tells the rows that end a turn apart.
        """
        passed = () if state is self.state else self._way(state, reason)
        self.state = state
        return passed

    def _way(self, target: State, reason: str) -> tuple[State, ...]:
        """Return the shortest way to a state; only the state itself where no rows lead there."""
        todo: deque[tuple[State, ...]] = deque([(self.state,)])
        known = {self.state}
        while todo:
            way = todo.popleft()
            for row in self._rows:
                if row.source is way[-1] and row.target not in known and _fits(row, reason):
                    if row.target is target:
                        return (*way[1:], target)
                    known.add(row.target)
                    todo.append((*way, row.target))
        return (target,)


def _fits(row: Row, reason: str) -> bool:
    return not (row.reasons and reason and row.target is State.IDLE) or reason in row.reasons
