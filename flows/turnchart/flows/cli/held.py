"""What a model says, kept until it is known whether it is an answer: a pipe takes nothing back."""

from collections.abc import Callable, Mapping
from typing import Any

from turnchart.machine.entries import Entry
from turnchart.machine.models import TextDelta
from turnchart.machine.signals import Signal


class Held:
    """Keeps what a model says until the log takes it as a message: an attempt that failed answers nothing.

    Args:
        answer: Writes an answer.
        line: Shows a line of what is none.
    """

    def __init__(self, answer: Callable[[str], None], line: Callable[[str], None]) -> None:
        self._answer = answer
        self._line = line
        self._said: list[str] = []

    def __call__(self, signal: Signal) -> None:
        """Take one signal."""
        if signal.kind == "agent/assistant-stream":
            self._streamed(signal.data)
        elif signal.kind == "session/event":
            self._logged(signal.data["entry"])
        elif signal.kind == "agent/status" and signal.data["status"] == "idle":
            self._leave("cut off")  # as where the log could not take it

    def _streamed(self, data: Mapping[str, Any]) -> None:
        if data["frame"] == "chunk" and isinstance(data["chunk"], TextDelta):
            self._said.append(data["chunk"].text)

    def _logged(self, entry: Entry) -> None:
        if entry.type == "assistant/message":
            self._give()
        elif entry.type in ("assistant/attempt", "turn/end"):
            self._leave("cut off")

    def _give(self) -> None:
        """Write it: it is an answer."""
        text, self._said = "".join(self._said), []
        self._answer(text)

    def _leave(self, why: str) -> None:
        """Show what is no answer, line by line."""
        text, self._said = "".join(self._said).strip(), []
        if text:
            self._line(f"  {why}:")
            for line in text.splitlines():
                self._line(f"    {line}")


class HeldToSchema(Held):
    """Keeps what a model says until the turn ends with it: so only the last message can be the answer."""

    def _streamed(self, data: Mapping[str, Any]) -> None:
        if data["frame"] == "start":
            self._leave("not the last answer")
        super()._streamed(data)

    def _logged(self, entry: Entry) -> None:
        data = entry.data
        if entry.type == "assistant/message" and any(
            block["type"] == "tool_call" for block in data["message"]["content"]
        ):
            self._leave("said before the call")
        elif entry.type == "assistant/attempt":
            self._leave("cut off")
        elif entry.type == "hook/result" and data.get("decision") in ("continue", "stop"):
            self._leave("not accepted")
        elif entry.type == "turn/end" and data["reason"] in ("completed", "max_tokens"):
            self._give()
        elif entry.type == "turn/end":
            self._leave("not accepted")
