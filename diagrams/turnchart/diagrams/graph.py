"""What a state view is made of, before it is written in a language."""

from typing import NamedTuple

from turnchart.machine.states import State


class Box(NamedTuple):
    """One state.

    Attributes:
        state: The state.
        notes: What holds there.
        faded: A recorded session never was there.
        changed: A difference holds something here.
    """

    state: State
    notes: tuple[str, ...] = ()
    faded: bool = False
    changed: bool = False


class Edge(NamedTuple):
    """One row, or all rows between two states.

    Attributes:
        source: Where it begins.
        target: Where it leads.
        labels: One line a row.
        faded: A recorded session never took it.
        strong: A recorded session took it.
        changed: A difference says something of it.
    """

    source: State
    target: State
    labels: tuple[str, ...]
    faded: bool = False
    strong: bool = False
    changed: bool = False


class Graph(NamedTuple):
    """A state view."""

    title: str
    boxes: tuple[Box, ...]
    edges: tuple[Edge, ...]
    start: State = State.IDLE
    remark: str = ""
    """What is to be said of the picture itself; empty for nothing."""
