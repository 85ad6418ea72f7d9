"""i102, the theorem: what every model saw is what the log alone gives back, whatever happened in between."""

from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from tests.conformance.asking import all_of, rebuilt, reloaded
from tests.conformance.histories import PLANS, History

from turnchart.machine import Entry


@given(PLANS)
@settings(max_examples=120, deadline=None)
async def test_i102_every_request_is_rebuilt_from_the_log(plan: dict[str, Any]) -> None:
    history = History(plan)
    await history.play()
    entries, requests = history.session.entries, history.requests
    made = {each[:3]: each for each in rebuilt(entries)}
    unsent = made.keys() - requests.keys()
    assert requests == {key: each for key, each in made.items() if key not in unsent}
    for entry in all_of(history.session, "assistant/message", "assistant/attempt"):
        if (entry.data["turn"], entry.data["step"], entry.attempt) in unsent:
            assert entry.data["stream"] == ()
    assert rebuilt(reloaded(entries)) == rebuilt(entries)


@given(PLANS)
@settings(max_examples=60, deadline=None)
async def test_i102_in_a_series_each_request_begins_with_the_one_before(plan: dict[str, Any]) -> None:
    history = History(plan)
    await history.play()
    entries = history.session.entries
    settled = [each for each in entries if each.type in ("assistant/message", "assistant/attempt")]
    for (first, before), (second, after) in pairwise(zip(settled, rebuilt(entries), strict=True)):
        between = entries[first.seq : second.seq]
        if not any(_breaks(entry) for entry in between) and not _rewrites(entries[: first.seq]):
            assert after[4] == before[4]
            assert after[5][: len(before[5])] == before[5]


def _breaks(entry: Entry) -> bool:
    """A series may end here."""
    return entry.replaces is not None or entry.type == "request/rewritten" or (
        entry.type == "request/header"
        and (entry.data["reason"] == "series" or bool(entry.data.get("starts_series")))
    )  # fmt: skip


def _rewrites(entries: list[Entry]) -> bool:
    """The last request was rewritten."""
    for entry in reversed(entries):
        if entry.type in ("request/rewritten", "step/start", "llm/retry"):
            return entry.type == "request/rewritten"
    return False
