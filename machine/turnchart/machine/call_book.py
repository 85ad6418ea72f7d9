"""The book of tool calls: asked for by an answer, started in its order, answered in its order, once each."""

from collections.abc import Mapping
from typing import Any

from turnchart.machine.books import Book, Wrong, as_list, as_object
from turnchart.machine.entries import Entry

NOT_STARTED = "not_started"
"""What recovery writes into ``details.recovered`` of a call that never started: it has no ``tool/call``."""


class Calls(Book):
    """Every call that an answer asks for: started in its order, answered in its order, once each."""

    def __init__(self) -> None:
        self._asked: list[Mapping[str, Any]] = []
        self._started = self._answered = 0
        self._exclusive = False
        self._asking: Any = None
        super().__init__({
            "step/start": self._opens, "assistant/message": self._asks, "tool/call": self._starts,
            "tool/result": self._answers, "step/end": self._closes, "approval/asked": self._wonders,
            "approval/decided": self._decides,
        })  # fmt: skip

    def _opens(self, _entry: Entry) -> Wrong | None:
        self._asked, self._started, self._answered, self._asking = [], 0, 0, None
        return None

    def _asks(self, entry: Entry) -> Wrong | None:
        message = entry.data["message"]
        cut = entry.data.get("interrupted") or message.get("stop_reason") == "max_tokens"
        blocks = [as_object(block) for block in as_list(message.get("content"))]
        self._asked = [] if cut else [block for block in blocks if block.get("type") == "tool_call"]
        return None

    def _starts(self, entry: Entry) -> Wrong | None:
        due = _call(self._asked, self._started)
        given = (entry.data["call_id"], entry.data["tool"])
        if given != due:
            return Wrong(f"call {given[0]!r} of `{given[1]}` is not the next one asked for", _due(due))
        execution = entry.data["execution"]
        if execution not in ("exclusive", "parallel"):
            return Wrong(f"`execution` is {execution!r}", "exclusive or parallel")
        if self._started > self._answered and (self._exclusive or execution == "exclusive"):
            return Wrong("an exclusive call runs alone", "tool/result of the call that runs")
        self._started += 1
        self._exclusive = execution == "exclusive"
        return None

    def _answers(self, entry: Entry) -> Wrong | None:
        if entry.replaces is not None:
            return None
        message, due = entry.data["message"], _call(self._asked, self._answered)
        given = (message.get("call_id"), message.get("tool"))
        if given != due:
            return Wrong(f"the result of call {given[0]!r} of `{given[1]}` is not due", _due(due))
        if self._answered == self._started:
            if as_object(message.get("details")).get("recovered") != NOT_STARTED:
                return Wrong(f"call {given[0]!r} has a result and never started", "tool/call first")
            self._started += 1
        self._answered += 1
        return None

    def _closes(self, _entry: Entry) -> Wrong | None:
        due = _call(self._asked, self._answered)
        return Wrong(f"call {due[0]!r} has no result", "tool/result") if due else None

    def _wonders(self, entry: Entry) -> Wrong | None:
        call_id = entry.data["call_id"]
        if all(call.get("id") != call_id for call in self._asked[self._answered : self._started]):
            return Wrong(f"call {call_id!r} does not run", "the id of a running call")
        self._asking = call_id
        return None

    def _decides(self, entry: Entry) -> Wrong | None:
        call_id = entry.data["call_id"]
        if self._asking is None or call_id != self._asking:
            return Wrong(f"nobody asked about call {call_id!r}", "approval/asked first")
        self._asking = None
        return None


def _due(call: tuple[Any, Any] | None) -> str:
    return f"call {call[0]!r} of `{call[1]}`" if call else "no call: all that were asked for have been"


def _call(asked: list[Mapping[str, Any]], index: int) -> tuple[Any, Any] | None:
    return (asked[index].get("id"), asked[index].get("name")) if index < len(asked) else None
