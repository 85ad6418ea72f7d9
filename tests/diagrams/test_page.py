"""The page of HTML: what it holds. Whether it works is tried in a real browser, by .ci/page."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from turnchart.diagrams import page
from turnchart.diagrams.overlay import Overlay, session_overlay
from turnchart.diagrams.page import MAX_ITEMS, MAX_TEXT, PageError, entries_data, html_page, page_data
from turnchart.diagrams.sequence import sequence_diagram
from turnchart.diagrams.state import state_diagram
from turnchart.machine.entries import Entry, Frozen
from turnchart.machine.states import State
from turnchart.machine.table import LIFECYCLE

Recorded = Callable[[str], list[Entry]]


def made(drawn: Any = LIFECYCLE, **settings: Any) -> str:
    return html_page(drawn, renderer="window.mermaid = {};", **settings)


def data_of(text: str) -> dict[str, Any]:
    found = re.search(r'<script id="data" type="application/json">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    data: dict[str, Any] = json.loads(found[1])
    return data


def test_the_pictures_are_those_of_the_text_exports() -> None:
    data = data_of(made())
    assert (data["state"], data["sequence"]) == (state_diagram(), sequence_diagram())
    assert len(data["rows"]) == len(LIFECYCLE.rows)
    assert data["entries"] is None
    assert data_of(made(detail=True))["state"] == state_diagram(detail=True)


def test_a_session_brings_every_entry_with_its_arrow_and_state(recorded: Recorded) -> None:
    log = recorded("tools")
    data = data_of(made(session_overlay(log, "session tools")))
    assert data["title"] == "session tools"
    assert [entry["seq"] for entry in data["entries"]] == [entry.seq for entry in log]
    assert data["sequence"] == ""
    first = next(entry for entry in data["entries"] if entry["type"] == "turn/start")
    assert (first["from"], first["to"], first["label"]) == ("Driver", "Session", "turn/start 1")
    assert [entry["parent"] for entry in data["entries"]] == [entry.parent for entry in log]
    call = next(entry for entry in data["entries"] if entry["type"] == "tool/call")
    assert call["state"] == "tooling"
    assert {entry["from"] for entry in data["entries"]} <= set(data["parts"])


def test_later_entries_can_be_asked_for_alone(recorded: Recorded) -> None:
    overlay = session_overlay(recorded("tools"))
    assert overlay.record is not None
    everything = entries_data(overlay, overlay.record)
    assert entries_data(overlay, overlay.record, 7) == everything[7:]
    assert entries_data(overlay, overlay.record, 10_000) == []


def test_the_same_input_gives_the_same_bytes(recorded: Recorded) -> None:
    log = recorded("tools")
    assert made(session_overlay(log)) == made(session_overlay(log))


def test_nothing_in_a_text_can_leave_its_place(nasty: Overlay) -> None:
    attack = "</script><script>alert(1)</script><!-- @@script@@ @@data@@"
    log = [
        Entry(0, None, "custom", 1.0, Frozen(kind=attack, data=attack)),
        Entry(1, 0, "session_info", 2.0, Frozen(name=attack)),
    ]
    for drawn in (nasty, session_overlay(log, attack), Overlay(attack, {State.IDLE: (attack,)})):
        text = made(drawn)
        assert text.count("<script") == 3
        assert text.count("</script>") == 3
        assert "<script>alert" not in text
        assert data_of(text)["states"]
    assert data_of(made(session_overlay(log, attack)))["entries"][0]["data"]["data"] == attack


def test_the_page_may_ask_nobody_for_anything() -> None:
    assert "connect-src 'none'" in made()
    assert "default-src 'none'" in made()
    assert "connect-src 'self'" in made(live="entries")
    assert data_of(made(live="entries"))["live"] == "entries"
    assert not re.search(r'(?:src|href)="(?!data:)', made())


def test_long_texts_and_lists_are_cut_and_say_so() -> None:
    log = [Entry(0, None, "custom", 1.0, Frozen(kind="k", data=Frozen(a="x" * 5_000, b=tuple(range(300)))))]
    overlay = session_overlay(log)
    assert overlay.record is not None
    shown = entries_data(overlay, overlay.record)[0]["data"]["data"]
    assert shown["a"] == "x" * MAX_TEXT + " (1000 more characters)"
    assert (len(shown["b"]), shown["b"][-1]) == (MAX_ITEMS + 1, "(100 more items)")


def test_a_stream_is_a_number_of_chunks(recorded: Recorded) -> None:
    stream = (
        Frozen(type="text_delta", block=0, time=1, gaps=(1, 1), parts=("a", "b", "c")),
        Frozen(type="finish", time=2, reason="stop"),
    )
    log = [Entry(0, None, "assistant/message", 1.0, Frozen(turn=1, step=1, message=Frozen(), stream=stream))]
    overlay = session_overlay(log)
    assert overlay.record is not None
    assert entries_data(overlay, overlay.record)[0]["data"]["stream"] == "4 chunks"


def test_what_holds_in_the_states_is_listed_for_those_who_cannot_see() -> None:
    overlay = Overlay("f", {State.CLAIMING: ("steering: all",)}, {"assemble": ("add_context (f.yaml:3)",)})
    assert page_data(overlay)["held"] == [
        {"state": "claiming", "lines": ["steering: all", "assemble 1: add_context (f.yaml:3)"]}
    ]


def test_without_a_renderer_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "_RENDERER", "nothing.js")
    where = r"there is no \S*diagrams/assets/nothing\.js: run `make page` in the checkout that this runs from"
    with pytest.raises(PageError, match=rf"{where} or was built from \(it needs npm; a wheel built after it"):
        html_page()
