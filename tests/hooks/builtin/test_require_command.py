from typing import Any

import pytest
from tests.hooks.stub_world import StubWorld

from turnchart.hooks import HOOKS, Continue, TurnStopping, run_chain
from turnchart.machine.errors import HookFailed
from turnchart.machine.world import Finished

pytestmark = pytest.mark.anyio


async def decision(world: StubWorld, **params: Any) -> object:
    spec = HOOKS.get("require_command")
    assert spec is not None
    hook = spec.bind("turn_stopping", {"command": ["pytest", "-q"], "reason": "Mend it.", **params})
    return (await run_chain("turn_stopping", TurnStopping(), [hook], world=world)).decision


async def test_a_command_that_succeeds_lets_the_turn_end(world: StubWorld) -> None:
    world.programs["pytest"] = Finished(0, "3 passed", "")
    assert await decision(world) is None
    assert world.ran == [["pytest", "-q"]]


@pytest.mark.parametrize(
    ("finished", "told"),
    [
        (Finished(1, "1 failed\n", "warning\n"), "1 failed\nwarning"),
        (Finished(2, "", ""), "[exit code 2]"),
        (Finished(1, "x" * 3000 + "end", ""), "[...] " + "x" * 1997 + "end"),
        (Finished(1, "x" * 99 + "\n" + "y" * 1990, "end"), "[...] " + "y" * 1990 + "\nend"),
        (Finished(1, "x" * 99 + " " + "y" * 1990 + "\nend", ""), "[...] " + "y" * 1990 + "\nend"),
    ],
)
async def test_another_sends_the_turn_back_with_what_it_said(
    world: StubWorld, finished: Finished, told: str
) -> None:
    world.programs["pytest"] = finished
    assert await decision(world) == Continue(f"Mend it.\n\n{told}")


async def test_a_command_that_cannot_be_started_is_a_failure(world: StubWorld) -> None:
    with pytest.raises(HookFailed, match="FileNotFoundError"):
        await decision(world, command=["none"])
