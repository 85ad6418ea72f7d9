"""What a hook at ``pre_tool`` judges."""

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from turnchart.machine.points import Payload, PreTool


def judged(payload: "PreTool") -> tuple[str, ...]:
    """Return the texts that patterns and globs are held against.

    It is the subject, which the tool declares: the command, the path. Where a tool declares none, every text
    of its arguments is judged, because a guard that looks at nothing would let everything pass.
    """
    if payload.subject_name is None and payload.subject is None:
        return tuple(texts(payload.args))
    return () if payload.subject is None else (payload.subject,)


def texts(value: object) -> Iterator[str]:
    """Return every text in a JSON value, keys left out."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in cast("Mapping[str, Any]", value).values():
            yield from texts(item)
    elif isinstance(value, list | tuple):
        for item in cast("tuple[Any, ...]", value):
            yield from texts(item)


def root_of(payload: "Payload") -> str:
    """Return the root; without a world, as in a test of one chain, the current folder."""
    return os.getcwd() if payload.world is None else payload.world.root
