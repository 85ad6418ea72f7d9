from itertools import pairwise

import pytest

from turnchart.flows.cli.passing import Passing
from turnchart.machine.agent import Agent
from turnchart.machine.driver import Driver
from turnchart.machine.messages import Failure, ToolCall
from turnchart.machine.points import PreStep, Reject
from turnchart.machine.scripted import Reply, ScriptedModel
from turnchart.machine.states import Event, State
from turnchart.machine.table import LIFECYCLE
from turnchart.machine.tools import tool

IDLE, CLAIMING, PRE_STEP, REQUESTING = State.IDLE, State.CLAIMING, State.PRE_STEP, State.REQUESTING
STOPPING = State.STOPPING


@pytest.mark.parametrize(
    ("last", "now", "reason", "passed"),
    [
        (IDLE, IDLE, "", ()),
        (IDLE, CLAIMING, "", (CLAIMING,)),
        (CLAIMING, REQUESTING, "", (PRE_STEP, REQUESTING)),
        (STOPPING, REQUESTING, "", (CLAIMING, PRE_STEP, REQUESTING)),
        (CLAIMING, IDLE, "blocked", (PRE_STEP, IDLE)),
        (CLAIMING, IDLE, "aborted", (IDLE,)),
        (STOPPING, IDLE, "completed", (IDLE,)),
        (CLAIMING, State.MAINTENANCE, "completed", (PRE_STEP, IDLE, State.MAINTENANCE)),
    ],
)
def test_what_lies_between_two_seen_states(
    last: State, now: State, reason: str, passed: tuple[State, ...]
) -> None:
    passing = Passing(last)
    assert passing.seen(now, reason) == passed
    assert passing.state is now


@tool
def nod() -> str:
    """Nod."""
    return "yes"


def reject(payload: PreStep) -> Reject:
    return Reject("no")


REPLIES = {
    "an answer": ["hello"],
    "tools": [Reply("look", tool_calls=[ToolCall("nod"), ToolCall("nod")]), "done"],
    "a retry": [Failure("overloaded", retry_after=0), "done"],
    "an error": [Failure("quota")],
}


@pytest.mark.parametrize("replies", REPLIES.values(), ids=REPLIES)
@pytest.mark.parametrize("blocked", [False, True], ids=["entered", "blocked"])
async def test_the_states_shown_are_the_states_taken(
    replies: list[Reply | str | Failure], blocked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = [IDLE]
    go = Driver.go

    def noted(self: Driver, event: Event) -> None:
        go(self, event)
        taken.append(self.state)

    monkeypatch.setattr(Driver, "go", noted)
    model = ScriptedModel([] if blocked else replies)
    hooks = {"pre_step": [reject]} if blocked else {}
    async with Agent(model, tools=[nod], hooks=hooks) as agent:
        passing, shown = Passing(), [IDLE]
        agent.on("*", lambda _signal, _abort: shown.extend(passing.seen(agent.state, agent.turning.reason)))
        await agent.prompt("go")
    assert shown == taken
    edges = {(row.source, row.target) for row in LIFECYCLE.rows}
    assert set(pairwise(shown)) <= edges
