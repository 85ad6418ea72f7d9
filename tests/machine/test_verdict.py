"""What a dispatch says of itself."""

from dataclasses import replace

import pytest

from turnchart.machine.points import PreTool
from turnchart.machine.verdict import Dispatch, Verdict, acted

PASSED_ON = Dispatch("pre_tool", "a", "x.py:1", None, "", (), None, 0.1)


def test_a_hook_that_passed_on_is_not_worth_an_entry() -> None:
    assert not PASSED_ON.notable


@pytest.mark.parametrize("change", [{"decision": "allow"}, {"changed": ("args",)}, {"error": "late"}])
def test_a_hook_that_decided_changed_or_failed_is(change: dict[str, object]) -> None:
    assert replace(PASSED_ON, **change).notable  # type: ignore[arg-type]


def test_a_hook_that_only_wrote_to_stderr_has_an_entry_and_did_nothing() -> None:
    assert replace(PASSED_ON, stderr="looked").notable
    assert not acted({"point": "pre_tool", "id": "a", "stderr": "looked", "seconds": 0.1})
    for did in ({"decision": "deny"}, {"reason": "passed over"}, {"error": "late"}, {"changed": ("args",)}):
        assert acted({"point": "pre_tool", "id": "a", "seconds": 0.1, **did})


def test_an_empty_verdict() -> None:
    verdict = Verdict(PreTool())
    assert (verdict.decision, verdict.trace, verdict.value, verdict.answers, verdict.by) == (
        None,
        (),
        None,
        (),
        "",
    )
