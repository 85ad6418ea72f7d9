"""I.3 62, I.8 177, I.15 276 and 277: an agent whose store waits for the disk, and a disk that fails."""

from collections.abc import Callable, Iterable
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from tests.machine.drive import add, calls, drop, scripted, slow, slows, texts, types
from tests.machine.histories import Kept

from turnchart.machine import (
    Agent,
    Entry,
    Failure,
    ScriptedModel,
    Session,
    SessionReadOnly,
    ToolContext,
    tool,
)
from turnchart.machine.disk import Disk
from turnchart.machine.scripted import Scripted
from turnchart.machine.stores import Durability
from turnchart.machine.verify import verify


class Slow(Kept):
    """Waits for the disk, and fails from one wait on.

    Attributes:
        waits: What the last entry was at each wait.
        safe: How many entries a power cut can no longer take.
    """

    durability: Durability = "fsync"

    def __init__(
        self, entries: Iterable[Entry] = (), *, fails: Callable[[Entry], bool] = lambda _: False
    ) -> None:
        super().__init__(entries)
        self.waits: list[str] = []
        self.safe = 0
        self._fails = fails

    async def flush(self) -> None:
        admitted = len(self.entries)
        if admitted <= self.safe:
            return
        last = self.entries[-1]
        self.waits.append(last.type)
        await checkpoint()
        if self._fails(last):
            raise OSError("the disk is gone")
        self.safe = max(self.safe, admitted)


def fails_at(type: str) -> Callable[[Entry], bool]:
    return lambda entry: entry.type == type


async def test_it_waits_after_each_settlement_before_each_body_and_at_the_end_of_the_turn() -> None:
    store = Slow()
    async with scripted(
        [Failure("overloaded"), calls(("add", {"a": 1, "b": 2})), "done"], session=Session(store)
    ) as agent:
        await agent.prompt("x")
        assert store.safe == len(store.entries), "what a prompt returns is safe"
    assert store.waits == [
        "assistant/attempt", "tool/call", "step/end", "step/end", "turn/end",
    ]  # fmt: skip


async def test_no_tool_begins_before_its_call_is_safe() -> None:
    store = Slow()
    safe: list[bool] = []

    @tool(execution="parallel")
    async def look(ctx: ToolContext) -> str:
        """Look whether the call is safe."""
        [call] = [e for e in store.entries if e.type == "tool/call" and e.data["call_id"] == ctx.call_id]
        safe.append(call.seq < store.safe)
        return "seen"

    replies: list[Scripted] = [calls(("look", {}), ("look", {}), ("look", {})), "done"]
    async with scripted(replies, session=Session(store), tools=[look]) as agent:
        await agent.prompt("x")
    assert safe == [True] * 3


async def test_without_durability_nobody_waits() -> None:
    store = Slow()
    store.durability = "flush"
    async with scripted([calls(("add", {"a": 1, "b": 2})), "done"], session=Session(store)) as agent:
        await agent.prompt("x")
    assert store.waits == []


@pytest.mark.parametrize("at", ["assistant/attempt", "step/end"])
async def test_i062_a_failed_wait_after_a_settlement_ends_the_turn_and_asks_no_model(at: str) -> None:
    store = Slow(fails=fails_at(at))
    replies: list[Scripted] = [Failure("overloaded"), "a"] if at == "assistant/attempt" else ["a", "b"]
    async with Agent(ScriptedModel(replies), session=Session(store)) as agent:
        with pytest.raises(SessionReadOnly, match="the disk is gone"):
            await agent.prompt("x")
        assert isinstance(agent.model, ScriptedModel)
        assert len(agent.model.requests) == 1
        assert types(agent.session)[-1] == at, "nothing more is written"
        assert agent.session.read_only
        drop(agent)


async def test_i177_a_failed_wait_before_a_body_runs_no_body() -> None:
    ran: list[str] = []

    @tool
    async def act() -> str:
        """Take effect."""
        ran.append("act")
        return "done"

    store = Slow(fails=fails_at("tool/call"))
    model = ScriptedModel([calls(("act", {})), "b"])
    async with Agent(model, tools=[act], session=Session(store)) as agent:
        with pytest.raises(SessionReadOnly, match="the disk is gone"):
            await agent.prompt("x")
        assert (ran, types(agent.session)[-1]) == ([], "tool/call")
        model.drop()
    again = Session(Slow(store.entries))
    again.attach()
    assert verify(again.entries).ok
    [result] = [entry for entry in again.entries if entry.type == "tool/result"]
    assert result.data["message"]["details"] == {"recovered": "unknown"}, "what the disk has of it is unknown"


async def test_i177_in_a_pool_no_body_runs_either() -> None:
    store = Slow(fails=fails_at("tool/call"))
    model = ScriptedModel([slows(1, 2, 0), "b"])
    async with Agent(model, tools=[add, slow], session=Session(store)) as agent:
        with pytest.raises(SessionReadOnly, match="the disk is gone"):
            await agent.prompt("x")
        assert "tool/result" not in types(agent.session)
        model.drop()


async def test_a_failed_wait_at_the_end_of_a_turn_is_told_to_who_prompted() -> None:
    store = Slow(fails=fails_at("turn/end"))
    async with Agent(ScriptedModel(["a"]), session=Session(store)) as agent:
        with pytest.raises(SessionReadOnly, match="the disk is gone"):
            await agent.prompt("x")
        assert texts(agent.session, "user/message") == ["x"]


async def test_i276_a_failed_wait_is_not_tried_again_for_nobody_knows_what_the_disk_has() -> None:
    store = Slow(fails=lambda _: True)
    session = Session(store)
    session.append_custom("mine", 1)
    with pytest.raises(SessionReadOnly, match="the disk is gone"):
        await session.flush()
    before = list(store.entries)
    with pytest.raises(
        SessionReadOnly, match=r"read-only since its store failed \(the disk is gone\); reopen it"
    ):
        session.append_custom("mine", 2)
    assert store.entries == before
    again = Session(Slow(store.entries))
    again.append_custom("mine", 2)
    assert [entry.data["data"] for entry in again.entries] == [1, 2], (
        "what the store still has keeps its order"
    )


async def test_i277_a_wait_covers_what_was_appended_before_it_began(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from turnchart.machine.jsonl import JsonlStore

    covered: list[tuple[int, int]] = []
    real = Disk.sync

    def sync(self: Disk, mark: int) -> None:
        real(self, mark)
        covered.append((mark, self._safe))  # pyright: ignore[reportPrivateUsage]  # how far it came is the subject

    monkeypatch.setattr(Disk, "sync", sync)
    session = Session(JsonlStore(tmp_path / "s.jsonl", durability="fsync"))

    async def append_and_wait(number: int) -> None:
        session.append_custom("mine", number)
        await session.flush()

    async with anyio.create_task_group() as tasks:
        for number in range(20):
            tasks.start_soon(append_and_wait, number)
    assert all(safe >= mark for mark, safe in covered)
    session.close()
