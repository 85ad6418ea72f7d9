import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from turnchart.diagrams.fold import MAX_CHARS, SAID
from turnchart.diagrams.overlay import Overlay, session_overlay
from turnchart.diagrams.state import Format, graph, state_diagram
from turnchart.machine.entries import Entry
from turnchart.machine.states import State
from turnchart.machine.table import LIFECYCLE, Table

Recorded = Callable[[str], list[Entry]]

FORMATS: tuple[Format, ...] = ("mermaid", "dot")


GOLDEN = Path(__file__).parent / "golden"
"""With TURNCHART_UPDATE_GOLDEN=1 the pictures of the bare chart are renewed."""


@pytest.mark.parametrize("name", ["lifecycle-state.mmd", "lifecycle-state.dot"])
def test_the_bare_chart_is_drawn_as_written_down(name: str) -> None:
    made = state_diagram(format="dot" if name.endswith(".dot") else "mermaid")
    if "TURNCHART_UPDATE_GOLDEN" in os.environ:
        (GOLDEN / name).write_text(made, "utf-8")
    assert made == (GOLDEN / name).read_text("utf-8")


def edges(text: str) -> list[tuple[str, str]]:
    return re.findall(r"^  (\w+) --?> (\w+)", text, re.MULTILINE)


@pytest.mark.parametrize("format", FORMATS)
def test_every_row_is_an_edge_in_detail_and_part_of_one_otherwise(format: Format) -> None:
    rows = [(row.source.value, row.target.value) for row in LIFECYCLE.rows]
    assert [edge for edge in edges(state_diagram(format=format, detail=True)) if edge[0] != "start"] == rows
    merged = [edge for edge in edges(state_diagram(format=format)) if edge[0] != "start"]
    assert merged == list(dict.fromkeys(rows))


def test_an_edge_tells_its_rows() -> None:
    bare = state_diagram()
    assert "  requesting --> tooling : respond if has_tool_calls\n" in bare
    assert "  stopping --> idle : settle<br/>cancel<br/>fail\n" in bare
    detail = state_diagram(detail=True)
    assert "  pre_step --> idle : reject (blocked)\n" in detail
    assert "    performs tool/call\n" in detail


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("detail", [False, True])
def test_the_same_input_gives_the_same_bytes(
    recorded: Recorded, nasty: Overlay, format: Format, detail: bool
) -> None:
    for drawn in (LIFECYCLE, nasty, session_overlay(recorded("tools"))):
        assert state_diagram(drawn, format, detail) == state_diagram(drawn, format, detail)
    first, second = (Overlay(hooks=hooks) for hooks in ({"tool": ("a",), "assemble": ("b",)},
                                                        {"assemble": ("b",), "tool": ("a",)}))  # fmt: skip
    assert state_diagram(first, format, detail) == state_diagram(second, format, detail)


def test_what_holds_in_a_state_is_noted_there() -> None:
    overlay = Overlay("f", {State.CLAIMING: ("steering all",)}, {"assemble": ("add_context (f.yaml:3)",)})
    note = (
        "note right of claiming\n    steering all\n    assemble 1#58; add_context (f.yaml#58;3)\n  end note"
    )
    assert note in state_diagram(overlay)


def test_a_session_marks_what_it_walked(recorded: Recorded) -> None:
    overlay = session_overlay(recorded("tools"), "s")
    text = state_diagram(overlay)
    assert "  claiming --> pre_step : claimed#58; 2 times\n" in text
    assert "  stopping --> idle : settle#58; once<br/>cancel#58; never<br/>fail#58; never\n" in text
    assert "  retrying --> requesting : retry<br/>never\n" in text
    assert "  class retrying,maintenance never\n" in text
    assert "    2 times, 1.00 s\n" in text
    made = graph(overlay)
    assert {edge.source for edge in made.edges if edge.strong} == set(State) - {
        State.RETRYING,
        State.MAINTENANCE,
    }
    assert all(edge.faded is not edge.strong for edge in made.edges)
    dot = state_diagram(overlay, "dot")
    assert "penwidth=2" in dot
    assert 'retrying [label="retrying", style="rounded,dashed"' in dot


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("detail", [False, True])
def test_a_long_picture_is_folded_and_says_so(format: Format, detail: bool) -> None:
    long = Overlay("t" * 100_000, dict.fromkeys(State, ("x" * 500,) * 100))
    text = state_diagram(long, format, detail)
    assert len(text) <= MAX_CHARS
    assert SAID in text
    assert re.search(r"and \d\d more", text)
    assert SAID not in state_diagram(Overlay("t"), format, detail)


def test_a_picture_shows_only_the_rows_of_its_table() -> None:
    one = Table(LIFECYCLE.rows[:1], LIFECYCLE.says)
    assert edges(state_diagram(one, "dot")) == [("start", "idle"), ("idle", "claiming")]


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(ValueError, match="format 'svg' is unknown; it must be one of: mermaid, dot"):
        state_diagram(format=cast(Any, "svg"))


@pytest.mark.parametrize("format", FORMATS)
def test_a_session_that_is_no_walk_says_how_far_it_is_drawn(recorded: Recorded, format: Format) -> None:
    entries = recorded("simple")
    broken = session_overlay([*entries[:4], *entries[8:]])
    assert "drawn up to entry 5, which is illegal" in state_diagram(broken, format)
    assert "which is illegal" not in state_diagram(session_overlay(entries), format)
