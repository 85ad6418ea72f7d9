"""Our messages as those of ``pydantic_ai``, for one model.

What a model reads goes over without loss, and ``answers.from_provider`` brings it back. Thoughts go to the
model that had them, and to no other. Every call gets a result, and every result had a call. What a provider
would refuse together with the whole conversation goes over in another way: half a character, and blank text.
"""

from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice, takewhile
from operator import is_
from typing import Any, Final, NamedTuple, TypeAlias, cast

from pydantic import TypeAdapter
from pydantic_ai import messages as theirs

from turnchart.machine.characters import whole, whole_json
from turnchart.machine.json_parameters import plain_json
from turnchart.machine.messages import AssistantMessage, Block, Message, ToolResultMessage
from turnchart.machine.providers.replay import CONTAINER, parts_of
from turnchart.machine.providers.wire_names import WireIds, WireNames

NO_RESULT: Final = "no result of this call was recorded"
NO_OUTPUT: Final = "(no output)"
BLANK: Final = "(blank)"
"""What stands for a result, and for a message, without a character: some providers refuse the whole
conversation where a text has none."""
_EPOCH: Final = datetime.fromtimestamp(0, UTC)
_PART: Final[TypeAdapter[theirs.ModelResponsePart]] = TypeAdapter(theirs.ModelResponsePart)
Shown: TypeAlias = "str | theirs.BinaryContent"


def to_provider(
    messages: Iterable[Message], model: str, system: str = "", names: WireNames | None = None
) -> list[theirs.ModelMessage]:
    """Return a conversation as the provider of ``model`` takes it.

    Args:
        messages: What the model reads, oldest first.
        model: Our id of the model. The thoughts of others are left out.
        system: The name of the provider, for signatures that came without more.
        names: What tools are called on the wire.
    """
    return Conversation(model, system, names).told(tuple(messages))


class Conversation:
    """A conversation as the provider of one model takes it, kept from request to request.

    Messages are never changed, so those that the request before began with need not be made again: what is
    new, and where the beginning differs what follows the last answer that both have, is all that a request
    costs. The arguments are those of ``to_provider``.
    """

    __slots__ = ("_asked", "_found", "_ids", "_marks", "_model", "_names", "_said", "_system", "_waiting")

    def __init__(self, model: str, system: str = "", names: WireNames | None = None) -> None:
        self._model = model
        self._system = system
        self._names = names or WireNames()
        self._ids = WireIds()
        self._said: list[Message] = []
        self._found: list[theirs.ModelMessage] = []
        self._asked: list[theirs.ModelRequestPart] = []
        """What was said since the last answer."""
        self._waiting: dict[str, str] = {}
        """The calls of the last answer that have no result yet: ids and names."""
        self._marks: list[_Mark] = []

    def told(self, messages: Sequence[Message]) -> list[theirs.ModelMessage]:
        """Return all of it, for a request with these messages, oldest first."""
        alike = sum(takewhile(bool, map(is_, self._said, messages)))
        if alike < len(self._said):
            self._go_back(alike)
        try:
            for said in islice(messages, len(self._said), None):
                self._take(said)
        except BaseException:
            self._go_back(0)  # a message was taken by half
            raise
        asked = [*self._asked, *self._without_result()]
        return [*self._found, theirs.ModelRequest(asked)] if asked else list(self._found)

    def _take(self, said: Message) -> None:
        """Take the next message. A call without a result gets one that says so, a result needs a call."""
        self._said.append(said)
        if isinstance(said, ToolResultMessage):
            if self._waiting.pop(said.call_id, None) is not None:
                self._asked.append(_request(said, self._names, self._ids))
            return
        self._asked += self._without_result()
        self._waiting = {}
        if isinstance(said, AssistantMessage):
            self._answered(said)
        else:
            self._asked.append(_request(said, self._names, self._ids))

    def _answered(self, said: AssistantMessage) -> None:
        self._waiting = _calls(said)
        parts = _without_blanks(list(_answer(said, self._model, self._system, self._names, self._ids)))
        if not parts:
            return
        if self._asked:
            self._found.append(theirs.ModelRequest(self._asked))
            self._asked = []
        self._found.append(_response(said, parts, self._model))
        self._marks.append(_Mark(len(self._said), len(self._found), self._ids.count))

    def _without_result(self) -> list[theirs.ModelRequestPart]:
        return [
            _request(ToolResultMessage(id, name, NO_RESULT, is_error=True), self._names, self._ids)
            for id, name in self._waiting.items()
        ]

    def _go_back(self, count: int) -> None:
        """Forget all that follows the last answer among the first ``count`` messages."""
        while self._marks and self._marks[-1].said > count:
            self._marks.pop()
        mark = self._marks[-1] if self._marks else _Mark(0, 0, 0)
        del self._said[mark.said :], self._found[mark.found :]
        self._ids.forget(mark.ids)
        self._asked = []
        last = self._said[-1] if self._said else None
        self._waiting = _calls(last) if isinstance(last, AssistantMessage) else {}


