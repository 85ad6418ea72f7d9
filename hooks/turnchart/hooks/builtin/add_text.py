"""``add_text``: a fixed text, or a file, that the model should read."""

from typing import TYPE_CHECKING

from turnchart.hooks.params import Path
from turnchart.hooks.registry import hook
from turnchart.machine.messages import Message, UserMessage
from turnchart.machine.points import AddContext

if TYPE_CHECKING:
    from turnchart.machine.points import Assemble, Context, Payload, SessionStart


@hook("add_text")
class AddText:
    """Tell the model a `text`, or what is in a `file`, which is read each time; a missing file is nothing.

    On session_start it is told once, to a new session; on assemble it becomes a part of the system prompt; on
    context it stands as a message of its own before the last user message of every request.
    """

    text: str = ""
    file: Path | None = None

    def __post_init__(self) -> None:
        """Check that there is one source."""
        if bool(self.text) == bool(self.file):
            raise ValueError("give either text or file")
        self._missing_told = False

    def session_start(self, payload: "SessionStart") -> AddContext | None:
        """Tell a new session."""
        text = self._read(payload) if payload.source == "new" else ""
        return AddContext(text) if text else None

    def assemble(self, payload: "Assemble") -> "Assemble | None":
        """Add a section to the prompt."""
        text = self._read(payload)
        return payload.replace(sections=(*payload.sections, text)) if text else None

    def context(self, payload: "Context") -> "Context | None":
        """Add a message to the request."""
        text = self._read(payload)
        if not text:
            return None
        messages: list[Message] = list(payload.messages)
        users = [place for place, message in enumerate(messages) if message.role == "user"]
        messages.insert(users[-1] if users else len(messages), UserMessage(text, source=payload.id))
        return payload.replace(messages=messages)

    def _read(self, payload: "Payload") -> str:
        if self.file is None:
            return self.text
        try:
            return payload.read(self.file)
        except FileNotFoundError:
            if not self._missing_told:
                self._missing_told = True
                payload.notice(f"hook `{payload.id}`: there is no file {self.file}")
            return ""
