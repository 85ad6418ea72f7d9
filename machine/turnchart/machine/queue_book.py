"""The book of messages: inserted into the inbox, claimed, admitted to the conversation once.

What was discarded, or claimed and given up, may be inserted again.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from turnchart.machine.automaton import INBOX, RECOVERED
from turnchart.machine.books import Book, Wrong, as_list, as_object
from turnchart.machine.chart import BROKEN, CUT
from turnchart.machine.entries import Entry

UNADMITTED = (*CUT, *BROKEN, "blocked", RECOVERED)
"""The reasons of a turn that may leave a claimed message behind."""


class Queue(Book):
    """Every message from the inbox into the conversation: inserted, claimed once, admitted once."""

    def __init__(self) -> None:
        self._pending: dict[str, list[str]] = {"next-step": [], "next-turn": [], "rider": []}
        self._items: dict[str, tuple[str, ...]] = {}
        self._known: set[str] = set()
        self._claimed: dict[str, None] = {}
        self._admitted: set[str] = set()
        self._answered = False
        self._stepped = False
        super().__init__({
            INBOX: self._spliced, "user/message": self._admits, "hook/result": self._hooked,
            "assistant/message": self._settles, "assistant/attempt": self._settles,
            "turn/start": self._starts, "step/start": self._steps, "turn/end": self._ends,
        })  # fmt: skip

    def _spliced(self, entry: Entry) -> Wrong | None:
        data = entry.data
        target, start, count = data["target"], data["start"], data.get("removed_count", 0)
        if target not in tuple(self._pending):
            return Wrong(f"there is no inbox list {target!r}", " or ".join(self._pending))
        items = self._pending[target]
        if not 0 <= start <= len(items) or not 0 <= count <= len(items) - start:
            taken = f"[{start}:{start + count}]"
            return Wrong(f"it takes `{target}` {taken}", f"at most the {len(items)} that are pending")
        inserted = [as_object(item) for item in data.get("inserted") or ()]
        outcome = data.get("outcome")
        if outcome in ("discarded", "replaced"):
            self._discarded(items[start : start + count], again=outcome == "replaced")
        for item in inserted:
            wrong = self._returned(item) if outcome == "returned" else self._inserted(item)
            if wrong:
                return wrong
        if not inserted and outcome is None:
            if target != "next-step" and self._stepped:
                return Wrong(f"`{target}` is claimed inside a turn", "only `next-step` after the first step")
            for item_id in items[start : start + count]:
                self._claimed |= dict.fromkeys(self._items[item_id])
        items[start : start + count] = [str(item.get("id")) for item in inserted]
        return None

    def _discarded(self, ids: Sequence[str], *, again: bool) -> None:
        for item_id in ids:
            self._known.difference_update(self._items[item_id])
            if again:
                del self._items[item_id]

    def _given_up(self) -> None:
        self._known.difference_update(self._claimed)
        self._claimed.clear()

    def _inserted(self, item: Mapping[str, Any]) -> Wrong | None:
        item_id, messages = str(item.get("id")), _message_ids(item)
        if item_id in self._items:
            return Wrong(f"item {item_id!r} was inserted before", "a new id")
        for message_id in messages:
            if message_id in self._known or message_id in self._admitted:
                return Wrong(f"message {message_id!r} was inserted before", "a new id")
            self._known.add(message_id)
        self._items[item_id] = messages
        return None

    def _returned(self, item: Mapping[str, Any]) -> Wrong | None:
        messages = _message_ids(item)
        for message_id in messages:
            if message_id not in self._claimed:
                return Wrong(f"message {message_id!r} comes back unclaimed", "only what was claimed")
            del self._claimed[message_id]
        self._items[str(item.get("id"))] = messages
        return None

    def _admits(self, entry: Entry) -> Wrong | None:
        message_id = str(entry.data["message"].get("id") or "")
        if not message_id or entry.replaces is not None:
            return None
        if message_id in self._admitted:
            return Wrong(f"message {message_id!r} is in the conversation already", "each message once")
        if message_id in self._known and message_id not in self._claimed:
            return Wrong(f"message {message_id!r} was not claimed", "a claim of it first")
        self._claimed.pop(message_id, None)
        self._admitted.add(message_id)
        return None

    def _hooked(self, entry: Entry) -> Wrong | None:
        self._answered |= entry.data["point"] == "pre_step"
        return None

    def _starts(self, _entry: Entry) -> Wrong | None:
        self._given_up()
        self._answered = self._stepped = False
        return None

    def _steps(self, _entry: Entry) -> Wrong | None:
        self._stepped = True
        return None

    def _settles(self, _entry: Entry) -> Wrong | None:
        wrong = self._left_behind()
        if wrong is None:
            self._given_up()
            self._answered = False
        return wrong

    def _ends(self, entry: Entry) -> Wrong | None:
        reason = entry.data["reason"]
        if reason == "blocked" and not self._answered:
            return Wrong("no pre_step hook rejected the step", "hook/result of pre_step first")
        wrong = None if reason in UNADMITTED else self._left_behind()
        if wrong is None:
            self._given_up()
        return wrong

    def _left_behind(self) -> Wrong | None:
        if not self._claimed or self._answered:
            return None
        left = ", ".join(self._claimed)
        return Wrong(f"claimed and not admitted: {left}", "user/message for each, or an answer of pre_step")


def _message_ids(item: Mapping[str, Any]) -> tuple[str, ...]:
    ids = (as_object(message).get("id") for message in as_list(item.get("messages")))
    return tuple(str(message_id) for message_id in ids if message_id)
