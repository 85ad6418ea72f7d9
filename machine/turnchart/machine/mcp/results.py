"""What an MCP server answered to a call, as the outcome of a tool."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from typing import TYPE_CHECKING, Any, Final

from turnchart.machine.entries import freeze
from turnchart.machine.messages import Block, Image, Text
from turnchart.machine.points import ToolOutcome

if TYPE_CHECKING:
    from mcp_types import CallToolResult, ContentBlock, EmbeddedResource

_LOOKED_AT: Final = {each: each for each in ("image/gif", "image/jpeg", "image/png", "image/webp")} | {
    "image/jpg": "image/jpeg"
}
"""The kinds of images that models take; a request with another one fails, and so do all after it."""
_UNKNOWN: Final = "of an unknown kind"


def outcome_of_result(result: CallToolResult) -> ToolOutcome:
    """Return the outcome of a call that the server answered.

    Text and images are shown to the model; of sounds, files and images that no model can look at it is told
    what they are.
    Structured content goes into ``details``, and is shown as JSON where nothing else is.
    """
    blocks = [_block(each) for each in result.content]
    structured: Any = result.structured_content
    if structured is not None and not blocks:
        blocks.append(Text(json.dumps(structured, ensure_ascii=False)))
    details = None if structured is None else freeze({"structured": structured})
    failed = bool(result.is_error)
    return ToolOutcome(tuple(blocks), details, is_error=failed, outcome="error" if failed else "ok")


def _block(content: ContentBlock) -> Block:
    match content.type:
        case "text":
            return Text(content.text)
        case "image":
            return _image(content.data, content.mime_type) or Text(
                f"[an image ({content.mime_type or _UNKNOWN}) that cannot be shown]"
            )
        case "audio":
            return Text(f"[a sound ({content.mime_type}) that cannot be shown]")
        case "resource_link":
            told = [content.title or content.name, content.description or "", content.uri]
            return Text("\n".join(each for each in told if each))
        case "resource":
            return _resource(content)


def _resource(content: EmbeddedResource) -> Block:
    found = content.resource
    kind = found.mime_type or ""
    text = getattr(found, "text", None)
    if isinstance(text, str):
        return Text(text)
    blob = getattr(found, "blob", "")
    return _image(blob, kind) or Text(f"[a file {found.uri} ({kind or _UNKNOWN}) that cannot be shown]")


def _image(data: str, kind: str) -> Image | None:
    """Return an image; None for what no model can look at."""
    known = _LOOKED_AT.get(kind.partition(";")[0].strip().lower())
    try:
        seen = b64decode("".join(data.split()), validate=True)
    except ValueError:
        return None
    return Image(b64encode(seen).decode(), known) if known and seen else None
