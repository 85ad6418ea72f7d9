"""``trim_tool_results``: what a tool gave back, made shorter where it is too long."""

from collections.abc import Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from turnchart.hooks.registry import hook
from turnchart.machine.messages import Block, Message, Text

if TYPE_CHECKING:
    from turnchart.machine.points import Context, Payload, PostTool

FOLDER = ".turnchart/spill"
"""Where the whole results are kept, below the root."""


@hook("trim_tool_results")
class TrimToolResults:
    """Keep at most `max_chars` characters of a tool's result; images stay.

    On post_tool the log holds the short form, on context only the request does and the log keeps everything.
    `keep` says what stays: `head_tail` three quarters from the beginning and one from the end, `head` or
    `tail` one of them, `spill` as head_tail with the whole in a file below `.turnchart/spill/`, whose name
    the model reads.
    """

    max_chars: Annotated[int, Field(ge=1)] = 20_000
    keep: Literal["head_tail", "head", "tail", "spill"] = "head_tail"

    def __post_init__(self) -> None:
        """Start without knowing any message."""
        self._seen: dict[int, tuple[Message, Message]] = {}
        self._spilt: set[str] = set()

    def context(self, payload: "Context") -> "Context | None":
        """Shorten the results of a request; one that was shortened for the last request is not read again."""
        seen = {
            id(given): self._seen.get(id(given)) or (given, self._message(given, payload))
            for given in payload.messages
            if given["role"] == "tool_result"
        }
        self._seen = seen
        if all(given is shown for given, shown in seen.values()):
            return None
        shown = [seen[id(given)][1] if id(given) in seen else given for given in payload.messages]
        return payload.replace(messages=tuple(shown))

    def post_tool(self, payload: "PostTool") -> "PostTool | None":
        """Shorten what a tool gave back."""
        content = self._content(payload.content, payload)
        return None if content is None else payload.replace(content=content)

    def _message(self, given: Message, payload: "Payload") -> Message:
        content = self._content(given.content, payload)
        return given if content is None else given.with_content(content)

    def _content(self, content: Sequence[Block], payload: "Payload") -> tuple[Block, ...] | None:
        """Return the content made shorter; None where it is short enough."""
        text = "".join(part["text"] for part in content if part["type"] == "text")
        if len(text) <= self.max_chars:
            return None
        where = f"; all of it is in {self._spill(text, payload)}" if self.keep == "spill" else ""
        return (Text(self._trimmed(text, where)), *[part for part in content if part["type"] != "text"])

    def _trimmed(self, text: str, where: str) -> str:
        head = {"head": self.max_chars, "tail": 0}.get(self.keep, self.max_chars * 3 // 4)
        tail = self.max_chars - head
        said = f"[{len(text) - self.max_chars} characters left out{where}]"
        parts = (text[:head], said, text[len(text) - tail :])
        return "\n".join(part for part in parts if part)

    def _spill(self, text: str, payload: "Payload") -> str:
        """Keep a text in a file, named by what is in it, and return the name."""
        if payload.world is None:
            raise RuntimeError("trim_tool_results needs a world to keep files in")
        path = f"{FOLDER}/{sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}.txt"
        if path not in self._spilt:
            try:
                payload.read(path)
            except FileNotFoundError:
                payload.world.append(path, text)
            self._spilt.add(path)
        return path
