from collections.abc import Callable

from turnchart.diagrams.overlay import HasOverlay, Overlay, acts_in, overlay_of, session_overlay
from turnchart.machine.entries import Entry, Frozen
from turnchart.machine.states import State
from turnchart.machine.table import LIFECYCLE

Recorded = Callable[[str], list[Entry]]


class Flow:
    def overlay(self) -> Overlay:
        return Overlay("a flow", hooks={"pre_tool": ("deny", "ask"), "on_signal": ("tell",), "own": ("x",)})


def test_what_can_be_drawn() -> None:
    flow = Flow()
    assert isinstance(flow, HasOverlay)
    assert overlay_of(flow).title == "a flow"
    assert overlay_of(LIFECYCLE) == Overlay()
    made = Overlay("x")
    assert overlay_of(made) is made


def test_points_come_in_the_order_of_a_turn() -> None:
    assert Flow().overlay().points() == ("pre_tool", "on_signal", "own")
    assert Overlay(hooks={"pre_tool": ()}).points() == ()


def test_where_a_point_acts() -> None:
    assert acts_in("pre_tool") == (State.TOOLING,)
    assert acts_in("compact") == (State.PRE_STEP, State.RETRYING, State.MAINTENANCE)
    assert acts_in("on_signal") == acts_in("own") == (State.IDLE,)


def test_chains_are_told_in_order() -> None:
    overlay = Flow().overlay()
    assert overlay.hooks_at(State.TOOLING) == ("pre_tool 1: deny", "pre_tool 2: ask")
    assert overlay.hooks_at(State.IDLE) == ("on_signal 1: tell", "own 1: x")
    assert overlay.hooks_at(State.CLAIMING) == overlay.notes_at(State.CLAIMING) == ()
    assert overlay.chain("assemble") == ()


def test_what_a_session_did(recorded: Recorded) -> None:
    record = session_overlay(recorded("tools"), "t").record
    assert record is not None
    assert record.visits[State.REQUESTING] == 2
    assert record.visits[State.RETRYING] == 0
    assert {f"{row.event}:{row.guard}": times for row, times in record.rows.items()} == {
        "wake:None": 1, "claimed:None": 2, "enter:request_due": 2, "respond:has_tool_calls": 1,
        "tools_done:None": 1, "settle:results_due": 1, "respond:None": 1, "settle:None": 1,
    }  # fmt: skip
    assert sum(record.seconds.values()) == record.entries[-1].time - record.entries[0].time
    assert record.seconds[State.IDLE] == 0.5
    assert record.refused is None


def test_clocks_that_go_back_cost_no_time() -> None:
    entries = [
        Entry(0, None, "session_info", 9.0, Frozen(name="n")),
        Entry(1, 0, "session_info", 5.0, Frozen(name="m")),
    ]
    record = session_overlay(entries).record
    assert record is not None
    assert record.seconds == {State.IDLE: 0.0}


def test_an_empty_session_did_nothing() -> None:
    record = session_overlay([]).record
    assert record is not None
    assert not record.rows
    assert not record.seconds
