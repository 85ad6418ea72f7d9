"""Asking a person whether a call may run; the log says what was asked and what was answered."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio

from turnchart.machine.approvals import Approve, ApproveForSession, Question, Refuse
from turnchart.machine.entries import Frozen
from turnchart.machine.errors import named_text_of

if TYPE_CHECKING:
    from turnchart.machine.calls import Ready
    from turnchart.machine.outfit import Outfit


async def ask_person(agent: Outfit, ready: Ready, reason: str, doubt: str | None = None) -> str | None:
    """Ask whether a call may run, outside every timeout and limit.

    Args:
        agent: Whose call it is; without an approver nobody agrees.
        ready: The call.
        reason: Why it is asked.
        doubt: What to ask about instead, whatever was approved for the whole session before.

    A question that a process left open when it died is asked as it was, and stands in the log once.

    Returns:
        Why the call may not run; None where it may, and after an abort, which nobody answers for.
    """
    now, (call, tool, args) = agent.turning, ready
    common = {"turn": now.number, "step": now.step, "call_id": call.id}
    left = None if agent.steps is None else _left_open(agent, call.id)
    if left is not None:
        reason = left
    elif doubt is None and agent.approved_for_session(tool, args):
        return None
    else:
        reason = reason if doubt is None else doubt
        agent.log("approval/asked", Frozen(common, tool=tool.name, arguments=call.arguments, reason=reason))
    asked, now.asking = agent.clock.now(), anyio.Event()
    if agent.signals.waiting:
        await agent.signals.deliver()
    answer = await _answer(
        agent, Question(call.id, tool.name, args, reason, tool.subject_of(args), tool.effects)
    )
    now.waited += agent.clock.now() - asked
    now.asking.set()
    now.asking = None
    if now.cause is not None:
        return None
    refused: str | None = None
    match answer:
        case Approve():
            outcome = "approved"
        case ApproveForSession():
            outcome = "approved_for_session"
        case Refuse(said):
            outcome, refused = "refused", said or "refused"
        case _:
            outcome = "refused"
            refused = f"the approver answered {type(answer).__name__}, which is no answer"
    more = {"reason": refused} if refused else {}
    agent.log("approval/decided", Frozen(common, outcome=outcome, **more))
    if isinstance(answer, ApproveForSession):
        agent.approve_for_session(tool, args)
    return refused


def _left_open(agent: Outfit, call_id: str) -> str | None:
    """Return why a process that is gone asked about this call; None where it did not, or had its answer."""
    for entry in reversed(agent.session.entries):
        if entry.type in ("approval/asked", "approval/decided", "tool/call"):
            if entry.data["call_id"] == call_id:
                return entry.data["reason"] if entry.type == "approval/asked" else None
        elif entry.type == "step/start":
            break
    return None


async def _answer(agent: Outfit, question: Question) -> object:
    if agent.approver is None:
        return Refuse("no approver")
    try:
        return await agent.approver(question)
    except Exception as error:  # noqa: BLE001  # whatever it raises, nobody agreed
        return Refuse(f"the approver failed: {named_text_of(error)}")
