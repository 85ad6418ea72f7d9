from collections.abc import Callable

import pytest

from turnchart.diagrams.trail import Known, Took, trail
from turnchart.machine.entries import Entry, Frozen
from turnchart.machine.says import Arrow
from turnchart.machine.states import State
from turnchart.machine.table import LIFECYCLE, Row

Recorded = Callable[[str], list[Entry]]

STEP = "claimed enter:request_due"
WALKED = {
    "simple": f"wake {STEP} respond settle",
    "tools": f"wake {STEP} respond:has_tool_calls tools_done settle:results_due {STEP} respond settle",
    "retried": f"wake {STEP} request_failed retry request_failed retry respond settle",
    "gave_up": f"wake {STEP} request_failed give_up",
    "cut": f"wake {STEP} cancel:has_text",
    "queued": f"wake {STEP} respond settle:prompt_due {STEP} respond settle",
    "rejected": "wake claimed reject wake claimed enter",
    "crashed": f"wake {STEP} respond:has_tool_calls wake {STEP} respond settle",
}


def rows(entries: list[Entry]) -> str:
    taken = [item for item in trail(entries, LIFECYCLE).items if isinstance(item, Row)]
    return " ".join(f"{row.event}:{row.guard}" if row.guard else row.event for row in taken)


@pytest.mark.parametrize("name", WALKED)
def test_the_rows_of_a_session(recorded: Recorded, name: str) -> None:
    assert rows(recorded(name)) == WALKED[name]


@pytest.mark.parametrize("name", WALKED)
def test_rows_join_at_their_states(recorded: Recorded, name: str) -> None:
    at = State.IDLE
    for item in trail(recorded(name), LIFECYCLE).items:
        if isinstance(item, Row):
            if name != "crashed":  # recovery brings a turn to rest without a row
                assert item.source is at
            at = item.target


@pytest.mark.parametrize("name", WALKED)
def test_every_entry_but_arrivals_is_explained_by_a_line_that_performs_it(
    recorded: Recorded, name: str
) -> None:
    entries = recorded(name)
    took = [item for item in trail(entries, LIFECYCLE).items if isinstance(item, Took)]
    inbox = [entry for entry in entries if entry.type == "agent/inbox/spliced"]
    arrivals = [entry.seq for entry in inbox if "inserted" in entry.data or "outcome" in entry.data]
    assert sorted([item.seq for item in took] + arrivals) == list(range(len(entries)))
    for item in took:
        assert not isinstance(item.line, Arrow) or entries[item.seq].type in item.line.does


def test_an_open_session_takes_no_row_that_it_need_not(recorded: Recorded) -> None:
    assert rows(recorded("simple")[:9]) == f"wake {STEP} respond"
    assert rows([]) == ""


def test_a_natural_stop_goes_on_for_input_not_for_results(recorded: Recorded) -> None:
    entries = recorded("simple")
    more = [entry._replace(seq=9 + i, parent=8 + i) for i, entry in enumerate(entries[3:])]
    again = [entry._replace(data=Frozen(entry.data | {"step": 2, "steps": 2})) for entry in more]
    kept = [entry for entry in again if entry.type not in ("system/message", "request/header")]
    log = [*entries[:9], *(entry._replace(seq=9 + i) for i, entry in enumerate(kept))]
    assert "settle:input_due" in rows(log)


def test_a_session_that_is_no_walk_is_followed_as_far_as_it_goes(recorded: Recorded) -> None:
    entries = recorded("simple")
    found = trail([*entries[:4], *entries[8:]], LIFECYCLE)
    assert found.refused == 5
    assert len([item for item in found.items if isinstance(item, Took)]) == 4


def test_imported_and_malformed_entries_tell_nothing() -> None:
    foreign = Entry(0, None, "tool/result", 0.0, Frozen(), foreign_id="x")
    assert trail([foreign, foreign._replace(type="assistant/message")], LIFECYCLE).refused is None
    assert trail([foreign._replace(type="assistant/message", foreign_id=None)], LIFECYCLE).refused == 0


def test_unless_told_nothing_is_known() -> None:
    assert set(Known()) == {None}
