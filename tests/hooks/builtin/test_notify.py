import pytest
from tests.hooks.stub_world import StubWorld

from turnchart.hooks import HOOKS, OnSignal, Payload, SessionEnd, SessionStart, TurnStopping, run_chain

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("point", "payload", "told"),
    [
        ("session_start", SessionStart(), True),
        ("session_end", SessionEnd(), True),
        ("turn_stopping", TurnStopping(), True),
        ("on_signal", OnSignal(signal="agent/error"), True),
        ("on_signal", OnSignal(signal="notice"), False),
    ],
)
async def test_the_user_is_told(world: StubWorld, point: str, payload: Payload, told: bool) -> None:
    spec = HOOKS.get("notify")
    assert spec is not None
    verdict = await run_chain(point, payload, [spec.bind(point, {"text": "hello"})], world=world)
    assert world.told == (["hello"] if told else [])
    assert verdict.decision is None
