"""The table equals the class, row by row and step by step, and the rows equal this hand-written list."""

from itertools import count, product
from random import Random
from typing import Any, cast

import pytest
from statemachine.exceptions import TransitionNotAllowed

from turnchart.machine.chart import BROKEN, CUT, NATURAL, ON_GOING, Lifecycle
from turnchart.machine.errors import TransitionError
from turnchart.machine.states import NO_FACTS, TURN_STATES, Event, Facts, State
from turnchart.machine.table import LIFECYCLE, Row, Table

ROWS = """
idle        wake            -                  claiming
idle        maintain        -                  maintenance  undrawn
claiming    claimed         -                  pre_step
claiming    cancel          -                  idle         undrawn
claiming    fail            -                  idle         undrawn
pre_step    reject          -                  idle
pre_step    enter           request_due        requesting
pre_step    enter           prompt_due         claiming     undrawn
pre_step    enter           -                  idle
pre_step    cancel          -                  idle         undrawn
pre_step    fail            -                  idle
requesting  request_failed  -                  retrying
requesting  respond         has_tool_calls     tooling
requesting  respond         -                  stopping
requesting  cancel          has_text           idle         undrawn
requesting  cancel          dispatched         idle         undrawn
requesting  cancel          -                  idle         undrawn
requesting  fail            dispatched         idle         undrawn
requesting  fail            -                  idle         undrawn
retrying    retry           -                  requesting
retrying    give_up         -                  idle         undrawn
retrying    cancel          -                  idle         undrawn
retrying    fail            -                  idle         undrawn
tooling     tools_done      -                  stopping
tooling     cancel          -                  idle         undrawn
tooling     fail            -                  idle         undrawn
stopping    settle          results_due        claiming
stopping    settle          input_due          claiming
stopping    settle          prompt_due         claiming     undrawn
stopping    settle          -                  idle
stopping    cancel          -                  idle         undrawn
stopping    fail            -                  idle         undrawn
maintenance maintained      wake_latched       claiming     undrawn
maintenance maintained      -                  idle         undrawn
"""

REASONS: dict[Event, tuple[str, ...]] = {
    Event.REJECT: ("blocked",), Event.ENTER: ON_GOING, Event.GIVE_UP: BROKEN, Event.SETTLE: NATURAL,
    Event.CANCEL: CUT, Event.FAIL: BROKEN,
}  # fmt: skip

PAIRS = [(state, event) for state in State for event in Event]
ALL_FACTS = [Facts(*values) for values in product((False, True), repeat=len(Facts._fields))]
TAKEN = {(row.source, row.event) for row in LIFECYCLE.rows}
REFUSED = [pair for pair in PAIRS if pair not in TAKEN]


def written(row: Row) -> tuple[str, ...]:
    return (row.source, row.event, row.guard or "-", row.target, *(() if row.drawn else ("undrawn",)))


def test_the_rows_are_these() -> None:
    assert [written(row) for row in LIFECYCLE.rows] == [
        tuple(line.split()) for line in ROWS.strip().splitlines()
    ]


def test_a_row_that_ends_a_turn_says_with_which_reasons() -> None:
    for row in LIFECYCLE.rows:
        if "turn/end" in row.does:
            going_on = ON_GOING if row.guard == "prompt_due" else REASONS[row.event]
            assert row.reasons == going_on, row
        else:
            assert row.reasons == (), row


def test_the_last_row_of_every_pair_has_no_guard_and_the_others_have_one() -> None:
    for pair in TAKEN:
        guards = [row.guard for row in LIFECYCLE.rows if (row.source, row.event) == pair]
        assert [guard is None for guard in guards] == [False] * (len(guards) - 1) + [True], pair


def test_guards_are_total_over_all_facts() -> None:
    for facts in ALL_FACTS:
        for state, event in TAKEN:
            assert LIFECYCLE.transition(state, event, facts).source is state


def test_every_state_is_reachable_and_can_come_to_rest() -> None:
    ways = {(row.source, row.target) for row in LIFECYCLE.rows}
    reached, resting = {State.IDLE}, {State.IDLE}
    for _ in State:
        reached |= {target for source, target in ways if source in reached}
        resting |= {source for source, target in ways if target in resting}
    assert reached == resting == set(State)


@pytest.mark.parametrize("state", sorted(TURN_STATES))
def test_every_turn_state_can_be_cancelled_and_can_fail(state: State) -> None:
    assert {Event.CANCEL, Event.FAIL} <= set(LIFECYCLE.accepts(state))
    assert LIFECYCLE.transition(state, Event.CANCEL).target is State.IDLE
    assert LIFECYCLE.transition(state, Event.FAIL).target is State.IDLE


@pytest.mark.parametrize(("state", "event"), REFUSED)
def test_every_other_pair_is_refused(state: State, event: Event) -> None:
    with pytest.raises(TransitionError) as caught:
        LIFECYCLE.transition(state, event)
    error = caught.value
    assert (error.state, error.event, error.guard) == (state, event, None)
    assert error.accepted == LIFECYCLE.accepts(state) != ()
    assert (
        str(error) == f"state `{state}` does not take event `{event}`; it takes {', '.join(error.accepted)}"
    )


