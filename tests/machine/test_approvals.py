"""Questions and the ready-made approvers."""

import pytest

from turnchart.machine.approvals import (
    Approve,
    ApproveForSession,
    Approver,
    Question,
    Refuse,
    approve_all,
    approve_none,
    approve_reads,
)

READS = Question("c1", "read_file", {"path": "a"}, "the default", "a", effects="read")
WRITES = Question("c2", "shell", {"command": "rm a"}, subject="rm a")


@pytest.mark.anyio
async def test_all_none_and_reads() -> None:
    approvers: tuple[Approver, ...] = (approve_all, approve_none, approve_reads)
    assert [type(await approver(READS)) for approver in approvers] == [Approve, Refuse, Approve]
    assert [type(await approver(WRITES)) for approver in approvers] == [Approve, Refuse, Refuse]


@pytest.mark.anyio
async def test_a_refusal_says_why() -> None:
    assert await approve_none(READS) == Refuse("nobody approves calls here (the default)")
    assert await approve_none(WRITES) == Refuse("nobody approves calls here")
    answer = await approve_reads(WRITES)
    assert isinstance(answer, Refuse)
    assert "`shell`" in answer.reason


def test_answers_are_values() -> None:
    assert len({Approve(), Approve(), ApproveForSession(), Refuse("no"), Refuse("no")}) == 3
    assert Refuse().reason == ""
