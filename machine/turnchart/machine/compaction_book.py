"""The book of compactions: what makes a conversation shorter stands between its start and its end."""

from turnchart.machine.books import Book, Wrong, differs
from turnchart.machine.entries import Entry


class Compactions(Book):
    """A start, then results that are shortened, at most one entry that replaces the beginning, then the end.

    A start without an end is what a crash leaves, so another one may follow it; the end of a turn forgets it.
    """

    def __init__(self) -> None:
        self._open = self._replaced = self._shortens = False
        self._turn: object = None
        super().__init__({
            "compaction/start": self._starts, "compaction/prune": self._prunes,
            "tool/result": self._shortened, "compaction": self._replaces, "compaction/end": self._ends,
            "turn/end": self._forgets, "turn/start": self._forgets,
        })  # fmt: skip

    def _starts(self, entry: Entry) -> Wrong | None:
        self._open, self._replaced, self._shortens = True, False, False
        self._turn = entry.data.get("turn")
        return None

    def _prunes(self, entry: Entry) -> Wrong | None:
        if not self._open or self._replaced:
            return Wrong("no compaction has started", "compaction/start")
        self._shortens = True
        return self._of_turn(entry)

    def _shortened(self, entry: Entry) -> Wrong | None:
        if self._shortens and entry.replaces is None:
            return Wrong(
                "it replaces no result, and one was to be shortened", "a tool/result that replaces one"
            )
        self._shortens = False
        return None

    def _replaces(self, _entry: Entry) -> Wrong | None:
        if not self._open or self._replaced:
            return Wrong("no compaction has started", "compaction/start")
        self._replaced = True
        return None

    def _ends(self, entry: Entry) -> Wrong | None:
        if not self._open:
            return Wrong("no compaction has started", "compaction/start")
        self._open = self._shortens = False
        return self._of_turn(entry)

    def _of_turn(self, entry: Entry) -> Wrong | None:
        turn = entry.data.get("turn")
        return None if turn == self._turn else differs("turn", turn, self._turn)

    def _forgets(self, _entry: Entry) -> Wrong | None:
        self._open = self._shortens = False
        return None
