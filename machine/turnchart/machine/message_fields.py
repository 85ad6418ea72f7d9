"""The fields of messages and blocks: what a caller may put into them, checked where they are made."""

from binascii import a2b_base64
from collections.abc import Mapping
from math import isfinite
from typing import Any


def plain(name: str, value: str) -> str:
    """Return a text as it can be logged.

    Raises:
        TypeError: If it is none.
    """
    if type(value) is str:
        return value
    if isinstance(value, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # foreign input
        return str.__str__(value)
    raise TypeError(f"{name} must be text, not {type(value).__name__}")


def base64(value: str) -> str:
    """Return bytes in base64 as they can be logged, whatever space stands in between.

    Raises:
        TypeError: If it is no text.
        ValueError: If it is no base64: no provider would take it, nor any conversation that holds it.
    """
    text = plain("data", value)
    try:
        a2b_base64("".join(text.split()), strict_mode=True)
    except ValueError as error:
        raise ValueError(f"data must be base64: {str(error)[:1].lower()}{str(error)[1:]}") from None
    return text


def seconds(value: float) -> float:
    """Return a time as it can be logged.

    Raises:
        TypeError: If it is no finite number.
    """
    if type(value) is float and isfinite(value):
        return value
    if type(value) is int or (isinstance(value, float) and isfinite(value)):
        return float(value)
    raise TypeError(f"time must be a number of seconds, not {value!r}")


_FORMS: Mapping[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("text", "thinking", "signature", "data", "media_type", "name", "id", "source"), str),
    **dict.fromkeys(("kind", "model", "stop_reason", "call_id", "tool"), str),
    "time": (int, float), "is_error": bool, "display": bool, "arguments": (Mapping, str),
}  # fmt: skip


def check_fields(value: Mapping[str, Any]) -> None:
    """Do nothing where every field that is known has its type.

    Raises:
        TypeError: If one has another; the message names it.
    """
    for name, given in value.items():
        if name in _FORMS and not isinstance(given, _FORMS[name]):
            raise TypeError(f"`{name}` of a message or block is {given!r:.60}, which has the wrong type")
