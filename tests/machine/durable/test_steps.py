"""Steps: what each came to is in the session, and the journal hears of it without being waited for."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from turnchart.machine import Agent, Reply, ScriptedModel
from turnchart.machine.durable import mailbox
from turnchart.machine.durable.grouped import Group, GroupedStore
from turnchart.machine.durable.steps import JournaledSteps
from turnchart.machine.entries import Frozen
from turnchart.machine.messages import Text
from turnchart.machine.points import ToolOutcome
from turnchart.machine.postgres_database import database


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """DBOS knows asyncio only."""
    return "asyncio"


class Journal:
    """The journal of one workflow, as DBOS keeps it: by the order of the calls."""

    def __init__(self, *outcomes: list[dict[str, Any]]) -> None:
        self.outcomes = list(outcomes)
        self._next = 0

    async def run_step_async(
        self, options: object, body: Callable[[], Awaitable[list[dict[str, Any]]]]
    ) -> Any:
        del options
        self._next += 1
        if self._next > len(self.outcomes):
            self.outcomes.append(await body())
        return self.outcomes[self._next - 1]


def steps(dsn: str, id: str, journal: Journal) -> tuple[JournaledSteps, GroupedStore]:
    db = database(dsn)
    mailbox.prepare(db)
    store = GroupedStore(db, id, Group(db))
    made = JournaledSteps(store, cast(Any, journal))
    made.agent = Agent(ScriptedModel())
    return made, store


OUTCOME = ToolOutcome(
    (Text("seen"),), Frozen(path="x"), is_error=True, usage={"input": 3}, terminate=True,
    added_tools=("more",), outcome="error",
)  # fmt: skip


async def test_the_outcome_of_a_tool_is_kept_beside_the_log(dsn: str) -> None:
    journal = Journal([{"step": "request"}], [{"step": "tool"}])
    ran, store = steps(dsn, "tools", journal)
    store.lock()

    async def body() -> ToolOutcome:
        return OUTCOME

    assert await ran.run("tool", "c1", body) is OUTCOME
    assert len(journal.outcomes) == 2, "nobody waits for the journal"
    await ran.recorded()
    assert journal.outcomes[2:] == [[{"step": "tool", "key": "c1", "usage": {"input": 3}}]]
    await store.flush()
    again, other = steps(dsn, store.id, journal)
    again.go_on()
    assert again.kept("c1") == OUTCOME
    assert again.kept("c1") is None, "once: what comes after is another call"
    assert again.kept("c2") is None
    another, _ = steps(dsn, store.id, journal)
    another.go_on()
    another.agent.turning.step += 1
    assert another.kept("c1") is None, "a call of another step, whatever its id"
    ran.forget()
    assert other.kept() == {}
    store.release()


async def test_what_a_hook_did_is_kept_before_it_goes_on(dsn: str) -> None:
    ran, store = steps(dsn, "hooks", Journal())
    store.lock()

    async def body() -> Frozen:
        return Frozen(exit_code=0)

    assert await ran.once("hook", "1.1 assemble x", body) == {"exit_code": 0}
    again, _ = steps(dsn, store.id, Journal())
    again.go_on()
    assert again.known("1.1 assemble x") == {"exit_code": 0}
    store.release()


async def test_an_answer_is_in_the_log_and_the_journal_says_where(dsn: str) -> None:
    journal = Journal()
    ran, store = steps(dsn, "answers", journal)
    agent = Agent(ScriptedModel([Reply("hello", usage={"input": 1, "output": 2})]))
    ran.agent = agent
    agent.steps = ran
    async with agent:
        await agent.prompt("hi")
        (answer,) = [entry.seq for entry in agent.session.entries if entry.type == "assistant/message"]
    await ran.recorded()
    assert journal.outcomes == [
        [
            {
                "step": "request", "key": "1.1.0", "seq": answer, "calls": [],
                "usage": {"input": 1, "output": 2},
            }
        ]
    ]  # fmt: skip
    store.release()


async def test_what_a_step_raises_is_raised(dsn: str) -> None:
    journal, wrong = Journal(), ValueError("no")
    ran, _ = steps(dsn, "raises", journal)

    async def body() -> None:
        raise wrong

    with pytest.raises(ValueError, match="no") as raised:
        await ran.run("request", "1.1.1", body)
    assert raised.value is wrong
    await ran.recorded()
    assert journal.outcomes == [[{"step": "request", "key": "1.1.1", "failed": "ValueError"}]]


async def test_steps_that_end_one_after_another_are_one_record(dsn: str) -> None:
    journal = Journal()
    ran, store = steps(dsn, "records", journal)
    store.lock()

    async def body() -> ToolOutcome:
        return ToolOutcome((Text("ok"),))

    recording = asyncio.create_task(ran.record())
    for i in range(3):
        await ran.run("tool", f"c{i}", body)
    await asyncio.sleep(0)
    await ran.recorded()
    assert [[note["key"] for note in record] for record in journal.outcomes] == [["c0", "c1", "c2"]]
    recording.cancel()
    store.release()


async def test_a_workflow_that_was_lost_is_told_of(dsn: str) -> None:
    class Lost(Journal):
        async def run_step_async(
            self, options: object, body: Callable[[], Awaitable[list[dict[str, Any]]]]
        ) -> Any:
            raise RuntimeError("somebody else owns this workflow")

    ran, store = steps(dsn, "lost", Lost())
    store.lock()

    async def body() -> ToolOutcome:
        return OUTCOME

    await ran.run("tool", "c1", body)
    with pytest.raises(RuntimeError, match="somebody else"):
        await ran.record()
    store.release()
