from collections.abc import Callable

import pytest

from turnchart.machine import LIFECYCLE, Agent, Event, State
from turnchart.machine.config import Compaction, Limits, Queues, RetryPolicy
from turnchart.machine.lint import Finding, Given, GivenHook, applied, lint, reachable
from turnchart.machine.permissions import Permissions
from turnchart.machine.table import Row, Table

NONE = Compaction("none")


def row(source: str, event: str, guard: str | None = None) -> Row:
    """Return a row of the lifecycle."""
    [found] = [each for each in LIFECYCLE.rows if each[:3] == (source, event, guard)]
    return found


def table(rows: list[Row]) -> Table:
    return Table(rows, LIFECYCLE.says)


def said(findings: tuple[Finding, ...]) -> list[tuple[str, str]]:
    return [(each.code, each.message) for each in findings]


# -- the table alone ------------------------------------------------------------------------------


def test_the_lifecycle_is_sound_alone_and_with_all_defaults() -> None:
    assert lint() == ()
    assert lint(LIFECYCLE, Given()) == ()
    assert reachable(LIFECYCLE) == set(State)


def test_a_state_of_a_turn_without_cancel_or_fail() -> None:
    found = lint(LIFECYCLE.without(row("tooling", "cancel")))
    assert said(found) == [("no-cancel", "state tooling takes no cancel")]
    assert found[0].help == "a turn that is cut off there cannot end"
    found = lint(LIFECYCLE.without(row("claiming", "fail")))
    assert [(each.message, each.help) for each in found] == [
        ("state claiming takes no fail", "a turn that is broken there cannot end")
    ]


def test_a_row_behind_one_that_takes_everything() -> None:
    first = row("requesting", "respond")
    rows = [each for each in LIFECYCLE.rows if each is not first]
    at = rows.index(row("requesting", "respond", "has_tool_calls"))
    [found, *others] = lint(table([*rows[:at], first, *rows[at:]]))
    assert (found.code, others) == ("row-shadowed", [])
    assert found.message.startswith("`requesting respond if has_tool_calls` is never taken")
    assert found.help == "before it: `requesting respond`. Move it up, or delete it"


def test_a_guard_that_an_earlier_one_implies() -> None:
    own = row("stopping", "settle", "results_due")._replace(guard="results_owed")
    rows = list(LIFECYCLE.rows)
    at = rows.index(row("stopping", "settle", "results_due"))
    [found] = lint(table([*rows[:at], own, *rows[at:]]))
    assert found.code == "row-shadowed"
    assert found.message.startswith("`stopping settle if results_due` is never taken")


def test_an_event_that_some_facts_refuse() -> None:
    found = lint(LIFECYCLE.without(row("maintenance", "maintained")))
    assert said(found) == [("row-partial", "`maintenance maintained` is refused under no facts")]
    swapped = [
        each._replace(guard="has_input") if each is row("claiming", "claimed") else each
        for each in LIFECYCLE.rows
    ]
    assert said(lint(table(swapped))) == [("row-partial", "`claiming claimed` is refused under no facts")]


def test_states_that_nothing_leads_to_or_from() -> None:
    found = lint(LIFECYCLE.without(row("idle", "maintain")))
    assert [(each.code, each.message) for each in found] == [
        ("state-unreachable", "state maintenance is never reached")
    ]
    stuck = table([each for each in LIFECYCLE.rows if each.source is not State.RETRYING])
    assert [each.code for each in lint(stuck)] == ["state-stuck", "no-cancel", "no-cancel"]
    assert lint(stuck)[0].message == "no way leads from state retrying back to idle"


def test_a_guard_that_is_no_fact() -> None:
    wrong = [
        each._replace(guard="has_luck") if each.guard == "has_tool_calls" else each for each in LIFECYCLE.rows
    ]
    # such a table cannot even be asked, so nothing else is said of it
    [found] = lint(table(wrong))
    assert found.message == "`requesting respond if has_luck` asks for 'has_luck', which is no fact"
    assert "has_input, " in found.help
    assert found.help.endswith("prompt_due")


