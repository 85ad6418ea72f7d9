import pytest

from turnchart.machine.automaton import LOGGED, PERFORMED, Automaton, automaton, letter, step_name
from turnchart.machine.entries import ENTRIES, SIGNALS, WRITES, Entry, Frozen
from turnchart.machine.states import TURN_STATES, Event, State
from turnchart.machine.table import LIFECYCLE, Table


def entry(type: str, **data: object) -> Entry:
    return Entry(0, None, type, 0.0, Frozen(data))


@pytest.mark.parametrize(
    ("given", "name"),
    [
        (entry("turn/start", turn=1), "turn/start"),
        (entry("turn/end", turn=1, reason="blocked"), "turn/end blocked"),
        (entry("agent/inbox/spliced", target="rider", start=0, removed_count=1), "agent/inbox/spliced"),
        (entry("agent/inbox/spliced", target="rider", start=0, inserted=(Frozen(),)), None),
        (entry("agent/inbox/spliced", target="rider", start=0, removed_count=1, outcome="discarded"), None),
        (entry("fancy")._replace(ignorable=True), None),
        (entry("turn/start")._replace(ignorable=True), "turn/start"),
        (entry("fancy"), "fancy"),
        (entry("turn/start")._replace(foreign_id="1"), None),
    ],
)
def test_step_name(given: Entry, name: str | None) -> None:
    assert step_name(given) == name


def test_letters_of_signals() -> None:
    assert letter("agent/status", {"status": "running"}) == "agent/status running"
    assert letter("agent/assistant-stream", {"frame": "end"}) == "agent/assistant-stream end"
    assert letter("notice", {"text": "x"}) == "notice"


def test_what_tells_nothing_about_order() -> None:
    anywhere = automaton(LIFECYCLE, PERFORMED).anywhere
    assert anywhere == {
        "agent/inbox/inserted", "agent/inbox/discarded", "notice", "session/event", "on_signal",
    }  # fmt: skip
    assert anywhere <= {*SIGNALS, "on_signal"}


def test_every_letter_of_a_log_is_an_entry_type_of_the_catalogue() -> None:
    made = automaton(LIFECYCLE, LOGGED)
    letters = set(made.expected(range(len(made.edges))))
    assert {name.partition(" ")[0] for name in letters} <= set(ENTRIES)
    assert set(WRITES) <= letters
    assert {f"turn/end {reason}" for row in LIFECYCLE.rows for reason in row.reasons} <= letters


def test_the_automaton_of_a_table_is_made_once() -> None:
    assert automaton(LIFECYCLE, LOGGED) is automaton(LIFECYCLE, LOGGED)


@pytest.mark.parametrize("state", sorted(TURN_STATES))
def test_recovery_closes_a_turn_in_every_state(state: State) -> None:
    made = automaton(LIFECYCLE, LOGGED)
    at = made.close({made.entry[state]})
    for name in ("tool/result", "tool/result", "step/end", "turn/end interrupted"):
        at = made.step(at, name)
        assert at
    assert made.entry[State.IDLE] in at


def test_recovery_closes_no_turn_where_none_is_open() -> None:
    made = automaton(LIFECYCLE, LOGGED)
    assert "turn/end interrupted" not in made.expected(made.start)


def test_a_row_that_is_refused_half_way_may_fail_from_its_source() -> None:
    made = automaton(LIFECYCLE, LOGGED)
    at = made.step(made.close({made.entry[State.REQUESTING]}), "assistant/message")
    assert made.step(at, "step/end")
    for name in ("step/end", "turn/end error"):
        at = made.step(at, name)
    assert made.entry[State.IDLE] in at


@pytest.mark.parametrize(
    "row", [row for row in LIFECYCLE.rows if row.does], ids=lambda r: f"{r.source}-{r.event}-{r.guard}"
)
def test_every_row_that_says_something_is_a_way_of_the_automaton(row: object) -> None:
    kept = [each for each in LIFECYCLE.rows if each is row]
    made = Automaton(Table(kept, dict.fromkeys(State, ())), PERFORMED)
    (only,) = kept
    at = made.close({made.entry[only.source]})
    for name in only.does:
        if name == "writes":
            assert all(made.step(at, each) for each in WRITES)
            continue
        at = made.step(at, f"{name} {only.reasons[0]}" if name == "turn/end" else name)
        assert at, name
    assert made.entry[only.target] in at
    assert (only.event in (Event.CANCEL, Event.FAIL)) <= (only.target is State.IDLE)
