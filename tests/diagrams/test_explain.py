from collections.abc import Callable

import pytest

from turnchart.diagrams.explain import SHOWN, explain, record_of, turn_of, walk_of
from turnchart.diagrams.trail import Took
from turnchart.machine.entries import Entry, Frozen
from turnchart.machine.states import Event
from turnchart.machine.table import Row
from turnchart.machine.verify import verify

Recorded = Callable[[str], list[Entry]]


def without(entries: list[Entry], type: str, which: int = 0) -> list[Entry]:
    """Return a log that lacks one entry, with the numbers of a whole one."""
    at = [entry.seq for entry in entries if entry.type == type][which]
    kept = [*entries[:at], *entries[at + 1 :]]
    return [entry._replace(seq=i, parent=i - 1 if i else None) for i, entry in enumerate(kept)]


def told(entries: list[Entry]) -> list[str]:
    return explain(verify(entries), entries).splitlines()


def test_the_walk_leads_to_the_first_illegal_entry(recorded: Recorded) -> None:
    lines = told(without(recorded("simple"), "step/start"))
    assert lines[:7] == [
        "the walk up to there:",
        "  idle to claiming: wake",
        "      0  agent/inbox/spliced next-turn",
        "      1  turn/start 1",
        "      2  agent/inbox/spliced next-turn",
        ">     3  system/message be brief",
        "legal there:",
    ]


def test_what_could_have_come_is_told_by_its_rows(recorded: Recorded) -> None:
    lines = told(without(recorded("tools"), "step/end"))
    at = lines.index("legal there:")
    assert lines[at + 1 :] == [
        "  hook/result, tool/call",
        "      in tooling",
        "  tool/result",
        "      in tooling",
        "      closing what a crash left open",
        "  step/end",
        "      on tools done, tooling to stopping",
        "      on fail, tooling to idle",
        "      on cancel, tooling to idle",
        "      closing what a crash left open",
        "  turn/end interrupted",
        "      closing what a crash left open",
    ]


def test_an_entry_that_its_books_refuse_has_one_cure(recorded: Recorded) -> None:
    lines = told(without(recorded("tools"), "tool/call"))
    assert lines[-1] == "legal there: call 'c1' of `add`"
    assert lines[-2].startswith(">")


def test_only_the_last_turn_is_drawn(recorded: Recorded) -> None:
    entries = recorded("queued")
    second = [entry.seq for entry in entries if entry.type == "turn/start"][1]
    broken = without(entries, "step/start", 1)
    lines = told(broken)
    assert lines[0] == f"the walk up to there ({second} entries before this turn):"
    assert lines[1] == "  stopping to claiming: settle if prompt_due"
    assert turn_of(entries) == second
    assert turn_of([]) == 0


def test_a_long_walk_is_folded(recorded: Recorded) -> None:
    entries = recorded("simple")
    note = entries[0]._replace(type="custom", data=Frozen(kind="note", data=1))
    log = [note._replace(seq=i, parent=i - 1 if i else None) for i in range(3 * SHOWN)]
    lines = told([*log, log[0]])
    assert lines[SHOWN // 4 + 1] == f"         ({2 * SHOWN} more lines)"
    assert lines[-2].startswith(">")
    assert lines[-1] == f"legal there: {3 * SHOWN}"


def test_where_no_entry_is_illegal_only_the_walk_is_drawn(recorded: Recorded) -> None:
    entries = recorded("simple")[:6]
    assert told(entries)[-1].startswith("      5  ")


@pytest.mark.parametrize("name", ["simple", "tools", "retried", "queued", "crashed"])
def test_the_walk_of_the_last_turn_is_that_of_the_whole_log(recorded: Recorded, name: str) -> None:
    entries = recorded(name)
    items = walk_of(entries)
    begun = turn_of(entries)
    assert isinstance(items[0], Row)
    first = next(item for item in items if isinstance(item, Took))
    assert first.seq >= begun
    seqs = [item.seq for item in items if isinstance(item, Took)]
    assert seqs == sorted(seqs)
    assert seqs[-1] == len(entries) - 1


def test_a_program_is_told_the_same(recorded: Recorded) -> None:
    entries = without(recorded("simple"), "step/start")
    found = record_of(verify(entries), entries)
    assert (found["seq"], found["type"], found["state"]) == (3, "system/message", "claiming or pre-step")
    assert found["walk"][0] == {"state": "idle", "event": Event.WAKE, "guard": None, "target": "claiming"}
    assert found["walk"][-1] == {"seq": 2, "type": "agent/inbox/spliced", "state": "claiming"}
    assert {"state": "claiming", "recovery": False, "letters": ["agent/inbox/spliced", "hook/result"]} in (
        found["ways"]
    )
