"""What a turn came to, for whoever prompted it."""

from turnchart.machine.chart import ON_GOING
from turnchart.machine.errors import TurnFailed
from turnchart.machine.inbox import Item
from turnchart.machine.messages import AssistantMessage
from turnchart.machine.records import record


@record
class Turn:
    """One turn, after its end.

    Attributes:
        number: From 1, per session.
        reason: Why it ended; see the rows of the table.
        text: The text of the last answer.
        message: The last answer; None where there was none.
        error: What broke it; None where nothing did.
        steps: How many steps it took.
        unadmitted: What was claimed for it and never reached the conversation.
    """

    number: int
    reason: str
    text: str = ""
    message: AssistantMessage | None = None
    error: BaseException | None = None
    steps: int = 0
    unadmitted: tuple[Item, ...] = ()

    @property
    def ok(self) -> bool:
        """It ended by itself: completed, or at the model's token limit."""
        return self.reason in ON_GOING

    def check(self) -> "Turn":
        """Return the turn itself, if it ended by itself.

        Raises:
            TurnFailed: If it did not; the cause is its error.
        """
        if self.ok:
            return self
        because = f": {self.error}" if self.error else ""
        raise TurnFailed(f"turn {self.number} ended as {self.reason}{because}", self) from self.error
