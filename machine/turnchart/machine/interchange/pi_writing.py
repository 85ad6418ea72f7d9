"""A log of ours as the lines of a pi session file (version 3).

pi knows messages and changes, but neither turns nor steps: what only this program writes is left out, and
what follows it follows the nearest entry that is kept. An entry that was imported comes back as it was: its
data has, as ``foreign``, how the imported line differs from what is written here. Pure.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from turnchart.machine.entries import Entry
from turnchart.machine.errors import SessionCorrupt, named_text_of
from turnchart.machine.interchange.difference import patched
from turnchart.machine.interchange.fields import as_object
from turnchart.machine.interchange.pi_messages import (
    custom_to,
    message_to,
    model_parts,
    usage_to,
)
from turnchart.machine.messages import message

VERSION = 3
"""The version of the format."""
OWN: Final = "pi/"
"""Begins the kind of a ``custom`` entry that stands for a line that this program has no entry for."""
HEADER: Final = f"{OWN}session"
"""The kind of the ``custom`` entry that keeps the header of an imported file."""
_LATEST = 253402300799.0
"""The last second of the year 9999."""


_MALFORMED = (KeyError, TypeError, ValueError, AttributeError, IndexError)
"""What is raised where an entry that was changed by hand lacks what others of its type have."""


class Writing:
    """Takes the entries of one log, in order.

    Args:
        taken: Ids that no entry may get, because others have them.

    Attributes:
        leaf: The id of the entry that a reader of the lines so far takes for the current one.
    """

    def __init__(self, taken: frozenset[str | None] = frozenset()) -> None:
        self._taken = taken
        self._names: list[str | None] = []
        self.leaf: str | None = None

    def name(self, seq: int | None) -> str | None:
        """Return the id of an entry; where it is left out, of the nearest one before it on its branch.

        None where there is no such entry so far.
        """
        return None if seq is None or not 0 <= seq < len(self._names) else self._names[seq]

    def line(self, entry: Entry) -> dict[str, Any] | None:
        """Return the line of the next entry; None where it is left out."""
        made = self.plain_line(entry)
        foreign = entry.data.get("foreign")
        if made is not None and entry.foreign_id is not None and foreign:
            made = patched(made, foreign)
        self.take(entry, None if made is None else made["id"])
        if made is not None:
            self.leaf = self.name(entry.data["target"]) if entry.type == "leaf" else made["id"]
        return made

    def take(self, entry: Entry, id: str | None) -> None:
        """Note the id of the next entry; None where it is left out."""
        self._names.append(self.name(entry.parent) if id is None else id)

    def plain_line(self, entry: Entry) -> dict[str, Any] | None:
        """Return the line of the next entry without what was different where it came from."""
        write = _WRITE.get(entry.type)
        if write is None or (entry.replaces is not None and entry.type != "compaction"):
            return None
        fields = write(entry, self)
        if fields is None:
            return None
        head = {
            "type": fields.pop("type", entry.type), "id": entry.foreign_id or self._new_id(entry.seq),
            "parentId": self.name(entry.parent), "timestamp": iso(entry.time),
        }  # fmt: skip
        return head | fields

    def _new_id(self, seq: int) -> str:
        id = f"{seq:08x}"
        while id in self._taken:
            id += "0"
        return id

    def ending(self, leaf: int | None, time: float) -> dict[str, Any] | None:
        """Return the line that moves to where the log is; None where a reader is there already."""
        wanted = self.name(leaf)
        if wanted == self.leaf:
            return None
        head = {"type": "leaf", "id": self._new_id(len(self._names)), "parentId": self.leaf}
        return {**head, "timestamp": iso(time), "targetId": wanted}


def lines(entries: Sequence[Entry], leaf: int | None, id: str, cwd: str) -> Iterator[dict[str, Any]]:
    """Yield a log as the lines of a pi session file: the header, then the entries in order.

    Args:
        entries: The whole log.
        leaf: The seq of the current entry.
        id: The id of the session.
        cwd: The folder that the session belongs to, where the log does not come from pi and tell it.

    Raises:
        SessionCorrupt: If an entry is malformed; the message names it.
    """
    about = next((each for each in entries if _is_header(each)), None)
    started = entries[0].time if entries else 0.0
    header: dict[str, Any] = {"timestamp": iso(started), "cwd": cwd}
    if about is not None:
        header |= about.data["data"]
    yield {"type": "session", "version": VERSION, "id": id, **header}
    writing = Writing(frozenset(entry.foreign_id for entry in entries))
    for entry in entries:
        try:
            made = writing.line(entry)
        except _MALFORMED as error:
            said = f"session {id}: entry {entry.seq} `{entry.type}` is malformed ({named_text_of(error)})"
            raise SessionCorrupt(said) from error
        if made is not None:
            yield made
    moved = writing.ending(leaf, entries[-1].time if entries else 0.0)
    if moved is not None:
        yield moved


def iso(time: float) -> str:
    """Return Unix seconds as pi writes a time: in UTC, with milliseconds."""
    when = datetime.fromtimestamp(min(max(time, 0.0), _LATEST), UTC)
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _is_header(entry: Entry) -> bool:
    return entry.foreign_id is not None and entry.type == "custom" and entry.data["kind"] == HEADER


# -- entries, by their type ------------------------------------------------------------------------


def _message(entry: Entry, _writing: Writing) -> dict[str, Any]:
    return {"type": "message", "message": message_to(entry.data["message"], entry.time)}


def _custom(entry: Entry, _writing: Writing) -> dict[str, Any] | None:
    kind, data = entry.data["kind"], entry.data["data"]
    if entry.foreign_id is None or not kind.startswith(OWN):
        return {"customType": kind, "data": data}
    return None if kind == HEADER and not entry.seq else {"type": kind.removeprefix(OWN), **data}


def _model(entry: Entry, _writing: Writing) -> dict[str, Any]:
    provider, model = model_parts(entry.data["model"])
    return {"provider": provider, "modelId": model}


def _compaction(entry: Entry, writing: Writing) -> dict[str, Any]:
    data = entry.data
    made = {"summary": data["summary"], "tokensBefore": data["tokens_before"], **_extras(data)}
    if data.get("first_kept") is not None:
        made["firstKeptEntryId"] = writing.name(data["first_kept"])
    # What our own compactions retain stands in the log, and is named by its number.
    tail = [said for said in map(as_object, data.get("retained_tail", ())) if said is not None]
    if tail:
        made["retainedTail"] = [message_to(message(said), entry.time) for said in tail]
    return made


def _branch_summary(entry: Entry, writing: Writing) -> dict[str, Any]:
    from_id = writing.name(entry.data["from"]) or "root"
    return {"fromId": from_id, "summary": entry.data["summary"], **_extras(entry.data)}


def _extras(data: Mapping[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {"details": data["details"]} if "details" in data else {}
    if data.get("usage"):
        made["usage"] = usage_to(data["usage"])
    if data.get("from_hook"):
        made["fromHook"] = True
    return made


def _label(entry: Entry, writing: Writing) -> dict[str, Any] | None:
    target = writing.name(entry.data["target"])
    if target is None:
        return None
    return {"targetId": target, **({"label": entry.data["text"]} if "text" in entry.data else {})}


def _leaf(entry: Entry, writing: Writing) -> dict[str, Any] | None:
    # The parent of the next line says where it goes on; only what was read as a line is one.
    return None if entry.foreign_id is None else {"targetId": writing.name(entry.data["target"])}


def _info(entry: Entry, _writing: Writing) -> dict[str, Any] | None:
    if entry.foreign_id is None and "name" not in entry.data:
        return None
    return {"name": entry.data["name"]} if "name" in entry.data else {}


_WRITE: Final[Mapping[str, Callable[[Entry, Writing], dict[str, Any] | None]]] = {
    "user/message": _message,
    "assistant/message": _message,
    "tool/result": _message,
    "custom_message": lambda entry, _: custom_to(entry.data["message"]),
    "custom": _custom,
    "model_change": _model,
    "thinking_level_change": lambda entry, _: {"thinkingLevel": entry.data["thinking"]},
    "active_tools_change": lambda entry, _: {"activeToolNames": list(entry.data["tools"])},
    "compaction": _compaction,
    "branch_summary": _branch_summary,
    "label": _label,
    "leaf": _leaf,
    "session_info": _info,
}
