"""``redact_secrets``: nothing that looks like a key or a password reaches the model, a tool or the log."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from turnchart.hooks.builtin._secrets import is_reference, is_secret_name, redact
from turnchart.hooks.params import Pattern
from turnchart.hooks.registry import hook
from turnchart.machine.messages import Block, Message, Thinking, block, message

if TYPE_CHECKING:
    from turnchart.machine.points import Context, PostTool, PreTool

_NAMES = frozenset(("type", "id", "name", "signature"))
"""The fields of a block that are no content."""

SHORTEST = 4
"""A value that is shorter is no secret, whatever its name says."""


@hook("redact_secrets", on_error="stop")
class RedactSecrets:
    """Replace secrets by `[redacted NAME]`.

    It knows the keys of common services, private keys, tokens, passwords in URLs, and values whose name says
    that they are one. What one of your own `patterns` matches becomes `[redacted custom]`.

    On context it cleans the messages of a request, on pre_tool the arguments of a call, on post_tool what a
    tool gave back. When it fails, the request is not sent, the call is denied, the result is withheld.
    """

    patterns: tuple[Pattern, ...] = ()

    def __post_init__(self) -> None:
        """Start without knowing any message."""
        self._seen: dict[int, tuple[Message, Message]] = {}

    def context(self, payload: "Context") -> "Context":
        """Clean the messages; one that was seen in the last request is not read again."""
        seen = {
            id(given): self._seen.get(id(given)) or (given, self._message(given))
            for given in payload.messages
        }
        self._seen = seen
        return payload.replace(messages=tuple(seen[id(given)][1] for given in payload.messages))

    def pre_tool(self, payload: "PreTool") -> "PreTool":
        """Clean the arguments of a call; their names are the tool's."""
        return payload.replace(args={name: self._value(value, name) for name, value in payload.args.items()})

    def post_tool(self, payload: "PostTool") -> "PostTool":
        """Clean what a tool gave back."""
        return payload.replace(
            content=tuple(map(self._block, payload.content)),
            details=self._value(payload.details),
            context=redact(payload.context, self.patterns),
        )

    def _message(self, given: Message) -> Message:
        content = tuple(map(self._block, given.content))
        details = self._value(given.get("details"))
        if content == given.content and details == given.get("details"):
            return given
        clean = {**given, "content": content, **({"details": details} if details else {})}
        clean.pop("replay", None)  # what the provider sent, secret and all
        return message(clean)

    def _block(self, part: Block) -> Block:
        if part.type == "image":
            return part
        clean = {key: value if key in _NAMES else self._value(value) for key, value in part.items()}
        if clean == part:
            return part
        return (
            Thinking(clean["thinking"]) if part.type == "thinking" else block(clean)
        )  # the signature is void

    def _value(self, value: Any, name: str = "") -> Any:
        if isinstance(value, str):
            is_secret = len(value) >= SHORTEST and is_secret_name(name) and not is_reference(value)
            return "[redacted secret]" if is_secret else redact(value, self.patterns)
        if isinstance(value, Mapping):
            items = cast("Mapping[str, Any]", value).items()
            return {self._value(key): self._value(item, key) for key, item in items}
        if isinstance(value, list | tuple):
            return tuple(self._value(item, name) for item in cast("tuple[Any, ...]", value))
        return value
