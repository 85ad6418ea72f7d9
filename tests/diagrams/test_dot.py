from turnchart.diagrams.dot import write
from turnchart.diagrams.graph import Box, Edge, Graph
from turnchart.machine.states import State


def test_a_graph_in_dot() -> None:
    graph = Graph(
        'a "b"',
        (Box(State.IDLE, ("one", "back\\slash")), Box(State.PRE_STEP, faded=True)),
        (
            Edge(State.IDLE, State.PRE_STEP, ("a", "b"), strong=True),
            Edge(State.PRE_STEP, State.IDLE, ("c",), faded=True),
            Edge(State.IDLE, State.IDLE, ("d",)),
        ),
        remark="folded",
    )
    assert write(graph).splitlines() == [
        "digraph lifecycle {",
        r'  graph [label="a \"b\"\nfolded", labelloc=t];',
        '  node [shape=box, style=rounded, fontname="Helvetica"];',
        '  edge [fontname="Helvetica", fontsize=10];',
        '  start [shape=point, label=""];',
        r'  idle [label="idle\none\lback\\slash\l"];',
        '  pre_step [label="pre-step", style="rounded,dashed", color=grey, fontcolor=grey];',
        "  start -> idle;",
        r'  idle -> pre_step [label="a\nb", penwidth=2];',
        '  pre_step -> idle [label="c", style=dashed, color=grey, fontcolor=grey];',
        '  idle -> idle [label="d"];',
        "}",
    ]


def test_a_graph_without_title() -> None:
    assert 'label="", labelloc' not in write(Graph("", (), ()))
