from typing import Any

import pytest

from turnchart.machine.compaction_book import Compactions
from turnchart.machine.entries import Entry, Frozen

Step = tuple[str, dict[str, Any]]


def entry(type: str, **data: Any) -> Entry:
    replaces = (0, 0) if data.pop("replaces", False) else None
    return Entry(0, None, type, 0.0, Frozen(data), replaces=replaces)


START: Step = ("compaction/start", {"turn": 2, "trigger": "threshold"})
PRUNE: Step = ("compaction/prune", {"turn": 2, "chars": 5})
RESULT: Step = ("tool/result", {"replaces": True})
REPLACES: Step = ("compaction", {"replaces": True})
END: Step = ("compaction/end", {"turn": 2})
OVER: Step = ("turn/end", {})


CASES: list[tuple[list[Step], str]] = [
    ([START, END], ""),
    ([START, PRUNE, RESULT, PRUNE, RESULT, REPLACES, END, START, END], ""),
    ([START, START, REPLACES, END], ""),  # a crash left the first one
    ([("tool/result", {})], ""),
    ([PRUNE], "no compaction has started"),
    ([REPLACES], "no compaction has started"),
    ([END], "no compaction has started"),
    ([START, END, END], "no compaction has started"),
    ([START, REPLACES, REPLACES], "no compaction has started"),
    ([START, REPLACES, PRUNE], "no compaction has started"),
    ([START, OVER, REPLACES], "no compaction has started"),
    ([START, PRUNE, ("tool/result", {})], "it replaces no result, and one was to be shortened"),
    ([START, ("compaction/end", {"turn": 3})], "`turn` is 3"),
    ([START, ("compaction/prune", {"turn": None, "chars": 5})], "`turn` is None"),
]


@pytest.mark.parametrize(("steps", "wrong"), CASES)
def test_what_a_compaction_writes_stands_in_order(steps: list[Step], wrong: str) -> None:
    book = Compactions()
    found = [book.take(entry(type, **data)) for type, data in steps]
    assert not any(found[:-1])
    said = found[-1]
    assert (said.text if said is not None else "") == wrong
