from collections.abc import Callable

import pytest

from turnchart.diagrams.escape import unescaped
from turnchart.diagrams.fold import LEVELS, MAX_CHARS, MAX_EDGES, SAID, Level
from turnchart.diagrams.overlay import Overlay, session_overlay
from turnchart.diagrams.sequence import sequence_diagram
from turnchart.diagrams.session_view import WHOLE, fold_loops, repeated, session_lines, silent_arrow
from turnchart.machine.entries import Entry, Frozen
from turnchart.machine.says import Arrow, Block, Kind, Line, Note, Part, log, silent

Recorded = Callable[[str], list[Entry]]


def body(text: str) -> list[str]:
    return [
        line.strip()
        for line in unescaped(text).splitlines()
        if line[:2] == "  " and "participant" not in line
    ]


def test_entries_are_drawn_in_their_true_order(recorded: Recorded) -> None:
    assert body(sequence_diagram(session_overlay(recorded("tools")))) == [
        "Agent-->>SDK: agent/inbox/spliced next-turn",
        "Note over Agent,Driver: turn 1",
        "Driver->>Session: turn/start 1",
        "Driver-->>SDK: agent/inbox/spliced next-turn",
        "Driver->>Session: step/start 1",
        "Driver->>Session: system/message be brief",
        "Driver->>Session: user/message a",
        "Driver->>Session: request/header initial m",
        "Driver->>Session: assistant/message hi add add add",
        "Driver->>Session: tool/call add",
        "Driver->>Session: tool/call add",
        "Agent-->>SDK: agent/inbox/spliced next-step",
        "Driver->>Session: tool/result ok 3",
        "Driver->>Session: tool/result ok 3",
        "Driver->>Session: tool/call add",
        "Driver->>Session: tool/result ok 3",
        "Driver->>Session: step/end 1",
        "Driver-->>SDK: agent/inbox/spliced next-step",
        "Driver->>Session: step/start 2",
        "Driver->>Session: user/message s",
        "Driver->>Session: assistant/message hi",
        "Driver->>Session: step/end 2",
        "Driver->>Session: turn/end 1 completed",
    ]


def test_detail_tells_how_long_after_each_other_entries_came(recorded: Recorded) -> None:
    lines = body(sequence_diagram(session_overlay(recorded("simple")), detail=True))
    assert lines[2] == "Driver->>Session: turn/start 1 +0.50 s"
    assert lines[0] == "Agent-->>SDK: agent/inbox/spliced next-turn"


def test_silent_lines_are_drawn_as_arrows_of_their_kind(recorded: Recorded) -> None:
    lines = body(sequence_diagram(session_overlay(recorded("retried"))))
    assert "Driver->>Session: llm/retry 1 rate_limit" in lines
    assert silent_arrow(silent(Kind.EMIT, "a", times="?", reason="why")) == Arrow(
        Kind.EMIT, Part.DRIVER, Part.SDK, "a, maybe: why", dashed=True
    )
    assert silent_arrow(silent(Kind.CALL, "a", reason="why")).target is Part.DRIVER


def test_entries_that_nothing_explains_go_to_the_session() -> None:
    entries = [
        Entry(0, None, "fancy", 0.0, Frozen(), ignorable=True),
        Entry(1, 0, "tool/call", 0.0, Frozen(tool="t")),
    ]
    assert body(sequence_diagram(session_overlay(entries))) == [
        "Driver->>Session: fancy",
        "Note over Agent,Driver: entry 1 is illegal here, see turnchart verify",
        "Driver->>Session: tool/call t",
    ]


def turns(number: int) -> list[Entry]:
    """So many empty turns, all alike."""
    entries: list[Entry] = []
    for turn in range(1, number + 1):
        for type, data in (("turn/start", {}), ("turn/end", {"reason": "completed", "steps": 0})):
            entries.append(Entry(len(entries), len(entries) - 1 if entries else None, type, 0.0,
                                 Frozen(turn=turn, **data)))  # fmt: skip
    return entries


def test_a_long_session_is_folded_into_loops() -> None:
    assert len(body(sequence_diagram(session_overlay(turns(WHOLE // 2))))) == WHOLE // 2 * 3
    assert body(sequence_diagram(session_overlay(turns(5_000)))) == [
        "loop 5000 times",
        "Note over Agent,Driver: a turn",
        "Driver->>Session: turn/start",
        "Driver->>Session: turn/end",
        "end",
    ]


def test_a_session_without_repetition_is_cut_in_the_middle() -> None:
    entries = [
        Entry(i, i - 1 if i else None, f"kind{i}", 0.0, Frozen(), ignorable=True) for i in range(3_000)
    ]
    overlay = session_overlay(entries)
    assert overlay.record is not None
    lines = session_lines(overlay, overlay.record, level=Level(edges=10))
    assert [line.label for line in lines if isinstance(line, Arrow)] == [
        *(f"kind{i}" for i in range(5)), *(f"kind{i}" for i in range(2_995, 3_000)),
    ]  # fmt: skip
    assert lines[5] == Note(Part.AGENT, Part.DRIVER, "2990 more lines are left out here")
    text = sequence_diagram(overlay)
    assert len(text) <= MAX_CHARS
    assert text.count(">>") <= MAX_EDGES


def test_long_names_are_folded_and_the_picture_says_so() -> None:
    entries = [Entry(i, i - 1 if i else None, "k" * 5_000, 0.0, Frozen(), ignorable=True) for i in range(100)]
    text = sequence_diagram(session_overlay(entries))
    assert len(text) <= MAX_CHARS
    assert SAID in text


def test_repetitions_are_found_where_they_fold_most() -> None:
    assert list(repeated("aabcbcbc")) == [("a", 2), ("bc", 3)]
    assert list(repeated("abcabcd")) == [("abc", 2), ("d", 1)]
    assert list(repeated("")) == []


def test_loops_are_folded_inside_loops() -> None:
    a, b = log(label="a"), log(label="b")
    lines: list[Line] = [a, b, b, b, a, b, b, b]
    assert fold_loops(lines) == [Block("loop", "2 times", (a, Block("loop", "3 times", (b,))))]


@pytest.mark.parametrize("level", LEVELS)
def test_a_session_overlay_may_be_drawn_at_every_level(recorded: Recorded, level: Level) -> None:
    overlay: Overlay = session_overlay(recorded("crashed"))
    assert overlay.record is not None
    drawn = [line for line in session_lines(overlay, overlay.record, level=level) if isinstance(line, Arrow)]
    assert len(drawn) <= level.edges
