"""Approvals: what a person is asked before a tool runs, and what they may answer."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from turnchart.machine.records import record

if TYPE_CHECKING:
    from turnchart.machine.tools import Effects


@record
class Question:
    """May this call run?

    Attributes:
        call_id: The id of the call.
        tool: The name of the tool.
        args: The arguments that it would run with.
        reason: Why it is asked: the rule, the hook's reason, or the default.
        subject: The argument that permissions match, as text; None where the tool declares none.
        effects: What the tool says of its effects: ``read``, or None.
    """

    call_id: str
    tool: str
    args: Mapping[str, Any]
    reason: str = ""
    subject: str | None = None
    effects: "Effects | None" = None


@record
class Approve:
    """Let this call run."""


@record
class ApproveForSession:
    """Let this call run, and do not ask for the like of it again in this session."""


@record
class Refuse:
    """Do not run it; the model reads the reason."""

    reason: str = ""


Answer: TypeAlias = Approve | ApproveForSession | Refuse


class Approver(Protocol):
    """Answers the questions of an agent, one at a time."""

    async def __call__(self, question: Question, /) -> Answer:
        """Return the answer. May wait as long as it takes: no limit counts the time."""
        ...


async def approve_all(question: Question) -> Answer:
    """Let every call run."""
    return Approve()


async def approve_none(question: Question) -> Answer:
    """Refuse every call."""
    return Refuse(
        f"nobody approves calls here ({question.reason})" if question.reason else "nobody approves calls here"
    )


async def approve_reads(question: Question) -> Answer:
    """Let calls of tools run that only read, and refuse the others."""
    if question.effects == "read":
        return Approve()
    return Refuse(
        f"only tools that read are approved here, and `{question.tool}` does not say that it only reads"
    )
