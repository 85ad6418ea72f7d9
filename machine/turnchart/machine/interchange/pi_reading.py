"""The lines of a pi session file (version 3) as entries of our log.

Every line is one entry, with its id as ``foreign_id``; the header is the first one. What an entry of ours
cannot hold is kept as the difference between the line and what ``pi_writing`` makes of the entry, so that
nothing is lost. Where a line goes on elsewhere in the tree, a ``leaf`` entry stands before it. Pure.
"""

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from turnchart.machine.context import Context
from turnchart.machine.entries import Entry, Frozen, freeze
from turnchart.machine.interchange.difference import difference
from turnchart.machine.interchange.fields import (
    Malformed,
    an_object,
    as_object,
    listed,
    named,
    nullable,
    required,
)
from turnchart.machine.interchange.pi_messages import custom, message_of, model_id, usage_of
from turnchart.machine.interchange.pi_writing import HEADER, OWN, VERSION, Writing, iso
from turnchart.machine.messages import CustomMessage, Message

NO_HEADER: Final = 'the first line must be a header, {"type":"session",...}'
Raw = Mapping[str, Any]
_BASE: Final = ("type", "id", "parentId", "timestamp")
_ENTRY_TYPES: Final = {"user": "user/message", "assistant": "assistant/message", "tool_result": "tool/result"}


class Reading:
    """Takes the lines of one file, in order.

    Attributes:
        id: The id of the session; empty before the header.
        notes: What the file names and does not hold, in words.
    """

    def __init__(self) -> None:
        self.id = ""
        self.notes: list[str] = []
        self._entries: list[Entry] = []
        self._seqs: dict[str, int] = {}
        self._leaf: int | None = None
        self._place: int | None = None
        """Where the line goes on that is being read."""
        self._writing = Writing()

    def take(self, raw: Raw) -> Iterator[Entry]:
        """Yield the entries of the next line.

        Raises:
            Malformed: If the line is no header, or no entry; it names the field. Then nothing was taken.
        """
        if not self._entries:
            self.id, fields = _header(raw)
            yield self._add("custom", Frozen(kind=HEADER, data=fields), _seconds(raw), self.id)
            return
        type, id = named(raw, "type"), named(raw, "id")
        time, parent_id = _seconds(raw), nullable(raw, "parentId")
        if id in self._seqs:
            raise Malformed(("id",), f'the id "{id}" was given to an earlier entry')
        self._place = self._parent(id, parent_id)
        kind, data, replaces = _READ.get(type, _unknown)(self, raw, time)
        if self._place != self._leaf:
            yield self._add("leaf", Frozen(target=self._place), time, None)
        at = len(self._entries)
        bare = Entry(at, self._leaf, kind, time, data, replaces, None, None, False, id)
        plain = self._writing.plain_line(bare)
        foreign = difference(plain or {}, raw)
        made = Frozen({**data, "foreign": freeze(foreign)}) if foreign else data
        self._seqs[id] = at
        yield self._add(kind, made, time, id, replaces)

    def _add(
        self, type: str, data: Frozen, time: float, id: str | None, replaces: tuple[int, int] | None = None
    ) -> Entry:
        entry = Entry(len(self._entries), self._leaf, type, time, data, replaces, None, None, False, id)
        self._entries.append(entry)
        self._writing.take(entry, id if id is not None and len(self._entries) > 1 else None)
        self._leaf = data["target"] if type == "leaf" else entry.seq
        return entry

    def _parent(self, id: str, parent_id: str | None) -> int | None:
        if parent_id is None:
            return None if len(self._entries) > 1 else self._leaf
        if parent_id not in self._seqs:
            self.notes.append(
                f'entry "{id}" follows "{parent_id}", which is not in the file: it became a root'
            )
        return self._seqs.get(parent_id)

    def seq(self, id: object) -> int | None:
        """Return the number of an entry that was read; None where there is none of this id."""
        return self._seqs.get(id) if isinstance(id, str) else None

    def kept(self, first: int | None) -> tuple[tuple[int, int] | None, int | None]:
        """Return what a compaction takes the place of, and the first message on its branch that stays.

        Args:
            first: The entry that the compaction names as the first to stay; None: none does.

        Returns:
            The first and the last of the messages that go, or None; the first one that stays, or None.
        """
        nodes = self._nodes_at(self._place)
        if first is None or first not in self._branch(self._place):
            stays = len(nodes)
        else:
            stays = next((i for i, seq in enumerate(nodes) if self._stays(seq, first)), len(nodes))
        gone = (nodes[0], nodes[stays - 1]) if stays else None
        return gone, nodes[stays] if stays < len(nodes) else None

    def _stays(self, seq: int, first: int) -> bool:
        # An earlier summary is part of the newer one, unless it is itself what stays first.
        return seq == first or (seq > first and self._entries[seq].type != "compaction")

    def _branch(self, leaf: int | None) -> list[int]:
        found: list[int] = []
        while leaf is not None:
            found.append(leaf)
            leaf = self._entries[leaf].parent
        return found[::-1]

    def _nodes_at(self, leaf: int | None) -> list[int]:
        """Return the messages that a model sees at a place of the tree, each by the number of its entry."""
        view = Context()
        for seq in self._branch(leaf):
            view.add(self._entries[seq])
        return [node.seq for node in view.nodes]


