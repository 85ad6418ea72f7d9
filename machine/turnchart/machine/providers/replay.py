"""What a provider wants to read again of its own answer, beyond what its blocks hold: ids, signatures. Pure.

It is the ``replay`` of an answer in the log, read by the same model only. It is bound to the content by a
digest: where a hook changed the content, it is left out, and what the provider keeps is not contradicted.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast

from turnchart.machine.addresses import without_login
from turnchart.machine.entries import Frozen, encode, freeze

DETAILS: Final = ("id", "provider_name", "provider_details", "signature")
"""What a part may hold besides its content."""
CONTAINER: Final = "container_id"
"""Among the details of an answer: where the provider ran code for it, and has its files."""


def digest(content: Iterable[Mapping[str, Any]]) -> str:
    """Return what changes with the blocks of an answer."""
    blocks = [{name: value for name, value in block.items() if name != "signature"} for block in content]
    return hashlib.sha256(encode(freeze(blocks)).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def replay_of(
    content: Sequence[Mapping[str, Any]],
    parts: Sequence[Mapping[str, Any]],
    provider: str | None,
    system: str | None,
    response: str | None,
    url: str | None,
    container: str | None = None,
) -> Frozen | None:
    """Return the replay of an answer; None where its content says all.

    Args:
        content: The blocks of the answer, as its message will hold them.
        parts: One item per part of the answer, in order: what it holds besides its block, or
            ``{"part": ...}`` for a part that has no block.
        provider: The name of the provider.
        system: Whose keys verify the signatures, where that is not the provider.
        response: The provider's id of the answer.
        url: Where it came from; passwords are left out.
        container: Where the provider ran code for it.
    """
    if not any(parts):
        return None
    said = {"provider": provider, "system": system, "response": response, "url": url and _address(url),
            "container": container}  # fmt: skip
    given = {name: value for name, value in said.items() if value}
    frozen: Frozen = freeze({**given, "digest": digest(content), "parts": list(parts)})
    return frozen


def parts_of(content: Sequence[Mapping[str, Any]], replay: Any) -> Sequence[Mapping[str, Any]] | None:
    """Return what the parts of an answer hold besides ``content``; None where it is not known (any more)."""
    if not isinstance(replay, Mapping):
        return None
    said = cast("Mapping[str, Any]", replay)
    parts: Sequence[Mapping[str, Any]] | None = said.get("parts")
    if not isinstance(parts, Sequence) or said.get("digest") != digest(content):
        return None
    shown = sum(1 for part in parts if "part" not in part)
    return parts if shown == len(content) else None


def _address(url: str) -> str:
    return without_login(url).partition("?")[0]
