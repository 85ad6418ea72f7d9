"""``keep_going``: the same prompt again, until the work is done."""

from typing import TYPE_CHECKING

from turnchart.hooks.params import Path
from turnchart.hooks.registry import hook
from turnchart.machine.points import Continue

if TYPE_CHECKING:
    from turnchart.machine.points import TurnStopping


@hook("keep_going")
class KeepGoing:
    """Send the turn back with `prompt`, or with the text of `prompt_file`, until the answer holds `until`.

    The file is read each time. Without `until` it goes on until its continues are spent.
    """

    prompt: str = ""
    prompt_file: Path | None = None
    until: str = ""

    def __post_init__(self) -> None:
        """Check that there is one source."""
        if bool(self.prompt) == bool(self.prompt_file):
            raise ValueError("give either prompt or prompt_file")

    def turn_stopping(self, payload: "TurnStopping") -> Continue | None:
        """Judge the last answer."""
        if self.until and self.until in payload.text:
            return None
        return Continue(self.prompt if self.prompt_file is None else payload.read(self.prompt_file))
