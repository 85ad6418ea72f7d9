"""Messages and their blocks: frozen JSON objects with typed attributes, the same in memory and in the log.

A message *is* the object that the log stores, so nothing is converted on the way to the disk and back, and
nobody can change what has been logged. ``Text("hi") == {"type": "text", "text": "hi"}`` holds.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, get_args

from turnchart.machine.entries import Frozen, freeze
from turnchart.machine.kinds import KINDS, check_details
from turnchart.machine.message_fields import base64, check_fields, plain, seconds
from turnchart.machine.records import record

StopReason = Literal["stop", "tool_calls", "max_tokens", "error", "aborted"]

FailureKind = Literal[
    "rate_limit", "overloaded", "server_error", "timeout", "connection", "incomplete_stream",
    "empty_response", "context_window", "quota", "auth", "invalid_request", "refused", "no_model",
    "aborted", "unknown",
]  # fmt: skip
FAILURE_KINDS: tuple[FailureKind, ...] = get_args(FailureKind)
"""Every way in which a request can fail."""
RETRIED_KINDS: tuple[FailureKind, ...] = FAILURE_KINDS[:7]
"""The kinds that are retried unless a policy says otherwise."""


@record
class Failure:
    """Why a request failed. ``retry_after`` is what the provider asked for, in seconds."""

    kind: FailureKind
    retry_after: float | None = None
    status: int | None = None
    message: str = ""

    def __post_init__(self) -> None:
        if self.kind not in FAILURE_KINDS:
            known = ", ".join(FAILURE_KINDS)
            raise ValueError(f"{self.kind!r} is no failure kind; it must be one of: {known}")

    def json(self) -> Frozen:
        """Return the failure as the log stores it."""
        fields = {"kind": self.kind, "message": self.message}
        more = {"retry_after": self.retry_after, "status": self.status}
        return Frozen(fields | {name: value for name, value in more.items() if value is not None})


class Block(Frozen):
    """A part of a message's content."""

    __slots__ = ()

    @property
    def type(self) -> str:
        """The name of the block's kind."""
        value: str = self["type"]
        return value


class Text(Block):
    """Text that people and models read."""

    __slots__ = ()
    __match_args__ = ("text",)

    def __init__(self, text: str) -> None:
        super().__init__(type="text", text=plain("text", text))

    @property
    def text(self) -> str:
        """The text itself."""
        value: str = self["text"]
        return value


class Thinking(Block):
    """What a model thought. ``signature`` lets the same model read it again."""

    __slots__ = ()
    __match_args__ = ("thinking",)

    def __init__(self, thinking: str, signature: str | None = None) -> None:
        signed = {} if signature is None else {"signature": plain("signature", signature)}
        super().__init__(type="thinking", thinking=plain("thinking", thinking), **signed)

    @property
    def thinking(self) -> str:
        """The text of the thought."""
        value: str = self["thinking"]
        return value

    @property
    def signature(self) -> str | None:
        """Opaque; only the model that wrote it can use it."""
        return self.get("signature")


class Image(Block):
    """An image; ``data`` is base64, or ValueError is raised."""

    __slots__ = ()
    __match_args__ = ("data", "media_type")

    def __init__(self, data: str, media_type: str = "image/png") -> None:
        super().__init__(type="image", data=base64(data), media_type=plain("media_type", media_type))

    @property
    def data(self) -> str:
        """The bytes, in base64."""
        value: str = self["data"]
        return value

    @property
    def media_type(self) -> str:
        """For example ``image/png``."""
        value: str = self["media_type"]
        return value


class ToolCall(Block):
    """A model asks for a tool. ``arguments`` is an object, or the raw text where that was no JSON object.

    An empty ``id`` is filled in when the answer is assembled.
    """

    __slots__ = ()
    __match_args__ = ("name", "arguments")

    def __init__(self, name: str, arguments: Mapping[str, Any] | str | None = None, id: str = "") -> None:
        given = arguments if isinstance(arguments, str) else freeze(dict(arguments or {}))
        super().__init__(type="tool_call", id=plain("id", id), name=plain("name", name), arguments=given)

    @property
    def id(self) -> str:
        """The id that its result answers."""
        value: str = self["id"]
        return value

    @property
    def name(self) -> str:
        """The name of the tool."""
        value: str = self["name"]
        return value

    @property
    def arguments(self) -> Frozen | str:
        """What the model gave."""
        value: Frozen | str = self["arguments"]
        return value


def _shown(role: str, content: "tuple[Block, ...]") -> "tuple[Block, ...]":
    for each in content:
        if each["type"] not in ("text", "image"):
            raise ValueError(f"a {role} message holds text and images, not a block of type {each.type!r}")
    return content


Content: TypeAlias = "str | Block | Mapping[str, Any] | Sequence[Block | Mapping[str, Any]]"

_BLOCKS: dict[str, type[Block]] = {
    "text": Text, "thinking": Thinking, "image": Image, "tool_call": ToolCall,
}  # fmt: skip


