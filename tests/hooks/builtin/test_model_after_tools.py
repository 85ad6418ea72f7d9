import pytest

from turnchart.hooks import HOOKS, Call, Request, run_chain
from turnchart.machine.entries import Frozen

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("called", "model"),
    [
        (["read_file"], "small"),
        (["shell", "search_web"], "small"),
        (["shell"], "big"),
        ([], "big"),
        (["Read_file"], "big"),
    ],
)
async def test_the_model_follows_the_tools_of_the_step_before(called: list[str], model: str) -> None:
    spec = HOOKS.get("model_after_tools")
    assert spec is not None
    hook = spec.bind("request", {"tools": ["read_file", "search_*"], "model": "small"})
    calls = tuple(Call("c", tool, Frozen(), "ok", 1) for tool in called)
    verdict = await run_chain("request", Request(model="big", calls=calls), [hook])
    assert verdict.payload.model == model
