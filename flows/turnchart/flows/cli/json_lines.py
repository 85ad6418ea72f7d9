"""A run for programs: one JSON object a line, one line a signal, the turn last."""

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final, TextIO

from turnchart.flows.cli.streams import write
from turnchart.machine.entries import Entry
from turnchart.machine.messages import Failure
from turnchart.machine.models import CHUNKS
from turnchart.machine.signals import Signal
from turnchart.machine.turn import Turn

Emit = Callable[[Mapping[str, Any]], None]
"""Writes one object as one line."""


def to_stream(out: TextIO | None = None) -> Emit:
    """Return what writes objects to a stream, in ASCII, each line at once."""
    stream = sys.stdout if out is None else out

    def emit(record: Mapping[str, Any]) -> None:
        write(stream, json.dumps(record) + "\n")

    return emit


def listener(emit: Emit) -> Callable[[Signal, object], None]:
    """Return a listener that writes every signal."""

    def hear(signal: Signal, abort: object) -> None:
        emit({"type": signal.kind, **{name: jsonable(value) for name, value in signal.data.items()}})

    return hear


def turn_record(turn: Turn, session: str) -> dict[str, Any]:
    """Return the last line of a run: what the turn came to."""
    record: dict[str, Any] = {
        "type": "turn", "session": session, "number": turn.number, "reason": turn.reason, "steps": turn.steps,
        "text": turn.text,
    }  # fmt: skip
    if turn.error is not None:
        record["error"] = jsonable(turn.error)
    if turn.unadmitted:
        record["unadmitted"] = [message for item in turn.unadmitted for message in item.messages]
    return record


def jsonable(value: object) -> Any:
    """Return what a signal carries as JSON; the rest as it is."""
    if isinstance(value, Entry):
        return entry_record(value)
    if isinstance(value, BaseException):
        return {"type": type(value).__name__, "message": str(value)}
    if isinstance(value, Failure):
        return value.json()
    return _chunk_record(value) if type(value) in _CHUNKS else value


def _chunk_record(chunk: Any) -> dict[str, Any]:
    fields = {name: jsonable(field) for name, field in chunk._asdict().items() if field is not None}
    return {"type": chunk.type, **fields}


_CHUNKS: Final = frozenset(CHUNKS.values())


def entry_record(entry: Entry) -> dict[str, Any]:
    """Return an entry as the log has it: without the fields that say nothing."""
    fields = entry._asdict()
    return {name: field for name, field in fields.items() if field or name in Entry._fields[:5]}
