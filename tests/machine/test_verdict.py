"""What a dispatch says of itself."""

from dataclasses import replace

import pytest

from turnchart.machine.points import PreTool
from turnchart.machine.verdict import CUT_OFF, Dispatch, Verdict, acted, remarks

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


def test_of_a_pass_that_was_cut_off_only_what_programs_wrote_is_kept() -> None:
    denied = replace(PASSED_ON, id="b", decision="deny", reason="no", stderr="looked")
    trace = [PASSED_ON, denied, replace(PASSED_ON, id="c", decision="ask")]
    assert list(remarks(trace)) == [replace(PASSED_ON, id="b", reason=CUT_OFF, stderr="looked")]


def test_what_is_said_of_a_dispatch_leaves_out_what_says_nothing() -> None:
    assert PASSED_ON.said() == {"where": "x.py:1"}
    asked = replace(PASSED_ON, where="", decision="ask", reason="sure?", changed=("args",), stderr="looked")
    assert asked.said() == {
        "decision": "ask", "reason": "sure?", "changed": ("args",), "stderr": "looked",
    }  # fmt: skip


def test_an_empty_verdict() -> None:
    verdict = Verdict(PreTool())
    assert (verdict.decision, verdict.trace, verdict.value, verdict.answers, verdict.by) == (
        None,
        (),
        None,
        (),
        "",
    )
