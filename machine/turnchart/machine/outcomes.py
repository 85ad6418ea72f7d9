"""Outcomes of tool calls: made of what a tool returned or raised, always such that they can be logged."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, cast, get_args

from turnchart.machine.abort import Aborted
from turnchart.machine.entries import Frozen, encode, freeze
from turnchart.machine.errors import TurnchartError, named_text_of, text_of
from turnchart.machine.message_fields import base64
from turnchart.machine.messages import Block, Text, content_blocks
from turnchart.machine.points import Outcome, ToolOutcome


class ToolFailed(TurnchartError):
    """Raise it in a tool to fail with a message for the model and a type for programs.

    Attributes:
        name: The kind of failure, for example ``NotFound``.
        code: A code of the system behind the tool.
    """

    def __init__(self, message: str, name: str = "", code: str = "") -> None:
        self.name = name
        self.code = code
        super().__init__(message)


def failed(text: str, *, details: Any = None, outcome: Outcome = "error") -> ToolOutcome:
    """Return the outcome of a call that did not do what was asked."""
    return ToolOutcome((Text(_storable(text)),), details, is_error=True, outcome=outcome)


def outcome_of(value: object) -> ToolOutcome:
    """Return what a tool gave back as an outcome.

    Text and blocks are content, None is no content, other JSON is written as JSON. Anything else is an
    error outcome that names its type.
    """
    if isinstance(value, str):
        return ToolOutcome((Text(_storable(value)),) if value else ())
    if value is None:
        return ToolOutcome()
    if value.__class__ is int:
        return ToolOutcome((Text(str(value)),))
    try:
        if isinstance(value, ToolOutcome):
            return _checked(value)
        if isinstance(value, Block):
            return ToolOutcome(_shown((value,)))
        if isinstance(value, list | tuple) and value and all(isinstance(each, Block) for each in value):  # pyright: ignore[reportUnknownVariableType]  # foreign
            return ToolOutcome(_shown(cast("Sequence[Block]", value)))
        return ToolOutcome((Text(_storable(encode(freeze(value)))),))
    except (TypeError, ValueError) as error:
        return _unshowable(value, error)  # pyright: ignore[reportUnknownArgumentType]  # foreign


def _unshowable(value: object, error: Exception) -> ToolOutcome:
    given = f"the tool returned a {type(value).__name__}, which cannot be shown: {error}"
    return failed(f"{given}; return text, JSON, content blocks or a ToolOutcome")


def _checked(given: ToolOutcome) -> ToolOutcome:
    """Return an outcome whose parts can be logged, whatever its maker put into it.

    Raises:
        TypeError: If a part of it has another type.
        ValueError: If a part of it holds what cannot be.
    """
    for name in ("is_error", "terminate"):
        if type(getattr(given, name)) is not bool:
            raise TypeError(f"`{name}` is {getattr(given, name)!r:.60}, and must be true or false")
    if given.outcome not in get_args(Outcome):
        raise ValueError(
            f"`outcome` is {given.outcome!r:.60}; it must be one of: {', '.join(get_args(Outcome))}"
        )
    usage: Any = given.usage
    if usage is not None and not (
        isinstance(usage, Mapping) and all(type(count) is int for count in cast(Any, usage).values())
    ):
        raise TypeError("`usage` must be whole numbers by name")
    tools: Any = given.added_tools
    if not isinstance(tools, list | tuple) or not all(
        isinstance(each, str) for each in cast("Sequence[Any]", tools)
    ):
        raise TypeError("`added_tools` must be a list of names")
    return ToolOutcome(
        _shown(content_blocks(given.content)),
        freeze(given.details),
        given.is_error,
        None if given.usage is None else freeze(given.usage),
        given.terminate,
        tuple(given.added_tools),
        "error" if given.is_error and given.outcome == "ok" else given.outcome,
    )


def _shown(blocks: Sequence[Block]) -> tuple[Block, ...]:
    for each in blocks:
        if each.type not in ("text", "image"):
            raise ValueError(f"a tool gives text and images, not a block of type {each.type!r}")
        if each.type == "image":
            base64(each["data"])
    return tuple(blocks)


def _storable(text: str) -> str:
    """Return plain text without half characters, which no file could hold."""
    plain = str.__str__(text)  # an enum's own str() says its name
    return plain if plain.isascii() else plain.encode("utf-8", "replace").decode("utf-8")


def outcome_of_error(error: BaseException) -> ToolOutcome:
    """Return what a tool raised as an outcome: its type and message, or what ``ToolFailed`` says."""
    if isinstance(error, Aborted):
        return failed(f"aborted: {error}", outcome="aborted")
    if isinstance(error, ToolFailed):
        return failed(text_of(error), details=Frozen(name=_plain(error.name), code=_plain(error.code)))
    if isinstance(error, SystemExit):
        return failed(f"the tool tried to end the program (SystemExit: {text_of(error)})")
    return failed(_said_with_type(error))


def _plain(value: object) -> Any:
    try:
        return freeze(value)
    except (TypeError, ValueError):
        return type(value).__name__


_Group: TypeAlias = "BaseExceptionGroup[BaseException]"


def _said_with_type(error: BaseException) -> str:
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(_said_with_type(each) for each in cast("_Group", error).exceptions)
    return named_text_of(error)
