"""What comes out of a hook chain: what holds, and how it came about."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Generic

from typing_extensions import TypeVar

from turnchart.machine.points import Decision, Payload
from turnchart.machine.records import record

CUT_OFF = "the turn was cut off"
"""The reason beside what a program wrote to stderr, where nobody hears its answer."""

P = TypeVar("P", bound=Payload, default=Payload)


@record
class Dispatch:
    """One hook was called.

    Attributes:
        decision: The word of what it decided, or of what its failure decided for it.
        changed: The fields that it changed.
        error: How it failed.
        seconds: How long it took; of a wrapper with all that it wraps.
        stderr: What a program wrote there.
    """

    point: str
    id: str
    where: str
    decision: str | None
    reason: str
    changed: tuple[str, ...]
    error: str | None
    seconds: float
    stderr: str = ""

    @property
    def notable(self) -> bool:
        """It decided, changed, failed, was passed over or wrote to stderr: an entry ``hook/result``."""
        return bool(self.decision or self.changed or self.error or self.reason or self.stderr)

    def said(self) -> dict[str, Any]:
        """Return the fields of a ``hook/result`` that say what came of it; the empty ones are left out."""
        given = {
            "where": self.where, "decision": self.decision, "reason": self.reason, "changed": self.changed,
            "error": self.error, "stderr": self.stderr,
        }  # fmt: skip
        return {name: value for name, value in given.items() if value}


def remarks(trace: Iterable[Dispatch]) -> Iterator[Dispatch]:
    """Yield what programs wrote to stderr in a pass whose answers nobody hears: the turn was cut off."""
    for each in trace:
        if each.stderr:
            yield replace(each, decision=None, reason=CUT_OFF, changed=(), error=None)


def acted(result: Mapping[str, Any]) -> bool:
    """Tell whether the data of a ``hook/result`` say that the hook did more than write to stderr."""
    return any(result.get(name) for name in ("decision", "reason", "error", "changed"))


@record
class Verdict(Generic[P]):
    """What a chain says.

    Attributes:
        payload: As the last hook left it.
        decision: What holds; None where nobody decided.
        trace: The hooks that were called, in the order in which they came to an end.
        value: At ``stream`` and ``tool``, what the body or a wrapper returned.
        answers: At ``session_start``, all decisions.
        by: The id of the hook that decided; empty where nobody did.
    """

    payload: P
    decision: Decision | None = None
    trace: tuple[Dispatch, ...] = ()
    value: Any = None
    answers: tuple[Decision, ...] = ()
    by: str = ""