class _Mark(NamedTuple):
    """Where an answer ends: how many messages, of ours and of theirs, and how many ids there are by then."""

    said: int
    found: int
    ids: int


def _calls(said: AssistantMessage) -> dict[str, str]:
    return {call.id: call.name for call in said.tool_calls}


# -- what is said to the model ------------------------------------------------------------------------


def _request(said: Message, names: WireNames, ids: WireIds) -> theirs.ModelRequestPart:
    if isinstance(said, ToolResultMessage):
        return theirs.ToolReturnPart(
            names.wire(said.tool), _shown(said.content, NO_OUTPUT), ids.result(said.call_id),
            timestamp=_moment(said.time), outcome="failed" if said.is_error else "success",
        )  # fmt: skip
    return theirs.UserPromptPart(_shown(said.content, BLANK), timestamp=_moment(said.time))


def _shown(content: Sequence[Block], blank: str) -> "str | list[Shown]":
    """Return one text alone as text, else a list; ``blank`` where nothing of it can be seen."""
    shown = [whole(each["text"]) if each["type"] == "text" else _image(each) for each in content]
    seen = [each for each in shown if not (isinstance(each, str) and not each.strip())]
    if not seen:
        return blank
    first = seen[0]
    return first if len(seen) == 1 and isinstance(first, str) else seen


def _image(block: Block) -> theirs.BinaryContent:
    return theirs.BinaryContent(b64decode(block["data"]), media_type=block["media_type"])


def _moment(time: float) -> datetime:
    return datetime.fromtimestamp(time, UTC) if time else _EPOCH


# -- what the model said ------------------------------------------------------------------------------


def _response(
    said: AssistantMessage, parts: list[theirs.ModelResponsePart], model: str
) -> theirs.ModelResponse:
    more: dict[str, Any] = {}
    replay: Any = said.get("replay")
    if said.model == model and isinstance(replay, Mapping):
        kept = cast("Mapping[str, Any]", replay)
        more = {
            "provider_name": kept.get("provider"), "canonical_system": kept.get("system"),
            "provider_response_id": kept.get("response"), "provider_url": kept.get("url"),
        }  # fmt: skip
        if "container" in kept:
            more["provider_details"] = {CONTAINER: kept["container"]}
    return theirs.ModelResponse(
        parts, model_name=said.model or None, timestamp=_moment(said.time),
        finish_reason=_REASONS.get(said.stop_reason), **more,
    )  # fmt: skip


_REASONS: Final[Mapping[str, theirs.FinishReason]] = {
    "stop": "stop", "tool_calls": "tool_call", "max_tokens": "length", "error": "error",
}  # fmt: skip


def _answer(
    said: AssistantMessage, model: str, system: str, names: WireNames, ids: WireIds
) -> Iterator[theirs.ModelResponsePart]:
    own = said.model == model
    content = said.content
    kept = parts_of(content, said.get("replay")) if own else None
    if kept is None:
        for block in content:
            part = _plain_part(block, names, ids, system if own else "")
            if part is not None:
                yield part
        return
    blocks = iter(content)
    for more in kept:
        if "part" in more:
            yield _PART.validate_python(whole_json(plain_json(more["part"])))
        else:
            yield _part(next(blocks), names, ids, whole_json(plain_json(more)))


def _without_blanks(parts: list[theirs.ModelResponsePart]) -> list[theirs.ModelResponsePart]:
    """Leave out texts of white space, but those that say more, and those that keep two thoughts apart."""
    found: list[theirs.ModelResponsePart] = []
    for at, part in enumerate(parts):
        if isinstance(part, theirs.TextPart) and not part.content.strip():
            after = parts[at + 1] if at + 1 < len(parts) else None
            between = bool(found) and isinstance(found[-1], theirs.ThinkingPart)
            apart = bool(part.content) and between and isinstance(after, theirs.ThinkingPart)
            if not (part.id or part.provider_details or apart):
                continue
        found.append(part)
    return found


def _plain_part(block: Block, names: WireNames, ids: WireIds, system: str) -> theirs.ModelResponsePart | None:
    """Return a block of which nothing more is known; None for a thought that this model cannot read."""
    if block["type"] != "thinking":
        return _part(block, names, ids, {})
    signature = block.get("signature")
    if not (system and signature):
        return None
    return theirs.ThinkingPart(whole(block["thinking"]), signature=signature, provider_name=system)


def _part(block: Block, names: WireNames, ids: WireIds, more: dict[str, Any]) -> theirs.ModelResponsePart:
    match block["type"]:
        case "text":
            return theirs.TextPart(whole(block["text"]), **more)
        case "thinking":
            signed: dict[str, Any] = {"signature": block.get("signature"), **more}
            return theirs.ThinkingPart(whole(block["thinking"]), **signed)
        case "image":
            return theirs.FilePart(_image(block))
        case _:
            given = block["arguments"]
            args = whole_json(given if isinstance(given, str) else plain_json(given))
            return theirs.ToolCallPart(names.wire(block["name"]), args, ids.call(block["id"]), **more)
