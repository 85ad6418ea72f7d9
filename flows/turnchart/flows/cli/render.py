"""A run on a terminal: the answer on stdout as it comes, everything else on stderr."""

import os
import sys
from collections.abc import Mapping
from typing import Any, Final, Literal, TextIO

from turnchart.flows.cli.held import Held, HeldToSchema
from turnchart.flows.cli.passing import Passing
from turnchart.flows.cli.streams import leads_on, same_file, write
from turnchart.flows.cli.words import (
    SHORT,
    arguments,
    attempted,
    ended,
    hook_result,
    one_line,
    only_wrote,
    plain,
    retry,
    text_of,
)
from turnchart.machine.agent import Agent
from turnchart.machine.approvals import Question
from turnchart.machine.entries import Entry
from turnchart.machine.models import TextDelta
from turnchart.machine.signals import Signal

Style = Literal["", "state", "good", "bad", "slow", "ask"]
PATIENCE: Final = 1.0
"""Seconds before the progress of a call is shown."""
_COLOURS: Final[Mapping[Style, str]] = {
    "state": "36", "good": "32", "bad": "31", "slow": "33", "ask": "1",
}  # fmt: skip


class Screen:
    """Two streams that may be one terminal or pipe: a line of one never begins inside a line of the other.

    Where stdout is a pipe that may lead to the terminal of stderr, as to ``cat``, the answer in it stays
    whole, and stderr has an empty line too many rather than a line inside the answer.

    Everything is made plain before it is written, so no model and no tool can send a terminal commands.
    """

    def __init__(self, out: TextIO | None = None, err: TextIO | None = None) -> None:
        self._out = sys.stdout if out is None else out
        self._err = sys.stderr if err is None else err
        self._shared = same_file(self._out, self._err)
        self.read_along = self._out.isatty()
        """A person reads the answer as it comes, not a program."""
        self._may_meet = not self._shared and self._err.isatty() and leads_on(self._out)
        self._coloured = (
            self._err.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        )
        self._open: Literal["", "out", "states"] = ""
        self._answering = False
        self._owed = False
        """The line of the answer ends as soon as that cannot break the line of the states."""

    def answer(self, text: str) -> None:
        """Write a piece of the answer."""
        if text:
            if self._open == "states":
                self._end_line()
            write(self._out, plain(text))
            self._answering = not text.endswith("\n")
            self._open = "out" if self._answering else ""

    def whole_answer(self, text: str) -> None:
        """Write an answer at once, to its end."""
        self.answer(text)
        self.end_answer()

    def end_answer(self) -> None:
        """End the line of the answer, if one is open."""
        if self._answering:
            self._answering = False
            self._owed = self._may_meet and self._open == "states"
            if not self._owed:
                write(self._out, "\n")
            self._open = "" if self._open == "out" else self._open

    def state(self, name: str) -> None:
        """Write a state that was entered; the states that follow each other at once share a line."""
        self._break_answer()
        self._write((" > " if self._open == "states" else "") + self._styled(name, "state"))
        self._open = "states"

    def line(self, text: str, style: Style = "") -> None:
        """Write a line on stderr."""
        self._break_answer()
        if self._open == "states":
            self._end_line()
        self._write(self._styled(plain(text), style) + "\n")

    def ask(self, text: str) -> None:
        """Write a question, and leave the cursor behind it."""
        self._break_answer()
        if self._open == "states":
            self._end_line()
        self._write(self._styled(plain(text), "ask") + " ")

    def close(self) -> None:
        """End every open line."""
        self.end_answer()
        if self._open == "states":
            self._end_line()

    def _break_answer(self) -> None:
        if self._open == "out":
            if self._shared or self._may_meet:
                self._write("\n")
                self._answering = not self._shared
            self._open = ""

    def _end_line(self) -> None:
        self._write("\n")
        self._open = ""
        if self._owed:
            self._owed = False
            write(self._out, "\n")

    def _styled(self, text: str, style: Style) -> str:
        return f"\x1b[{_COLOURS[style]}m{text}\x1b[0m" if self._coloured and style else text

    def _write(self, text: str) -> None:
        write(self._err, text)


