"""What the log is made of: frozen JSON, the entry, and the catalogue of entry types and live signals."""

import json
from collections.abc import Callable, Mapping
from functools import partial
from math import isfinite
from typing import Any, NamedTuple, Never, Self, TypeAlias

Json: TypeAlias = "Mapping[str, Json] | tuple[Json, ...] | list[Json] | str | int | float | bool | None"

MAX_DEPTH = 200
"""JSON nested deeper than this is refused; so is a cycle, which has no depth."""
MAX_INT = 10**4300
"""Whole numbers from here on are refused: Python does not write them as text."""
_SHORT = 2**63
"""What is shorter needs no look at ``MAX_INT``."""


class Frozen(dict[str, Any]):
    """A JSON object that nobody can change; still a dict, so ``json`` and ``==`` work at C speed."""

    __slots__ = ()

    def _refuse(self, *_args: object, **_named: object) -> Never:
        raise TypeError("log data is frozen; copy it with dict(data) and change the copy")

    __setitem__ = _refuse
    __delitem__ = _refuse
    __ior__ = _refuse
    clear = _refuse
    pop = _refuse  # pyright: ignore[reportAssignmentType]  # as above
    popitem = _refuse
    setdefault = _refuse  # pyright: ignore[reportAssignmentType]  # as above
    update = _refuse  # pyright: ignore[reportAssignmentType, reportUnknownMemberType]  # as above

    def __copy__(self) -> "Frozen":
        return self

    def __deepcopy__(self, _memo: object) -> "Frozen":
        return self

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self).of_fields, (dict(self),))

    @classmethod
    def of_fields(cls, data: Mapping[str, Any]) -> Self:
        """Return an object of this class with these fields, which must be frozen already."""
        made = cls.__new__(cls)
        dict.update(made, data)  # pyright: ignore[reportUnknownMemberType]  # typeshed's own
        return made


def freeze(value: Any, path: str = "$", depth: int = 0) -> Any:
    """Detach and freeze foreign JSON: objects become ``Frozen``, lists become tuples.

    Own payloads are built frozen and never pass here.

    Raises:
        TypeError: If a value is no JSON; the message names its path.
        ValueError: If a number is not finite or too long, or the value is nested deeper than ``MAX_DEPTH`` (a
            cycle is).
    """
    kind = type(value)  # pyright: ignore[reportUnknownVariableType]  # foreign
    if kind is str or kind is bool or value is None or isinstance(value, Frozen):
        return value
    if kind is dict:
        return Frozen(_items(value, path, depth)) if depth <= MAX_DEPTH else _too_deep(path)
    if isinstance(value, int):
        if not -MAX_INT < value < MAX_INT:
            raise ValueError(f"{path} is a number of more than 4300 digits, which the log cannot hold")
        return int(value)
    if isinstance(value, float):
        if not isfinite(value):
            raise ValueError(f"{path} is {value}, which JSON cannot hold")
        return float(value)
    if depth > MAX_DEPTH:
        _too_deep(path)
    if isinstance(value, Mapping):
        return Frozen(_items(value, path, depth))  # pyright: ignore[reportUnknownArgumentType]  # foreign
    if isinstance(value, list | tuple):
        return tuple(freeze(item, f"{path}[{i}]", depth + 1) for i, item in enumerate(value))  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]  # foreign
    if isinstance(value, str):
        return str(value)
    raise TypeError(f"{path} is a {type(value).__name__}, which is not JSON")


def _items(value: Mapping[Any, Any], path: str, depth: int) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key, item in value.items():
        if key.__class__ is not str:
            if not isinstance(key, str):
                raise TypeError(f"{path} has the key {key!r}; JSON keys are strings")
            key = str(key)
        kind = item.__class__
        if kind is str or kind is bool or item is None or (kind is int and -_SHORT < item < _SHORT):
            made[key] = item
        else:
            made[key] = freeze(item, f"{path}.{key}", depth + 1)
    return made


def _too_deep(path: str) -> Never:
    raise ValueError(f"{path[:60]}... is nested deeper than {MAX_DEPTH}, or contains itself")


