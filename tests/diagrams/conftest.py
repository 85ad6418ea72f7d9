"""Recorded sessions that the pictures are drawn of, and names that break pictures unless they are escaped."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from turnchart.diagrams.overlay import Overlay
from turnchart.machine.entries import Entry
from turnchart.machine.points import POINTS
from turnchart.machine.states import State

NASTY = (
    'a "quoted" name', "semi;colon", "#35; hash #quot;", "<b>bold</b><script>", "%% comment",
    "%%{init: {}}%%",
    "two\nlines", "a\r\n\tb", "end", "end note", "END  NOTE", "naïve 漢字 Ω", "🙂", "a --> b", "A->>B: x",
    "`code`", "$$x^2$$", "{open", "}", "[*]", "a|b", "back\\slash", "trailing\\", "&amp; &#59;", "wrap: x",
    "::icon", "\u202eturned", "\x00\x1b[31m", "\ud800", "", "   ", "'", "classDef style a:b;", "---",
    "state x",
    "note right of idle", "participant Z", "style a fill:#fff;",
)  # fmt: skip


@pytest.fixture
def nasty() -> Overlay:
    """An overlay that holds every one of them everywhere."""
    notes = dict.fromkeys(State, NASTY)
    return Overlay(" ".join(NASTY), notes, {**dict.fromkeys(POINTS, NASTY), 'own "point"; end': NASTY})


@pytest.fixture
def recorded() -> Callable[[str], list[Entry]]:
    """Read one of the logs of ``golden``, by name."""

    def read(name: str) -> list[Entry]:
        text = (Path(__file__).parent / "golden" / f"{name}.jsonl").read_text(encoding="utf-8")
        return [Entry.of(json.loads(line)) for line in text.splitlines()]

    return read
