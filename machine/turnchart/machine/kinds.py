"""Kinds of messages of one's own: what their details are, and what the model sees of them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from turnchart.machine.messages import CustomMessage, UserMessage


class Kind(NamedTuple):
    """What is known of a kind."""

    model: Any
    to_llm: Callable[[CustomMessage], UserMessage | None]


KINDS: dict[str, Kind] = {}
"""The registered kinds by name."""


def register_message(
    kind: str, model: Any = None, *, to_llm: Callable[[CustomMessage], UserMessage | None]
) -> None:
    """Add a kind of message.

    Args:
        kind: Its name.
        model: What its ``details`` are: a pydantic model, or another type that pydantic reads; None for
            anything. They are checked when such a message is given to an agent.
        to_llm: Returns what the model sees of a message; None hides it.

    Raises:
        ValueError: If the kind is registered already in another way.
    """
    given = Kind(model, to_llm)
    if KINDS.get(kind, given) != given:
        raise ValueError(f"the message kind {kind!r} is registered already")
    KINDS[kind] = given


def check_details(message: Mapping[str, Any]) -> None:
    """Do nothing where the details of a custom message are what its kind says.

    Raises:
        ValueError: If they are not; the message names the field.
    """
    kind = KINDS.get(message["kind"])
    if kind is None or kind.model is None:
        return
    from pydantic import TypeAdapter, ValidationError

    try:
        TypeAdapter(kind.model).validate_python(message.get("details"))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(["details", *map(str, first["loc"])])
        raise ValueError(f"a message of kind {message['kind']!r}: {where}: {first['msg']}") from error
