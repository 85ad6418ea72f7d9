"""What a hook gave back, read against the contract of its point. Nothing goes on unread."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from functools import cache
from typing import Any, TypeVar, cast

from turnchart.machine.entries import Frozen, encode, freeze
from turnchart.machine.messages import Block, Message, content_blocks, message
from turnchart.machine.points import Decision, Payload, Point, PreTool, ToolOutcome

P = TypeVar("P", bound=Payload)


class WrongAnswer(TypeError):
    """A hook returned something that its point does not take; the message says what it takes."""


def adopt(returned: Payload, before: P, check: Callable[[P], P] | None) -> P:
    """Return the payload that the next hook sees: ``before``, with what the hook may change and did change.

    Args:
        returned: What the hook returned.
        before: What it was given.
        check: Validates what changed, and returns it as it will be used.

    Raises:
        WrongAnswer: If it is another kind of payload, changes another field, or a value has the wrong form.
    """
    if type(returned) is not type(before):
        raise WrongAnswer(f"returned a {type(returned).__name__}, not a {type(before).__name__}")
    for name in _fixed(cast(Any, type(before))):
        if getattr(returned, name) is not getattr(before, name):
            _refuse(name, returned, before)
    changes: dict[str, Any] = {}
    for name in sorted(before.may_change):
        new, old = getattr(returned, name), getattr(before, name)
        if new is not old:
            value = _formed(name, new)
            if not _same(value, old):
                changes[name] = value
    return _replaced(before, changes, check) if changes else before


def decided(returned: object, point: Point) -> Decision:
    """Return the decision that a hook returned.

    Raises:
        WrongAnswer: If it is none, or none of this point.
    """
    if isinstance(returned, point.decisions):
        return returned
    names = [kind.__name__ for kind in (point.payload, *point.decisions)]
    shown = f"the class {returned.__name__}" if isinstance(returned, type) else f"a {type(returned).__name__}"
    raise WrongAnswer(f"returned {shown}; {point.name} takes nothing, or one of {', '.join(names)}")


def wrapped(returned: object, point: Point) -> object:
    """Return what a wrapper at ``tool`` or ``stream`` gave instead of what it wraps.

    Raises:
        WrongAnswer: If it is no ``ToolOutcome``, or no stream of chunks.
    """
    if point.name == "tool" and not isinstance(returned, ToolOutcome):
        raise WrongAnswer(f"returned a {type(returned).__name__}; tool takes a ToolOutcome")
    if point.name == "stream" and not hasattr(returned, "__aiter__"):
        raise WrongAnswer(f"returned a {type(returned).__name__}; stream takes an async iterator of chunks")
    return returned


def subject_of(args: Mapping[str, Any], name: str | None) -> str | None:
    """Return the argument that permissions match, as text; None where there is none."""
    value = None if name is None else args.get(name)
    return (
        encode(value) if isinstance(value, Mapping | list | tuple) else None if value is None else str(value)
    )


def _replaced(before: P, changes: dict[str, Any], check: Callable[[P], P] | None) -> P:
    names = ", ".join(changes)
    if isinstance(before, PreTool):
        changes["subject"] = subject_of(changes["args"], before.subject_name)
    after = replace(before, **changes)
    try:
        return check(after) if check else after
    except Exception as error:
        raise WrongAnswer(f"changed {names}: {error}") from error


def _refuse(name: str, returned: Payload, before: Payload) -> None:
    if getattr(returned, name) != getattr(before, name):
        may = ", ".join(sorted(before.may_change)) or "nothing"
        raise WrongAnswer(f"changed {name}; it may change {may}")


def _formed(name: str, value: object) -> Any:
    try:
        return FORMS[name](value)
    except (TypeError, ValueError) as error:
        raise WrongAnswer(f"changed {name}: {error}") from error


def _same(value: object, old: object) -> bool:
    if isinstance(value, tuple) and isinstance(old, Sequence):
        old = tuple(cast("Sequence[object]", old))
    return value == old


@cache
def _fixed(kind: Any) -> tuple[str, ...]:
    """Return the fields of a payload that are the point's own and that no hook may change."""
    common = {field.name for field in fields(Payload)}
    return tuple(field.name for field in fields(kind) if field.name not in common | kind.may_change)


def _instance(*kinds: type) -> Callable[[Any], Any]:
    def form(value: Any) -> Any:
        if not isinstance(value, kinds):
            names = " or ".join(kind.__name__.replace("NoneType", "None") for kind in kinds)
            raise TypeError(f"it must be {names}, not {type(value).__name__}")
        return value

    return form


def _mapping(value: Any) -> Frozen:
    return cast(Frozen, freeze(dict(_instance(Mapping)(value))))


def _arguments(value: Any) -> Frozen:
    """Freeze arguments; those that a tool's types made into objects stay what they are."""
    return Frozen({name: _frozen_if_json(item) for name, item in _instance(Mapping)(value).items()})


def _frozen_if_json(value: Any) -> Any:
    try:
        return freeze(value)
    except TypeError:
        return value


def _texts_by_name(value: Any) -> Frozen:
    return Frozen({_instance(str)(name): _instance(str)(text) for name, text in _mapping(value).items()})


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(_instance(str)(item) for item in _instance(list, tuple)(value))


def _messages(value: Any) -> tuple[Message, ...]:
    _instance(Sequence)(value)
    return tuple(message(_instance(Mapping)(item)) for item in value)


def _result_content(value: Any) -> tuple[Block, ...]:
    blocks = content_blocks(value)
    for each in blocks:
        if each.type not in ("text", "image"):
            raise ValueError(f"a result holds text and images, not a block of type {each.type!r}")
    return blocks


def _counts(value: Any) -> Frozen:
    counts = _mapping(value)
    for each in counts.values():
        if type(each) is not int:
            raise TypeError(f"it must be whole numbers by name, not {each!r:.60}")
    return counts


FORMS: Mapping[str, Callable[[Any], Any]] = {
    "args": _arguments,
    "content": _result_content,
    "context": _instance(str),
    "contexts": _texts_by_name,
    "details": freeze,
    "is_error": _instance(bool),
    "llm_messages": _messages,
    "messages": _messages,
    "model": _instance(str),
    "sections": _texts,
    "settings": _mapping,
    "starts_request_series": _instance(bool),
    "terminate": _instance(bool),
    "thinking": _instance(str, type(None)),
    "tools": _texts,
    "usage": lambda value: None if value is None else _counts(value),
}
"""The form of every field that a hook may change; what it returns is frozen here."""
