"""i102, the theorem: what every model saw is what the log alone gives back, whatever happened in between."""

from itertools import pairwise
from typing import Any

from hypothesis import example, given, settings
from tests.conformance.asking import all_of, rebuilt, reloaded
from tests.conformance.histories import PLANS, QUIET, History

from turnchart.machine import Entry, Session

MOVES_WHILE_A_STREAM_HOOK_FAILS = {
    **QUIET,
    "acts": [("prompt", 0)] * 3,
    "context": [0, 3],
    "stream": [1, 0],
}


@given(PLANS)
@example(MOVES_WHILE_A_STREAM_HOOK_FAILS)
@settings(max_examples=1500, deadline=None)
async def test_i102_every_request_is_rebuilt_from_the_log(plan: dict[str, Any]) -> None:
    history = History(plan)
    await history.play()
    check_theorem(history)
    check_series(history.session)


def check_theorem(history: History) -> None:
    """What the models saw is what the log gives; what the log gives more was cut off before it was sent."""
    entries, requests = history.session.entries, history.requests
    made = {each[:3]: each for each in rebuilt(entries)}
    unsent = made.keys() - requests.keys()
    assert requests == {key: each for key, each in made.items() if key not in unsent}
    for entry in all_of(history.session, "assistant/message", "assistant/attempt"):
        if (entry.data["turn"], entry.data["step"], entry.attempt) in unsent:
            assert entry.data["stream"] == ()
    assert rebuilt(reloaded(entries)) == rebuilt(entries)


def check_series(session: Session) -> None:
    """In a series, each request begins with the one before."""
    entries = session.entries
    settled = all_of(session, "assistant/message", "assistant/attempt")
    for (first, before), (second, after) in pairwise(zip(settled, rebuilt(entries), strict=True)):
        between = entries[first.seq : second.seq]
        if not any(_breaks(entry) for entry in between) and not _rewritten(entries[: first.seq]):
            assert after[4] == before[4]
            assert after[5][: len(before[5])] == before[5]


def _breaks(entry: Entry) -> bool:
    """A series may end here, or the next request is shown in another way."""
    if entry.type == "request/header":
        return entry.data["reason"] == "series" or bool(entry.data.get("starts_series"))
    return entry.replaces is not None or entry.type in ("request/rewritten", "leaf")


def _rewritten(entries: list[Entry]) -> bool:
    """The request that these entries end with was shown in another way."""
    for entry in reversed(entries):
        if entry.type in ("request/rewritten", "step/start", "llm/retry"):
            return entry.type == "request/rewritten"
    return False


async def test_the_histories_have_in_them_what_the_theorem_is_about() -> None:
    """Every way that a plan can take is taken by this one."""
    plan = {
        **QUIET,
        "acts": [
            ("prompt", 0), ("board", 1), ("prompt", 1), ("facts", 1), ("model", 1), ("prompt", 2),
            ("custom", 0), ("replace", 0), ("prompt", 3), ("reopen", 0), ("tools", 0), ("prompt", 4),
            ("thinking", 0), ("navigate", 0), ("inject", 0), ("prompt", 5), ("board", 2),
            ("prompt", 0), ("prompt", 1),
        ],
        "replies": ([0, 1, 3, 4, 2, 5, 6, 7, 8, 9], [3, 1, 9, 5, 4, 0]), "capable": (True, False),
        "context": [0, 1, 2, 3, 4], "convert": [0, 0, 1, 2, 3], "request": [0, 0, 1, 2, 3, 4],
        "pre_step": [0, 2, 1, 0, 0, 0, 3], "stream": [0, 0, 0, 1, 0, 0, 2], "request_error": [0, 1, 2, 3],
        "beside": [0, 1, 2, 3, 4, 7, 0, 6, 0, 0, 0, 5], "prepare": [*[0] * 13, 1],
    }  # fmt: skip
    history = History(plan)
    await history.play()
    check_theorem(history)
    check_series(history.session)
    entries = history.session.entries
    kinds = {entry.type for entry in entries}
    assert kinds >= {
        "assistant/attempt", "custom_message", "hook/result", "leaf", "llm/retry", "model_change",
        "request/rewritten", "system/message", "thinking_level_change", "tool/result",
    }  # fmt: skip
    assert {entry.type for entry in entries if entry.replaces} == {"system/message", "user/message"}
    assert {entry.data["reason"] for entry in all_of(history.session, "request/header")} == {
        "initial", "change", "series", "resume",
    }  # fmt: skip
    assert {entry.data["reason"] for entry in all_of(history.session, "turn/end")} >= {
        "completed", "error", "aborted", "blocked",
    }  # fmt: skip
    assert len(history.requests) > 10
