"""What an agent does, told to the transcript: answers, thoughts, calls and what came of them."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from turnchart.flows.cli.chat.painting import Style
from turnchart.flows.cli.chat.status import Status
from turnchart.flows.cli.chat.transcript import Transcript
from turnchart.flows.cli.words import (
    SHORT,
    arguments,
    attempted,
    ended,
    hook_result,
    one_line,
    only_wrote,
    retry,
    text_of,
)
from turnchart.machine.agent import Agent
from turnchart.machine.entries import Entry
from turnchart.machine.models import TextDelta, ThinkingDelta
from turnchart.machine.signals import Signal

CALL: Final = "* "
RESULT: Final = "  "
SHOWN: Final = 3
"""So many lines of a result are shown."""
_STYLES: Final[Mapping[str, Style]] = {"ok": "good", "error": "bad", "denied": "bad", "aborted": "slow"}


class Hearing:
    """Hears the signals of one agent.

    Args:
        agent: Whose.
        transcript: What is told.
        status: What counts along.
        refresh: Lets the screen be drawn.
        verbose: Somebody else tells of the hooks, and tells more.
    """

    def __init__(
        self,
        agent: Agent,
        transcript: Transcript,
        status: Status,
        refresh: Callable[[], None],
        *,
        verbose: bool = False,
    ) -> None:
        self._verbose = verbose
        self._agent = agent
        self._transcript = transcript
        self._status = status
        self._refresh = refresh

    def __call__(self, heard: Signal, _abort: object) -> None:
        """Take one signal."""
        tell = _SIGNALS.get(heard.kind)
        if tell is not None:
            tell(self, heard.data)
        self._refresh()

    def _say(self, text: str, style: Style = "") -> None:
        self._transcript.line(text, style)

    def _streamed(self, data: Mapping[str, Any]) -> None:
        if data["frame"] != "chunk":
            self._transcript.end()
            return
        chunk = data["chunk"]
        if isinstance(chunk, TextDelta):
            self._transcript.piece("answer", chunk.text)
        elif isinstance(chunk, ThinkingDelta):
            self._transcript.piece("thought", chunk.text)

    def _inserted(self, data: Mapping[str, Any]) -> None:
        message = data["message"]
        if message.get("source"):
            self._say(f"  added by {one_line(message['source'])}: {one_line(text_of(message))}", "dim")
        elif data["target"] == "next-step":
            self._say("  (steers the turn)", "dim")
        elif self._agent.turning.items and self._agent.status == "running":
            self._say("  (queued)", "dim")

    def _discarded(self, data: Mapping[str, Any]) -> None:
        self._say(f"  discarded: {one_line(text_of(data['message']))}", "slow")

    def _progress(self, data: Mapping[str, Any]) -> None:
        self._transcript.note(f"  {one_line(data['tool'])}: {one_line(text_of(data))}")

    def _error(self, data: Mapping[str, Any]) -> None:
        self._say(f"  error: {one_line(str(data['error']), 4 * SHORT)}", "bad")

    def _notice(self, data: Mapping[str, Any]) -> None:
        self._say(f"  {one_line(data['text'], 4 * SHORT)}", "slow")

    def _logged(self, data: Mapping[str, Any]) -> None:
        entry: Entry = data["entry"]
        self._status.take(entry)
        tell = _ENTRIES.get(entry.type)
        if tell is not None:
            tell(self, entry.data)

    def _called(self, data: Mapping[str, Any]) -> None:
        self._say("")
        self._say(f"{CALL}{one_line(data['tool'])} {arguments(data['arguments'], 3 * SHORT)}", "tool")

    def _result(self, data: Mapping[str, Any]) -> None:
        self._transcript.note("")
        outcome = data["outcome"]
        first, *more = summary(text_of(data["message"]))
        self._say(f"{RESULT}{outcome}: {first}", _STYLES.get(outcome, ""))
        for line in more:
            self._say(f"{RESULT}{line}", "dim")

    def _answered(self, data: Mapping[str, Any]) -> None:
        if "replay" in data["message"]:
            from turnchart.flows.cli.provided import provided  # few runs have tools there

            for line in provided(data["message"]):
                self._say(f"  {line}", "dim")

    def _attempt(self, data: Mapping[str, Any]) -> None:
        self._say(f"  request failed: {attempted(data)}", "bad")

    def _retry(self, data: Mapping[str, Any]) -> None:
        self._say(f"  {retry(data)}", "slow")

    def _hook(self, data: Mapping[str, Any]) -> None:
        if self._verbose or only_wrote(data):
            return
        bad = data.get("error") or data.get("decision") == "deny"
        self._say(f"  {hook_result({**data, 'stderr': ''})}", "bad" if bad else "dim")

    def _ended(self, data: Mapping[str, Any]) -> None:
        self._transcript.note("")
        if data["reason"] != "completed":
            self._say(f"  turn {data['turn']} {ended(data)}", "bad")
        self._say("")


def summary(text: str) -> list[str]:
    """Return the first lines of a result, and how many more there are."""
    lines = [one_line(line) for line in text.splitlines() if line.strip()]
    if len(lines) > SHOWN + 1:
        lines[SHOWN:] = [f"… {len(lines) - SHOWN} more lines"]
    return lines or ["(nothing)"]


# pyright: reportPrivateUsage=false
# The tables name methods of the class above them.
_SIGNALS: Final[Mapping[str, Callable[[Hearing, Mapping[str, Any]], None]]] = {
    "session/event": Hearing._logged,
    "agent/assistant-stream": Hearing._streamed,
    "agent/inbox/inserted": Hearing._inserted,
    "agent/inbox/discarded": Hearing._discarded,
    "tool/progress": Hearing._progress,
    "agent/error": Hearing._error,
    "notice": Hearing._notice,
}
_ENTRIES: Final[Mapping[str, Callable[[Hearing, Mapping[str, Any]], None]]] = {
    "tool/call": Hearing._called,
    "tool/result": Hearing._result,
    "assistant/message": Hearing._answered,
    "assistant/attempt": Hearing._attempt,
    "llm/retry": Hearing._retry,
    "hook/result": Hearing._hook,
    "turn/end": Hearing._ended,
}
