import pytest

from turnchart.hooks import HOOKS, ParamError, PreStep, Reject, TurnView, run_chain
from turnchart.machine.entries import Entry, Frozen
from turnchart.machine.messages import AssistantMessage

pytestmark = pytest.mark.anyio


def turn(*usages: dict[str, int]) -> TurnView:
    return TurnView(1, [
        Entry(seq, None, "assistant/message", 0.0, Frozen(message=AssistantMessage("a", usage=usage)))
        for seq, usage in enumerate(usages)
    ])  # fmt: skip


@pytest.mark.parametrize(
    ("spent", "rejected"),
    [
        (turn(), False),
        (turn({"input": 60, "output": 900}), False),
        (turn({"input": 60}, {"input": 39}), False),
        (turn({"input": 60}, {"input": 40}), True),
        (turn({"input": 10, "cache_read": 80, "cache_write": 10}), True),
    ],
)
async def test_a_turn_may_read_so_much(spent: TurnView, rejected: bool) -> None:
    spec = HOOKS.get("token_budget")
    assert spec is not None
    hook = spec.bind("pre_step", {"max_input_tokens": 100})
    verdict = await run_chain("pre_step", PreStep(turn=spent), [hook])
    assert verdict.decision == (Reject("token budget") if rejected else None)


def test_a_budget_is_more_than_nothing() -> None:
    spec = HOOKS.get("token_budget")
    assert spec is not None
    with pytest.raises(ParamError, match="greater than 0"):
        spec.bind("pre_step", {"max_input_tokens": 0})
