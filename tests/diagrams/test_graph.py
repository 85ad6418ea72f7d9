from turnchart.diagrams.graph import Box, Edge, Graph
from turnchart.machine.states import State


def test_a_graph_is_a_value() -> None:
    made = [Graph("t", (Box(State.IDLE),), (Edge(State.IDLE, State.CLAIMING, ("wake",)),)) for _ in range(2)]
    assert made[0] == made[1]
    assert hash(made[0]) == hash(made[1])
    assert made[0].start is State.IDLE
