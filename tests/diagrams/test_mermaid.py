from turnchart.diagrams.graph import Box, Edge, Graph
from turnchart.diagrams.mermaid import heading, write
from turnchart.machine.states import State


def test_a_graph_in_mermaid() -> None:
    graph = Graph(
        'a "b"',
        (Box(State.IDLE, ("one", "t;wo")), Box(State.PRE_STEP, faded=True)),
        (Edge(State.IDLE, State.PRE_STEP, ("a", "b: c")),),
        remark="folded",
    )
    assert write(graph).splitlines() == [
        "---",
        'title: "a \\"b\\""',
        "---",
        "stateDiagram-v2",
        '  state "idle" as idle',
        '  state "pre-step" as pre_step',
        "  [*] --> idle",
        "  idle --> pre_step : a<br/>b#58; c",
        "  note right of idle",
        "    one",
        "    t#59;wo",
        "    folded",
        "  end note",
        "  classDef never stroke-dasharray:5 5,color:grey",
        "  class pre_step never",
    ]


def test_a_title_stays_on_its_line() -> None:
    assert heading("x\n---\ny") == ["---", 'title: "x --- y"', "---"]
    assert heading("") == []
