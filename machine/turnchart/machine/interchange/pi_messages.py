"""Messages of pi session files (version 3) as messages of ours, and back.

A message of ours holds what models and people read. What else a pi message says is found again from the
difference that its entry keeps (``pi_reading``), so nothing here has to be the exact
inverse of anything. Pure.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from turnchart.machine.interchange.fields import Malformed, an_object, as_object, listed, optional, required
from turnchart.machine.messages import (
    AssistantMessage,
    Block,
    CustomMessage,
    Image,
    Message,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)

STOP_REASONS: Final[Mapping[str, StopReason]] = {
    "stop": "stop", "toolUse": "tool_calls", "length": "max_tokens", "error": "error", "aborted": "aborted",
}  # fmt: skip
_STOPPED: Final = {ours: theirs for theirs, ours in STOP_REASONS.items()}
_USAGE: Final = {
    "input": "input", "output": "output", "cacheRead": "cache_read", "cacheWrite": "cache_write",
    "totalTokens": "total",
}  # fmt: skip
_BRANCH: Final = "The following is a summary of a branch that this conversation came back from:"
_COMPACTED: Final = "The conversation before this point was compacted into the following summary:"

Raw = Mapping[str, Any]


def message_of(raw: Raw, time: float = 0.0) -> Message | None:
    """Return a pi message as one of ours; None where its role is unknown, or models are not to see it.

    Args:
        raw: The message.
        time: When its entry was written, in Unix seconds, where the message does not say when.

    Raises:
        Malformed: If a field is missing or of another type; it names the field.
    """
    read = _READ.get(required(raw, "role"))
    return None if read is None else read(raw, _time(raw, time))


def _user(raw: Raw, time: float) -> Message:
    return UserMessage(shown(raw), time=time)


def _assistant(raw: Raw, time: float) -> Message:
    stopped = required(raw, "stopReason")
    if stopped not in STOP_REASONS:
        raise Malformed(
            ("stopReason",), f'"{stopped}" is no stop reason; it is one of {", ".join(STOP_REASONS)}'
        )
    return AssistantMessage(
        tuple(_blocks(raw, _ASSISTANT)),
        model=model_id(optional(raw, "provider"), optional(raw, "model")),
        stop_reason=STOP_REASONS[stopped],
        usage=usage_of(raw.get("usage")),
        time=time,
    )


def _tool_result(raw: Raw, time: float) -> Message:
    return ToolResultMessage(
        required(raw, "toolCallId"), required(raw, "toolName"), shown(raw),
        is_error=raw.get("isError") is True, time=time, details=raw.get("details"),
        usage=usage_of(raw.get("usage")),
    )  # fmt: skip


def custom(raw: Raw, time: float) -> CustomMessage:
    """Return a pi message, or an entry, that an extension made.

    Raises:
        Malformed: If a field is missing or of another type; it names the field.
    """
    return CustomMessage(
        required(raw, "customType"), shown(raw),
        display=raw.get("display") is not False, details=raw.get("details"), time=time,
    )  # fmt: skip


def _bash(raw: Raw, time: float) -> Message | None:
    command, output = required(raw, "command"), optional(raw, "output")
    if raw.get("excludeFromContext") is True:
        return None
    said = [f"Ran `{command}`", f"```\n{output}\n```" if output else "(no output)"]
    if raw.get("cancelled") is True:
        said.append("(cancelled)")
    elif raw.get("exitCode"):
        said.append(f"(exit code {raw['exitCode']})")
    if raw.get("truncated") is True:
        said.append("(output truncated)")
    return CustomMessage("bashExecution", "\n".join(said), time=time)


def _summary(kind: str, lead: str) -> Callable[[Raw, float], Message]:
    def read(raw: Raw, time: float) -> Message:
        text = f"{lead}\n<summary>\n{required(raw, 'summary')}\n</summary>"
        return CustomMessage(kind, text, time=time)

    return read


_READ: Final[Mapping[str, Callable[[Raw, float], Message | None]]] = {
    "user": _user,
    "assistant": _assistant,
    "toolResult": _tool_result,
    "custom": custom,
    "bashExecution": _bash,
    "branchSummary": _summary("branchSummary", _BRANCH),
    "compactionSummary": _summary("compactionSummary", _COMPACTED),
}

# -- content ---------------------------------------------------------------------------------------


def shown(raw: Raw) -> tuple[Block, ...]:
    """Return the content of a message that holds text and images, also where it is one string.

    Raises:
        Malformed: If it is neither.
    """
    given = raw.get("content")
    return (Text(given),) if isinstance(given, str) else tuple(_blocks(raw, _SHOWN))


def _blocks(raw: Raw, known: Mapping[str, Callable[[Raw], Block]]) -> list[Block]:
    made: list[Block] = []
    for index, part in enumerate(listed(raw, "content")):
        try:
            fields = as_object(part)
            if fields is None:
                raise Malformed((), "a content block must be an object")
            kind = required(fields, "type")
            if kind not in known:
                raise Malformed(
                    ("type",), f'"{kind}" is no content block here; it is one of {", ".join(known)}'
                )
            made.append(known[kind](fields))
        except Malformed as error:
            raise error.below("content", index) from None
    return made


def _image(raw: Raw) -> Block:
    name = "mediaType" if "mediaType" in raw else "mimeType"
    # As it is: nobody has to lose a session for one image that is none.
    return Image.of_fields(
        {"type": "image", "data": required(raw, "data"), "media_type": required(raw, name)}
    )


def _thinking(raw: Raw) -> Block:
    signature = raw.get("thinkingSignature")
    return Thinking(required(raw, "thinking"), signature if isinstance(signature, str) else None)


def _tool_call(raw: Raw) -> Block:
    id, name = required(raw, "id"), required(raw, "name")
    return ToolCall(name, an_object(raw, "arguments"), id)


_SHOWN: Final[Mapping[str, Callable[[Raw], Block]]] = {
    "text": lambda raw: Text(required(raw, "text")), "image": _image,
}  # fmt: skip
_ASSISTANT: Final = {**_SHOWN, "thinking": _thinking, "toolCall": _tool_call}


def usage_of(raw: object) -> dict[str, Any] | None:
    """Return the tokens that a usage counts, and what they cost; None where it counts none."""
    given = as_object(raw)
    if given is None:
        return None
    made: dict[str, Any] = {
        ours: given[theirs] for theirs, ours in _USAGE.items() if type(given.get(theirs)) is int
    }
    if made and as_object(given.get("cost")) is not None:
        made["cost"] = given["cost"]
    return made or None


def model_id(provider: str, model: str) -> str:
    """Return the id of a model: ``provider:model``, or what of it is known."""
    return ":".join(part for part in (provider, model) if part)


def _time(raw: Raw, otherwise: float) -> float:
    given = raw.get("timestamp")
    return given / 1000 if type(given) is int and 0 < given < 1 << 53 else otherwise


# -- the way back ----------------------------------------------------------------------------------


def message_to(said: Message, time: float = 0.0) -> dict[str, Any]:
    """Return a message of ours as pi writes it.

    Args:
        said: The message.
        time: When it was logged, in Unix seconds, where the message does not say when.
    """
    made = _WRITE[said["role"]](said)
    return made | {"timestamp": round((said.get("time") or time) * 1000)}


def _to_assistant(said: Raw) -> dict[str, Any]:
    provider, model = model_parts(said["model"])
    return {
        "role": "assistant", "content": content_to(said["content"]), "api": provider, "provider": provider,
        "model": model, "usage": usage_to(said.get("usage", {})),
        "stopReason": _STOPPED.get(said["stop_reason"], "stop"),
    }  # fmt: skip


def _to_tool_result(said: Raw) -> dict[str, Any]:
    made = {
        "role": "toolResult", "toolCallId": said["call_id"], "toolName": said["tool"],
        "content": content_to(said["content"]), "isError": said["is_error"],
    }  # fmt: skip
    if "details" in said:
        made["details"] = said["details"]
    if "usage" in said:
        made["usage"] = usage_to(said["usage"])
    return made


def custom_to(said: Raw) -> dict[str, Any]:
    """Return the fields of a message of a user-defined kind as pi writes them."""
    made: dict[str, Any] = {"customType": said["kind"], "content": content_to(said["content"])}
    made["display"] = said.get("display", True)
    return made | ({"details": said["details"]} if "details" in said else {})


_WRITE: Final[Mapping[str, Callable[[Raw], dict[str, Any]]]] = {
    "user": lambda said: {"role": "user", "content": content_to(said["content"])},
    "assistant": _to_assistant,
    "tool_result": _to_tool_result,
    "custom": lambda said: {"role": "custom", **custom_to(said)},
}


def content_to(content: Sequence[Raw]) -> list[dict[str, Any]]:
    """Return blocks of ours as pi writes them."""
    return [_BLOCKS[block["type"]](block) for block in content]


def _to_tool_call(block: Raw) -> dict[str, Any]:
    arguments = as_object(block["arguments"])
    if arguments is None:  # the model gave text that is no object, which pi has no place for
        arguments = {"text": block["arguments"]}
    return {"type": "toolCall", "id": block["id"], "name": block["name"], "arguments": arguments}


def _to_thinking(block: Raw) -> dict[str, Any]:
    signed = {"thinkingSignature": block["signature"]} if "signature" in block else {}
    return {"type": "thinking", "thinking": block["thinking"], **signed}


_BLOCKS: Final[Mapping[str, Callable[[Raw], dict[str, Any]]]] = {
    "text": lambda block: {"type": "text", "text": block["text"]},
    "image": lambda block: {"type": "image", "data": block["data"], "mimeType": block["media_type"]},
    "thinking": _to_thinking,
    "tool_call": _to_tool_call,
}


def usage_to(usage: Raw) -> dict[str, Any]:
    """Return a usage as pi writes it; a cost that is not known is zero."""
    counted = {theirs: usage.get(ours, 0) for theirs, ours in _USAGE.items()}
    total = counted.pop("totalTokens") or sum(counted.values())
    cost = usage.get("cost", 0)
    if as_object(cost) is None:
        cost = {**dict.fromkeys(counted, 0), "total": cost}
    return {**counted, "totalTokens": total, "cost": cost}


def model_parts(id: str) -> tuple[str, str]:
    """Return the provider and the name of a model's id; the provider is empty where the id names none."""
    provider, found, model = id.partition(":")
    return (provider, model) if found else ("", id)
