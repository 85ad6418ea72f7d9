from typing import Any

import pytest

from turnchart.hooks import HOOKS, Continue, TurnStopping, TurnView, run_chain
from turnchart.machine.entries import Entry, Frozen

pytestmark = pytest.mark.anyio


def turn(*calls: tuple[str, Any, str | None]) -> TurnView:
    entries: list[Entry] = []
    for place, (tool, arguments, outcome) in enumerate(calls):
        id = f"c{place}"
        data = Frozen(call_id=id, tool=tool, arguments=arguments, step=1)
        entries.append(Entry(0, None, "tool/call", 0.0, data))
        if outcome:
            result = Frozen(message=Frozen(call_id=id), outcome=outcome, step=1)
            entries.append(Entry(0, None, "tool/result", 0.0, result))
    return TurnView(1, entries)


TESTS = ("shell", Frozen(command="pytest -q"), "ok")


@pytest.mark.parametrize(
    ("calls", "params", "passes"),
    [
        ([], {}, False),
        ([TESTS], {}, True),
        ([TESTS], {"pattern": "npm test|pytest"}, True),
        ([TESTS], {"pattern": "cargo test"}, False),
        ([TESTS], {"tool": "sh*"}, True),
        ([TESTS], {"tool": "Shell"}, False),
        ([("shell", Frozen(command="pytest"), "error")], {}, True),
        ([("shell", Frozen(command="pytest"), "error")], {"succeeded": True}, False),
        ([("shell", Frozen(command="pytest"), "denied")], {}, False),
        ([("shell", Frozen(command="pytest"), "aborted")], {}, False),
        ([("shell", Frozen(command="pytest"), None)], {}, False),
        ([("shell", "pytest {", "error")], {"pattern": "pytest"}, True),
        ([("edit", Frozen(), "ok"), TESTS], {"succeeded": True, "pattern": "pytest"}, True),
    ],
)
async def test_a_turn_ends_only_after_the_call(
    calls: list[Any], params: dict[str, Any], passes: bool
) -> None:
    spec = HOOKS.get("require_tool_call")
    assert spec is not None
    hook = spec.bind(
        "turn_stopping", {"tool": "shell", "reason": "Run the tests.", **params}, max_continues=3
    )
    verdict = await run_chain("turn_stopping", TurnStopping(turn=turn(*calls)), [hook])
    assert verdict.decision == (None if passes else Continue("Run the tests."))
