"""Random pi session files, as lists of parsed lines, the header first."""

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

Line = dict[str, Any]

TEXTS = st.text(max_size=8)
NUMBERS = st.integers(-5, 5000)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2),
    max_leaves=4,
)
MILLISECONDS = st.integers(1_500_000_000_000, 1_900_000_000_000)
TIMES = st.datetimes().map(lambda when: f"{when.isoformat()}Z") | st.sampled_from(
    ["2026-01-02T03:04:05.678Z", "2026-01-02T03:04:05+02:00", "2026-01-02T03:04:05.678901Z", "2026-01-02"]
)


def an_object(required: dict[str, Any], optional: dict[str, Any] | None = None) -> st.SearchStrategy[Line]:
    """Return objects with these fields, sometimes with one that nobody knows."""
    given = {"$unknown": JSON, **(optional or {})}
    return st.fixed_dictionaries(required, optional=given)


def of(name: str) -> st.SearchStrategy[str]:
    return st.just(name)


USAGE = an_object(
    {},
    {
        "input": NUMBERS, "output": NUMBERS, "cacheRead": NUMBERS, "cacheWrite": NUMBERS | JSON,
        "totalTokens": NUMBERS, "cost": an_object({"total": st.floats(0, 9)}) | JSON,
    },
)  # fmt: skip
TEXT = an_object({"type": of("text"), "text": TEXTS}, {"textSignature": TEXTS})
IMAGE = an_object({"type": of("image"), "data": TEXTS, "mimeType": TEXTS}) | an_object(
    {"type": of("image"), "data": TEXTS, "mediaType": TEXTS}
)
THINKING = an_object(
    {"type": of("thinking"), "thinking": TEXTS},
    {"thinkingSignature": TEXTS | st.none(), "redacted": st.booleans()},
)
TOOL_CALL = an_object(
    {
        "type": of("toolCall"),
        "id": TEXTS,
        "name": TEXTS,
        "arguments": st.dictionaries(TEXTS, JSON, max_size=2),
    },
    {"thoughtSignature": TEXTS},
)
SHOWN = st.lists(TEXT | IMAGE, max_size=3)
ANY_SHOWN = SHOWN | TEXTS

USER = an_object({"role": of("user"), "content": ANY_SHOWN}, {"timestamp": MILLISECONDS | JSON})
ASSISTANT = an_object(
    {
        "role": of("assistant"), "content": st.lists(TEXT | THINKING | TOOL_CALL, max_size=3),
        "stopReason": st.sampled_from(["stop", "length", "toolUse", "error", "aborted"]),
    },
    {
        "api": TEXTS, "provider": TEXTS, "model": TEXTS, "usage": USAGE | JSON, "errorMessage": TEXTS,
        "responseId": TEXTS, "timestamp": MILLISECONDS,
    },
)  # fmt: skip
RESULT = an_object(
    {"role": of("toolResult"), "toolCallId": TEXTS, "toolName": TEXTS, "content": ANY_SHOWN},
    {"isError": st.booleans() | JSON, "details": JSON, "usage": USAGE, "timestamp": MILLISECONDS},
)
CUSTOM = an_object(
    {"role": of("custom"), "customType": TEXTS, "content": ANY_SHOWN},
    {"display": st.booleans() | JSON, "details": JSON, "timestamp": MILLISECONDS},
)
BASH = an_object(
    {"role": of("bashExecution"), "command": TEXTS, "output": TEXTS},
    {
        "exitCode": NUMBERS,
        "cancelled": st.booleans(),
        "truncated": st.booleans(),
        "excludeFromContext": st.booleans(),
    },
)
SUMMARIES = an_object({"role": st.sampled_from(["branchSummary", "compactionSummary"]), "summary": TEXTS})
STRANGE = an_object({"role": of("nobody knows it")}, {"content": JSON})
MESSAGES = st.one_of(USER, ASSISTANT, RESULT, CUSTOM, BASH, SUMMARIES, STRANGE)


@dataclass(frozen=True)
class Reference:
    """The id of an entry of the file, or one that is elsewhere; which one is known as the file is made."""

    number: int
    elsewhere: tuple[str | None, ...]

    def resolved(self, known: list[str]) -> str | None:
        here = known if self.number % 2 else ()
        choices = here or self.elsewhere
        return choices[self.number // 2 % len(choices)]


IDS = st.integers(0, 23).map(lambda number: Reference(number, ("missing", "root")))
THERE = st.integers(0, 23).map(lambda number: Reference(number, (None,)))

FOREIGN = st.sampled_from(["of a newer pi", "session", "pi/session", "turn/start", "user/message"])
"""Types that no entry of pi has: that of its header among them, and types of entries of ours."""


EXTRAS = {"details": JSON, "usage": USAGE, "fromHook": st.booleans()}
ENTRIES = st.one_of(
    an_object({"type": of("message"), "message": MESSAGES}),
    an_object({"type": of("message"), "message": USER | ASSISTANT}),
    an_object({"type": of("model_change"), "provider": TEXTS, "modelId": TEXTS}),
    an_object({"type": of("thinking_level_change"), "thinkingLevel": TEXTS}),
    an_object({"type": of("active_tools_change"), "activeToolNames": st.lists(TEXTS, max_size=2)}),
    an_object(
        {"type": of("compaction"), "summary": TEXTS},
        {
            "tokensBefore": NUMBERS,
            "firstKeptEntryId": IDS,
            "retainedTail": st.lists(MESSAGES, max_size=2),
            **EXTRAS,
        },
    ),
    an_object({"type": of("branch_summary"), "fromId": IDS, "summary": TEXTS}, EXTRAS),
    an_object({"type": of("custom"), "customType": TEXTS | of("pi/session")}, {"data": JSON}),
    an_object(
        {"type": of("custom_message"), "customType": TEXTS, "content": ANY_SHOWN},
        {"display": st.booleans(), "details": JSON},
    ),
    an_object({"type": of("label"), "targetId": IDS}, {"label": TEXTS | st.none()}),
    an_object({"type": of("session_info")}, {"name": TEXTS | JSON}),
    an_object({"type": of("leaf"), "targetId": THERE}),
    an_object({"type": FOREIGN}, {"data": JSON, "kind": JSON, "foreign": JSON}),
)
"""Entries without their base fields, which name other entries."""

HEADERS = an_object(
    {
        "type": of("session"),
        "version": st.just(3),
        "id": of("s-1"),
        "timestamp": TIMES,
        "cwd": of("/home/me"),
    },
    {"parentSession": TEXTS, "metadata": st.dictionaries(TEXTS, JSON, max_size=2)},
)


@st.composite
def files(draw: st.DrawFn) -> list[Line]:
    """Return the lines of a file: most go on where the last one was, some elsewhere in the tree."""
    lines = [draw(HEADERS)]
    known: list[str] = []
    leaf: str | None = None
    for number in range(draw(st.integers(0, 12))):
        line = {
            key: value.resolved(known) if isinstance(value, Reference) else value
            for key, value in draw(ENTRIES).items()
        }
        id = f"{number:04x}"
        parent = leaf
        if known and draw(st.integers(0, 3)) == 0:
            parent = draw(st.sampled_from([*known, "missing", None]))
        lines.append({**line, "id": id, "parentId": parent, "timestamp": draw(TIMES)})
        leaf = line["targetId"] if line["type"] == "leaf" else id
        known.append(id)
    return lines
