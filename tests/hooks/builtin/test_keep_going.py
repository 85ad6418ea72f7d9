from pathlib import Path

import pytest
from tests.hooks.stub_world import StubWorld

from turnchart.hooks import HOOKS, Continue, ParamError, TurnStopping, run_chain
from turnchart.machine.chain import BoundHook

pytestmark = pytest.mark.anyio


def made(**params: object) -> BoundHook:
    spec = HOOKS.get("keep_going")
    assert spec is not None
    return spec.bind("turn_stopping", params)


@pytest.mark.parametrize(
    ("text", "until", "goes_on"),
    [
        ("All DONE.", "DONE", False),
        ("done", "DONE", True),
        ("D.NE", "D.NE", False),
        ("", "DONE", True),
        ("x", "", True),
    ],
)
async def test_until_the_words_are_said(text: str, until: str, goes_on: bool) -> None:
    verdict = await run_chain("turn_stopping", TurnStopping(text=text), [made(prompt="Go on.", until=until)])
    assert verdict.decision == (Continue("Go on.") if goes_on else None)


async def test_the_prompt_may_stand_in_a_file_that_is_read_each_time(world: StubWorld) -> None:
    hook = made(prompt_file="next.md", until="DONE")
    for text in ("one", "two"):
        (Path(world.root) / "next.md").write_text(text)
        verdict = await run_chain("turn_stopping", TurnStopping(), [hook], world=world)
        assert verdict.decision == Continue(text)


@pytest.mark.parametrize("params", [{}, {"prompt": "a", "prompt_file": "b"}])
def test_there_is_one_source(params: dict[str, object]) -> None:
    with pytest.raises(ParamError, match="give either prompt or prompt_file"):
        made(until="DONE", **params)
