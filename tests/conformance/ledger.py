"""Our own fold of a log, written apart from the machine's: what waits, what became of each message, which turn."""

from collections.abc import Iterable, Mapping
from typing import Any

from turnchart.machine import Entry

LISTS = ("next-step", "next-turn", "rider")
LEAVES = ("aborted", "max_seconds", "error", "blocked", "interrupted")
"""The reasons of a turn that may leave a claimed message unadmitted."""


class Ledger:
    """Takes a log entry by entry.

    Attributes:
        waiting: Per list, the items that wait.
        fate: What each message is now: pending, claimed, admitted, discarded, or left (by the turn that claimed it).
        turn: The number of the last turn.
        open: That turn has not ended.
        reason: Why the last turn ended.
        left: The messages that the last turn left, since it started.
        ended: The reason of each turn that ended.
        ids: The id of each message that came in, by its text.
        turns: The turn that claimed a message last, by its id.
    """

    def __init__(self) -> None:
        self.waiting: dict[str, list[Mapping[str, Any]]] = {name: [] for name in LISTS}
        self.fate: dict[str, str] = {}
        self.turn = 0
        self.open = False
        self.reason = ""
        self.left: list[str] = []
        self.ended: list[str] = []
        self.ids: dict[str, str] = {}
        self.turns: dict[str, int] = {}
        self._answered = self._stepped = False
        self._taken = 0

    def read(self, entries: list[Entry]) -> None:
        """Take what is new."""
        for entry in entries[self._taken :]:
            self._take(entry)
        self._taken = len(entries)

    def _take(self, entry: Entry) -> None:
        data = entry.data
        match entry.type:
            case "agent/inbox/spliced":
                self._spliced(data)
            case "user/message":
                self._move([data["message"].get("id", "")], "claimed", "admitted")
            case "turn/start":
                assert not self.open, "a turn opens while one is open"
                assert data["turn"] == self.turn + 1, "turn numbers are consecutive"
                self.turn, self.open, self.left = data["turn"], True, []
                self._answered = self._stepped = False
            case "step/start":
                self._stepped = True
            case "hook/result":
                self._answered |= data["point"] == "pre_step"
            case "assistant/message" | "assistant/attempt" | "turn/end":
                self._settled(entry)
            case _:
                pass

    def _settled(self, entry: Entry) -> None:
        claimed = [id for id, fate in self.fate.items() if fate == "claimed"]
        if claimed:
            reason = entry.data.get("reason", "")
            assert self._answered or reason in LEAVES, f"{claimed} became ghosts at {entry.type} {reason}"
            self._move(claimed, "claimed", "left")
            self.left += claimed
        if entry.type == "turn/end":
            assert self.open
            self.open, self.reason = False, entry.data["reason"]
            self.ended.append(self.reason)

    def _spliced(self, data: Mapping[str, Any]) -> None:
        items, start, count = self.waiting[data["target"]], data["start"], data.get("removed_count", 0)
        assert 0 <= start <= start + count <= len(items)
        outcome = data.get("outcome")
        if count and outcome is None:
            self._claimed(data["target"], start, items[start : start + count])
        self._move(_ids(items[start : start + count]), "pending", "discarded" if outcome else "claimed")
        inserted = list(data.get("inserted", ()))
        items[start : start + count] = inserted
        self.ids |= {said["content"][0]["text"]: said["id"] for item in inserted for said in item["messages"]}
        assert outcome != "returned" or start == 0, "what comes back goes to the front"
        for id in _ids(inserted):
            before = self.fate.get(id)
            assert before == ("claimed" if outcome == "returned" else None), (
                f"{id} was {before} and waits again"
            )
            self.fate[id] = "pending"

    def _claimed(self, target: str, start: int, items: list[Mapping[str, Any]]) -> None:
        """Prompts and riders open a turn, riders all together; the next step takes what is at the front."""
        assert self.open
        if target != "next-step":
            assert not self._stepped, f"{target} is claimed inside a turn"
            assert start == 0
        assert target != "rider" or len(items) == len(self.waiting[target])
        self.turns |= dict.fromkeys(_ids(items), self.turn)

    def _move(self, ids: Iterable[str], before: str, after: str) -> None:
        for id in ids:
            if id in self.fate:
                assert self.fate[id] == before, f"{id} is {self.fate[id]}, and was to become {after}"
                del self.fate[id]  # so that messages stand in the order of their claim
                self.fate[id] = after

    def queued(self) -> tuple[list[str], ...]:
        """Return the ids of the items that wait, list by list."""
        return tuple([item["id"] for item in self.waiting[name]] for name in LISTS)


def _ids(items: Iterable[Mapping[str, Any]]) -> list[str]:
    return [said["id"] for item in items for said in item["messages"]]
