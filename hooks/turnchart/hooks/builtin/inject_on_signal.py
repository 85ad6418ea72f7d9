"""``inject_on_signal``: a word to the model when something happens."""

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from turnchart.hooks.params import Path
from turnchart.hooks.registry import hook

if TYPE_CHECKING:
    from turnchart.machine.points import OnSignal

Heard = Literal[
    "agent/status", "agent/inbox/discarded", "agent/error", "tool/progress", "notice",
    "turn/end", "tool/result", "approval/decided", "llm/retry", "compaction/end", "model_change",
    "thinking_level_change", "active_tools_change",
]  # fmt: skip
"""Live signals and types of entries, without those that what is injected would cause itself, for ever."""


@hook("inject_on_signal")
class InjectOnSignal:
    """Tell the model a `text`, or what is in a `file`, with the next request after one of the `signals`.

    Besides live signals (agent/status, agent/inbox/discarded, agent/error, tool/progress, notice) it hears
    entries of the log by their type: turn/end, tool/result, approval/decided, llm/retry, compaction/end,
    model_change, thinking_level_change, active_tools_change. It does not wake an agent that rests: there the
    text waits for the next prompt.
    """

    signals: Annotated[list[Heard], Field(min_length=1)]
    text: str = ""
    file: Path | None = None

    def __post_init__(self) -> None:
        """Check that there is one source."""
        if bool(self.text) == bool(self.file):
            raise ValueError("give either text or file")

    def on_signal(self, payload: "OnSignal") -> None:
        """Hear one signal."""
        name = payload.data["entry"].type if payload.signal == "session/event" else payload.signal
        if name in self.signals:
            payload.inject(self.text if self.file is None else payload.read(self.file))