def test_a_refusal_under_conditions_names_the_guard() -> None:
    last = next(row for row in LIFECYCLE.rows if row.event is Event.RESPOND and row.guard is None)
    with pytest.raises(TransitionError, match="unless has_tool_calls") as caught:
        LIFECYCLE.without(last).transition(State.REQUESTING, Event.RESPOND)
    assert caught.value.guard == "has_tool_calls"


def test_a_table_without_a_row_lacks_only_that_row() -> None:
    row = LIFECYCLE.rows[3]
    less = LIFECYCLE.without(row)
    assert less.rows == LIFECYCLE.rows[:3] + LIFECYCLE.rows[4:]
    assert row in LIFECYCLE.rows


def test_what_a_state_may_perform_is_what_it_says() -> None:
    compacts = {
        "compact", "hook/result", "compaction/start", "compaction/prune", "tool/result", "summarise",
        "compaction", "compaction/end",
    }  # fmt: skip
    assert LIFECYCLE.does[State.PRE_STEP] == {"pre_step", *compacts}
    assert LIFECYCLE.does[State.MAINTENANCE] == {"writes", "branch_summary", "leaf", *compacts}


# -- the engine -----------------------------------------------------------------------------------


class Model:
    """What the engine reads: the state, and an attribute for every guard; it notes which were read."""

    def __init__(self) -> None:
        self.state: str = State.IDLE
        self.facts = NO_FACTS
        self.asked: dict[str, bool] = {}


def _fact(name: str) -> property:
    def ask(model: Model) -> bool:
        return model.asked.setdefault(name, bool(getattr(model.facts, name)))

    return property(ask)


for _guard in {row.guard for row in LIFECYCLE.rows if row.guard}:
    setattr(Model, _guard, _fact(_guard))


class Engine:
    """One shared engine whose model's state and facts are swapped: an instance costs 64 KiB, a step 93 us."""

    def __init__(self) -> None:
        self.model = Model()
        self.machine = cast(Any, Lifecycle)(model=self.model)

    def target(self, state: State, event: Event, facts: Facts) -> State | None:
        self.model.state, self.model.facts, self.model.asked = state.value, facts, {}
        try:
            self.machine.send(event.value)
        except TransitionNotAllowed:
            assert self.model.state == state
            return None
        return State(self.model.state)


def by_table(state: State, event: Event, facts: Facts) -> State | None:
    try:
        return LIFECYCLE.transition(state, event, facts).target
    except TransitionError:
        return None


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine()


def test_the_engine_is_the_synchronous_one(engine: Engine) -> None:
    assert type(engine.machine._engine).__name__ == "SyncEngine"


Answer = tuple[dict[str, bool], State | None]
"""What the engine asked of the facts, and where it went: so it does under all facts that say the same."""


def holds(answer: Answer, facts: Facts) -> bool:
    return all(getattr(facts, name) == said for name, said in answer[0].items())


def answers(engine: Engine, state: State, event: Event) -> list[Answer]:
    """Return the answers of the engine that together cover all facts."""
    found: list[Answer] = []
    for facts in ALL_FACTS:
        if not any(holds(answer, facts) for answer in found):
            target = engine.target(state, event, facts)
            found.append((engine.model.asked, target))
    return found


@pytest.mark.parametrize("state", State)
def test_engine_and_table_agree_on_every_event_and_all_facts(engine: Engine, state: State) -> None:
    for event in Event:
        found = answers(engine, state, event)
        guards = {row.guard for row in LIFECYCLE.rows if (row.source, row.event) == (state, event)} - {None}
        assert {name for asked, _ in found for name in asked} == guards, event
        for facts in ALL_FACTS if guards else [NO_FACTS]:
            [target] = [answer[1] for answer in found if holds(answer, facts)]
            assert target == by_table(state, event, facts), (event, facts)


LEAVING = {Event.CANCEL, Event.FAIL}
GOING_ON = {state: [each for each in LIFECYCLE.accepts(state) if each not in LEAVING] for state in State}


@pytest.mark.parametrize("steps", [1_000, pytest.param(20_000, marks=pytest.mark.slow)])
def test_engine_and_table_agree_on_a_random_walk_of_every_row(engine: Engine, steps: int) -> None:
    random, state, walked = Random(42), State.IDLE, set[Row]()
    for step in count():
        if step >= steps and (walked == set(LIFECYCLE.rows) or step >= 20 * steps):
            break
        event = random.choice(GOING_ON[state] if random.random() < 0.7 else tuple(Event))
        facts = Facts(*(random.random() < 0.5 for _ in Facts._fields))
        target = by_table(state, event, facts)
        assert engine.target(state, event, facts) == target, (state, event, facts)
        if target is not None:
            walked.add(LIFECYCLE.transition(state, event, facts))
            state = target
    assert walked == set(LIFECYCLE.rows)


def test_the_table_is_extracted_from_the_class() -> None:
    assert [written(row) for row in Table.of(Lifecycle).rows] == [written(row) for row in LIFECYCLE.rows]
