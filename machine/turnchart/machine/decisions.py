"""What hooks may decide. ``points.py`` says which point takes which of these."""

from dataclasses import dataclass
from typing import ClassVar

from turnchart.machine.messages import Message


@dataclass(frozen=True, slots=True)
class Decision:
    """What a hook decided. ``word`` is how logs and ``run:`` hooks write it."""

    word: ClassVar[str] = ""


@dataclass(frozen=True, slots=True)
class Enter(Decision):
    """Enter the step with these messages; the same as replacing them in the payload."""

    word = "enter"
    messages: tuple[Message, ...]
    starts_request_series: bool = False


@dataclass(frozen=True, slots=True)
class Reject(Decision):
    """Do not enter the step; the turn ends as blocked."""

    word = "reject"
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Retry(Decision):
    """Try the request again after so many seconds, with another model if one is named."""

    word = "retry"
    after: float = 0
    model: str | None = None


@dataclass(frozen=True, slots=True)
class GiveUp(Decision):
    """Do not try again; the failure ends the turn."""

    word = "give_up"
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Allow(Decision):
    """See nothing wrong. Ends nothing and undoes nothing."""

    word = "allow"
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Ask(Decision):
    """Ask a person before the tool runs; the chain goes on, and a later Deny wins."""

    word = "ask"
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Deny(Decision):
    """Do not run the tool; the model reads the reason."""

    word = "deny"
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Stop(Decision):
    """End the turn after this step."""

    word = "stop"
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Continue(Decision):
    """Send the turn back to the model with this reason."""

    word = "continue"
    reason: str = ""


@dataclass(frozen=True, slots=True)
class AddContext(Decision):
    """Tell the model this with the next step."""

    word = "add_context"
    text: str = ""


@dataclass(frozen=True, slots=True)
class Block(Decision):
    """Withhold the result of a tool; the model reads an error with the reason instead."""

    word = "block"
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Veto(Decision):
    """Do not compact now."""

    word = "veto"
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Summary(Decision):
    """Use this text as the summary."""

    word = "summary"
    text: str = ""
