"""What hooks may decide. ``points.py`` says which point takes which of these."""

from math import inf
from typing import TYPE_CHECKING, ClassVar

from turnchart.machine.records import record

if TYPE_CHECKING:
    from turnchart.machine.messages import Message


@record
class Decision:
    """What a hook decided. ``word`` is how logs and ``run:`` hooks write it."""

    word: ClassVar[str] = ""


@record
class _WithReason(Decision):
    """A decision that says why."""

    reason: str = ""

    def __post_init__(self) -> None:
        _check_text(self, "reason", self.reason)


@record
class _WithText(Decision):
    """A decision that says something to the model."""

    text: str = ""

    def __post_init__(self) -> None:
        _check_text(self, "text", self.text)


def _check_text(decision: Decision, name: str, value: object) -> None:
    if not isinstance(value, str):
        raise TypeError(f"{type(decision).__name__}.{name} must be text, not {type(value).__name__}")


@record
class Enter(Decision):
    """Enter the step with these messages; the same as replacing them in the payload."""

    word = "enter"
    messages: "tuple[Message, ...]"
    starts_request_series: bool = False


class Reject(_WithReason):
    """Do not enter the step; the turn ends as blocked."""

    __slots__ = ()
    word = "reject"


@record
class Retry(Decision):
    """Try the request again after so many seconds, with another model if one is named."""

    word = "retry"
    after: float = 0
    model: str | None = None

    def __post_init__(self) -> None:
        if type(self.after) not in (int, float) or not 0 <= self.after < inf:
            raise ValueError(f"Retry.after is {self.after!r}; it must be a number of seconds, from 0")
        if self.model is not None:
            _check_text(self, "model", self.model)


class GiveUp(_WithReason):
    """Do not try again; the failure ends the turn."""

    __slots__ = ()
    word = "give_up"


class Allow(_WithReason):
    """See nothing wrong. Ends nothing and undoes nothing."""

    __slots__ = ()
    word = "allow"


class Ask(_WithReason):
    """Ask a person before the tool runs; the chain goes on, and a later Deny wins."""

    __slots__ = ()
    word = "ask"


class Deny(_WithReason):
    """Do not run the tool; the model reads the reason."""

    __slots__ = ()
    word = "deny"


class Stop(_WithReason):
    """End the turn after this step."""

    __slots__ = ()
    word = "stop"


class Continue(_WithReason):
    """Send the turn back to the model with this reason."""

    __slots__ = ()
    word = "continue"


class AddContext(_WithText):
    """Tell the model this with the next step."""

    __slots__ = ()
    word = "add_context"


class Block(_WithReason):
    """Withhold the result of a tool; the model reads an error with the reason instead."""

    __slots__ = ()
    word = "block"


class Veto(_WithReason):
    """Do not compact now."""

    __slots__ = ()
    word = "veto"


class Summary(_WithText):
    """Use this text as the summary."""

    __slots__ = ()
    word = "summary"
