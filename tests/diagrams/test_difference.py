"""One picture of two things, with what changed marked."""

from collections.abc import Callable

import pytest

from turnchart.diagrams.difference import difference, differs
from turnchart.diagrams.overlay import Overlay, session_overlay
from turnchart.diagrams.sequence import sequence_diagram
from turnchart.diagrams.state import state_diagram
from turnchart.machine.entries import Entry
from turnchart.machine.states import State
from turnchart.machine.table import LIFECYCLE

OLD = Overlay(
    "support",
    {State.CLAIMING: ("steering: all", "follow_up: all"), State.TOOLING: ("tools: a",)},
    {"pre_tool": ("deny (f.yaml:3)", "ask (f.yaml:9)"), "context": ("trim (f.yaml:20)",)},
)
NEW = Overlay(
    "support",
    {State.CLAIMING: ("steering: one-at-a-time", "follow_up: all"), State.TOOLING: ("tools: a",)},
    {"pre_tool": ("ask (f.yaml:5)", "audit (f.yaml:6)"), "context": ("trim (f.yaml:21)",)},
)


def test_lines_that_only_one_of_them_has_are_marked() -> None:
    made = difference(OLD, NEW)
    assert made.notes_at(State.CLAIMING) == (
        "\N{MINUS SIGN} steering: all", "+ steering: one-at-a-time", "follow_up: all",
    )  # fmt: skip
    assert made.hooks["pre_tool"] == (
        "\N{MINUS SIGN} deny (f.yaml:3)",
        "ask (f.yaml:5)",
        "+ audit (f.yaml:6)",
    )


def test_a_hook_that_only_moved_in_its_file_is_the_same() -> None:
    made = difference(OLD, NEW)
    assert made.hooks["context"] == ("trim (f.yaml:21)",)
    assert State.REQUESTING not in made.changed


def test_states_at_which_something_changed_are_coloured() -> None:
    made = difference(OLD, NEW)
    assert made.changed == {State.CLAIMING, State.TOOLING}
    assert "  class claiming,tooling changed\n" in state_diagram(made)
    dot = state_diagram(made, "dot").splitlines()
    assert [line.split()[0] for line in dot if 'fillcolor="#ffe066"' in line] == ["claiming", "tooling"]
    assert "+ audit" in sequence_diagram(made)


@pytest.mark.parametrize("same", [OLD, LIFECYCLE, Overlay()])
def test_nothing_differs_from_itself(same: Overlay) -> None:
    made = difference(same, same)
    assert not differs(made)
    assert state_diagram(made) == state_diagram(same)


def test_a_chain_that_is_gone_is_shown_as_gone() -> None:
    made = difference(OLD, Overlay("support"))
    assert made.hooks["context"] == ("\N{MINUS SIGN} trim (f.yaml:20)",)
    assert differs(made)


def test_titles_that_differ_are_both_shown() -> None:
    assert difference(Overlay("a"), Overlay("b")).title == "a \N{RIGHTWARDS ARROW} b"
    assert difference(LIFECYCLE, Overlay("b")).title == "b"


def test_sessions_differ_in_how_often_rows_were_taken(recorded: Callable[[str], list[Entry]]) -> None:
    log = recorded("tools")
    last = next(entry.seq for entry in log if entry.type == "turn/end")
    made = difference(session_overlay(log), session_overlay(log[: last + 1]))
    assert difference(session_overlay(log), session_overlay(log)).row_notes == {}
    changed = {f"{row.source} {row.event}": note for row, note in made.row_notes.items()}
    assert differs(made) == (last + 1 < len(log)) == bool(changed)
    for note in changed.values():
        assert note.startswith("before ")
        assert note.partition(",")[0] in state_diagram(made)