# -- with a flow ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "code", "key", "part"),
    [
        (Given(limits=Limits(max_steps=1)), "edge-unreachable", ("limits", "max_steps"),
         "`stopping settle if results_due` and `stopping settle if input_due` are never taken"),
        (Given(limits=Limits(max_steps=1)), "queue-starved", ("limits", "max_steps"), "parks the inbox"),
        (Given(limits=Limits(max_steps=1), queues=Queues("one-at-a-time"),
               written=frozenset({"queues.steering"})),
         "queue-starved", ("queues", "steering"), "each turn reads one steered message"),
        (Given(retry=RetryPolicy(1), compaction=NONE), "edge-unreachable", ("retry", "max_attempts"),
         "`retrying retry` is never taken"),
        (Given(retry=RetryPolicy(retry_on=()), compaction=NONE), "edge-unreachable", ("retry", "retry_on"),
         "retry.retry_on is empty"),
        (Given(limits=Limits(max_continues=0), hooks=[GivenHook("turn_stopping", "a")]),
         "edge-unreachable", ("limits", "max_continues"), "no hook at turn_stopping (a) can send"),
        (Given(limits=Limits(max_retries=0), hooks=[GivenHook("request_error", "a")]),
         "edge-unreachable", ("limits", "max_retries"), "no hook at request_error (a) can have"),
        (Given(tools={}, hooks=[GivenHook("pre_tool", "a", ("hooks", "pre_tool", 0))]), "hook-never",
         ("hooks", "pre_tool", 0), "the flow has no tools"),
        (Given({"x": ()}, hooks=[GivenHook("pre_tool", "a", tools=[])]), "hook-never", (),
         "its list of tools is empty"),
        (Given(compaction=NONE, hooks=[GivenHook("compact", "a")]), "hook-never", (), "strategy is none"),
        (Given(tools={"x": ()}, permissions=Permissions(deny=["x"]), hooks=[GivenHook("tool", "a")]),
         "hook-never", (), "permissions deny every tool"),
        (Given(tools={"x": ("tools", 0)}, permissions=Permissions(deny=["*"])), "tool-denied", ("tools", 0),
         "permissions.deny has *"),
        (Given(tools={"x": ("tools", 0)}, permissions=Permissions("deny")), "tool-denied", ("tools", 0),
         "permissions.default is deny, and no rule is about it"),
        (Given(retry=RetryPolicy(1), written=frozenset({"retry.max_delay", "retry.max_attempts"})),
         "setting-unused", ("retry", "max_delay"), "retry.max_attempts is 1"),
        (Given(limits=Limits(max_seconds=5), hooks=[GivenHook("request", "a", ("x",), timeout=5)]),
         "setting-unused", ("x", "timeout"), "never counts: the turn ends after 5 s"),
    ],
)  # fmt: skip
def test_what_a_flow_makes_impossible(given: Given, code: str, key: tuple[object, ...], part: str) -> None:
    found = [each for each in lint(LIFECYCLE, given) if (each.code, each.key) == (code, key)]
    assert len(found) == 1
    assert part in found[0].message
    assert found[0].help


@pytest.mark.parametrize(
    "given",
    [
        Given(limits=Limits(max_steps=2, max_continues=0, max_retries=0)),
        Given(retry=RetryPolicy(1), fallback=["b"], compaction=NONE),
        Given(retry=RetryPolicy(1)),
        Given(retry=RetryPolicy(1), compaction=NONE, hooks=[GivenHook("request_error", "a")]),
        Given(hooks=[GivenHook("post_tool", "a"), GivenHook("on_signal", "b")]),
        Given(more_tools=True, permissions=Permissions("deny"), hooks=[GivenHook("tool", "a")]),
        Given(more_tools=True, hooks=[GivenHook("pre_tool", "a")]),
        Given(tools={"x": ()}, permissions=Permissions("deny", ask=["x(rm *)"], deny=["x(sudo *)"])),
        Given(tools={"x": (), "y": ()}, permissions=Permissions.reads(), hooks=[GivenHook("tool", "a")]),
        Given(limits=Limits(max_seconds=5), hooks=[GivenHook("session_end", "a", timeout=9)]),
        Given(hooks=[GivenHook("own point", "a")]),
    ],
)
def test_what_may_be_meant_is_left_alone(given: Given) -> None:
    assert lint(LIFECYCLE, given) == ()


def test_a_hook_in_a_state_that_is_never_reached() -> None:
    without = table([each for each in LIFECYCLE.rows if State.RETRYING not in (each.source, each.target)])
    found = lint(without, Given(hooks=[GivenHook("request_error", "a")]))
    assert ("hook-never", "hook a at request_error never runs: state retrying is never reached") in said(
        found
    )


@pytest.mark.parametrize(
    ("given", "agent"),
    [
        (Given(limits=Limits(max_steps=1)), lambda: Agent("none", limits=Limits(max_steps=1))),
        (
            Given(retry=RetryPolicy(1), compaction=NONE),
            lambda: Agent("none", retry=RetryPolicy(1), compaction=NONE),
        ),
    ],
    ids=["steps", "retry"],
)
async def test_rows_that_are_called_impossible_are_not_taken(
    given: Given, agent: Callable[[], Agent]
) -> None:
    dead = {each[:3] for each in LIFECYCLE.rows} - {each[:3] for each in applied(LIFECYCLE, given).rows}
    assert dead
    asked = False
    for path in LIFECYCLE.paths("pairs"):
        driven = agent()
        walk = driven.walk()
        own = any(step.event is Event.RETRY for step in path.steps)  # the hooks of a path try again
        if own:
            continue
        await path.drive(driven)
        asked = True
        assert not dead & {each[:3] for each in walk}
    assert asked
