"""Both views as Markdown."""

import re
from collections.abc import Callable

from turnchart.diagrams.markdown import sequence_table, state_table
from turnchart.diagrams.overlay import Overlay, session_overlay
from turnchart.diagrams.sequence import sequence_diagram
from turnchart.diagrams.state import state_diagram
from turnchart.machine.entries import Entry
from turnchart.machine.states import State
from turnchart.machine.table import LIFECYCLE

CELL = re.compile(r"(?<!\\)\|")


def rows(text: str) -> list[list[str]]:
    """Return the cells of the lines of the table, without the two that make its head."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in CELL.split(line)[1:-1]] for line in lines][2:]


def test_every_row_is_a_line_of_the_table() -> None:
    made = rows(state_table())
    assert len(made) == len(LIFECYCLE.rows)
    assert made[0] == ["idle", "wake", "", "claiming", ""]
    assert ["pre-step", "enter", r"request\_due", "requesting", ""] in made
    assert ["pre-step", "reject", "", "idle", "blocked"] in made


def test_the_picture_stands_above_the_table() -> None:
    assert f"```mermaid\n{state_diagram()}```\n" in state_table()
    assert f"```mermaid\n{sequence_diagram()}```\n" in sequence_table()


def test_detail_says_what_each_row_performs() -> None:
    made = rows(state_table(detail=True))
    assert made[0][5] == "agent/status running, turn/start"


def test_a_session_says_how_often_each_row_was_taken(recorded: Callable[[str], list[Entry]]) -> None:
    overlay = session_overlay(recorded("tools"), "one")
    assert overlay.record is not None
    made = state_table(overlay)
    taken = [cells[-1] for cells in rows(made)]
    assert taken.count("never") == sum(not overlay.record.rows.get(row) for row in LIFECYCLE.rows)
    assert "- **claiming**\n    - entered " in made


def test_what_holds_in_a_state_is_listed_below() -> None:
    overlay = Overlay("f", {State.CLAIMING: ("steering: all",)}, {"assemble": ("add_context (f.yaml:3)",)})
    made = state_table(overlay)
    assert made.startswith("# f\n")
    assert "- **claiming**\n    - steering: all\n    - assemble 1: add\\_context (f.yaml:3)" in made


def test_the_sequence_table_has_every_arrow_of_the_picture_in_order() -> None:
    for detail in (False, True):
        arrows = re.findall(r"^\s*(\w+)-?->>(\w+):", sequence_diagram(detail=detail), re.MULTILINE)
        told = [(cells[0], cells[1]) for cells in rows(sequence_table(detail=detail)) if cells[0]]
        assert told == arrows


def test_blocks_and_their_alternatives_are_lines_too() -> None:
    told = [cells[2].strip("\N{NO-BREAK SPACE}") for cells in rows(sequence_table()) if not cells[0]]
    text = sequence_diagram()
    for word in ("loop", "opt", "alt", "else"):
        assert sum(each.startswith(f"{word}:") for each in told) == len(
            re.findall(rf"^\s*{word} ", text, re.MULTILINE)
        )


def test_no_text_breaks_the_table(nasty: Overlay) -> None:
    for made in (state_table(nasty), sequence_table(nasty)):
        body = made[made.index("\n```\n") :]
        assert {len(cells) for cells in rows(made)} in ({5}, {3})
        assert "<script>" not in body
        assert "\N{RIGHT-TO-LEFT OVERRIDE}" not in body
