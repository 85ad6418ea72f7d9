"""Steps in a journal: what is in it already is passed over, what a tool came to is kept beside the log."""

from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from turnchart.machine import Agent, Reply, ScriptedModel
from turnchart.machine.durable.steps import JournaledSteps
from turnchart.machine.entries import Frozen
from turnchart.machine.errors import SessionLocked
from turnchart.machine.messages import Text
from turnchart.machine.points import ToolOutcome
from turnchart.machine.postgres import PostgresStore
from turnchart.machine.session import Session


class Journal:
    """The journal of one workflow, as DBOS keeps it: by the order of the calls."""

    def __init__(self, *outcomes: dict[str, Any]) -> None:
        self.outcomes = list(outcomes)
        self._next = 0

    async def run_step_async(self, options: object, body: Callable[[], Awaitable[dict[str, Any]]]) -> Any:
        del options
        self._next += 1
        if self._next > len(self.outcomes):
            self.outcomes.append(await body())
        return self.outcomes[self._next - 1]


def steps(dsn: str, id: str, journal: Journal) -> tuple[JournaledSteps, PostgresStore]:
    store = PostgresStore(dsn, id)
    made = JournaledSteps(store, cast(Any, journal))
    made.agent = Agent(ScriptedModel())
    return made, store


OUTCOME = ToolOutcome(
    (Text("seen"),), Frozen(path="x"), is_error=True, usage={"input": 3}, terminate=True,
    added_tools=("more",), outcome="error",
)  # fmt: skip


async def test_the_outcome_of_a_tool_is_kept_beside_the_log(dsn: str, anyio_backend_name: str) -> None:
    journal = Journal({"step": "request"}, {"step": "tool"})
    ran, store = steps(dsn, f"tools {anyio_backend_name}", journal)

    async def body() -> ToolOutcome:
        return OUTCOME

    assert await ran.run("tool", "c1", body) is OUTCOME
    assert journal.outcomes[2:] == [{"step": "tool", "key": "c1", "usage": {"input": 3}}]
    again, other = steps(dsn, store.id, journal)
    assert again.kept("c1") == OUTCOME
    assert again.kept("c1") is None, "once: what comes after is another call"
    assert again.kept("c2") is None
    another, _ = steps(dsn, store.id, journal)
    another.agent.turning.step += 1
    assert another.kept("c1") is None, "a call of another step, whatever its id"
    ran.forget()
    assert other.kept() == {}
    store.close()


async def test_an_answer_is_in_the_log_and_the_journal_says_where(dsn: str, anyio_backend_name: str) -> None:
    journal = Journal()
    ran, store = steps(dsn, f"answers {anyio_backend_name}", journal)
    agent = Agent(ScriptedModel([Reply("hello", usage={"input": 1, "output": 2})]))
    ran.agent = agent
    agent.steps = ran
    async with agent:
        await agent.prompt("hi")
        (answer,) = [entry.seq for entry in agent.session.entries if entry.type == "assistant/message"]
    (noted,) = journal.outcomes
    assert noted["step"] == "request"
    assert noted["key"] == "1.1.0"
    assert noted["calls"] == []
    assert noted["usage"] == {"input": 1, "output": 2}
    assert noted["seq"] == answer
    store.close()


async def test_what_a_step_raises_is_raised(dsn: str, anyio_backend_name: str) -> None:
    journal, wrong = Journal(), ValueError("no")
    ran, _ = steps(dsn, f"raises {anyio_backend_name}", journal)

    async def body() -> None:
        raise wrong

    with pytest.raises(ValueError, match="no") as raised:
        await ran.run("request", "1.1.1", body)
    assert raised.value is wrong
    assert journal.outcomes == [{"step": "request", "key": "1.1.1", "failed": "ValueError"}]


async def test_a_workflow_that_was_lost_does_not_close_its_turn(dsn: str, anyio_backend_name: str) -> None:
    class Lost(Journal):
        async def run_step_async(self, options: object, body: Callable[[], Awaitable[dict[str, Any]]]) -> Any:
            del options
            await body()
            raise RuntimeError("somebody else owns this workflow")

    ran, store = steps(dsn, f"lost {anyio_backend_name}", Lost())
    agent = Agent(ScriptedModel([Reply("hello")]), session=Session(store))
    ran.agent = agent
    agent.steps = ran
    async with agent:
        agent.follow_up("hi")
        await agent.idle()
        with pytest.raises(SessionLocked, match="was left to another writer"):
            store.check()
    kept = list(PostgresStore(dsn, store.id).load())
    assert kept[-1].type == "step/end", "the answer is there, and the turn is open for whoever goes on"
