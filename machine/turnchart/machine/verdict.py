"""What comes out of a hook chain: what holds, and how it came about."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic

from typing_extensions import TypeVar

from turnchart.machine.points import Decision, Payload

P = TypeVar("P", bound=Payload, default=Payload)


@dataclass(frozen=True, slots=True)
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
        return (
            self.decision is not None
            or self.changed != ()
            or self.error is not None
            or self.reason != ""
            or self.stderr != ""
        )


def acted(result: Mapping[str, Any]) -> bool:
    """Tell whether the data of a ``hook/result`` say that the hook did more than write to stderr."""
    return any(result.get(name) for name in ("decision", "reason", "error", "changed"))


@dataclass(frozen=True, slots=True)
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
