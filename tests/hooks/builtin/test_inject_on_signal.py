from pathlib import Path
from typing import Any

import pytest
from tests.hooks.stub_world import StubWorld
from tests.machine.drive import calls, scripted

from turnchart.hooks import HOOKS, BoundHook, OnSignal, ParamError, run_chain
from turnchart.machine.entries import Entry, Frozen

pytestmark = pytest.mark.anyio


def hook(**params: Any) -> BoundHook:
    spec = HOOKS.get("inject_on_signal")
    assert spec is not None
    return spec.bind("on_signal", params, id="reminder")


async def heard(world: StubWorld, signal: OnSignal, **params: Any) -> list[tuple[str, str]]:
    verdict = await run_chain("on_signal", signal, [hook(**params)], world=world)
    assert [each.error for each in verdict.trace] == [None]
    return world.injected


async def test_a_text_is_put_into_the_inbox(world: StubWorld) -> None:
    signal = OnSignal(signal="agent/error", data=Frozen(error="x"))
    assert await heard(world, signal, signals=["agent/error"], text="Look.") == [("Look.", "hook reminder")]


async def test_other_signals_are_nothing_to_it(world: StubWorld) -> None:
    assert await heard(world, OnSignal(signal="notice"), signals=["agent/error"], text="Look.") == []


async def test_entries_are_known_by_their_type_and_a_file_is_read_each_time(world: StubWorld) -> None:
    (Path(world.root) / "note.md").write_text("Now.")
    entry = Entry(0, None, "tool/result", 0.0, Frozen())
    signal = OnSignal(signal="session/event", data={"entry": entry})
    assert await heard(world, signal, signals=["tool/result"], file="note.md") == [("Now.", "hook reminder")]


@pytest.mark.parametrize(
    "params",
    [
        {"signals": ["notice"]},
        {"signals": ["notice"], "text": "x", "file": "y"},
        {"signals": [], "text": "x"},
        {"signals": ["agent/inbox/inserted"], "text": "it would hear itself"},
    ],
)
def test_what_makes_no_sense_is_refused(params: dict[str, Any]) -> None:
    with pytest.raises(ParamError):
        hook(**params)


async def test_the_model_reads_it_with_the_next_step() -> None:
    reminder = hook(signals=["tool/result"], text="Be quick.")
    async with scripted([calls(("add", {"a": 1, "b": 2})), "3"], hooks={"on_signal": [reminder]}) as agent:
        turn = await agent.prompt("x")
    assert (turn.steps, turn.text) == (2, "3")
    said = [entry.data["message"] for entry in agent.session.entries if entry.type == "user/message"]
    assert [(each.text, each.get("source")) for each in said] == [("x", None), ("Be quick.", "hook reminder")]
