"""What the conformance tests of compaction do not ask: limits, full stores, what an agent remembers."""

from typing import Any

import pytest
from tests.conformance.asking import Route, all_of, asked
from tests.machine.drive import add, calls
from tests.machine.test_refuse_everywhere import Full

from turnchart.machine import (
    Agent,
    Compaction,
    CompactionFailed,
    Failure,
    Reply,
    ScriptedModel,
    Session,
    SessionReadOnly,
)
from turnchart.machine.compaction import Compacted, compactor, limit
from turnchart.machine.models import Finish

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("window", "settings", "compaction", "tokens"),
    [
        (1000, {}, None, 800),
        (1000, {"max_tokens": 200}, None, 640),
        (1000, {"max_tokens": 2000}, None, 0),
        (1000, {}, Compaction(trigger=0.5), 500),
        (None, {}, None, None),
    ],
)
async def test_what_a_request_may_take(
    window: int | None, settings: dict[str, Any], compaction: Compaction | None, tokens: int | None
) -> None:
    async with asked(
        Route((Finish("stop"),), window=window), settings=settings, compaction=compaction
    ) as agent:
        assert limit(agent) is None
        await agent.prompt("x")
        assert limit(agent) == tokens


async def test_an_adapters_default_for_the_answer_counts_too() -> None:
    async with asked(Route((Finish("stop"),), window=1000, defaults={"max_tokens": 500})) as agent:
        await agent.prompt("x")
        assert limit(agent) == 400


async def test_an_agent_whose_window_is_unknown_remembers_nothing() -> None:
    async with asked(ScriptedModel(["a"])) as agent:
        await agent.prompt("x")
        assert agent.compactor is None
        assert compactor(agent) is compactor(agent) is agent.compactor


async def test_a_turn_in_which_a_summary_failed_tries_no_other_and_the_next_one_does() -> None:
    told: list[str] = []
    model = ScriptedModel(
        ["a" * 400, "b" * 400, Failure("auth"), calls(("add", {"a": 1, "b": 2})), "c", "sum", "d"],
        context_window=200,
    )
    async with asked(model, tools=[add], compaction=Compaction(keep_last=1)) as agent:
        agent.on("notice", lambda signal, _: told.append(signal.data["source"]))
        for text in ("one", "two", "three"):
            await agent.prompt(text)
        assert told == ["compaction"]
        assert len(all_of(agent.session, "compaction/start")) == 1
        await agent.prompt("four")
    assert len(all_of(agent.session, "compaction")) == 1


@pytest.mark.parametrize("room", range(3))
async def test_a_store_that_is_full_ends_a_compaction_and_the_session_is_read_only(room: int) -> None:
    model = ScriptedModel(["a" * 100, "b" * 100])
    async with asked(model) as agent:
        await agent.prompt("one")
        await agent.prompt("two")
        entries = len(agent.session.entries)
    store = Full(entries + room)
    session = Session(store)
    session.copy(agent.session.entries)
    async with asked(ScriptedModel(default="sum"), session=session, checked=False) as other:
        with pytest.raises(SessionReadOnly):
            await other.compact()
        assert other.state == "idle"
    assert [entry.type for entry in session.entries[entries:]] == ["compaction/start", "compaction"][:room]


async def test_a_closed_agent_compacts_nothing() -> None:
    agent = Agent(ScriptedModel())
    with pytest.raises(RuntimeError, match="async with agent"):
        await agent.compact()


async def test_what_came_of_it() -> None:
    model = ScriptedModel(["a" * 400, "b" * 400, Reply("sum", usage={"input": 9})])
    async with asked(model, prompt="") as agent:
        await agent.prompt("one")
        await agent.prompt("two")
        before = len(agent.session.entries)
        came = await agent.compact()
    assert came == Compacted("sum", before + 1, 0, 202, 102)
    assert all_of(agent.session, "compaction")[0].data["usage"] == {"input": 9}


async def test_a_focus_must_be_text() -> None:
    async with asked(ScriptedModel()) as agent:
        with pytest.raises(TypeError):
            await agent.compact(5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # on purpose
        with pytest.raises(CompactionFailed):
            await agent.compact()