class Render:
    """Hears the signals of one agent and shows them.

    Args:
        agent: Whose.
        screen: Where they are shown.
        verbose: Somebody else tells of the hooks, and tells more.
        judged: The answer of a turn is held against a schema, so only the last one is an answer.
    """

    def __init__(self, agent: Agent, screen: Screen, *, verbose: bool = False, judged: bool = False) -> None:
        self._agent = agent
        self._screen = screen
        self._verbose = verbose
        self._held = _held(screen, judged=judged)
        self._passing = Passing(agent.state)
        self._begun = False
        self._called = 0.0

    def say(self, text: str) -> None:
        """Show a line, after the states that were entered before it."""
        self._pass()
        self._screen.line(text)

    def _pass(self) -> None:
        came_from = self._passing.state
        for state in self._passing.seen(self._agent.state, self._agent.turning.reason):
            if not self._begun:
                self._begun = True
                self._screen.state(came_from.shown)
            self._screen.state(state.shown)

    def __call__(self, signal: Signal, abort: object) -> None:
        """Show one signal, after the states that were entered before it; what is answered, before them."""
        if self._held is not None:
            self._held(signal)
        self._pass()
        data = signal.data
        match signal.kind:
            case "session/event":
                self._entry(data["entry"])
            case "agent/assistant-stream" if self._held is None:
                self._stream(data)
            case "agent/inbox/inserted":
                self._inserted(data)
            case "agent/inbox/discarded":
                self._screen.line(f"  discarded: {one_line(text_of(data['message']))}", "slow")
            case "tool/progress":
                self._progress(data)
            case "agent/error":
                self._screen.line(f"  error: {one_line(str(data['error']), 4 * SHORT)}", "bad")
            case "notice":
                self._screen.line(f"  {one_line(data['text'], 4 * SHORT)}", "slow")
            case _:
                pass

    def _stream(self, data: Mapping[str, Any]) -> None:
        if data["frame"] == "chunk" and isinstance(data["chunk"], TextDelta):
            self._screen.answer(data["chunk"].text)
        elif data["frame"] == "end":
            self._screen.end_answer()

    def _progress(self, data: Mapping[str, Any]) -> None:
        """Show how far a call is, but not of quick ones, whose result tells the same."""
        if self._agent.clock.now() - self._called >= PATIENCE:
            self._screen.line(f"  {data['tool']}: {one_line(text_of(data))}")

    def _inserted(self, data: Mapping[str, Any]) -> None:
        message = data["message"]
        said = one_line(text_of(message))
        if message.get("source"):
            self._screen.line(f"  added by {one_line(message['source'])}: {said}")
        elif data["target"] == "next-step":
            self._screen.line(f"  steering: {said}", "slow")
        elif self._agent.status == "running":
            self._screen.line(f"  queued: {said}", "slow")

    def _entry(self, entry: Entry) -> None:
        data, show = entry.data, self._screen.line
        match entry.type:
            case "tool/call":
                self._called = entry.time
                show(f"  {one_line(data['tool'])} {arguments(data['arguments'])}")
            case "tool/result":
                said = one_line(text_of(data["message"])) or "(nothing)"
                show(
                    f"  {one_line(data['message']['tool'])} {data['outcome']}: {said}",
                    _STYLES[data["outcome"]],
                )
            case "assistant/message" if "replay" in data["message"]:
                from turnchart.flows.cli.provided import provided  # few runs have tools there

                for line in provided(data["message"]):
                    show(f"  {line}")
            case "assistant/attempt":
                show(f"  request failed: {attempted(data)}", "bad")
            case "llm/retry":
                show(f"  {retry(data)}", "slow")
            case "hook/result" if not (self._verbose or only_wrote(data)):
                show(
                    f"  {hook_result({**data, 'stderr': ''})}",
                    "bad" if data.get("error") or data.get("decision") == "deny" else "",
                )
            case "turn/end":
                show(
                    f"  turn {data['turn']} {ended(data)}", "good" if data["reason"] == "completed" else "bad"
                )
            case _:
                pass


_STYLES: Final[Mapping[str, Style]] = {"ok": "good", "error": "bad", "denied": "bad", "aborted": "slow"}


def _held(screen: Screen, *, judged: bool) -> Held | None:
    """Return what keeps an answer until it is one; None where a person reads along, and sees it break."""
    if screen.read_along and not judged:
        return None
    return (HeldToSchema if judged else Held)(screen.whole_answer, lambda text: screen.line(text, "slow"))


def asks(question: Question) -> str:
    """Return a question as a person reads it, with the whole call: what is cut off could be anything."""
    reason = f"  ({one_line(question.reason)})" if question.reason else ""
    return f"  may {one_line(question.tool)} run? {arguments(question.args, most=None)}{reason}"