_encoder = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False, allow_nan=False)
_make: Any = getattr(json.encoder, "c_make_encoder", None)
_chunks: Callable[[Any, int], tuple[str, ...]] | None = _make and _make(
    None, _encoder.default, json.encoder.encode_basestring, None, ":", ",", False, False, False
)  # fmt: skip
"""The C encoder that ``_encoder.encode`` would make anew for every entry; None where Python has none."""


def encode(value: Any) -> str:
    """Write frozen JSON as one line of text.

    Raises:
        ValueError: If a number is not finite.
        TypeError: If a value is no JSON.
    """
    return _encoder.encode(value) if _chunks is None else "".join(_chunks(value, 0))


def _frozen(parsed: dict[str, Any]) -> Frozen:
    for name, value in parsed.items():
        if type(value) is list:
            parsed[name] = _tuple(value)
    return Frozen(parsed)


def _tuple(items: Any) -> tuple[Any, ...]:
    return tuple([_tuple(item) if type(item) is list else item for item in items])


def _no_json(name: str) -> Never:
    raise ValueError(f"{name} is no JSON")


decode = json.JSONDecoder(object_hook=_frozen, parse_constant=_no_json).decode
"""Read one line of text as frozen JSON: what ``freeze(json.loads(line))`` gives, in half the time.

Raises ValueError where the line is no JSON, and RecursionError where it is nested too deep.
"""


def _finite(text: str) -> float:
    number = float(text)
    return number if isfinite(number) else _no_json(text)


_decode_short = json.JSONDecoder(object_hook=_frozen, parse_constant=_no_json, parse_float=_finite).decode


def decode_foreign(text: str) -> Any:
    """Read JSON that a model wrote, as frozen JSON that the log can hold.

    Raises:
        ValueError: If it is no JSON, or holds what ``freeze`` refuses.
        RecursionError: If it is nested too deep to be read at all.
    """
    if len(text) > MAX_DEPTH:  # else it is neither too deep nor are its numbers too long
        return freeze(json.loads(text))
    value = _decode_short(text)
    return _tuple(value) if type(value) is list else value


def encodable(line: str) -> str:
    """Return JSON that UTF-8 can hold: half of a surrogate pair as JSON spells it."""
    return line if line.isascii() else line.encode("utf-8", "backslashreplace").decode()


class Entry(NamedTuple):
    """One line of the log.

    Attributes:
        seq: Position in the log, from 0, without gaps.
        parent: The seq that it follows on its branch; None at a root.
        type: One of ``ENTRIES``, or a foreign type with ``ignorable``.
        time: Unix seconds.
        data: Frozen JSON; the fields stand in ``ENTRIES``.
        replaces: First and last seq of the context that it takes the place of, both included.
        sources: The seqs that it was made from.
        attempt: The number of the request attempt inside its step, from 1.
        ignorable: A reader that does not know the type may pass over it.
        foreign_id: Its id in the system that it was imported from.
    """

    seq: int
    parent: int | None
    type: str
    time: float
    data: Frozen
    replaces: tuple[int, int] | None = None
    sources: tuple[int, ...] | None = None
    attempt: int | None = None
    ignorable: bool = False
    foreign_id: str | None = None

    def line(self) -> str:
        """Return the entry as one line of JSON, without the line end; it can always be encoded as UTF-8."""
        parent = "null" if self.parent is None else self.parent
        more = ""
        if self[5:] != _NOTHING_MORE:
            extra = zip(self._fields[5:], self[5:], strict=True)
            more = "," + encode({name: value for name, value in extra if value is not None})[1:-1]
        line = (
            f'{{"seq":{self.seq},"parent":{parent},"type":{encode(self.type)},'
            f'"time":{float(self.time)!r},"data":{encode(self.data)}{more}}}'
        )
        return encodable(line)

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> "Entry":
        """Return the entry of a parsed line.

        Raises:
            KeyError: If a field is missing.
            TypeError: If a field has the wrong type; the message names it.
        """
        seq, parent, kind = raw["seq"], raw["parent"], raw["type"]
        time, data = raw["time"], raw["data"]
        if type(seq) is not int or not (parent is None or type(parent) is int) or type(kind) is not str:
            raise TypeError("seq and parent must be integers and type a string")
        if type(time) not in (int, float) or not isinstance(data, dict):
            raise TypeError("time must be a number and data an object")
        if len(raw) == 5:
            return cls(seq, parent, kind, float(time), freeze(data))
        return cls(seq, parent, kind, float(time), freeze(data), *_more(raw))


