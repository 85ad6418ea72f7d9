"""Who answers where a call asks: an option given beforehand, a person at the terminal, a program on stdin."""

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Literal, cast

from turnchart.flows.cli.json_lines import Emit
from turnchart.flows.cli.render import Screen, asks
from turnchart.machine.approvals import (
    Answer,
    Approve,
    ApproveForSession,
    Approver,
    Question,
    Refuse,
    approve_all,
    approve_none,
    approve_reads,
)

Beforehand = Literal["all", "reads", "none"]
BEFOREHAND: Final[Mapping[Beforehand, Approver]] = {
    "all": approve_all, "reads": approve_reads, "none": approve_none,
}  # fmt: skip
NOBODY: Final = "no approver"
CHOICES: Final = "[y]es, [a]lways in this session, [n]o and why:"
"""What a person may answer."""

Read = Callable[[], Awaitable[str | None]]
"""Gives the next line that somebody typed, None when there are no more."""


def at_terminal(screen: Screen, read: Read) -> Approver:
    """Return an approver that asks the person at the terminal."""

    async def approver(question: Question, /) -> Answer:
        screen.line(asks(question), "ask")
        while True:
            screen.ask(f"  {CHOICES}")
            line = await read()
            if line is None:
                screen.line("")
                return Refuse(NOBODY)
            answer = answered(line)
            if answer is not None:
                return answer

    return approver


def answered(line: str) -> Answer | None:
    """Return what a typed line answers; None where it is no answer.

    A yes stands alone: "a better idea: ..." begins like one and is none.
    """
    word, _, reason = line.strip().partition(" ")
    match word.lower().rstrip(",:"), reason.strip():
        case "y" | "yes", "":
            return Approve()
        case "a" | "always", "":
            return ApproveForSession()
        case "n" | "no", why:
            return Refuse(why or "the user said no")
        case _:
            return None


def on_stdin(emit: Emit, read: Read) -> Approver:
    """Return an approver that writes an event, and reads lines of JSON until one answers it."""

    async def approver(question: Question, /) -> Answer:
        emit({
            "type": "approval/asked", "id": question.call_id, "tool": question.tool, "args": question.args,
            "reason": question.reason,
        })  # fmt: skip
        while (line := await read()) is not None:
            answer = decoded(line, question.call_id)
            if not isinstance(answer, str):
                return answer
            emit({"type": "notice", "text": answer, "source": "stdin"})
        return Refuse(NOBODY)

    return approver


def decoded(line: str, id: str) -> Answer | str:
    """Return what a line of JSON answers to the question about a call, or what is wrong with it."""
    try:
        given: Any = json.loads(line)
    except (ValueError, RecursionError):
        given = None
    if isinstance(given, dict):
        fields = cast("dict[str, Any]", given)
        if fields.get("refuse") == id:
            return Refuse(str(fields.get("reason") or "refused"))
        if fields.get("approve") == id:
            return ApproveForSession() if fields.get("session") is True else Approve()
    return f'write {{"approve": "{id}"}} or {{"refuse": "{id}", "reason": "..."}}'