# -- fields ----------------------------------------------------------------------------------------


def _header(raw: Raw) -> tuple[str, Frozen]:
    if raw.get("type") != "session":
        raise Malformed(
            ("type",) if "type" in raw else (), 'the first line must be a header, {"type":"session",...}'
        )
    version = raw.get("version", 1)
    if type(version) is not int or version != VERSION:
        newer = type(version) is int and version > VERSION
        cure = "upgrade Turnchart" if newer else "open it once with pi, which brings it up to date"
        raise Malformed(
            ("version",) if "version" in raw else (),
            f"this file has version {version}, and only {VERSION} can be read; {cure}",
        )
    named(raw, "cwd")
    if "parentSession" in raw:
        required(raw, "parentSession")
    if "metadata" in raw:
        an_object(raw, "metadata")
    id = named(raw, "id")
    fields = {name: value for name, value in raw.items() if name not in ("type", "id")}
    return id, freeze(fields)


def _seconds(raw: Raw) -> float:
    text = named(raw, "timestamp")
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise Malformed(
            ("timestamp",), f'"{text[:40]}" is no time; it must be written like {iso(1e9)}'
        ) from None
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()


def _optional(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


# -- entries, by their type ------------------------------------------------------------------------

Made = tuple[str, Frozen, tuple[int, int] | None]
"""Type, data, and the range that it replaces."""


def _message(_reading: Reading, raw: Raw, time: float) -> Made:
    fields = an_object(raw, "message")
    try:
        said = message_of(fields, time)
    except Malformed as error:
        raise error.below("message") from None
    if said is None:
        return _unknown(_reading, raw, time)
    if isinstance(said, CustomMessage):
        return "custom_message", Frozen(message=said), None
    more = {"outcome": "error" if said["is_error"] else "ok"} if said["role"] == "tool_result" else {}
    return _ENTRY_TYPES[said["role"]], Frozen(message=said, **more), None


def _unknown(_reading: Reading, raw: Raw, _time: float) -> Made:
    rest = {name: value for name, value in raw.items() if name not in _BASE}
    return "custom", Frozen(kind=f"{OWN}{raw['type']}", data=freeze(rest)), None


def _custom(reading: Reading, raw: Raw, time: float) -> Made:
    kind = required(raw, "customType")
    if kind.startswith(OWN):
        return _unknown(reading, raw, time)
    return "custom", Frozen(kind=kind, data=freeze(raw.get("data"))), None


def _custom_message(_reading: Reading, raw: Raw, time: float) -> Made:
    return "custom_message", Frozen(message=custom(raw, time)), None


def _model(_reading: Reading, raw: Raw, _time: float) -> Made:
    return "model_change", Frozen(model=model_id(required(raw, "provider"), required(raw, "modelId"))), None


def _thinking(_reading: Reading, raw: Raw, _time: float) -> Made:
    return "thinking_level_change", Frozen(thinking=required(raw, "thinkingLevel")), None


def _tools(_reading: Reading, raw: Raw, _time: float) -> Made:
    tools = listed(raw, "activeToolNames")
    for index, name in enumerate(tools):
        if not isinstance(name, str):
            raise Malformed(("activeToolNames", index), "the name of a tool must be text")
    return "active_tools_change", Frozen(tools=tuple(tools)), None


def _compaction(reading: Reading, raw: Raw, time: float) -> Made:
    tokens, named_first = raw.get("tokensBefore"), raw.get("firstKeptEntryId")
    first = reading.seq(named_first)
    if named_first is not None and first is None:
        reading.notes.append(f'entry "{raw["id"]}" keeps "{named_first}", which is not in the file')
    gone, first_kept = reading.kept(None if "retainedTail" in raw else first)
    data = Frozen(
        summary=required(raw, "summary"), first_kept=first_kept,
        retained_tail=tuple(_tail(raw, time)) if "retainedTail" in raw else (),
        tokens_before=tokens if type(tokens) is int else 0, **_extras(raw),
    )  # fmt: skip
    return "compaction", data, gone


def _tail(raw: Raw, time: float) -> Iterator[Message]:
    for index, said in enumerate(listed(raw, "retainedTail")):
        try:
            fields = as_object(said)
            if fields is None:
                raise Malformed((), "a message must be an object")
            made = message_of(fields, time)
        except Malformed as error:
            raise error.below("retainedTail", index) from None
        if made is not None:
            yield made


def _branch_summary(reading: Reading, raw: Raw, _time: float) -> Made:
    from_id = required(raw, "fromId")
    if from_id != "root" and reading.seq(from_id) is None:
        reading.notes.append(f'entry "{raw["id"]}" comes from "{from_id}", which is not in the file')
    data = Frozen(summary=required(raw, "summary"), **{"from": reading.seq(from_id)}, **_extras(raw))
    return "branch_summary", data, None


def _extras(raw: Raw) -> dict[str, Any]:
    details = freeze(raw["details"]) if "details" in raw else None
    from_hook = True if raw.get("fromHook") is True else None
    usage = usage_of(raw.get("usage"))
    return _optional(usage=None if usage is None else freeze(usage), details=details, from_hook=from_hook)


def _label(reading: Reading, raw: Raw, time: float) -> Made:
    target, text = required(raw, "targetId"), raw.get("label")
    if text is not None:
        text = required(raw, "label").strip()
    seq = reading.seq(target)
    if seq is None:
        reading.notes.append(f'entry "{raw["id"]}" labels "{target}", which is not in the file')
        return _unknown(reading, raw, time)
    return "label", Frozen(target=seq, **({"text": text} if text else {})), None


def _leaf(reading: Reading, raw: Raw, _time: float) -> Made:
    target = nullable(raw, "targetId")
    seq = reading.seq(target)
    if target is not None and seq is None:
        raise Malformed(("targetId",), f'there is no entry "{target}" before it')
    return "leaf", Frozen(target=seq), None


def _info(_reading: Reading, raw: Raw, _time: float) -> Made:
    name = " ".join(raw["name"].split()) if isinstance(raw.get("name"), str) else None
    return "session_info", Frozen(_optional(name=name)), None


_READ: Final[Mapping[str, Callable[[Reading, Raw, float], Made]]] = {
    "message": _message,
    "custom": _custom,
    "custom_message": _custom_message,
    "model_change": _model,
    "thinking_level_change": _thinking,
    "active_tools_change": _tools,
    "compaction": _compaction,
    "branch_summary": _branch_summary,
    "label": _label,
    "leaf": _leaf,
    "session_info": _info,
}
