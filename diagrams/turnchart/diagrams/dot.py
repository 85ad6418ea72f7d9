"""A state view in DOT, the language of Graphviz."""

from collections.abc import Iterator

from turnchart.diagrams.escape import dot as safe
from turnchart.diagrams.graph import Box, Edge, Graph


def write(graph: Graph) -> str:
    """Return the graph as DOT text."""
    return "\n".join(["digraph lifecycle {", *_body(graph), "}"]) + "\n"


def _body(graph: Graph) -> Iterator[str]:
    title = [safe(line) for line in (graph.title, graph.remark) if line]
    if title:
        yield f'  graph [label="{_lines(title)}", labelloc=t];'
    yield '  node [shape=box, style=rounded, fontname="Helvetica"];'
    yield '  edge [fontname="Helvetica", fontsize=10];'
    yield '  start [shape=point, label=""];'
    for box in graph.boxes:
        yield _box(box)
    yield f"  start -> {graph.start};"
    for edge in graph.edges:
        yield _edge(edge)


def _box(box: Box) -> str:
    label = safe(box.state.shown) + (r"\n" if box.notes else "")
    notes = "".join(rf"{safe(line)}\l" for line in box.notes)
    style = ', style="rounded,dashed", color=grey, fontcolor=grey' if box.faded else ""
    if box.changed:
        style = ', style="rounded,filled", fillcolor="#ffe066", color="#e67700"'
    return f'  {box.state} [label="{label}{notes}"{style}];'


def _edge(edge: Edge) -> str:
    style = ", style=dashed, color=grey, fontcolor=grey" if edge.faded else ""
    style = ", penwidth=2" if edge.strong else style
    style += ', color="#e67700", fontcolor="#e67700"' if edge.changed and not edge.faded else ""
    return f'  {edge.source} -> {edge.target} [label="{_lines(map(safe, edge.labels))}"{style}];'


def _lines(lines: "Iterator[str] | list[str] | map[str]") -> str:
    return r"\n".join(lines)