new_entry: Callable[[tuple[Any, ...]], Entry] = partial(tuple.__new__, Entry)  # pyright: ignore[reportUnknownMemberType]  # typeshed's own
"""Make an entry of all its fields in order; ``Entry(...)`` does the same in twice the time."""


def _more(raw: Mapping[str, Any]) -> tuple[Any, ...]:
    replaces, sources, attempt, ignorable, foreign_id = (raw.get(name) for name in Entry._fields[5:])
    if replaces is not None:
        replaces = _numbers(replaces)
    if sources is not None:
        sources = _numbers(sources)
    if replaces is not None and len(replaces) != 2:
        raise TypeError("replaces must be the first and the last of a range")
    if not (attempt is None or type(attempt) is int) or not (foreign_id is None or type(foreign_id) is str):
        raise TypeError("attempt must be an integer and foreign_id a string")
    return replaces, sources, attempt, ignorable is True, foreign_id


def _numbers(value: Any) -> tuple[int, ...]:
    if type(value) not in (list, tuple) or any(type(item) is not int for item in value):
        raise TypeError("replaces and sources must be lists of integers")
    return tuple(value)


_NOTHING_MORE = (None, None, None, False, None)

WRITES = (
    "user/message",
    "model_change",
    "thinking_level_change",
    "active_tools_change",
    "custom",
    "custom_message",
    "label",
    "session_info",
)
"""What people and programs write beside the turn: at once while idle, else at the end of the step."""

CONTEXT_TYPES = frozenset(
    ("system/message", "user/message", "assistant/message", "tool/result", "custom_message",
     "compaction", "branch_summary")
)  # fmt: skip
"""The entry types that the model may see."""

ENTRIES: Mapping[str, str] = {
    "turn/start": "turn",
    "turn/end": "turn, reason, steps, error?, cause?",
    "step/start": "turn, step",
    "step/end": "turn, step",
    "system/message": "turn, step, message",
    "user/message": "message, turn?, step?",
    "assistant/message": "turn, step, message, stream, interrupted?; attempt",
    "assistant/attempt": "turn, step, model, failure?, stream; attempt",
    "tool/call": "turn, step, call_id, tool, arguments, execution",
    "tool/result": "turn, step, message, outcome",
    "request/header": "turn, step, reason, model, settings, thinking, tools, defaults?, starts_series?",
    "request/context": "turn, step, model, context_window?, capabilities",
    "request/rewritten": "turn, step, keep, messages",
    "agent/inbox/spliced": "target, start, removed_count?, inserted?, outcome?",
    "hook/result": "turn, step, point, id, where?, decision?, reason?, changed?, error?, stderr?, seconds",
    "approval/asked": "turn, step, call_id, tool, arguments, reason",
    "approval/decided": "turn, step, call_id, outcome, reason?",
    "llm/retry": "turn, step, retry, after, kind, by",
    "llm/retry-started": "turn, step, retry",
    "compaction/start": "turn?, trigger",
    "compaction/prune": "turn?, chars",
    "compaction": "summary, first_kept, retained_tail, tokens_before, usage?, details?, from_hook?",
    "compaction/end": "turn?, error?",
    "branch_summary": "summary, from, model?, usage?, details?, from_hook?",
    "model_change": "model",
    "thinking_level_change": "thinking",
    "active_tools_change": "tools",
    "custom": "kind, data",
    "custom_message": "message",
    "label": "target, text?",
    "leaf": "target?",
    "session_info": "name?, flow?, path?, digest?, version?, forked?",
}
"""Durable entry types, each with the fields of its data; ``?`` marks those that may be absent."""

SIGNALS: Mapping[str, str] = {
    "session/event": "entry",
    "agent/status": "status",
    "agent/inbox/inserted": "message, target",
    "agent/inbox/claimed": "message, turn",
    "agent/inbox/discarded": "message, target",
    "agent/assistant-stream": "frame, attempt_id, revision, turn, step, index?, time?, chunk?, outcome?,"
    " seq?",
    "agent/error": "turn, step, error",
    "tool/progress": "call_id, tool, content",
    "notice": "text, source",
}
"""Live signals, each with its fields. They are told while an agent runs and never stored."""
