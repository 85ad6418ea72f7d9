"""A state view in Mermaid's stateDiagram-v2."""

import json
from collections.abc import Iterator

from turnchart.diagrams.escape import mermaid_markdown as safe
from turnchart.diagrams.escape import one_line
from turnchart.diagrams.graph import Box, Edge, Graph


def write(graph: Graph) -> str:
    """Return the graph as Mermaid text."""
    return "\n".join([*heading(graph.title), "stateDiagram-v2", *_body(graph)]) + "\n"


def heading(title: str) -> list[str]:
    """Return the front matter that holds the title of a Mermaid picture; nothing without a title."""
    text = one_line(title)
    return ["---", f"title: {json.dumps(text, ensure_ascii=False)}", "---"] if text else []


def _body(graph: Graph) -> Iterator[str]:
    for box in graph.boxes:
        yield f'  state "{safe(box.state.shown)}" as {box.state}'
    yield f"  [*] --> {graph.start}"
    for edge in graph.edges:
        yield _edge(edge)
    for box in graph.boxes:
        remark = (graph.remark,) if graph.remark and box.state is graph.start else ()
        yield from _note(box, (*box.notes, *remark))
    faded = [box.state for box in graph.boxes if box.faded]
    if faded:
        yield "  classDef never stroke-dasharray:5 5,color:grey"
        yield f"  class {','.join(faded)} never"
    changed = [box.state for box in graph.boxes if box.changed]
    if changed:
        yield "  classDef changed fill:#ffe066,stroke:#e67700,color:black"
        yield f"  class {','.join(changed)} changed"


def _edge(edge: Edge) -> str:
    label = "<br/>".join(safe(line) for line in edge.labels)
    return f"  {edge.source} --> {edge.target} : {label}"


def _note(box: Box, lines: tuple[str, ...]) -> Iterator[str]:
    if lines:
        yield f"  note right of {box.state}"
        yield from (f"    {safe(line)}" for line in lines)
        yield "  end note"
