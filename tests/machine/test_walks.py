from itertools import pairwise

import pytest

from turnchart.machine import LIFECYCLE, State
from turnchart.machine.walks import Coverage, Path

COVERAGES: tuple[Coverage, ...] = ("edges", "guards", "pairs")


def rows(path: Path) -> list[tuple[object, ...]]:
    return [LIFECYCLE.transition(step.state, step.event, step.facts)[:3] for step in path.steps]


@pytest.mark.parametrize("coverage", COVERAGES)
def test_every_step_of_a_path_is_a_transition_of_the_table(coverage: Coverage) -> None:
    for path in LIFECYCLE.paths(coverage):
        assert path.steps[0].state is State.IDLE
        assert [State.IDLE] == [step.target for step in path.steps if step.target is State.IDLE]
        assert all(one.target is other.state for one, other in pairwise(path.steps))
        for step in path.steps:
            assert LIFECYCLE.transition(step.state, step.event, step.facts).target is step.target


def test_guards_take_every_row() -> None:
    taken = {row for path in LIFECYCLE.paths("guards") for row in rows(path)}
    assert taken == {row[:3] for row in LIFECYCLE.rows}


def test_edges_take_every_edge() -> None:
    taken = {(step.state, step.event, step.target) for path in LIFECYCLE.paths() for step in path.steps}
    assert taken == {(row.source, row.event, row.target) for row in LIFECYCLE.rows}


def test_pairs_take_every_two_rows_but_those_that_no_past_allows() -> None:
    taken = {pair for path in LIFECYCLE.paths("pairs") for pair in pairwise(rows(path))}
    all_pairs = {
        (one[:3], other[:3])
        for one in LIFECYCLE.rows
        for other in LIFECYCLE.rows
        if one.target is other.source and one.target is not State.IDLE
    }
    assert taken <= all_pairs
    assert sorted(
        f"{one[0]} {one[1]} {one[2]} > {other[1]} {other[2]}" for one, other in all_pairs - taken
    ) == [
        "requesting respond None > settle results_due",  # no tools ran
    ]


@pytest.mark.parametrize("coverage", COVERAGES)
def test_the_paths_are_always_the_same(coverage: Coverage) -> None:
    again = LIFECYCLE.without(LIFECYCLE.rows[-1]).paths(coverage)
    assert LIFECYCLE.paths(coverage) == LIFECYCLE.paths(coverage)
    assert set(again) <= {*LIFECYCLE.paths(coverage), *again}
    assert all(
        step.state is not State.MAINTENANCE or step.facts.wake_latched for p in again for step in p.steps
    )


def test_a_path_is_named_by_its_states() -> None:
    names = [str(path) for path in LIFECYCLE.paths("guards")]
    assert "idle>claiming>pre_step>requesting>stopping>idle" in names


def test_paths_end_where_they_are_asked_to() -> None:
    found = LIFECYCLE.paths(to=State.TOOLING)
    assert str(found[0]) == "idle>claiming>pre_step>requesting>tooling"
    for path in found:
        assert [step.target for step in path.steps].index(State.TOOLING) == len(path.steps) - 1


def test_longer_paths_are_left_out() -> None:
    short = LIFECYCLE.paths("guards", max_length=3)
    assert short
    assert max(len(path.steps) for path in short) == 3
    assert LIFECYCLE.paths(max_length=1) == ()


def test_what_is_no_coverage_is_refused() -> None:
    with pytest.raises(ValueError, match="coverage is 'all'; it must be one of: edges, guards, pairs"):
        LIFECYCLE.paths("all")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="'nowhere' is not a valid State"):
        LIFECYCLE.paths(to="nowhere")  # type: ignore[arg-type]


def test_a_table_without_a_row_has_no_path_over_it() -> None:
    [reject] = [row for row in LIFECYCLE.rows if row.event == "reject"]
    less = LIFECYCLE.without(reject).paths("guards")
    assert all(step.event != "reject" for path in less for step in path.steps)
    assert len(less) == len(LIFECYCLE.paths("guards")) - 1