def block(value: Block | Mapping[str, Any]) -> Block:
    """Return one block of content, typed by its ``type``.

    Raises:
        ValueError: If there is no such type of block, or a field is missing.
    """
    if isinstance(value, Block):
        return value
    if not isinstance(value, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  # foreign input
        raise TypeError(f"content is made of blocks, such as Text, not of {type(value).__name__}")
    kind = value.get("type")
    found = _BLOCKS.get(kind) if isinstance(kind, str) else None
    if found is None:
        raise ValueError(f"content block type {kind!r} is unknown; it must be one of: {', '.join(_BLOCKS)}")
    if found is Image and ("mimeType" in value or "mediaType" in value):
        named = value.get("mediaType", value.get("mimeType"))
        value = {key: item for key, item in value.items() if key not in ("mimeType", "mediaType")}
        value = {**value, "media_type": named}
    missing: list[str] = [name for name in found.__match_args__ if name not in value]  # type: ignore[attr-defined]  # every block class has it
    if missing:
        raise ValueError(f"content block {kind!r} lacks {', '.join(missing)}")
    check_fields(value)
    return found.of_fields(freeze(value))


def content_blocks(content: Content) -> tuple[Block, ...]:
    """Return content as blocks; a string is one text block.

    Raises:
        TypeError: If the content is none of the forms above.
        ValueError: If a block is malformed.
    """
    if isinstance(content, str):
        return (Text(content),)
    if isinstance(content, list | tuple):
        return tuple([item if isinstance(item, Block) else block(item) for item in content])
    if isinstance(content, Mapping):
        return (block(content),)
    raise TypeError(f"content must be text, a block or a list of blocks, not {type(content).__name__}")


class Message(Frozen):
    """A message of the conversation. See the subclasses for the fields of each role."""

    __slots__ = ()

    @property
    def role(self) -> str:
        """Who speaks: user, assistant, tool_result or custom."""
        value: str = self["role"]
        return value

    @property
    def content(self) -> tuple[Block, ...]:
        """What is said."""
        value: tuple[Block, ...] = self["content"]
        return value

    @property
    def time(self) -> float:
        """Unix seconds; 0 where it was not given."""
        value: float = self.get("time", 0.0)
        return value

    @property
    def text(self) -> str:
        """All text blocks, joined."""
        return "".join([part["text"] for part in self["content"] if part["type"] == "text"])

    def with_content(self, content: Content) -> "Message":
        """Return the same message with other content."""
        return self.of_fields({**self, "content": content_blocks(content)})


class UserMessage(Message):
    """What a person, a hook or a tool tells the model. ``source`` says which where it was no person."""

    __slots__ = ()

    def __init__(self, content: Content, *, id: str = "", time: float = 0.0, source: str = "") -> None:
        super().__init__(
            role="user", content=_shown("user", content_blocks(content)),
            **_given(id=plain("id", id), time=seconds(time), source=plain("source", source)),
        )  # fmt: skip

    @property
    def id(self) -> str:
        """Given when it enters an inbox; empty before."""
        value: str = self.get("id", "")
        return value

    @property
    def source(self) -> str:
        """The hook, tool or plug-in that it comes from; empty for a person."""
        value: str = self.get("source", "")
        return value


class AssistantMessage(Message):
    """What a model answered."""

    __slots__ = ()

    def __init__(
        self,
        content: Content,
        *,
        model: str = "",
        stop_reason: StopReason = "stop",
        usage: Mapping[str, int] | None = None,
        time: float = 0.0,
        replay: Any = None,
    ) -> None:
        super().__init__(
            role="assistant", content=content_blocks(content), model=model, stop_reason=stop_reason,
            **_given(usage=freeze(dict(usage)) if usage else None, time=time, replay=freeze(replay)),
        )  # fmt: skip

    @property
    def model(self) -> str:
        """The id of the model that answered."""
        value: str = self["model"]
        return value

    @property
    def stop_reason(self) -> StopReason:
        """Why the answer ended."""
        value: StopReason = self["stop_reason"]
        return value

    @property
    def usage(self) -> Mapping[str, int]:
        """Tokens: input, output, cache_read, cache_write; empty where unknown."""
        value: Mapping[str, int] = self.get("usage", Frozen())
        return value

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The calls that it asks for, in order."""
        return tuple([part for part in self["content"] if part["type"] == "tool_call"])


class ToolResultMessage(Message):
    """What a tool gave back. ``details`` is for people and logs; the model does not see it."""

    __slots__ = ()

    def __init__(
        self,
        call_id: str,
        tool: str,
        content: Content,
        *,
        is_error: bool = False,
        time: float = 0.0,
        details: Any = None,
        usage: Mapping[str, int] | None = None,
        terminate: bool = False,
        added_tools: Iterable[str] = (),
    ) -> None:
        more: dict[str, Any] = {"time": time} if time else {}
        if details or usage or terminate or added_tools:
            more |= _given(
                details=freeze(details), usage=freeze(dict(usage)) if usage else None, terminate=terminate,
                added_tools=tuple(added_tools),
            )  # fmt: skip
        super().__init__(
            role="tool_result", call_id=call_id, tool=tool, content=content_blocks(content),
            is_error=is_error, **more,
        )  # fmt: skip

    @property
    def call_id(self) -> str:
        """The id of the call that it answers."""
        value: str = self["call_id"]
        return value

    @property
    def tool(self) -> str:
        """The name of the tool."""
        value: str = self["tool"]
        return value

    @property
    def is_error(self) -> bool:
        """The call failed, was denied, or was cut off."""
        value: bool = self["is_error"]
        return value


class CustomMessage(Message):
    """A message of a user-defined kind; ``register_message`` says what the model sees of it."""

    __slots__ = ()

    def __init__(
        self, kind: str, content: Content, *, display: bool = True, details: Any = None, time: float = 0.0
    ) -> None:
        super().__init__(
            role="custom", kind=plain("kind", kind), content=_shown("custom", content_blocks(content)),
            display=display,
            **_given(details=freeze(details), time=seconds(time)),
        )  # fmt: skip

    @property
    def kind(self) -> str:
        """The name that it was registered with."""
        value: str = self["kind"]
        return value

    @property
    def details(self) -> Any:
        """What programs read of it; None for nothing."""
        return self.get("details")


def _given(**fields: Any) -> dict[str, Any]:
    """Return the fields that say something; the others stay out of the log."""
    return {name: value for name, value in fields.items() if value}


_ROLES: dict[str, type[Message]] = {
    "user": UserMessage, "assistant": AssistantMessage, "tool_result": ToolResultMessage,
    "custom": CustomMessage,
}  # fmt: skip
_REQUIRED = {
    "user": (), "assistant": ("model", "stop_reason"), "tool_result": ("call_id", "tool", "is_error"),
    "custom": ("kind",),
}  # fmt: skip


def message(value: Mapping[str, Any]) -> Message:
    """Return a typed message from its JSON object.

    Raises:
        TypeError: If a part of it is no JSON, or the content has a wrong form.
        ValueError: If the role is unknown, or a field is missing.
    """
    if isinstance(value, Message):
        return value
    if not isinstance(value, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  # foreign input
        raise TypeError(f"a message is an object with role and content, not {type(value).__name__}")
    role = value.get("role")
    found = _ROLES.get(role) if isinstance(role, str) else None
    if found is None or not isinstance(role, str):
        raise ValueError(f"message role {role!r} is unknown; it must be one of: {', '.join(_ROLES)}")
    missing = [name for name in ("content", *_REQUIRED[role]) if name not in value]
    if missing:
        raise ValueError(f"a message of role {role!r} lacks {', '.join(missing)}")
    fields = freeze(value)
    check_fields(fields)
    content = content_blocks(value["content"])
    if role in ("user", "custom"):
        content = _shown(role, content)
    return found.of_fields({**fields, "content": content})


Prompt: TypeAlias = "str | Message | Block | Mapping[str, Any] | Sequence[Message | Mapping[str, Any]]"


def normalize_prompt_input(value: Prompt) -> list[Message]:
    """Return what a person may give as a prompt as a list of messages. Pure; the input is not changed.

    A string is one user message, a block is one user message, a message is itself, a list is its messages.

    Raises:
        ValueError: If there is nothing in it, or a message is malformed or not what its kind says.
        TypeError: If it is none of these forms.
    """
    if isinstance(value, str):
        text = {"role": "user", "content": (Text(value),)}
        given: list[Message] = [UserMessage.of_fields(text)] if value else []
    elif isinstance(value, Block):
        given = [UserMessage(value)]
    elif isinstance(value, Mapping):
        given = [message(value)]
    elif isinstance(value, list | tuple):
        given = [message(item) for item in value]
    else:
        raise TypeError(f"a prompt is text, a message or a list of messages, not {type(value).__name__}")
    if not given:
        raise ValueError("a prompt must not be empty: give it text or at least one message")
    for each in given:
        if isinstance(each, CustomMessage):
            check_details(each)
    return given


def to_llm(value: Message) -> Message | None:
    """Return what the model sees of a message; None where it sees nothing.

    A custom message without a registered rule is a user message with its content. An answer without content
    stays in the log but is not shown.

    Raises:
        ValueError: If the rule of its kind fails, or gives something else.
    """
    if isinstance(value, CustomMessage):
        kind = KINDS.get(value.kind)
        return _by_rule(kind.to_llm, value) if kind else as_user(value)
    if isinstance(value, AssistantMessage) and not value.content:
        return None
    return value


def as_user(value: CustomMessage) -> UserMessage:
    """Return what the model sees of a custom message whose kind has no rule, or a rule that fails."""
    return UserMessage(value.content, time=value.time, source=value.kind)


def _by_rule(rule: Callable[[CustomMessage], object], value: CustomMessage) -> UserMessage | None:
    try:
        seen = rule(value)
    except Exception as error:
        raise ValueError(f"the rule of the message kind {value.kind!r} failed: {error}") from error
    if seen is None or isinstance(seen, UserMessage):
        return seen
    raise ValueError(
        f"the rule of the message kind {value.kind!r} gave a {type(seen).__name__}, no UserMessage or None"
    )
